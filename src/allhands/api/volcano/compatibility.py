"""What becomes of each field of Volcano's kinds here: the rows of a table in the documentation, from the schemas.

A field that means what it means there needs no word; every other one is listed with what is different. A test holds the
list against the schemas, so that no row outlives its field.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.lifecycle_policy import (
    ACTIONS_OF_COMMANDS,
    ACTIONS_OF_USERS,
    EVENTS_OF_USERS,
    Action,
    Event,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest


class State(enum.StrEnum):
    """What a user who comes from Volcano must know of a field."""

    SAME = "same"
    MORE = "more"
    """It does what it does there, and what it should do there."""
    STRICTER = "stricter"
    """Something that makes no sense is refused instead of ignored."""
    KEPT = "kept"
    """It is stored and shown, and nothing reads it."""
    OURS = "ours"
    """Volcano does not have it."""
    REFUSED = "refused"
    """It is a word of Volcano's own controllers, and nobody else may use it, as there."""


class FieldRow(NamedTuple):
    kind: str
    path: str
    state: State
    note: str


_HARD: Final = "`hard` without a tier is refused; Volcano ignores the limit"
_ACTION: Final = "must be named for an exit code too; RestartPartition needs partitions"
_CODE: Final = "from 1 to 255"
_NUMA: Final = "the scheduler does not look at NUMA nodes"
DIFFERENCES: Final[dict[tuple[str, str], tuple[State, str]]] = {
    ("Job", "spec.schedulerName"): (
        State.MORE,
        "without one it is the scheduler that serves: `allhands`, not `volcano`",
    ),
    ("Job", "spec.runningEstimate"): (State.MORE, "feeds backfill and the expected start; Volcano does not read it"),
    ("Job", "spec.plugins"): (State.MORE, "also `jax` and `horovod`"),
    ("Job", "spec.networkTopology.mode"): (State.STRICTER, _HARD),
    ("Job", "spec.tasks[].dependsOn"): (State.MORE, "works together with gangs"),
    ("Job", "spec.tasks[].dependsOn.iteration"): (
        State.STRICTER,
        "only `any` and `all`; Volcano takes all else as `all`",
    ),
    ("Job", "spec.tasks[].replicas"): (State.STRICTER, "a Job has at most 100,000 pods"),
    ("Job", "spec.tasks[].topologyPolicy"): (State.KEPT, f"whole CPUs are asked for, as there; {_NUMA} yet"),
    ("Job", "spec.tasks[].partitionPolicy.networkTopology.mode"): (State.STRICTER, _HARD),
    ("Job", "spec.policies[].action"): (State.STRICTER, _ACTION),
    ("Job", "spec.tasks[].policies[].action"): (State.STRICTER, _ACTION),
    ("Job", "spec.policies[].exitCode"): (State.STRICTER, _CODE),
    ("Job", "spec.tasks[].policies[].exitCode"): (State.STRICTER, _CODE),
    ("Job", "spec.tasks[].dependsOn.name"): (State.STRICTER, "each name once"),
    ("Job", "spec.minSuccess"): (State.STRICTER, "not more than all replicas together"),
    ("Job", "spec.policies[].timeout"): (State.STRICTER, "not below zero"),
    ("Job", "spec.volumes[].volumeClaim"): (State.STRICTER, "a claim that the server would refuse is refused at once"),
    ("CronJob", "spec.jobTemplate"): (State.STRICTER, "checked like a Job when it comes, not when it is time"),
    ("CronJob", "spec.failedJobsHistoryLimit"): (
        State.MORE,
        "Jobs that were terminated count too; in Volcano they stay for ever",
    ),
    ("Command", "action"): (
        State.STRICTER,
        "what no Job or queue does is refused, such as RestartTask without a task; Volcano ignores it",
    ),
    ("PodGroup", "spec.networkTopology.mode"): (State.STRICTER, _HARD),
    ("PodGroup", "spec.subGroupPolicy[].networkTopology.mode"): (State.STRICTER, _HARD),
    ("Queue", "spec.dequeueStrategy"): (State.MORE, "is read; in Volcano it only stands there"),
    ("Queue", "spec.type"): (State.KEPT, "nothing reads it there either"),
    ("Queue", "spec.extendClusters"): (State.KEPT, "one cluster is served"),
    ("Queue", "status.reservation"): (State.KEPT, "nothing locks nodes for a queue"),
    ("Queue", "status.conditions"): (State.OURS, "`Accepted`: whether the queue makes sense, and if not, why"),
    ("JobFlow", "spec.flows[].dependsOn.targets"): (State.MORE, "also `job.batch/NAME`, a Job of batch/v1"),
    ("JobFlow", "spec.flows[].dependsOn.probe"): (State.MORE, "is asked; in Volcano it only stands there"),
    ("JobFlow", "spec.flows[].patch.jobSpec"): (
        State.MORE,
        "goes over the template, things with names by their names; in Volcano it only stands there",
    ),
    ("JobFlow", "status.state.reason"): (State.OURS, "why it does not go on, for programs"),
    ("JobFlow", "status.state.message"): (State.OURS, "why it does not go on, for people"),
    ("HyperNode", "spec.members[].selector"): (State.STRICTER, "a member must have one; not itself"),
    ("HyperNode", "status.conditions"): (State.MORE, "`Accepted`: whether it makes sense; Volcano writes none"),
    ("HyperNode", "status.nodeCount"): (State.MORE, "with the nodes of the HyperNodes below"),
    ("Numatopology", "spec"): (State.KEPT, _NUMA),
    ("Numatopology", "status"): (State.OURS, "`Used`: whether the scheduler reads it"),
}
ACTIONS: Final[dict[Action, tuple[State, str]]] = {
    **dict.fromkeys(sorted(ACTIONS_OF_USERS | ACTIONS_OF_COMMANDS), (State.SAME, "")),
    Action.ABORT_JOB: (State.MORE, "also while it restarts"),
    Action.TERMINATE_JOB: (State.MORE, "also while it is aborted"),
    Action.RESUME_JOB: (State.MORE, "uses up no retry, and keeps what has succeeded"),
    Action.RESTART_JOB: (State.MORE, "with a longer and longer pause before each"),
    Action.RESTART_TASK: (State.MORE, "only its pods go, the group stays; not as a Command"),
    Action.RESTART_POD: (State.MORE, "only this pod goes, the group stays; not as a Command"),
    Action.RESTART_PARTITION: (State.STRICTER, "refused where there are no partitions; not as a Command"),
    Action.OPEN_QUEUE: (State.MORE, "not below a closed queue"),
}
EVENTS: Final[dict[Event, tuple[State, str]]] = {
    **dict.fromkeys(sorted(EVENTS_OF_USERS), (State.SAME, "")),
    Event.POD_EVICTED: (State.MORE, "also if no controller ran at that moment"),
    Event.JOB_UPDATED: (State.MORE, "it really comes"),
}
"""Those that are not named here are refused: words of controllers among themselves."""
_NOT_FOR_USERS: Final = (State.REFUSED, "a word of controllers among themselves")
_PARTS_OF_PODS: Final = frozenset({"template", "volumeClaim"})


