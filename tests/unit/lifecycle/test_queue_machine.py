"""The machine of a queue's status: what it writes, when it waits, and what cannot stop it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allhands.api.volcano.queue import QUEUE, QueueState
from allhands.api.volcano.queue_rules import place_error
from allhands.controllers.watching import decoder
from allhands.lifecycle.command import CommandDocument, decode_command
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome, Patch, Record
from allhands.lifecycle.queue import Parent, Problem, QueueDocument, next_state, reconcile
from allhands.lifecycle.queue_tally import NO_USE, Phase, QueueUse
from allhands.model.resources import ResourceVector

NOW = 1_769_860_800.0
BUSY = QueueUse(((Phase.RUNNING, 2),), ResourceVector.of({"cpu": 1500, "memory": 1 << 30}))
_read = decoder(QueueDocument)


def _queue(status: Any = None, **metadata: Any) -> QueueDocument:
    named = {"name": "q", "generation": 3} | metadata
    return _read(json.dumps({"metadata": named, "spec": {}, "status": status}).encode())


def _look(queue: QueueDocument, use: QueueUse = NO_USE, now: float = NOW, **more: Any) -> Outcome:
    options = {"problem": None, "notes": (), "written_at_seconds": None} | more
    return reconcile(queue, use, use, options.pop("problem"), options.pop("notes"), now, **options)


def _written(outcome: Outcome) -> dict[str, Any]:
    (patch,) = outcome.instructions
    assert isinstance(patch, Patch)
    assert (patch.name, patch.namespace, patch.subresource) == ("q", "", "status")
    status: dict[str, Any] = patch.patch["status"]
    return status


def _after(queue: QueueDocument, outcome: Outcome) -> QueueDocument:
    return _queue({**queue.written, **_written(outcome)})


def test_the_first_look_writes_everything_and_the_second_nothing() -> None:
    queue = _queue()
    first = _look(queue, BUSY)
    assert _written(first) == {
        "state": "Open",
        "pending": 0,
        "inqueue": 0,
        "running": 2,
        "unknown": 0,
        "completed": 0,
        "allocated": {"cpu": "1500m", "memory": "1Gi"},
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Valid",
                "message": "The queue makes sense.",
                "lastTransitionTime": "2026-01-31T12:00:00Z",
                "observedGeneration": 3,
            }
        ],
    }
    assert _look(_after(queue, first), BUSY, NOW + 50) == NOTHING_TO_DO


def test_what_is_no_longer_held_is_taken_out_of_the_map() -> None:
    queue = _after(_queue(), _look(_queue(), BUSY))
    less = QueueUse(((Phase.RUNNING, 2),), ResourceVector.of({"cpu": 500}))
    assert _written(_look(queue, less, NOW + 50)) == {"allocated": {"memory": None, "cpu": "500m"}}


def test_between_two_writes_there_is_a_pause() -> None:
    queue = _after(_queue(), _look(_queue()))
    assert _look(queue, BUSY, NOW + 0.25, written_at_seconds=NOW) == Outcome(wake_at_seconds=NOW + 1)
    assert _look(queue, BUSY, NOW + 1, written_at_seconds=NOW).instructions
    assert _look(queue, BUSY, NOW + 3, written_at_seconds=NOW, pause_seconds=60) == Outcome(wake_at_seconds=NOW + 60)


def test_a_clock_that_was_set_back_does_not_make_it_wait_for_ever() -> None:
    queue = _after(_queue(), _look(_queue()))
    assert _look(queue, BUSY, NOW - 9999, written_at_seconds=NOW).instructions


def test_a_queue_that_is_going_is_left_alone() -> None:
    assert _look(_queue(deletionTimestamp="2026-01-31T12:00:00Z"), BUSY) == NOTHING_TO_DO


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    queue = _after(_queue(), _look(_queue()))
    broken = _look(queue, now=NOW + 60, problem=Problem("Invalid", "one thing"))
    (condition,) = _written(broken)["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("False", "2026-01-31T12:01:00Z")
    queue = _after(queue, broken)
    (condition,) = _written(_look(queue, now=NOW + 120, problem=Problem("Invalid", "another thing")))["conditions"]
    assert (condition["message"], condition["lastTransitionTime"]) == ("another thing", "2026-01-31T12:01:00Z")


@pytest.mark.parametrize(
    ("state", "groups", "expected"),
    [
        ("", 0, QueueState.OPEN),
        ("Unknown", 5, QueueState.OPEN),
        ("nonsense", 0, QueueState.OPEN),
        ("Open", 5, QueueState.OPEN),
        ("Closing", 5, QueueState.CLOSING),
        ("Closing", 0, QueueState.CLOSED),
        ("Closed", 0, QueueState.CLOSED),
        ("Closed", 1, QueueState.CLOSING),
    ],
)
def test_who_closed_a_queue_is_obeyed(state: str, groups: int, expected: QueueState) -> None:
    assert next_state(state, groups) is expected


@pytest.mark.parametrize(
    "status",
    [
        5,
        [],
        "x",
        {"conditions": 5},
        {"conditions": [5, None]},
        {"allocated": 5},
        {"allocated": None, "running": "many"},
        {"state": 5},
        {"state": []},
    ],
)
def test_a_status_that_somebody_spoiled_is_written_anew(status: Any) -> None:
    queue = _queue(status)
    written = _written(_look(queue, BUSY))
    assert (written["state"], written["running"], written["allocated"]["cpu"]) == ("Open", 2, "1500m")


@pytest.mark.parametrize("spec", [None, 5, [], {"parent": 5}, {"parent": None}, {}])
def test_a_spec_that_somebody_spoiled_has_the_usual_parent(spec: Any) -> None:
    assert _read(json.dumps({"metadata": {"name": "q"}, "spec": spec}).encode()).parent == "root"


def test_a_place_in_the_tree() -> None:
    chain = {f"q{number}": f"q{number + 1}" for number in range(20_000)} | {"q20000": "root", "root": None}
    assert place_error("q0", chain) is None
    assert place_error("q0", {"q0": "root"}) is None
    circle = chain | {"q20000": "q0"}
    error = place_error("q0", circle)
    assert error is not None
    assert len(str(error)) < 1000
    assert place_error("q5", chain | {"q20000": "nowhere"}) is not None


def _command(name: str, action: str, second: int = 0) -> CommandDocument:
    created = f"2026-01-31T11:00:{second:02}Z"
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "q", "uid": "u"}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": created}
    return decode_command(json.dumps({"metadata": metadata, "action": action, "target": target}).encode())


def test_a_command_is_obeyed_before_it_is_removed_and_the_last_word_counts() -> None:
    queue = _after(_queue(), _look(_queue(), BUSY))
    first, second = _command("b", "CloseQueue", 1), _command("a", "OpenQueue", 2)
    closed = _look(queue, BUSY, commands=[first])
    assert closed.instructions == (
        Patch(QUEUE.resource, "", "q", {"status": {"state": "Closing"}}, subresource="status"),
        first.removal(),
    )
    assert _look(queue, BUSY, commands=[second, first]).instructions == (first.removal(), second.removal())
    idle = _look(_queue({"state": "Open", "allocated": {}}), commands=[first])
    assert idle.instructions[0] == Patch(QUEUE.resource, "", "q", {"status": {"state": "Closed"}}, subresource="status")


def test_a_command_that_a_queue_does_not_know_is_told_about_and_removed() -> None:
    queue = _after(_queue(), _look(_queue()))
    unknown = _command("x", "RestartJob")
    told, removed = _look(queue, commands=[unknown]).instructions
    assert isinstance(told, Record)
    assert told.message == ('Command default/x: a queue knows no action "RestartJob", only OpenQueue and CloseQueue.')
    assert removed == unknown.removal()


def test_the_queue_above_all_others_stays_open() -> None:
    root = _queue({"state": "Open", "allocated": {}}, name="root")
    close = _command("x", "CloseQueue")
    told, removed = _look(root, commands=[close]).instructions
    assert isinstance(told, Record)
    assert told.message == "The queue root is above all others and stays open."
    assert removed == close.removal()


# -- with the queue above it

BY_PARENT = "volcano.sh/closed-by-parent"
SHUT, OPEN = Parent("up", "Closed"), Parent("up", "Open")


def _noted(word: str) -> dict[str, Any]:
    return {"annotations": {BY_PARENT: word}, "uid": "u"}


def _patches(outcome: Outcome) -> list[dict[str, Any]]:
    return [it.patch for it in outcome.instructions if isinstance(it, Patch)]


@pytest.mark.parametrize("state", ["Closed", "Closing"])
@pytest.mark.parametrize(("use", "end"), [(NO_USE, "Closed"), (BUSY, "Closing")])
def test_a_queue_closes_with_the_one_above_it_and_that_is_noted_first(state: str, use: QueueUse, end: str) -> None:
    queue = _queue({"state": "Open", "allocated": {}}, uid="u")
    outcome = _look(queue, use, parent=Parent("up", state))
    assert _patches(outcome) == [{"metadata": _noted("true")}, {"status": {"state": end}}]
    told = outcome.instructions[-1]
    assert isinstance(told, Record)
    assert told.message == f"It is closed because the queue up above it is {state}."


def test_a_queue_that_is_closed_with_the_one_above_it_is_at_rest() -> None:
    queue = _queue({"state": "Closed", "allocated": {}}, **_noted("true"))
    queue = _queue({**queue.written, **_written(_look(queue, parent=SHUT))}, **_noted("true"))
    assert _look(queue, parent=SHUT) == NOTHING_TO_DO


def test_a_queue_opens_with_the_one_above_it_if_it_was_closed_with_it() -> None:
    queue = _queue({"state": "Closed", "allocated": {}}, **_noted("true"))
    assert _patches(_look(queue, parent=OPEN)) == [{"status": {"state": "Open"}}, {"metadata": _noted("false")}]
    half = _queue({"state": "Open", "allocated": {}}, **_noted("true"))
    assert _patches(_look(half, parent=OPEN)) == [{"metadata": _noted("false")}], "it was stopped between the two"


@pytest.mark.parametrize("annotations", [{}, {BY_PARENT: "false"}])
def test_a_queue_that_its_owner_closed_stays_closed(annotations: dict[str, str]) -> None:
    queue = _queue({"state": "Closed", "allocated": {}}, annotations=annotations)
    assert "state" not in _written(_look(queue, parent=OPEN))


def test_whoever_closes_a_queue_that_is_closed_with_another_keeps_it_closed() -> None:
    queue = _queue({"state": "Closed", "allocated": {}}, **_noted("true"))
    assert _patches(_look(queue, parent=SHUT, commands=[_command("x", "CloseQueue")])) == [
        {"metadata": _noted("false")}
    ]


def test_a_queue_is_not_opened_below_one_that_is_closed() -> None:
    queue = _queue({"state": "Closed", "allocated": {}}, **_noted("true"))
    order = _command("x", "OpenQueue")
    told, removed = _look(queue, parent=SHUT, commands=[order]).instructions
    assert isinstance(told, Record)
    assert told.message == "It is not opened: the queue up above it is Closed. Open that one first."
    assert removed == order.removal()


@pytest.mark.parametrize("parent", [None, Parent("up", ""), Parent("root", "Closed")])
def test_nobody_follows_a_queue_that_is_not_known_or_is_above_all(parent: Parent | None) -> None:
    queue = _queue({"state": "Open", "allocated": {}})
    assert "state" not in _written(_look(queue, parent=parent))
