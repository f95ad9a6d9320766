"""What is remembered about pods never shows: every pod is read as by one who remembers nothing, whatever came first."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.dialects.pods import PodReader, PodUse, read_whole, read_whole_use
from allhands.model.text_memory import MOST_MET, TextMemory
from tests.depth import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOMENTS = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:01.5+02:00", None])
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu", "hugepages-2Mi"]),
    st.sampled_from(["1", "500m", "1Gi", "1e3", 2]),
    max_size=2,
)
RESOURCES = st.none() | st.fixed_dictionaries({}, optional={"requests": st.none() | AMOUNTS, "limits": AMOUNTS})
TEXTS = st.sampled_from(["", "a", "b", "main", "é", 'quo"te', "new\nline", "null", "a\\u0041"])
PAIRS = st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2)
KEYS = st.none() | st.lists(st.sampled_from(["a", "b"]), max_size=2)
SELECTORS = st.none() | st.fixed_dictionaries({}, optional={"matchLabels": st.none() | PAIRS})
TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "host"])},
    optional={
        "labelSelector": SELECTORS,
        "namespaces": st.none() | st.lists(TEXTS, max_size=1),
        "namespaceSelector": SELECTORS,
        "matchLabelKeys": KEYS,
        "mismatchLabelKeys": KEYS,
    },
)
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
POD_TERMS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.none() | st.lists(TERMS, max_size=2),
        PREFERRED: st.lists(st.fixed_dictionaries({"weight": st.integers(1, 2), "podAffinityTerm": TERMS}), max_size=1),
    },
)
NODE_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
AFFINITY = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.sampled_from([None, {}, {REQUIRED: {"nodeSelectorTerms": [NODE_TERM]}}]),
        "podAffinity": POD_TERMS,
        "podAntiAffinity": POD_TERMS,
    },
)
SPREAD = st.none() | st.lists(
    st.fixed_dictionaries(
        {"maxSkew": st.integers(1, 2), "topologyKey": TEXTS},
        optional={
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway", ""]),
            "labelSelector": SELECTORS,
            "matchLabelKeys": KEYS,
        },
    ),
    max_size=2,
)
CONTAINERS = st.none() | st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": TEXTS,
            "image": TEXTS,
            "env": st.just([{"name": "RANK", "value": "1"}]),
            "resources": RESOURCES,
            "ports": st.none() | st.just([{"hostPort": 80}]) | st.just([{"containerPort": 80}]),
            "restartPolicy": st.sampled_from([None, "Always"]),
            "volumeMounts": st.just([{"name": "kube-api-access-abcde"}]),
        },
    ),
    max_size=2,
)
VOLUMES = st.none() | st.lists(
    st.builds(
        lambda name, source: {"name": name} | source,
        st.sampled_from(["kube-api-access-abcde", "kube-api-access-fghij", "scratch", "null"]),
        st.sampled_from(
            [
                {"projected": {"sources": []}},
                {"emptyDir": {}},
                {"persistentVolumeClaim": {"claimName": "kube-api-access-abcde"}},
                {"persistentVolumeClaim": {"claimName": "data"}},
                {"persistentVolumeClaim": None, "ephemeral": {"volumeClaimTemplate": {}}},
                {"ephemeral": {}},
                {"image": {"reference": "a"}},
                {"gcePersistentDisk": {"pdName": "disk", "readOnly": True}},
                {"gcePersistentDisk": {"pdName": "disk"}},
                {"rbd": {"monitors": ["m"], "image": "i"}},
            ]
        ),
    ),
    max_size=2,
)
STATUSES = st.none() | st.lists(
    st.fixed_dictionaries(
        {"name": TEXTS, "containerID": st.sampled_from(["x", "y"])},
        optional={"resources": RESOURCES, "allocatedResources": st.none() | AMOUNTS},
    ),
    max_size=2,
)
CONDITIONS = st.none() | st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["PodScheduled", "Ready", "PodResizePending"])},
        optional={
            "status": st.sampled_from(["True", "False"]),
            "reason": st.sampled_from(["Infeasible", "Unschedulable", "SchedulingGated"]),
            "lastTransitionTime": MOMENTS,
        },
    ),
    max_size=3,
)
OWNERS = st.none() | st.lists(
    st.builds(
        lambda version, kind, name, controller: {
            "apiVersion": version,
            "kind": kind,
            "name": name,
            "uid": name,
            "controller": controller,
        },
        st.sampled_from(["batch/v1", "apps/v1"]),
        st.sampled_from(["Job", "ReplicaSet"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([True, False, None]),
    ),
    max_size=2,
)
ANNOTATIONS = st.none() | st.dictionaries(
    st.sampled_from(
        ["allhands.dev/queue", "allhands.dev/scheduling", "scheduling.k8s.io/group-name", "volcano.sh/task-spec", "x"]
    ),
    TEXTS | st.just('{"admitted_at_seconds":5}'),
    max_size=3,
)
LABELS = st.none() | st.dictionaries(st.sampled_from(["a", "b", "scheduling.x-k8s.io/pod-group"]), TEXTS, max_size=2)
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "metadata": {
        "name": st.sampled_from(["p", "q"]),
        "namespace": st.sampled_from(["n", "m", "default"]),
        "uid": st.sampled_from(["u", "v"]),
        "resourceVersion": st.sampled_from(["1", "2"]),
        "labels": LABELS,
        "annotations": ANNOTATIONS,
        "creationTimestamp": MOMENTS,
        "deletionTimestamp": MOMENTS,
        "ownerReferences": OWNERS,
        "managedFields": st.just([{"manager": "someone"}]),
    },
    "spec": {
        "containers": CONTAINERS,
        "initContainers": CONTAINERS,
        "overhead": st.none() | AMOUNTS,
        "resources": RESOURCES,
        "nodeName": st.sampled_from(["", "node-1", "node-2"]),
        "schedulerName": st.sampled_from(["allhands", "default-scheduler"]),
        "priority": st.sampled_from([None, 0, 1, -5]),
        "schedulingGates": st.sampled_from([None, [], [{"name": "g"}]]),
        "nodeSelector": PAIRS,
        "tolerations": st.sampled_from([None, [], [{"operator": "Exists"}], [{"key": "a", "effect": "NoExecute"}]]),
        "affinity": AFFINITY,
        "topologySpreadConstraints": SPREAD,
        "volumes": VOLUMES,
        "resourceClaims": st.sampled_from([None, [{"name": "c"}]]),
        "preemptionPolicy": st.sampled_from([None, "Never", "PreemptLowerPriority"]),
        "schedulingGroup": st.sampled_from([None, {}, {"podGroupName": "g"}, {"podGroupName": "h"}]),
    },
    "status": {
        "phase": st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Odd"]),
        "nominatedNodeName": st.sampled_from(["", "node-1"]),
        "startTime": MOMENTS,
        "conditions": CONDITIONS,
        "containerStatuses": STATUSES,
        "initContainerStatuses": STATUSES,
        "resources": RESOURCES,
        "allocatedResources": st.none() | AMOUNTS,
    },
}
PODS = st.fixed_dictionaries({part: st.fixed_dictionaries({}, optional=fields) for part, fields in FIELDS.items()})
WRONG = st.sampled_from([5, "text", ["text"], {"key": 5}, [None], "2026-13-01T00:00:00Z", True])


@st.composite
def families(draw: st.DrawFn, *, wrong: bool = False) -> list[bytes]:
    """A pod, and others that differ from it in exactly one field each; some of them twice, in any order."""
    first = draw(PODS)
    family = [first]
    for _ in range(draw(st.integers(1, 6))):
        part = draw(st.sampled_from(sorted(FIELDS)))
        name = draw(st.sampled_from(sorted(FIELDS[part])))
        other = copy.deepcopy(first)
        if draw(st.booleans()) and name in other[part]:
            del other[part][name]
        else:
            other[part][name] = draw(WRONG if wrong and draw(st.booleans()) else FIELDS[part][name])
        family.append(other)
    texts = [json.dumps(pod, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))).encode() for pod in family]
    return draw(st.lists(st.sampled_from(texts), min_size=2, max_size=12))


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value in it, with the way there."""
    if path:
        yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in inside:
        yield from _places(below, (*path, step))