def words() -> Iterator[FieldRow]:
    """Every action and every event that Volcano knows."""
    for action in Action:
        yield FieldRow("action", action.value, *ACTIONS.get(action, _NOT_FOR_USERS))
    for event in Event:
        yield FieldRow("event", event.value, *EVENTS.get(event, _NOT_FOR_USERS))


def rows() -> Iterator[FieldRow]:
    """Every field of every kind, in the order of its schema; those of pods and claims are not followed."""
    for definition in VOLCANO_KINDS:
        for path in paths(definition.stored_version.manifest()["schema"]["openAPIV3Schema"]):
            state, note = DIFFERENCES.get((definition.kind, path), (_inherited(definition.kind, path), ""))
            yield FieldRow(definition.kind, path, state, note)


def _inherited(kind: str, path: str) -> State:
    """What nothing is said of is as what it is a part of, if that is kept or ours, and else the same."""
    while "." in path:
        path = path.rpartition(".")[0].removesuffix("[]")
        state = DIFFERENCES.get((kind, path), (State.SAME, ""))[0]
        if state in (State.KEPT, State.OURS):
            return state
    return State.SAME


def paths(schema: Manifest, above: str = "") -> Iterator[str]:
    for name, field in (schema.get("properties") or {}).items():
        if not above and name in ("apiVersion", "kind", "metadata"):
            continue
        path = f"{above}{name}"
        yield path
        if name not in _PARTS_OF_PODS:
            yield from paths(field, f"{path}.")
            yield from paths(field.get("items") or {}, f"{path}[].")
            additional = field.get("additionalProperties")
            yield from paths(additional if isinstance(additional, dict) else {}, f"{path}[*].")
