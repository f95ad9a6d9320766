"""From a pod-group and its pods to a GroupEntry: who waits, who counts, who holds room, and what is wrong with it.

Only `World` calls this, for groups that changed. It looks at one group alone and never at nodes or queues.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import TYPE_CHECKING

import msgspec

from allhands.core.columns import ABSURD_UNITS
from allhands.core.snapshot import GroupEntry, Members, PodRef
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import PODS, ResourceVector
from allhands.model.shape import PodShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allhands.core.pod_state import PodState

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DIGITS = re.compile(r"(\d{1,300})")


class Predicted(msgspec.Struct, frozen=True):
    """Members that will be created once the group is admitted: so many pods like this one."""

    slot: Slot
    pod: Pod
    count: int


def _turn(pod: Pod) -> int:
    """When it comes among the members of its group: the higher its rank, the earlier."""
    return -pod.priority if pod.rank is None else -pod.rank


def lone_group(pod: Pod) -> PodGroup:
    """The group of one that a pod without a group is."""
    return PodGroup(
        namespace=pod.namespace,
        name=f"pod:{pod.name}",
        queue="",
        uid=pod.uid,
        priority=pod.priority,
        created_at_seconds=pod.created_at_seconds,
    )


def is_lone_group_of(group: PodGroup, pod: Pod) -> bool:
    """Whether a group that `lone_group` has given is the one of this pod, which has the name of the one it was for."""
    return (
        group.uid == pod.uid and group.priority == pod.priority and group.created_at_seconds == pod.created_at_seconds
    )


def missing_group(key: str, members: Mapping[str, PodState], status: GroupStatus = NO_STATUS) -> GroupEntry:
    """Pods may be seen before the group that they name: they wait, and say for what."""
    namespace, _, name = key.partition("/")
    group = PodGroup(namespace, name, queue="", members=SubGroup(min_count=len(members)))
    problem = explain(Reason.INVALID, problem=f'Pod-group "{key}" does not exist.')
    entry = build_entry(group, status, members, (), lambda pod: PodShape.of(pod, None))
    return msgspec.structs.replace(entry, problem=problem)


def build_entry(
    group: PodGroup,
    status: GroupStatus,
    members: Mapping[str, PodState],
    predicted: tuple[Predicted, ...],
    shape_of: Callable[[Pod], PodShape],
) -> GroupEntry:
    if len(members) == 1 and not predicted:
        (only,) = members.values()
        if (entry := _entry_of_one(group, status, only)) is not None:
            return entry
    pending: dict[tuple[int, Slot, str], list[PodRef]] = {}
    shapes: dict[str, PodShape] = {}
    gated: dict[str, int] = {}
    present: dict[Slot, int] = {}
    bound: list[tuple[str, str, int, str]] = []
    holding: dict[str, int] = {}
    leaving: list[tuple[str, str, int]] = []
    existing: dict[Slot, int] = {}
    unstarted, never_preempts = 0, False
    for state in members.values():
        pod, slot, phase = state.pod, state.slot, state.pod.phase
        is_here, is_bound = state.node_row >= 0, bool(pod.node_name or state.assumed_node)
        if is_here and is_bound:
            for name, units in state.shape.requests.entries:
                holding[name] = holding.get(name, 0) + units
            holding[PODS] = holding.get(PODS, 0) + 1
        if phase is PodPhase.SUCCEEDED:
            present[slot] = present.get(slot, 0) + 1
            existing[slot] = existing.get(slot, 0) + 1
        elif phase is PodPhase.FAILED:
            continue
        elif pod.deleting or state.evicted:
            if is_here:
                leaving.append((pod.key, pod.uid, state.row))
        elif is_bound:
            existing[slot] = existing.get(slot, 0) + 1
            if is_here:
                present[slot] = present.get(slot, 0) + 1
                bound.append((pod.key, pod.uid, state.row, slot.subgroup))
                unstarted += phase is not PodPhase.RUNNING
        elif state.ours:
            existing[slot] = existing.get(slot, 0) + 1
            if pod.scheduling_gates:
                for gate in pod.scheduling_gates:
                    gated[gate] = gated.get(gate, 0) + 1
            else:
                never_preempts |= pod.preemption_policy_never
                shapes[state.shape.digest] = state.shape
                pending.setdefault((_turn(pod), slot, state.shape.digest), []).append(PodRef(pod.key, pod.uid))
    if predicted and status.admitted_at_seconds is not None and _have_outgrown(pending, shapes, predicted):
        # What it was promised is not what it needs, so it is decided anew.
        status = msgspec.structs.replace(status, admitted_at_seconds=None)
    for expected, refs in _yet_to_come(group.key, predicted, existing) if predicted else ():
        # Whatever is yet to be made for a pod cannot be asked for before the pod is there.
        pod = msgspec.structs.replace(expected.pod, uid="") if expected.pod.ephemeral_claims else expected.pod
        shape = shape_of(pod)
        never_preempts |= expected.pod.preemption_policy_never
        shapes[shape.digest] = shape
        pending.setdefault((_turn(pod), expected.slot, shape.digest), []).extend(refs)
    waiting = tuple(
        Members(slot, shapes[digest], tuple(sorted(refs, key=_rank) if len(refs) > 1 else refs))
        for (_, slot, digest), refs in sorted(pending.items())
    )
    bound.sort()
    leaving.sort()
    problem = _problem(group, waiting)
    in_order = tuple(sorted(present.items())) if len(present) > 1 else tuple(present.items())
    held_back = tuple(sorted(gated.items())) if gated else ()
    is_alone = bool(bound) or bool(status.avoid_nodes) or problem is not None
    return GroupEntry(
        group=group,
        pending=waiting,
        gated=held_back,
        present=in_order,
        bound=tuple(row for _, _, row, _ in bound),
        bound_parts=tuple(part for _, _, _, part in bound),
        leaving=tuple(row for _, _, row in leaving),
        holding=tuple(sorted(holding.items())),
        unstarted=unstarted,
        is_whole=_is_whole(group.members, present),
        status=status,
        problem=problem,
        never_preempts=never_preempts,
        # What a group already has binds it to a place, so such a group is like no other.
        signature=_signature(group, waiting, in_order, held_back, never_preempts, group.key if is_alone else ""),
    )


def _entry_of_one(group: PodGroup, status: GroupStatus, state: PodState) -> GroupEntry | None:
    """What the rest of `build_entry` comes to for one pod that waits, or has its node; None for all others. Where
    thousands of pods stand alone, this is what each change of them costs."""
    pod, slot, phase, structure = state.pod, state.slot, state.pod.phase, group.members
    is_plain = not (structure.children or structure.task_minimums or pod.deleting or state.evicted)
    if not is_plain or phase is PodPhase.SUCCEEDED or phase is PodPhase.FAILED:
        return None
    if pod.node_name or state.assumed_node:
        return None if state.node_row < 0 else _entry_of_one_bound(group, status, state)
    if not state.ours or pod.scheduling_gates or state.node_row >= 0:
        return None
    waiting = (Members(slot, state.shape, (PodRef(pod.key, pod.uid),)),)
    problem, never = _problem(group, waiting), pod.preemption_policy_never
    alone = group.key if status.avoid_nodes or problem is not None else ""
    return GroupEntry(
        group=group,
        pending=waiting,
        is_whole=structure.min_count <= 0,
        status=status,
        problem=problem,
        never_preempts=never,
        signature=_signature(group, waiting, (), (), never, alone),
    )


def _entry_of_one_bound(group: PodGroup, status: GroupStatus, state: PodState) -> GroupEntry:
    slot = state.slot
    present = ((slot, 1),)
    is_counted = slot.subgroup == group.members.name
    return GroupEntry(
        group=group,
        present=present,
        bound=(state.row,),
        bound_parts=(slot.subgroup,),
        holding=_held_by_one(state.shape.requests.entries),
        unstarted=int(state.pod.phase is not PodPhase.RUNNING),
        is_whole=is_counted >= group.members.min_count,
        status=status,
        signature=_signature(group, (), present, (), False, group.key),
    )


@functools.lru_cache(maxsize=1 << 12)
def _held_by_one(requests: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    holding = dict(requests)
    holding[PODS] = holding.get(PODS, 0) + 1
    return tuple(sorted(holding.items()))


def _is_whole(members: SubGroup, present: Mapping[Slot, int]) -> bool:
    if members.children or members.task_minimums:
        return members.is_whole(present)
    # Nearly every group: one part, one minimum.
    return sum(count for slot, count in present.items() if slot.subgroup == members.name) >= members.min_count


def _yet_to_come(
    key: str, predicted: tuple[Predicted, ...], existing: Mapping[Slot, int]
) -> Iterator[tuple[Predicted, list[PodRef]]]:
    """Of the predicted members, those that do not exist yet, each with a name that no other has."""
    left, numbered = dict(existing), dict[Slot, int]()
    for expected in predicted:
        slot = expected.slot
        made = min(left.get(slot, 0), max(expected.count, 0))
        left[slot] = left.get(slot, 0) - made
        if expected.count > made:
            first = numbered.get(slot, 0)
            numbered[slot] = first + expected.count - made
            names = (f"{key}#{slot.subgroup}/{slot.task}/{number}" for number in range(first, numbered[slot]))
            yield expected, [PodRef(name, "") for name in names]


def _have_outgrown(
    pending: Mapping[tuple[int, Slot, str], object], shapes: Mapping[str, PodShape], predicted: tuple[Predicted, ...]
) -> bool:
    """Whether a pod asks for more of anything than was predicted for its slot."""
    expected: dict[Slot, ResourceVector] = {}
    for it in predicted:
        expected[it.slot] = expected.get(it.slot, it.pod.requests).max(it.pod.requests)
    return any(slot in expected and not shapes[digest].requests.fits(expected[slot]) for _, slot, digest in pending)


def _rank(ref: PodRef) -> tuple[tuple[str, int], ...]:
    """Worker 10 comes after worker 9. The uid decides between equals."""
    parts = _DIGITS.split(ref.key)
    numbers = [(text, int(number)) for text, number in zip(parts[::2], [*parts[1::2], "-1"], strict=True)]
    return (*numbers, (ref.uid, 0))


def _problem(group: PodGroup, waiting: tuple[Members, ...]) -> Explanation | None:
    if not waiting:
        return None
    names = {part.name for part in group.members.walk()} if group.members.children else (group.members.name,)
    for members in waiting:
        if members.slot.subgroup not in names:
            problem = (
                f'Pod "{members.pods[0].key}" belongs to sub-group "{members.slot.subgroup}", which is not defined.'
            )
            return explain(Reason.INVALID, problem=problem)
        for name, units in members.shape.requests.entries:
            if not 0 <= units < ABSURD_UNITS:
                problem = (
                    f'Pod "{members.pods[0].key}" asks for {units} of {name}: not between 0 and {ABSURD_UNITS - 1}.'
                )
                return explain(Reason.INVALID, problem=problem)
    return None


def _signature(
    group: PodGroup,
    waiting: tuple[Members, ...],
    present: tuple[tuple[Slot, int], ...],
    gated: tuple[tuple[str, int], ...],
    never_preempts: bool,
    alone: str,
) -> str:
    asked = tuple((members.slot, members.shape.digest, len(members.pods)) for members in waiting)
    return _digest(
        (
            group.queue,
            group.namespace,
            group.identity.user,
            group.charged_accounts,
            group.expected_duration_seconds,
            _structure(group.members),
            asked,
            present,
            gated,
            never_preempts,
            alone,
        )
    )


@functools.lru_cache(maxsize=1 << 12)
def _structure(members: SubGroup) -> bytes:
    return _ENCODER.encode(members)


@functools.lru_cache(maxsize=1 << 16)
def _digest(parts: tuple[object, ...]) -> str:
    return hashlib.blake2b(_ENCODER.encode(parts), digest_size=12).hexdigest()
