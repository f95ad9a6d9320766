"""What is wrong with objects that no arithmetic could bear, or that contradict each other.

Each is set aside with a reason, and only what is safe of it is used. Nothing here raises, and nothing is mended: an
object that is not absurd passes as it is.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.core.columns import ABSURD_UNITS
from allhands.core.snapshot import SetAside
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.shape import PodShape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.entries import Predicted
    from allhands.core.pod_state import PodState
    from allhands.model.node import Node

MOST_PREDICTED: Final = 10_000_000
_NUMBERS: Final = (
    "priority",
    "created_at_seconds",
    "expected_duration_seconds",
    "start_timeout_seconds",
    "min_run_seconds",
    "deadline_seconds",
    "not_before_seconds",
    "grace_seconds",
    "max_wait_seconds",
)
_STATUS_NUMBERS: Final = (
    "admitted_at_seconds",
    "started_at_seconds",
    "failed_starts",
    "retry_at_seconds",
    "preempting_since_seconds",
)


_numbers_of = operator.attrgetter(*_NUMBERS)
_status_numbers_of = operator.attrgetter(*_STATUS_NUMBERS)


class GroupObject(NamedTuple):
    group: PodGroup
    status: GroupStatus
    predicted: tuple[Predicted, ...]
    problem: Explanation | None
    waits_for: Explanation | None = None


def set_aside(kind: str, name: str, problem: str) -> SetAside:
    return SetAside(kind, name, explain(Reason.INVALID, problem=problem))


def node_problem(node: Node) -> SetAside | None:
    for name, units in node.allocatable.entries:
        if not 0 <= units < ABSURD_UNITS:
            problem = f"Its allocatable {name} of {units} is not between 0 and {ABSURD_UNITS - 1}."
            return set_aside("Node", node.name, problem)
    return None


def group_object(
    group: PodGroup,
    status: GroupStatus,
    predicted: tuple[Predicted, ...],
    known_problem: str = "",
    waits_for: Explanation | None = None,
) -> GroupObject:
    problem = _group_problem(group, status) or _predicted_problem(predicted) or known_problem
    if not problem:
        return GroupObject(group, status, predicted, None, waits_for)
    said = GroupStatus(said=status.said)
    return GroupObject(_bare_group(group), said, (), explain(Reason.INVALID, problem=problem))


def _group_problem(group: PodGroup, status: GroupStatus) -> str | None:
    """What about a group no arithmetic could bear; then only its name and its queue may be used."""
    said = () if status is NO_STATUS else _status_numbers_of(status)
    for names, numbers in ((_NUMBERS, _numbers_of(group)), (_STATUS_NUMBERS if said else (), said)):
        for name, number in zip(names, numbers, strict=True):
            if number is not None and not -ABSURD_UNITS < number < ABSURD_UNITS:
                return f"Its {name} of {number} is absurd."
    for name, number in group.features:
        if not -ABSURD_UNITS < number < ABSURD_UNITS:
            return f'Its feature "{name}" of {number} is absurd.'
    return _structure_problem(group.members)


@functools.lru_cache(maxsize=1 << 10)
def _structure_problem(members: SubGroup) -> str | None:
    """Thousands of groups have the same structure."""
    for part in members.walk():
        counts = [part.min_count, part.max_count or 0, *(it.min_count for it in part.task_minimums)]
        if part.topology is not None:
            counts.append(part.topology.highest_tier or 0)
        if absurd := [count for count in counts if not -ABSURD_UNITS < count < ABSURD_UNITS]:
            return f'Sub-group "{part.name}" has the absurd number {absurd[0]}.'
    return None


def _predicted_problem(predicted: tuple[Predicted, ...]) -> str | None:
    for expected in predicted:
        if expected.count > MOST_PREDICTED:
            return f"It has {expected.count} pods to come, more than {MOST_PREDICTED}."
        try:
            PodShape.of(expected.pod, None)
        except OverflowError:
            return "A pod that is to come has a number beyond 64 bits."
    return None


def _bare_group(group: PodGroup) -> PodGroup:
    """The group without its numbers, for one that is set aside."""
    return PodGroup(group.namespace, group.name, group.queue, group.uid, members=SubGroup(), accounts=group.accounts)


def without_doubles(members: Iterable[PodState]) -> tuple[dict[str, PodState], tuple[SetAside, ...]]:
    """The API has one pod of a name: the youngest. Of others nobody has said yet that they are gone."""
    by_name: dict[str, PodState] = {}
    ordered = sorted(members, key=lambda it: (it.pod.created_at_seconds, it.pod.uid), reverse=True)
    doubles = tuple(
        set_aside("Pod", state.pod.key, f'A younger pod has its name; this one has the uid "{state.pod.uid}".')
        for state in ordered
        if by_name.setdefault(state.pod.key, state) is not state
    )
    return {state.pod.uid: state for state in by_name.values()}, doubles