def _other_values(value: Any) -> list[Any]:
    """Of the same type, and none at all."""
    if isinstance(value, bool):
        return [not value, ABSENT]
    if isinstance(value, int):
        return [value + 1, ABSENT]
    if isinstance(value, str):
        other = {"2026-01-01T00:00:00Z": "2026-01-01T00:00:09Z", "True": "False", "False": "True"}.get(value)
        return [other or ("7Gi" if value[:1].isdigit() else "other"), ABSENT]
    if isinstance(value, list):
        return [[], None, value + value[:1], ABSENT]
    return [{}, None, ABSENT]


ABSENT: Any = object()


def _with(pod: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The same but for this."""
    other = copy.deepcopy(pod)
    holder: Any = other
    for step in path[:-1]:
        holder = holder[step]
    if value is ABSENT:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return other


def outcome(read: Callable[[bytes], Any], raw: bytes) -> Any:
    """What is read, or what is said to be wrong."""
    try:
        return read(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        return type(error), str(error)


REQUESTS = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}
TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone", "matchLabelKeys": ["a"]}
CONTAINER = {"name": "main", "image": "a", "ports": [{"hostPort": 80, "hostIP": "1.2.3.4"}], "resources": REQUESTS}
RICH: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {"a": "b", "scheduling.x-k8s.io/pod-group": "g"},
        "annotations": {"allhands.dev/queue": "q", "volcano.sh/task-spec": "t"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}],
    },
    "spec": {
        "containers": [CONTAINER, {"name": "side", "resources": REQUESTS}],
        "initContainers": [{"name": "first", "image": "b", "resources": REQUESTS, "restartPolicy": "Always"}],
        "overhead": {"cpu": "1"},
        "resources": {"requests": {"memory": "4Gi"}},
        "nodeName": "node-1",
        "schedulerName": "allhands",
        "priority": 5,
        "schedulingGates": [{"name": "g"}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [NODE_TERM]}},
            "podAffinity": {REQUIRED: [TERM]},
            "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]},
        },
        "topologySpreadConstraints": [TERM | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [
            {"name": "kube-api-access-abcde", "projected": {"sources": [], "defaultMode": 420}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "image", "image": {"reference": "a"}},
            {"name": "gce", "gcePersistentDisk": {"pdName": "disk"}},
            {"name": "aws", "awsElasticBlockStore": {"volumeID": "disk"}},
            {"name": "azure", "azureDisk": {"diskURI": "disk"}},
            {"name": "cinder", "cinder": {"volumeID": "disk"}},
            {"name": "portworx", "portworxVolume": {"volumeID": "disk"}},
            {"name": "iscsi", "iscsi": {"iqn": "disk", "readOnly": True}},
            {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i", "pool": "p"}},
        ],
        "resourceClaims": [{"name": "c"}],
        "preemptionPolicy": "Never",
        "schedulingGroup": {"podGroupName": "g"},
    },
    "status": {
        "phase": "Running",
        "nominatedNodeName": "node-1",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "PodResizePending", "status": "True", "reason": "Deferred"},
        ],
        "containerStatuses": [
            {
                "name": "main",
                "containerID": "x",
                "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "3"}},
            }
        ],
        "initContainerStatuses": [{"name": "first", "resources": {"requests": {"memory": "8Gi"}}}],
        "resources": {"requests": {"memory": "5Gi"}},
        "allocatedResources": {"memory": "6Gi"},
    },
}
EPHEMERAL = {"name": "kube-api-access-abcde", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
BASES = {
    "rich": RICH,
    "infeasible": _with(RICH, ("status", "conditions", 1, "reason"), "Infeasible"),
    "with a claim of its own": _with(RICH, ("spec", "volumes", 0), EPHEMERAL),
    "deaf to its labels": _with(_with(RICH, ("spec", "affinity"), {}), ("spec", "topologySpreadConstraints"), []),
    "waiting": _with(_with(RICH, ("spec", "nodeName"), ""), ("status", "conditions", 0, "status"), "False"),
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())
def test_two_pods_that_differ_in_one_place_are_both_read_right(base: dict[str, Any]) -> None:
    first = json.dumps(base).encode()
    for path, value in _places(base, ()):
        for changed in _other_values(value):
            second = json.dumps(_with(base, path, changed)).encode()
            for one, other in ((first, second), (second, first)):
                reader = PodReader()
                outcome(reader.read_versioned, one)
                outcome(reader.read_use, one)
                assert outcome(reader.read_versioned, other) == outcome(read_whole, other), path
                use = outcome(read_whole_use, other)  # who only counts may overlook what is wrong with all else
                assert outcome(reader.read_use, other) == use or not isinstance(use, PodUse), path


READERS = st.sampled_from([(1 << 10, 1 << 20), (2, 1 << 20), (4, 1 << 11), (0, 0), (6, 400)])


@settings(max_examples=examples(250))
@given(families(), READERS)
def test_a_pod_is_read_the_same_whatever_was_read_before(raws: list[bytes], size: tuple[int, int]) -> None:
    entries, most_bytes = size
    reader = PodReader(entries, entries, most_bytes)
    for raw in raws:
        assert reader.read_versioned(raw) == read_whole(raw)
        assert reader.read_use(raw) == read_whole_use(raw)


@settings(max_examples=examples(100))
@given(families(wrong=True))
def test_a_pod_that_cannot_be_read_is_refused_with_the_same_words(raws: list[bytes]) -> None:
    reader = PodReader()
    for raw in raws:
        found, expected = outcome(reader.read_versioned, raw), outcome(read_whole, raw)
        assert found == expected or _is_of_no_use(expected)


def _is_of_no_use(expected: Any) -> bool:
    """What is wrong with the moment of a condition that is not looked at may be overlooked."""
    return isinstance(expected[1], str) and "lastTransitionTime" in expected[1]


@given(st.lists(st.tuples(st.binary(max_size=3), st.booleans())), st.integers(0, 6), st.integers(0, 12))
def test_a_memory_gives_back_what_was_put_and_keeps_its_bounds(
    asked: list[tuple[bytes, bool]], most: int, most_bytes: int
) -> None:
    memory: TextMemory[list[bytes]] = TextMemory(most, most_bytes)
    for text, is_put in asked:
        found = memory.get(text)
        assert found is None or found == [text]
        if is_put:
            memory.put(text, [text])
        assert len(memory) <= most
        assert memory.held_bytes <= most_bytes


def test_what_is_asked_for_again_and_again_outlasts_what_is_not() -> None:
    memory: TextMemory[int] = TextMemory(4, 1000)
    for number in range(100):
        assert memory.get(b"often") in ({1} if number else {None})
        memory.put(b"often", 1)
        memory.put(b"%d" % number, number)
    assert memory.get(b"0") is None


def test_a_text_is_new_once() -> None:
    memory: TextMemory[int] = TextMemory(4, 1000)
    assert [memory.is_new(text) for text in (b"a", b"b", b"a", b"b")] == [True, True, False, False]
    for number in range(2 * MOST_MET):
        memory.is_new(b"%d" % number)
    assert memory.is_new(b"a"), "it is not known for ever"
