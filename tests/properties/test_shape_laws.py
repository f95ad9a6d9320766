"""Laws of shapes: equal placement gives one shape whatever the order of things, and any difference gives another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.model.shape import PodShape
from tests.depth import examples

if TYPE_CHECKING:
    import random

words = st.sampled_from(["a", "b", "c"])
labels = st.dictionaries(words, words, max_size=3)
requirements = st.one_of(
    st.builds(
        lambda k, o, v: {"key": k, "operator": o, "values": v},
        words,
        st.sampled_from(["In", "NotIn"]),
        st.lists(words, min_size=1, max_size=2),
    ),
    st.builds(lambda k, o: {"key": k, "operator": o}, words, st.sampled_from(["Exists", "DoesNotExist"])),
)
selectors = st.fixed_dictionaries(
    {}, optional={"matchLabels": labels, "matchExpressions": st.lists(requirements, max_size=2)}
)
tolerations = st.fixed_dictionaries(
    {"key": words, "operator": st.sampled_from(["Exists", "Equal"])},
    optional={"effect": st.sampled_from(["NoSchedule", "NoExecute"]), "tolerationSeconds": st.integers(0, 9)},
)
node_terms = st.fixed_dictionaries({}, optional={"matchExpressions": st.lists(requirements, max_size=2)})
pod_terms = st.fixed_dictionaries(
    {"topologyKey": words},
    optional={
        "labelSelector": selectors,
        "namespaces": st.lists(words, max_size=2),
        "namespaceSelector": selectors,
        "matchLabelKeys": st.lists(words, max_size=1),
        "mismatchLabelKeys": st.lists(words, max_size=1),
    },
)
spreads = st.fixed_dictionaries(
    {
        "topologyKey": words,
        "maxSkew": st.integers(1, 3),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    },
    optional={
        "labelSelector": selectors,
        "minDomains": st.integers(1, 3),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
    },
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
affinities = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {}, optional={REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": st.lists(node_terms, max_size=2)})}
        ),
        "podAffinity": st.fixed_dictionaries({}, optional={REQUIRED: st.lists(pod_terms, max_size=2)}),
        "podAntiAffinity": st.fixed_dictionaries(
            {},
            optional={
                PREFERRED: st.lists(
                    st.fixed_dictionaries({"weight": st.integers(0, 3), "podAffinityTerm": pod_terms}), max_size=2
                )
            },
        ),
    },
)
containers = st.fixed_dictionaries(
    {"image": words},
    optional={
        "resources": st.fixed_dictionaries(
            {"requests": st.dictionaries(st.sampled_from(["cpu", "memory", "x.io/y"]), st.integers(0, 3))}
        ),
        "ports": st.lists(st.fixed_dictionaries({"hostPort": st.integers(0, 2)}), max_size=2),
    },
)
volumes = st.one_of(
    st.builds(lambda n, c: {"name": n, "persistentVolumeClaim": {"claimName": c}}, words, words),
    st.builds(lambda n: {"name": n, "ephemeral": {}}, words),
    st.builds(lambda n, d: {"name": n, "gcePersistentDisk": {"pdName": d}}, words, words),
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": labels,
        "tolerations": st.lists(tolerations, max_size=3),
        "affinity": affinities,
        "topologySpreadConstraints": st.lists(spreads, max_size=2),
        "containers": st.lists(containers, max_size=2),
        "volumes": st.lists(volumes, max_size=2),
        "resourceClaims": st.lists(st.fixed_dictionaries({"name": words}), max_size=1),
    },
)
documents = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": words, "namespace": words, "labels": labels, "uid": st.sampled_from(("", "u", "v"))}
        ),
        "spec": specs,
    }
)
label_keys = st.none() | st.frozensets(words)
UNORDERED = {"tolerations", "volumes", "containers", "namespaces", "ports"}


def read(document: dict[str, Any]) -> Pod:
    return Pod.from_document(msgspec.json.decode(msgspec.json.encode(document), type=PodDocument))


def shuffled(value: Any, chance: random.Random, name: str = "") -> Any:
    """The same object with its maps, and those of its lists that are sets, in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(inner, chance, key)) for key, inner in value.items()]
        chance.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        inner = [shuffled(item, chance) for item in value]
        if name in UNORDERED:
            chance.shuffle(inner)
        return inner
    return value


