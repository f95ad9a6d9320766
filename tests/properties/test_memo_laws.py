"""What the store remembers about specs never shows: every pod comes out as it would from a store that knows nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.store import InProcessObjects, Store
from allhands.store.envelope import filled, pieces_around, without_values
from tests.depth import examples
from tests.doubles import CountingIds, ManualClock
from tests.manifests import PODS

HOLE = "\0a value of its own\0"
VALUES = st.sampled_from(["", "0", "1", 'quo"te', "new\nline", "é", HOLE, "$(A)"]) | st.text(max_size=4)
VARIABLES = st.one_of(
    st.builds(lambda name, value: {"name": name, "value": value}, st.sampled_from(["RANK", "A", "1bad name="]), VALUES),
    st.just({"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
    st.just({"name": "B"}),
    st.just({"name": "C", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
    st.just({"name": "D", "value": 5}),
    st.just({"name": "E", "value": None}),
    st.just({"name": "F", "value": "x", "unknown": "y"}),
)
CONTAINERS = st.builds(
    lambda name, image, env: {"name": name, "image": image, "env": env},
    st.sampled_from(["main", "side"]),
    st.sampled_from(["a", "a:1", ""]),
    st.lists(VARIABLES, max_size=3),
)
SPECS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
    optional={"initContainers": st.lists(CONTAINERS, max_size=1), "hostname": st.sampled_from(["h1", "h2"])},
)


def outcome(objects: InProcessObjects, name: str, spec: Any, *, as_text: bool) -> Any:
    """The stored spec and status, or the refusal."""
    body: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    creation = objects.create(PODS, msgspec.json.encode(body) if as_text else body, "default")
    try:
        creation.send(None)
    except StopIteration as done:
        made = done.value.manifest()
        return made["spec"], made["status"], done.value.warnings
    except StatusError as refusal:
        return refusal.code, refusal.message.replace(name, "NAME")
    raise AssertionError("an in-process verb waited")


@settings(max_examples=examples(80))
@given(st.lists(SPECS, min_size=1, max_size=3), st.booleans())
@example(
    specs=[{"containers": [{"name": "main", "image": "a", "env": [{"name": "RANK", "value": HOLE}]}]}], as_text=False
)
def test_a_pod_comes_out_the_same_whatever_came_before(specs: list[Any], as_text: bool) -> None:
    experienced = InProcessObjects(Store(ManualClock(), CountingIds()))
    for number, spec in enumerate(specs * 4):
        name = f"p{number}"
        fresh = InProcessObjects(Store(ManualClock(), CountingIds()))
        assert outcome(experienced, name, spec, as_text=as_text) == outcome(fresh, name, spec, as_text=as_text)


@given(SPECS)
def test_values_taken_out_and_put_back_give_the_same_spec(spec: Any) -> None:
    # Values are counted in the order of the normal form, in which specs are stored: init containers come first.
    normal = {"initContainers": spec["initContainers"], **spec} if "initContainers" in spec else spec
    blank = without_values(msgspec.json.encode(normal))
    if blank is None:
        return
    pieces = pieces_around(blank[0])
    if len(pieces) == len(blank[1]) + 1:
        assert msgspec.json.decode(filled(pieces, blank[1])) == spec
