"""A patch of one part alone (status, metadata, a lease's spec) gives what an update with the whole gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.patch.strategic import strategic_merge_patch
from allhands.store import InProcessObjects, Store
from tests.depth import examples
from tests.doubles import CountingIds, ManualClock
from tests.manifests import PODS

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from allhands.ports import PatchType

JOBS = Resource("batch", "v1", "jobs")
NODES = Resource("", "v1", "nodes")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
TIMES = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", None, "yesterday", 5])
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "PodScheduled", "bad type!"]), "status": st.sampled_from(["True", "False"])},
        optional={"lastTransitionTime": TIMES, "lastProbeTime": TIMES, "reason": st.just("Why"), "odd": st.just(1)},
    ),
    max_size=2,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["main", "other"]), "ready": st.booleans(), "restartCount": st.integers(-1, 2)},
        optional={
            "state": st.sampled_from(
                [{"running": {}}, {"terminated": {"exitCode": 0}}, {"waiting": {"reason": "x"}}, None]
            ),
            "image": st.just("a"),
            "imageID": st.just(""),
        },
    ),
    max_size=2,
)
POD_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "", None, 3]),
        "conditions": CONDITIONS | st.none(),
        "containerStatuses": CONTAINERS,
        "podIP": st.sampled_from(["10.0.0.1", "nonsense"]),
        "podIPs": st.sampled_from([[{"ip": "10.0.0.1"}], [{"ip": "nonsense"}], []]),
        "qosClass": st.sampled_from(["BestEffort", "Guaranteed", None]),
        "nominatedNodeName": st.sampled_from(["n1", "Bad Name", ""]),
        "unknown": st.just({"a": 1}),
    },
)
JOB_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "active": st.sampled_from([0, 1, 5, -1, None, "x"]),
        "ready": st.sampled_from([0, 1, None]),
        "succeeded": st.sampled_from([0, 1]),
        "startTime": TIMES,
        "uncountedTerminatedPods": st.sampled_from([{}, {"succeeded": ["a", "b"]}, {"failed": ["a", "a"]}, None]),
        "conditions": CONDITIONS,
    },
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.sampled_from([{"a": "b"}, {"a": None}, {"bad key!": "x"}, {"resourceVersion": "7"}, None]),
        "annotations": st.sampled_from([{"a": "b"}, {"a": None}, {"x": 5}]),
        "finalizers": st.sampled_from([["example.com/a"], [], None, ["bad"]]),
        "uid": st.sampled_from(["wrong"]),
        "resourceVersion": st.sampled_from(["1", "99999"]),
        "name": st.sampled_from(["it", "another"]),
        "namespace": st.sampled_from(["default", "elsewhere"]),
        "generation": st.just(7),
        "creationTimestamp": st.none(),
        "ownerReferences": st.sampled_from([[], None, [{"kind": "Job"}]]),
    },
)
LEASE_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "holderIdentity": st.sampled_from(["a", "b", "", None, 3]),
        "leaseDurationSeconds": st.sampled_from([40, 0, -1, None, "x"]),
        "renewTime": st.sampled_from(["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00Z", None, "soon"]),
        "leaseTransitions": st.sampled_from([0, 1, -1, None]),
        "strategy": st.sampled_from(["OldestEmulationVersion", None]),
        "unknown": st.just({"a": 1}),
    },
)
SPEC: dict[str, Any] = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}
OBJECTS: dict[Resource, dict[str, Any]] = {
    PODS: {"metadata": {"name": "it", "labels": {"a": "a"}}, "spec": SPEC},
    JOBS: {"metadata": {"name": "it"}, "spec": {"template": {"spec": SPEC}}},
    NODES: {"metadata": {"name": "it"}},
    LEASES: {"metadata": {"name": "it"}, "spec": {"holderIdentity": "a", "leaseTransitions": 1}},
}


def done(verb: Coroutine[Any, Any, Any]) -> Any:
    try:
        verb.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("an in-process verb waited")


def outcome(verb: Coroutine[Any, Any, Any]) -> Any:
    try:
        return done(verb).manifest()
    except StatusError as refusal:
        return refusal.code


@settings(max_examples=examples(150))
@given(
    resource=st.sampled_from([PODS, JOBS]),
    patches=st.lists(
        st.one_of(
            st.builds(lambda status, meta: {"status": status} | meta, POD_STATUS | JOB_STATUS, st.just({})),
            st.builds(lambda status, meta: {"status": status, "metadata": meta}, POD_STATUS | JOB_STATUS, METADATA),
            st.builds(lambda meta: {"metadata": meta}, METADATA),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_a_patch_of_a_part_is_an_update_with_the_whole(resource: Resource, patches: list[dict[str, Any]]) -> None:
    check_patches(resource, patches)


@settings(max_examples=examples(100))
@given(
    patches=st.lists(
        st.builds(lambda spec: {"spec": spec}, LEASE_SPEC | st.none())
        | st.builds(lambda spec, meta: {"spec": spec, "metadata": meta}, LEASE_SPEC, METADATA)
        | st.builds(lambda meta: {"metadata": meta}, METADATA),
        min_size=1,
        max_size=4,
    )
)
def test_so_is_one_of_a_lease(patches: list[dict[str, Any]]) -> None:
    check_patches(LEASES, patches)


DIRECTIVES = st.sampled_from(
    [
        {"conditions": [{"$patch": "delete", "type": "Ready"}]},
        {"conditions": [{"$patch": "replace"}, {"type": "Ready", "status": "True"}]},
        {"$patch": "replace", "phase": "Running"},
        {"$patch": "delete"},
        {"$retainKeys": ["phase"], "phase": "Running"},
        {"$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "Ready"}]},
    ]
)


@settings(max_examples=examples(150))
@given(
    resource=st.sampled_from([PODS, JOBS, NODES]),
    patches=st.lists(
        st.builds(lambda status: {"status": status}, POD_STATUS | JOB_STATUS | DIRECTIVES)
        | st.builds(lambda status, meta: {"status": status, "metadata": meta}, POD_STATUS | JOB_STATUS, METADATA),
        min_size=1,
        max_size=4,
    ),
)
def test_so_is_a_strategic_one_of_a_status(resource: Resource, patches: list[dict[str, Any]]) -> None:
    check_patches(resource, patches, strategic=True)


def check_patches(resource: Resource, patches: list[dict[str, Any]], *, strategic: bool = False) -> None:
    store = Store(ManualClock(), CountingIds())
    schema = store.kind(resource).merge_schema
    patched = InProcessObjects(store)
    updated = InProcessObjects(Store(ManualClock(), CountingIds()))
    namespace = "" if resource == NODES else "default"
    for objects in (patched, updated):
        done(objects.create(resource, OBJECTS[resource], namespace))
    for patch in patches:
        part = "status" if "status" in patch else ""
        present = done(updated.get(resource, "it", namespace)).manifest()
        try:
            whole = strategic_merge_patch(present, patch, schema) if strategic else merge_patch(present, patch)
        except StatusError:
            whole = {}
        way: PatchType = "strategic" if strategic else "merge"
        one = outcome(patched.patch(resource, "it", way, patch, namespace, subresource=part))
        other = outcome(updated.update(resource, "it", whole, namespace, subresource=part))
        if isinstance(one, int) or isinstance(other, int):
            # Who patches and who updates may be refused in other words, but only together.
            assert isinstance(one, int) is isinstance(other, int), (patch, one, other)
        else:
            assert one == other
    assert done(patched.get(resource, "it", namespace)).raw == done(updated.get(resource, "it", namespace)).raw
