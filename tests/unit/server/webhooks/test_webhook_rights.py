"""What a submitter must be allowed, and how that is found out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.server.webhooks import submitters
from allhands.server.webhooks.asks import PRIORITY_CLASSES, Ask, asks_of
from allhands.server.webhooks.review import Submitter, question_of
from allhands.server.webhooks.submitters import REVIEWS, Submitters
from tests.virtual import on_virtual_time
from tests.webhook_cluster import WebhookCluster, job, review

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource

SECRET: Any = {"annotations": {"allhands.dev/restricted": "true"}}
PODS = Ask("", "create", "", "pods", "default")


class Few:
    """A few other objects."""

    def __init__(self, **queues: Manifest) -> None:
        self._found: dict[tuple[Resource, str], Manifest] = {(QUEUE.resource, name): it for name, it in queues.items()}

    def add(self, resource: Resource, name: str, manifest: Manifest) -> None:
        self._found[resource, name] = manifest

    def one(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        del namespace
        return self._found.get((resource, name))


def queue(parent: str = "", **metadata: Any) -> Manifest:
    return {"metadata": metadata, "spec": {"parent": parent}}


def asked(definition: Any, manifest: Manifest, old: Manifest | None = None, others: Few | None = None) -> list[str]:
    found = asks_of(definition.group, definition.kind, manifest, old, others or Few())
    return [f"{it.path}: {it}" for it in found]


CREATE_PODS = 'create pods in namespace "default"'


def test_a_job_needs_the_right_to_create_pods_and_no_more() -> None:
    template = {"spec": {"serviceAccountName": "rich", "containers": [{"name": "a"}]}}
    plain = job(tasks=[{"replicas": 1, "template": template}], queue="team", priorityClassName="high")
    assert asked(JOB, plain) == [f"spec.tasks: {CREATE_PODS}"]


def test_claims_that_are_made_for_it_need_the_right_to_create_them() -> None:
    volumes = [
        {"mountPath": "/a", "volumeClaimName": "there"},
        {"mountPath": "/b", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
    ]
    assert asked(JOB, job(volumes=volumes)) == [
        f"spec.tasks: {CREATE_PODS}",
        'spec.volumes[1].volumeClaim: create persistentvolumeclaims in namespace "default"',
    ]


def test_a_restricted_queue_and_whatever_is_below_it_need_the_verb_use() -> None:
    others = Few(open=queue(), vault=queue(**SECRET), below=queue("vault"), lost=queue("nowhere"))
    for name in ("vault", "below"):
        assert asked(JOB, job(queue=name), others=others)[1:] == [
            f'spec.queue: use queues.scheduling.volcano.sh "{name}"'
        ]
    for name in ("open", "lost", "nowhere"):
        assert asked(JOB, job(queue=name), others=others)[1:] == []


def test_queues_that_are_each_others_parents_are_nobodys() -> None:
    others = Few(a=queue("b"), b=queue("a"))
    assert len(asked(JOB, job(queue="a"), others=others)) == 2


def test_classes_of_the_system_and_restricted_ones_need_the_verb_use() -> None:
    others = Few()
    others.add(PRIORITY_CLASSES, "gold", {"metadata": SECRET})
    others.add(PRIORITY_CLASSES, "plain", {"metadata": {}})
    template = {"spec": {"priorityClassName": "system-node-critical"}}
    wanted = job(priorityClassName="gold", tasks=[{"template": template}, {"template": template}])
    assert asked(JOB, wanted, others=others)[1:] == [
        'spec.priorityClassName: use priorityclasses.scheduling.k8s.io "gold"',
        'spec.tasks[0].template.spec.priorityClassName: use priorityclasses.scheduling.k8s.io "system-node-critical"',
    ]
    assert asked(JOB, job(priorityClassName="plain"), others=others)[1:] == []


def test_whatever_makes_jobs_needs_what_they_need() -> None:
    others = Few(vault=queue(**SECRET))
    others.add(JOB_TEMPLATE.resource, "step", {"metadata": {}, "spec": {"queue": "vault"}})
    metadata = {"name": "x", "namespace": "default"}
    cron = {"metadata": metadata, "spec": {"jobTemplate": {"spec": {"queue": "vault"}}}}
    vault = 'use queues.scheduling.volcano.sh "vault"'
    assert asked(CRON_JOB, cron, others=others) == [
        f"spec.jobTemplate.spec.tasks: {CREATE_PODS}",
        f"spec.jobTemplate.spec.queue: {vault}",
    ]
    template = {"metadata": metadata, "spec": {"queue": "vault"}}
    assert asked(JOB_TEMPLATE, template, others=others) == [f"spec.tasks: {CREATE_PODS}", f"spec.queue: {vault}"]
    flow = {"metadata": metadata, "spec": {"flows": [{"name": "none"}, {"name": "step"}]}}
    assert asked(JOB_FLOW, flow, others=others) == [f"spec.flows: {CREATE_PODS}", f"spec.flows[1].name.queue: {vault}"]
    patched = {"metadata": metadata, "spec": {"flows": [{"name": "none", "patch": {"spec": {"queue": "vault"}}}]}}
    assert asked(JOB_FLOW, patched, others=others)[1:] == [f"spec.flows[0].patch.spec.queue: {vault}"]


def test_groups_and_pods_that_name_a_restricted_queue_need_it_too() -> None:
    others = Few(vault=queue(**SECRET))
    vault = 'use queues.scheduling.volcano.sh "vault"'
    group = {"metadata": {"name": "x", "namespace": "default"}, "spec": {"queue": "vault"}}
    assert asked(POD_GROUP, group, others=others) == [f"spec.queue: {vault}"]
    for name in ("allhands.dev/queue", "scheduling.volcano.sh/queue-name"):
        annotated = {"annotations": {name: "vault"}}
        pod = {"metadata": {"name": "x", **annotated}, "spec": {}}
        found = asks_of("", "Pod", pod, None, others)
        assert [f"{it.path}: {it}" for it in found] == [f"metadata.annotations[{name}]: {vault}"]
        deployment = {"metadata": {"name": "x"}, "spec": {"template": {"metadata": annotated}}}
        found = asks_of("apps", "Deployment", deployment, None, others)
        assert [f"{it.path}: {it}" for it in found] == [f"spec.template.metadata.annotations[{name}]: {vault}"]


def test_who_changes_the_spec_or_the_queue_is_asked_again_and_who_changes_a_label_is_not() -> None:
    old = job()
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert asked(JOB, labelled, old) == []
    assert asked(JOB, job(minAvailable=1), old) == [f"spec.tasks: {CREATE_PODS}"]
    others = Few(vault=queue(**SECRET))
    pod = {"metadata": {"name": "x"}, "spec": {}}
    moved = {"metadata": {"name": "x", "annotations": {"allhands.dev/queue": "vault"}}, "spec": {}}
    assert len(asks_of("", "Pod", moved, pod, others)) == 1


def question(user: str = "bob") -> Any:
    return question_of(msgspec.json.encode(review(job(), user=user)))


async def test_the_whole_identity_is_asked_about_and_nothing_of_the_object() -> None:
    cluster = WebhookCluster()
    refusal = await Submitters(cluster).refusal(question(), [msgspec.structs.replace(PODS, path="spec.tasks")])
    assert cluster.reviews == [
        {
            "user": "bob",
            "uid": "7",
            "groups": ["people"],
            "extra": {"from": ["there"]},
            "resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"},
        }
    ]
    assert refusal is not None
    assert (refusal.code, refusal.reason) == (403, "Forbidden")
    assert refusal.message == (
        'jobs.batch.volcano.sh "train" is forbidden: spec.tasks: Forbidden: user "bob" may not create pods in '
        'namespace "default"'
    )
    assert (refusal.details or {})["causes"][0]["field"] == "spec.tasks"


async def test_our_own_processes_act_for_others_and_are_not_asked() -> None:
    cluster = WebhookCluster()
    ours = "system:serviceaccount:allhands-system:allhands-controllers"
    assert await Submitters(cluster, [ours]).refusal(question(ours), [PODS]) is None
    assert await Submitters(cluster, [ours]).refusal(question(f"{ours}x"), [PODS]) is not None
    assert len(cluster.reviews) == 1


@on_virtual_time
async def test_an_answer_is_kept_for_a_few_seconds_and_a_refusal_for_less() -> None:
    cluster = WebhookCluster()
    known = Submitters(cluster)
    bob = Submitter("bob")
    assert not await known.may(bob, PODS)
    assert not await known.may(bob, PODS)
    assert len(cluster.reviews) == 1
    cluster.grants.add(("bob", "create", "pods", ""))
    await asyncio.sleep(submitters.DENIED_SECONDS)
    assert await known.may(bob, PODS)
    cluster.grants.clear()
    assert await known.may(bob, msgspec.structs.replace(PODS, path="another.field"))
    assert len(cluster.reviews) == 2
    assert not await known.may(Submitter("bob", groups=("others",)), PODS), "that is somebody else"
    await asyncio.sleep(submitters.ALLOWED_SECONDS)
    assert not await known.may(bob, PODS)


@on_virtual_time
async def test_who_submits_all_the_time_is_asked_about_beforehand_and_a_right_that_is_taken_away_is_soon_gone() -> None:
    cluster = WebhookCluster()
    cluster.grants.add(("bob", "create", "pods", ""))
    known = Submitters(cluster)
    assert await known.may(Submitter("bob"), PODS)
    for _ in range(20):
        await asyncio.sleep(1)
        reviews = len(cluster.reviews)
        assert await known.may(Submitter("bob"), PODS)
        assert len(cluster.reviews) == reviews, "it is answered before anybody is asked"
    assert len(cluster.reviews) > 5
    cluster.grants.clear()
    for _ in range(int(submitters.ALLOWED_SECONDS) + 1):
        await known.may(Submitter("bob"), PODS)
        await asyncio.sleep(1)
    assert not await known.may(Submitter("bob"), PODS)


async def test_the_same_question_of_many_is_asked_once_and_what_failed_is_asked_again() -> None:
    cluster = WebhookCluster()
    known = Submitters(cluster)
    cluster.refuses["create", REVIEWS] = StatusError(503, "ServiceUnavailable", "not now")
    with pytest.raises(StatusError, match="not now"):
        await known.may(Submitter("bob"), PODS)
    cluster.refuses.clear()
    await asyncio.gather(*(known.may(Submitter("bob"), PODS) for _ in range(20)))
    assert len(cluster.reviews) == 1


@on_virtual_time
async def test_only_so_many_answers_are_kept() -> None:
    cluster = WebhookCluster()
    known = Submitters(cluster)
    for number in range(submitters.MOST_KEPT + 1):
        await known.may(Submitter(f"user-{number}"), PODS)
    await known.may(Submitter("user-1"), PODS)
    assert len(cluster.reviews) == submitters.MOST_KEPT + 1
    await known.may(Submitter("user-0"), PODS)
    assert len(cluster.reviews) == submitters.MOST_KEPT + 2