def essence(pod: Pod, keys: frozenset[str] | None) -> tuple[object, ...]:
    """What a shape must tell apart, gathered naively."""
    shape = PodShape.of(pod, keys)
    looked_at = (keys or frozenset()) | (shape.selecting_keys or frozenset())
    sees_pods = keys is not None or shape.selecting_keys is not None
    own = pod.ephemeral_claims if pod.uid else ()
    claims = pod.claims if pod.uid else tuple(sorted(set(pod.claims) - set(pod.ephemeral_claims)))
    return (
        pod.requests,
        dict(pod.node_selector),
        pod.node_affinity,
        {(it.key, it.operator, it.value, it.effect) for it in pod.tolerations},
        pod.host_ports,
        pod.pod_affinity,
        pod.spread,
        (claims, own, pod.volumes, pod.images, pod.container_count, bool(pod.resource_claims)),
        pod.uid if own else None,
        pod.namespace if sees_pods or claims else None,
        {key: value for key, value in pod.labels.items() if key in looked_at} if sees_pods else None,
    )


@settings(max_examples=examples(100))
@given(documents, label_keys, st.randoms(use_true_random=False))
def test_the_order_of_maps_and_sets_changes_nothing(
    document: dict[str, Any], keys: frozenset[str] | None, chance: random.Random
) -> None:
    one, other = PodShape.of(read(document), keys), PodShape.of(read(shuffled(document, chance)), keys)
    assert one == other
    assert one.digest == other.digest


@settings(max_examples=examples(200))
@given(documents, documents, label_keys)
def test_digests_are_equal_exactly_if_all_that_matters_is(
    one: dict[str, Any], other: dict[str, Any], keys: frozenset[str] | None
) -> None:
    first, second = read(one), read(other)
    alike = essence(first, keys) == essence(second, keys)
    assert (PodShape.of(first, keys).digest == PodShape.of(second, keys).digest) is alike
    assert (PodShape.of(first, keys) == PodShape.of(second, keys)) is alike


@settings(max_examples=examples(100))
@given(
    documents,
    st.sampled_from(
        sorted(["nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "containers", "volumes"])
    ),
    specs,
    label_keys,
)
def test_a_change_of_one_field_shows_in_the_digest_if_it_matters(
    document: dict[str, Any], field: str, others: dict[str, Any], keys: frozenset[str] | None
) -> None:
    spec = {name: value for name, value in document["spec"].items() if name != field}
    if field in others:
        spec[field] = others[field]
    before, after = read(document), read({**document, "spec": spec})
    alike = essence(before, keys) == essence(after, keys)
    assert (PodShape.of(before, keys).digest == PodShape.of(after, keys).digest) is alike


@settings(max_examples=examples(100))
@given(documents, label_keys)
def test_a_shape_survives_a_dump_bit_for_bit(document: dict[str, Any], keys: frozenset[str] | None) -> None:
    shape = PodShape.of(read(document), keys)
    dumped = msgspec.msgpack.decode(msgspec.msgpack.encode(shape), type=PodShape)
    assert dumped == shape
    rebuilt = msgspec.msgpack.encode(msgspec.structs.replace(dumped, digest=""))
    assert rebuilt == msgspec.msgpack.encode(msgspec.structs.replace(shape, digest=""))


@settings(max_examples=examples(100))
@given(documents, label_keys)
def test_a_shape_matches_what_its_pod_matches(document: dict[str, Any], keys: frozenset[str] | None) -> None:
    """With the keys that are looked at, the labels of a shape stand for those of the pod."""
    pod = read(document)
    shape = PodShape.of(pod, keys)
    for term in shape.pod_affinity.terms():
        by_shape = term.matches_pod(shape.namespace, dict(shape.labels), {})
        assert by_shape is term.matches_pod(pod.namespace, pod.labels, {})
