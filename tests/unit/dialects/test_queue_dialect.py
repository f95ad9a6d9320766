"""Volcano's Queue becomes a queue of the model, or one that is held and says why; it never disappears."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.facts import Facts
from allhands.core.quota.forest import plant
from allhands.dialects.queues import QueueRecord, read_queue
from allhands.model.queue import Queue, QueueOrder, QueueState, Quota
from tests.depth import examples


def _read(name: str = "q", *, status: Any = None, annotations: Any = None, **spec: Any) -> QueueRecord:
    document = {"metadata": {"name": name, "annotations": annotations}, "spec": spec, "status": status}
    return read_queue(json.dumps(document).encode())


def test_every_field_has_its_meaning() -> None:
    record = _read(
        weight=3,
        capability={"cpu": "4", "nvidia.com/gpu": 8},
        deserved={"cpu": 2},
        guarantee={"resource": {"cpu": "500m"}},
        reclaimable=False,
        parent="team",
        priority=7,
        dequeueStrategy="fifo",
        annotations={"allhands.dev/gang-by-default": "true", "allhands.dev/expected-duration": "1h"},
    )
    assert record == QueueRecord(
        Queue(
            "q",
            parent="team",
            quotas=(Quota("cpu", guarantee=500, deserved=2000, capability=4000), Quota("nvidia.com/gpu", capability=8)),
            weight_millis=3000,
            priority=7,
            reclaimable=False,
            order=QueueOrder.FIFO_STRICT,
            default_duration_seconds=3600,
        ),
        gang_by_default=True,
    )


def test_what_is_not_said_has_volcanos_default() -> None:
    plain = read_queue(b'{"metadata":{"name":"q"}}')
    assert plain == QueueRecord(Queue("q", parent="root"))
    assert plain == _read()
    assert (plain.queue.weight_millis, plain.queue.reclaimable, plain.queue.order) == (
        1000,
        True,
        QueueOrder.FIFO_BEST_EFFORT,
    )


def test_root_has_no_parent_and_all_others_have_one() -> None:
    assert _read("root").queue.parent is None
    assert _read("default").queue.parent == "root"
    forest = plant(Facts(accounts=tuple(_read(it).queue for it in ("root", "default", "a"))).accounts)
    assert forest.set_aside == {}


def test_nothing_and_zero_are_different() -> None:
    assert _read(capability={"cpu": 0}).queue.quotas == (Quota("cpu", capability=0),)
    assert _read(capability={}).queue.quotas == ()
    assert _read(capability=None, guarantee={}, deserved=None).queue.quotas == ()


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Open", QueueState.OPEN),
        ("Closed", QueueState.CLOSED),
        ("Closing", QueueState.CLOSED),
        ("Unknown", QueueState.OPEN),
        ("", QueueState.OPEN),
        (None, QueueState.OPEN),
    ],
)
def test_a_closed_queue_starts_nothing(state: str | None, expected: QueueState) -> None:
    assert _read(status={"state": state, "allocated": {"cpu": "nonsense"}}).queue.state is expected


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"weight": 0}, "spec.weight: expected `int` >= 1"),
        ({"weight": -3}, "spec.weight: expected `int` >= 1"),
        ({"weight": 10**30}, "spec.weight: "),
        ({"weight": "2"}, "spec.weight: expected `int`, got `str`"),
        ({"weight": 1.5}, "spec.weight: expected `int`, got `float`"),
        ({"priority": -1}, "spec.priority: expected `int` >= 0"),
        ({"parent": 5}, "spec.parent: expected `str`, got `int`"),
        ({"parent": "q"}, 'spec.parent: Invalid value: "q": a queue cannot be its own parent'),
        ({"dequeueStrategy": "lifo"}, "spec.dequeueStrategy: invalid enum value 'lifo'"),
        ({"capability": {"cpu": "-1"}}, 'spec.capability[cpu]: Invalid value: "-1": must not be negative'),
        ({"capability": {"cpu": "many"}}, 'spec.capability[cpu]: Invalid value: "many": quantities must match'),
        ({"capability": {"cpu": ""}}, "spec.capability[cpu]: Invalid value"),
        ({"capability": {"cpu": "1e999"}}, "spec.capability[cpu]: Invalid value"),
        ({"capability": {"cpu": 10**40}}, "spec.capability"),
        ({"capability": {"": 1}}, 'spec.capability[]: Invalid value: "": not the name of a resource'),
        ({"capability": {"*": 1}}, 'spec.capability[*]: Invalid value: "*": not the name of a resource'),
        ({"capability": [1]}, "spec.capability: expected `object | null`, got `array`"),
        ({"guarantee": {"resource": {"cpu": 3}}, "capability": {"cpu": 2}}, "must not be more than spec.capability"),
        ({"guarantee": {"resource": {"cpu": 3}}, "deserved": {"cpu": 2}}, "must not be more than spec.deserved"),
        ({"deserved": {"memory": "2Gi"}, "capability": {"memory": "1Gi"}}, "which is 1Gi"),
    ],
)
def test_a_queue_that_makes_no_sense_is_held_and_says_why(spec: dict[str, Any], problem: str) -> None:
    record = _read(**spec)
    assert problem in record.problem
    assert record.queue == Queue("q", parent="root", state=QueueState.HOLD)


def test_root_below_another_is_held() -> None:
    record = _read("root", parent="team")
    assert "above all others" in record.problem
    assert record.queue.parent is None


def test_many_problems_are_one_message_of_reasonable_length() -> None:
    record = _read(capability={f"r{number}": "x" * 1000 for number in range(100)})
    assert record.problem.endswith("; and 95 more")
    assert len(record.problem) < 2000


def test_a_long_value_is_not_repeated_in_full() -> None:
    record = _read(dequeueStrategy="x" * 100_000)
    assert record.problem.startswith("spec.dequeueStrategy: invalid enum value")
    assert len(record.problem) < 300


def test_a_gang_default_that_cannot_be_read_holds_the_queue() -> None:
    record = _read(annotations={"allhands.dev/gang-by-default": "True"})
    assert record.problem == 'allhands.dev/gang-by-default: "True" is neither "true" nor "false"'
    assert record.queue.state is QueueState.HOLD


def test_an_expected_duration_that_cannot_be_read_is_left_out() -> None:
    record = _read(annotations={"allhands.dev/expected-duration": "soon"}, weight=2)
    assert (record.problem, record.queue.state, record.queue.weight_millis) == ("", QueueState.OPEN, 2000)
    assert record.notes[0].startswith('allhands.dev/expected-duration: "soon" is not a duration')


def test_what_is_not_used_is_said() -> None:
    record = _read(affinity={"nodeGroupAffinity": {}}, extendClusters=[{"name": "far"}], type="x")
    assert [note.partition(":")[0] for note in record.notes] == ["spec.extendClusters"]
    assert record.node_groups is None
    assert record.queue.state is QueueState.OPEN


def test_a_closed_parent_that_is_held_keeps_its_place_in_the_tree() -> None:
    assert _read(parent="team", capability={"cpu": "x"}).queue.parent == "team"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["weight", "capability", "guarantee", "resource", "parent", "cpu", "state", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.none() | st.dictionaries(st.sampled_from(["state", "allocated"]), st.none() | st.text(max_size=4)),
)
@settings(max_examples=examples(200))
def test_no_object_that_a_server_could_store_is_lost(spec: Any, status: Any) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "q"}, "spec": spec, "status": status})
    record = read_queue(raw)
    assert record.queue.name == "q"
    assert bool(record.problem) == (record.queue.state is QueueState.HOLD)
