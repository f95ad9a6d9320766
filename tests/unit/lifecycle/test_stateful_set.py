"""Who is made, ended and exchanged by a StatefulSet, in which order, and what becomes of the claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.lifecycle.controller_revision import REVISIONS, Revision
from allhands.lifecycle.instructions import Create, Delete, Outcome, Patch, Record
from allhands.lifecycle.observed import Pod
from allhands.lifecycle.replica_set import BURST, PODS, Refusal
from allhands.lifecycle.stateful_set.claims import KeptClaim
from allhands.lifecycle.stateful_set.kinds import StatefulSet
from allhands.lifecycle.stateful_set.machine import reconcile
from allhands.lifecycle.volume_kinds import CLAIMS

NOW = 1_769_860_800.0
"""2026-01-31T12:00:00Z"""
LONG_AGO = "2026-01-31T08:00:00Z"
LATELY = "2026-01-31T11:59:59Z"


def stateful(
    replicas: int = 3,
    image: str = "a",
    status: dict[str, Any] | None = None,
    claims: tuple[str, ...] = (),
    going: bool = False,
    **spec: Any,
) -> StatefulSet:
    metadata: dict[str, Any] = {"name": "web", "namespace": "ns", "uid": "sts", "generation": 2}
    if going:
        metadata["deletionTimestamp"] = LONG_AGO
    manifest = {
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "web"}},
            "revisionHistoryLimit": 1,
            "template": template(image),
            "volumeClaimTemplates": [
                {"metadata": {"name": it, "labels": {"a": "b"}}, "spec": {"volumeMode": "Block"}, "status": {}}
                for it in claims
            ],
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(manifest, StatefulSet)


def template(image: str) -> dict[str, Any]:
    metadata = {"labels": {"app": "web"}, "annotations": {"note": "x"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": image}]}}


def revision(name: str, image: str, number: int, owner: str | None = "sts") -> Revision:
    owners = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": owner, "controller": True}]
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "labels": {"app": "web"},
        "ownerReferences": owners if owner else None,
    }
    data = {"spec": {"template": {"$patch": "replace", **template(image)}}}
    return msgspec.convert({"metadata": metadata, "data": data, "revision": number}, Revision)


OLD, NEW = revision("web-old", "old", 1), revision("web-a", "a", 2)


def pod(ordinal: int, of: str = "web-a", *, ready: str = LONG_AGO, name: str = "", **more: Any) -> Pod:
    name = name or f"web-{ordinal}"
    owner = more.get("owner", "sts")
    owners = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": owner, "controller": True}]
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "labels": {
            "app": more.get("app", "web"),
            "controller-revision-hash": of,
            "statefulset.kubernetes.io/pod-name": more.get("label", name),
        },
        "ownerReferences": owners if owner else None,
    }
    if more.get("going"):
        metadata["deletionTimestamp"] = LONG_AGO
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else None
    status = {"phase": more.get("phase", "Running"), "conditions": conditions}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}, Pod)


def look(stateful: StatefulSet, pods: list[Pod] = [], revisions: list[Revision] = [NEW], **more: Any) -> Outcome:  # noqa: B006
    return reconcile(stateful, pods, revisions, more.pop("now", NOW), **more)


def made(outcome: Outcome) -> list[str]:
    return [_name(it) for it in outcome.instructions if isinstance(it, Create)]


def _name(create: Create) -> str:
    return str(create.manifest["metadata"]["name"])


def ended(outcome: Outcome) -> list[str]:
    return [it.name for it in outcome.instructions if isinstance(it, Delete)]


def told(outcome: Outcome) -> dict[str, Any]:
    return next((it.patch["status"] for it in outcome.instructions if isinstance(it, Patch) and it.subresource), {})


def warnings(outcome: Outcome) -> list[str]:
    return [it.message for it in outcome.instructions if isinstance(it, Record) and it.type == "Warning"]


def patches(outcome: Outcome, resource: Any) -> list[Patch]:
    return [it for it in outcome.instructions if isinstance(it, Patch) and it.resource == resource]


# -- making


def test_the_first_look_makes_the_revision_then_the_first_pod_with_its_identity() -> None:
    outcome = look(stateful(), [], [])
    kept, first = [it for it in outcome.instructions if isinstance(it, Create)]
    assert kept.resource == REVISIONS
    assert kept.manifest["revision"] == 1
    assert kept.manifest["data"] == {"spec": {"template": {"$patch": "replace", **template("a")}}}
    name = kept.manifest["metadata"]["name"]
    metadata, spec = first.manifest["metadata"], first.manifest["spec"]
    assert metadata["name"] == "web-0"
    assert metadata["annotations"] == {"note": "x"}
    assert metadata["labels"] == {
        "app": "web",
        "controller-revision-hash": name,
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
    }
    assert metadata["ownerReferences"][0]["uid"] == "sts"
    assert (spec["hostname"], spec["subdomain"]) == ("web-0", "db")
    status = told(outcome)
    assert (status["currentRevision"], status["updateRevision"], status["replicas"]) == (name, name, 0)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (pod(0, ready=""), "not ready"),
        (pod(0, phase="Pending", ready=""), "pending"),
        (pod(0, going=True), "going"),
        (pod(0, ready=LATELY), "not ready for long enough"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_in_order_nobody_comes_while_one_before_is_not_well(first: Pod, why: str) -> None:
    outcome = look(stateful(minReadySeconds=10), [first])
    assert made(outcome) == ended(outcome) == [], why


def test_who_is_ready_for_long_enough_makes_way_for_the_next_and_is_waited_for() -> None:
    waiting = look(stateful(minReadySeconds=10), [pod(0, ready=LATELY)])
    assert waiting.wake_at_seconds == NOW + 9
    assert made(look(stateful(minReadySeconds=10), [pod(0, ready=LATELY)], now=NOW + 9)) == ["web-1"]


def test_side_by_side_all_come_at_once_but_not_more_than_a_burst() -> None:
    assert made(look(stateful(3, podManagementPolicy="Parallel"), [pod(1, ready="")])) == ["web-0", "web-2"]
    assert len(made(look(stateful(2_000_000_000, podManagementPolicy="Parallel")))) == BURST


def test_a_huge_set_in_order_is_no_more_work_than_a_small_one() -> None:
    assert made(look(stateful(2_000_000_000), [pod(0), pod(1)])) == ["web-2"]


def test_ordinals_begin_where_they_are_told_to() -> None:
    outcome = look(stateful(2, ordinals={"start": 5}), [pod(5)])
    assert made(outcome) == ["web-6"]
    assert ended(look(stateful(2, ordinals={"start": 5}), [pod(0), pod(5), pod(6)])) == ["web-0"]


def test_no_replicas_is_a_set_that_is_complete() -> None:
    outcome = look(stateful(0))
    assert made(outcome) == ended(outcome) == []
    assert told(outcome)["currentRevision"] == "web-a"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_goes_and_its_place_is_empty_before_it_is_filled(phase: str) -> None:
    outcome = look(stateful(2), [pod(0, phase=phase), pod(1)])
    assert (ended(outcome), made(outcome)) == (["web-0"], [])
    going = look(stateful(2), [pod(0, phase=phase, going=True), pod(1)])
    assert (ended(going), made(going)) == ([], [])


# -- shrinking


def test_in_order_the_last_goes_first_and_one_at_a_time() -> None:
    assert ended(look(stateful(1), [pod(0), pod(1), pod(2)])) == ["web-2"]
    assert ended(look(stateful(1), [pod(0), pod(1), pod(2, going=True)])) == []
    assert ended(look(stateful(1), [pod(0, ready=""), pod(1), pod(2)])) == []


def test_in_order_one_that_is_not_well_keeps_those_after_it_but_not_itself() -> None:
    assert ended(look(stateful(1), [pod(0), pod(1, ready=""), pod(2)])) == ["web-2"]
    assert ended(look(stateful(1), [pod(0), pod(1), pod(2, ready="")])) == ["web-2"]
    assert ended(look(stateful(1), [pod(0), pod(1, ready=""), pod(2, ready="")])) == []


def test_side_by_side_all_that_are_too_many_go_at_once() -> None:
    crowd = [pod(0), pod(1), pod(2, ready="")]
    assert ended(look(stateful(1, podManagementPolicy="Parallel"), crowd)) == ["web-2", "web-1"]


# -- the rollout


def test_a_new_template_is_a_new_revision_and_the_last_pod_goes_first() -> None:
    status = {"currentRevision": "web-old"}
    old = [pod(0, "web-old"), pod(1, "web-old"), pod(2, "web-old")]
    outcome = look(stateful(status=status), old, [OLD, NEW])
    assert ended(outcome) == ["web-2"]
    written = told(outcome)
    assert (written["currentReplicas"], written.get("updatedReplicas", 0)) == (2, 0)
    assert written["updateRevision"] == "web-a"
    assert "currentRevision" not in written


def test_the_rollout_waits_for_the_one_before() -> None:
    status = {"currentRevision": "web-old"}
    waiting = [pod(0, "web-old"), pod(1, "web-old"), pod(2, ready="")]
    assert ended(look(stateful(status=status), waiting, [OLD, NEW])) == []
    well = [pod(0, "web-old"), pod(1, "web-old"), pod(2)]
    assert ended(look(stateful(status=status), well, [OLD, NEW])) == ["web-1"]


def test_below_the_partition_pods_stay_and_come_back_as_they_were() -> None:
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    status = {"currentRevision": "web-old"}
    mixed = [pod(0, "web-old"), pod(1, "web-old"), pod(2)]
    assert ended(look(stateful(status=status, updateStrategy=partition), mixed, [OLD, NEW])) == []
    outcome = look(stateful(status=status, updateStrategy=partition), [mixed[0], mixed[2]], [OLD, NEW])
    (again,) = [it for it in outcome.instructions if isinstance(it, Create)]
    assert again.manifest["metadata"]["labels"]["controller-revision-hash"] == "web-old"
    assert again.manifest["spec"]["containers"][0]["image"] == "old"


def test_without_a_partition_of_its_own_as_many_come_back_as_they_were_as_are_left() -> None:
    strategy = {"type": "RollingUpdate"}
    status = {"currentRevision": "web-old", "currentReplicas": 2}
    outcome = look(stateful(status=status, updateStrategy=strategy), [pod(1, "web-old"), pod(2)], [OLD, NEW])
    (again,) = [it for it in outcome.instructions if isinstance(it, Create)]
    assert again.manifest["metadata"]["labels"]["controller-revision-hash"] == "web-old"


def test_on_delete_nobody_is_exchanged_and_who_comes_anew_is_new() -> None:
    status = {"currentRevision": "web-old"}
    lazy = stateful(2, status=status, updateStrategy={"type": "OnDelete"})
    assert ended(look(lazy, [pod(0, "web-old"), pod(1, "web-old")], [OLD, NEW])) == []
    outcome = look(lazy, [pod(0, "web-old")], [OLD, NEW])
    (again,) = [it for it in outcome.instructions if isinstance(it, Create)]
    assert again.manifest["metadata"]["labels"]["controller-revision-hash"] == "web-a"


def test_when_all_are_new_and_ready_the_new_revision_is_the_current_one() -> None:
    status = {"currentRevision": "web-old", "updateRevision": "web-a"}
    outcome = look(stateful(2, status=status), [pod(0), pod(1)], [OLD, NEW])
    assert told(outcome)["currentRevision"] == "web-a"
    assert told(outcome)["currentReplicas"] == told(outcome)["updatedReplicas"] == 2


def test_to_go_back_gives_the_old_revision_a_new_number() -> None:
    outcome = look(stateful(1, image="old", status={"currentRevision": "web-a"}), [pod(0)], [OLD, NEW])
    (patch,) = patches(outcome, REVISIONS)
    assert (patch.name, patch.patch) == ("web-old", {"revision": 3})
    assert told(outcome)["updateRevision"] == "web-old"


def test_a_set_shrunk_during_a_rollout_ends_the_surplus_first() -> None:
    status = {"currentRevision": "web-old"}
    outcome = look(stateful(1, status=status), [pod(0, "web-old"), pod(1, "web-old"), pod(2)], [OLD, NEW])
    assert ended(outcome) == ["web-2"]


def test_revisions_beyond_the_history_go_oldest_first_but_none_that_is_lived_by() -> None:
    past = [revision(f"web-{number}", str(number), number) for number in range(1, 5)]
    now = revision("web-a", "a", 9)
    outcome = look(stateful(2), [pod(0), pod(1, "web-1")], [*past, now])
    assert [it.name for it in outcome.instructions if isinstance(it, Delete) and it.resource == REVISIONS] == [
        "web-2",
        "web-3",
    ]


def test_a_name_that_another_revision_has_is_counted_and_made_up_anew() -> None:
    outcome = look(stateful(), [], [], find_revision=lambda name: revision(name, "else", 1, owner="other"))
    assert made(outcome) == []
    assert told(outcome)["collisionCount"] == 1
    first = made(look(stateful(), [], []))[0]
    assert made(look(stateful(status={"collisionCount": 1}), [], []))[0] != first


# -- whose pods are whose


def test_a_stray_of_a_fitting_name_is_adopted_and_gets_its_label() -> None:
    outcome = look(stateful(1), [pod(0, owner=None, label="")])
    adoption, identity = patches(outcome, PODS)
    assert adoption.patch["metadata"]["ownerReferences"][0]["controller"] is True
    assert identity.patch["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"


def test_others_and_strays_of_other_names_are_left_alone() -> None:
    others = [
        pod(0, owner="else"),
        pod(0, owner=None, name="web-x"),
        pod(0, owner=None, name="web-00"),
        pod(0, owner=None, name="web-99999999999"),
        pod(0, owner=None, app="x"),
    ]
    outcome = look(stateful(0), others)
    assert patches(outcome, PODS) == []
    assert told(outcome)["replicas"] == 0


def test_a_pod_whose_labels_were_changed_is_let_go_and_its_place_waits() -> None:
    outcome = look(stateful(1), [pod(0, app="debug")], is_taken=lambda name: name == "web-0")
    (release,) = patches(outcome, PODS)
    assert release.patch["metadata"]["ownerReferences"] is None
    assert made(outcome) == []
    assert "is there and does not belong to this StatefulSet" in warnings(outcome)[0]


def test_a_set_that_is_being_deleted_only_counts() -> None:
    outcome = look(stateful(3, going=True, claims=("data",)), [pod(0), pod(7, phase="Failed")], [])
    assert {type(it) for it in outcome.instructions} == {Patch}
    assert told(outcome)["replicas"] == 2


def test_an_empty_or_broken_selector_takes_over_nobody() -> None:
    for selector in ({}, None, {"matchExpressions": [{"key": "a", "operator": "Huh"}]}):
        outcome = look(stateful(selector=selector), [pod(0, owner=None)])
        assert [type(it) for it in outcome.instructions] == [Record]


# -- claims


def kept(name: str, *owners: tuple[str, str, str], going: bool = False, controller: bool = True) -> KeptClaim:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "ownerReferences": [
            {
                "apiVersion": "apps/v1" if kind == "StatefulSet" else "v1",
                "kind": kind,
                "name": whose,
                "uid": uid,
                "controller": controller,
            }
            for kind, whose, uid in owners
        ],
    }
    if going:
        metadata["deletionTimestamp"] = LONG_AGO
    return msgspec.convert({"metadata": metadata}, KeptClaim)


SET_OWNS = ("StatefulSet", "web", "sts")


def test_claims_are_made_before_the_pod_that_mounts_them() -> None:
    shadowed = {"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": [{"name": "data"}, {"name": "tmp"}]}}
    outcome = look(stateful(claims=("data", "log"), template=shadowed), [], [])
    assert made(outcome)[1:] == ["data-web-0", "log-web-0", "web-0"]
    claim, _, member = [it.manifest for it in outcome.instructions if isinstance(it, Create)][1:]
    assert claim["metadata"]["labels"] == {"a": "b", "app": "web"}
    assert claim["spec"] == {"volumeMode": "Block"}
    assert "ownerReferences" not in claim["metadata"]
    assert member["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "log", "persistentVolumeClaim": {"claimName": "log-web-0"}},
        {"name": "tmp"},
    ]


def test_a_claim_that_is_there_is_used_again_and_one_that_is_missing_is_made_for_a_pod_that_waits() -> None:
    outcome = look(stateful(1, claims=("data",)), find_claim=kept)
    assert made(outcome) == ["web-0"]
    waiting = look(stateful(1, claims=("data",)), [pod(0, phase="Pending", ready="")])
    assert made(waiting) == ["data-web-0"]


def test_a_claim_that_is_going_keeps_the_next_pod_away_with_a_reason() -> None:
    outcome = look(stateful(1, claims=("data",)), find_claim=lambda name: kept(name, going=True))
    assert made(outcome) == []
    assert warnings(outcome) == ["Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"]
    policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    stale = look(
        stateful(1, claims=("data",), persistentVolumeClaimRetentionPolicy=policy),
        find_claim=lambda name: kept(name, ("Pod", "web-0", "former")),
    )
    assert made(stale) == []


@pytest.mark.parametrize(
    ("when_deleted", "when_scaled", "inside", "outside"),
    [
        ("Retain", "Retain", None, None),
        ("Delete", "Retain", "StatefulSet", "StatefulSet"),
        ("Retain", "Delete", None, "Pod"),
        ("Delete", "Delete", "StatefulSet", "Pod"),
    ],
)
def test_who_owns_a_claim_is_what_makes_it_go(
    when_deleted: str, when_scaled: str, inside: str | None, outside: str | None
) -> None:
    policy = {"whenDeleted": when_deleted, "whenScaled": when_scaled}
    one = stateful(1, claims=("data",), persistentVolumeClaimRetentionPolicy=policy)
    owners: dict[str, str | None] = {"data-web-0": None, "data-web-1": None}
    outcome = look(one, [pod(0), pod(1)], find_claim=kept)
    for patch in patches(outcome, CLAIMS):
        (owner,) = patch.patch["metadata"]["ownerReferences"]
        owners[patch.name] = owner["kind"]
    assert owners == {"data-web-0": inside, "data-web-1": outside}
    order = [type(it) for it in outcome.instructions if isinstance(it, Patch | Delete) and it.resource != REVISIONS]
    assert order[-1] is Patch  # the status
    if outside:
        assert order.index(Delete) > 0, "the claim learns whose it is before its pod goes"


@pytest.mark.parametrize(
    ("claim", "wanted"),
    [
        (kept("data-web-0", SET_OWNS), "same"),
        (kept("data-web-0", SET_OWNS, controller=False), ["StatefulSet"]),
        (kept("data-web-0", ("StatefulSet", "web", "former")), "same"),
        (kept("data-web-0", ("StatefulSet", "else", "x")), "same"),
        (kept("data-web-0", ("StatefulSet", "else", "x"), SET_OWNS), ["StatefulSet"]),
    ],
    ids=["already", "not as its manager", "a former set", "another manager", "another manager beside us"],
)
def test_claims_of_others_are_not_touched(claim: KeptClaim, wanted: Any) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    one = stateful(1, claims=("data",), persistentVolumeClaimRetentionPolicy=policy)
    found = patches(look(one, [pod(0)], find_claim=lambda _name: claim), CLAIMS)
    if wanted == "same":
        assert found == []
    else:
        assert [it["kind"] for it in found[0].patch["metadata"]["ownerReferences"]] == wanted


# -- telling


def test_a_refusal_is_told_with_the_status_before_the_next_try() -> None:
    outcome = look(stateful(1), refusal=Refusal("exceeded quota"))
    assert isinstance(outcome.instructions[0], Patch)
    assert warnings(outcome) == ["Create Pod web-0 in StatefulSet web failed error: exceeded quota"]
    assert made(outcome) == ["web-0"]


def test_of_many_pods_at_once_their_number_is_told() -> None:
    outcome = look(stateful(40, podManagementPolicy="Parallel", claims=("data",)))
    assert [it.message for it in outcome.instructions if isinstance(it, Record)] == [
        "Create 40 Claims in StatefulSet web success",
        "Create 40 Pods in StatefulSet web successful",
    ]


def test_a_set_that_is_as_it_should_be_is_not_written() -> None:
    status = {
        "replicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "currentReplicas": 1,
        "updatedReplicas": 1,
        "currentRevision": "web-a",
        "updateRevision": "web-a",
        "collisionCount": 0,
        "observedGeneration": 2,
    }
    assert look(stateful(1, status=status), [pod(0)]) == Outcome()
