"""What is remembered of shapes does not show in them, and a label matters as long as somebody looks at it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.pod_shapes import PodShapes
from allhands.model.pod import Pod
from allhands.model.resources import ResourceVector
from allhands.model.shape import PodShape
from tests.depth import examples

REQUESTS = [ResourceVector.of({"cpu": cpu}) for cpu in (1, 2)]


def pod(name: str, **fields: Any) -> Pod:
    return Pod("default", name, uid=f"uid-{name}", requests=REQUESTS[0], **fields)


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "namespace": st.sampled_from(["default", "other"]),
        "uid": st.sampled_from(["", "u1", "u2"]),
        "requests": st.sampled_from(REQUESTS),
        "labels": st.sampled_from([{}, {"app": "a"}, {"app": "b"}]),
        "node_selector": st.sampled_from([{}, {"zone": "a"}]),
        "claims": st.sampled_from([(), ("data",), ("default-scratch",)]),
        "ephemeral_claims": st.sampled_from([(), ("default-scratch",)]),
        "images": st.sampled_from([(), ("image:1",)]),
        "container_count": st.integers(1, 2),
    },
)


@settings(max_examples=examples(200))
@given(changes=st.lists(CHANGES, min_size=1, max_size=8), keys=st.sampled_from([None, frozenset({"app"})]))
def test_a_shape_is_what_it_would_be_alone(changes: list[dict[str, Any]], keys: frozenset[str] | None) -> None:
    shapes = PodShapes()
    shapes.count_selecting(keys, 1)
    shapes.settle()
    one = pod("a")
    for change in changes:
        one = msgspec.structs.replace(one, **change)
        expected = PodShape.of(one, keys, pinned=False)
        assert shapes.of(one) == expected
        assert shapes.of(one) is shapes.of(msgspec.structs.replace(one))


def test_a_label_matters_from_when_it_is_looked_at_until_nobody_does() -> None:
    shapes = PodShapes()
    here, there = pod("a", labels={"app": "a"}), pod("b", labels={"app": "b"})
    assert shapes.of(here) is shapes.of(there)
    shapes.count_selecting(frozenset({"app"}), 1)
    assert shapes.settle()
    assert not shapes.settle()
    assert shapes.of(here) != shapes.of(there)
    shapes.count_selecting(frozenset({"app"}), -1)
    assert shapes.settle()
    assert shapes.of(here) is shapes.of(there)
    shapes.select_for_budgets([frozenset({"app"})])
    assert shapes.settle()
    assert shapes.of(here) != shapes.of(there)
