"""Why a group does not start, in numbers that its owner can check. One place makes every sentence about room.

It looks and never changes anything: whatever it tries is rolled back. It is asked once per kind of group and cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.actions.nested import has_inner_rules, why_not_nested
from allhands.core.actions.placing import all_but, avoided_nodes
from allhands.core.extension import SCORE_SCALE
from allhands.core.feasibility.volume_needs import VolumeProblem
from allhands.core.topology.search import why_not
from allhands.model.node_groups import said_by
from allhands.model.podgroup import TopologyMode
from allhands.model.reason import AVOIDED, HELD_BY_OTHERS, NODE_GROUPS, Explanation, Reason, explain
from allhands.model.resources import text_of_units

if TYPE_CHECKING:
    from allhands.core.columns import Rows
    from allhands.core.gang import Part
    from allhands.core.shapes import ShapeState
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.podgroup import Shortfall, TopologyRule

NAMES_LISTED: Final = 8
UNSERVED_CLAIMS: Final = "A pod has resource claims, which are not served yet."
PARTS_APART: Final = (
    '{have} of its {need} sub-groups find places in domains as they ask; "{without}" waits for one beside them.'
)
OTHERS_APART: Final = "Its sub-groups find places in domains as they ask, but the other pods find none beside them."
WHOLE_INCOMPLETE: Final = "It has {have} of the {need} {what} that it must start with."
NO_ROOM: Final = Explanation(Reason.INSUFFICIENT_RESOURCES, "There is no room for it.")
"""Where nobody asks for numbers."""
HELD_BY_PODS: Final = frozenset(
    (VolumeProblem.ONE_POD_ONLY, VolumeProblem.DISK_IN_USE, VolumeProblem.TOO_MANY_ATTACHED)
)
"""What is wrong with a volume only as long as other pods have it."""


def why_incomplete(entry: GroupEntry) -> Explanation:
    """Its members do not suffice, wherever they were placed."""
    waiting = sum(len(members.pods) for members in entry.pending)
    gated = sum(count for _, count in entry.gated)
    here = sum(count for _, count in entry.present)
    if gated:
        gates = ", ".join(gate for gate, _ in entry.gated)
        return explain(Reason.SCHEDULING_GATED, gated=gated, total=waiting + gated + here, gates=gates)
    counts = entry.present_counts
    for members in entry.pending:
        counts[members.slot] = counts.get(members.slot, 0) + len(members.pods)
    lacking = entry.group.members.shortfalls(counts)
    if not lacking:
        # All together would do, but some belong to sub-groups that are not whole even with all of theirs.
        lacking = tuple(it for part in entry.group.members.walk() for it in part.shortfalls(counts))
    inner = [shortfall for shortfall in lacking if shortfall.subgroup or shortfall.task]
    if inner:
        return shortfall_words(inner[0], entry.group.name)
    return explain(Reason.GANG_INCOMPLETE, have=waiting + here, need=entry.group.required_count)


def shortfall_words(lacking: Shortfall, group: str) -> Explanation:
    what = f'pods of task "{lacking.task}"' if lacking.task else lacking.what
    name = lacking.subgroup or group
    why = explain(Reason.SUB_GROUP_INCOMPLETE, subgroup=name, have=lacking.have, need=lacking.need, what=what)
    return why if lacking.subgroup else Explanation(why.reason, WHOLE_INCOMPLETE, why.numbers)


def reason_for_no_room(work: Work, entry: GroupEntry, part: Part) -> Explanation:
    """The same as `why_no_room` as far as anybody decides by it: whether it could have room at all. Without numbers."""
    for take in part.all_takes():
        if (why := why_nowhere(work, work.state(entry.pending[take.members].shape))) is not None:
            return why
    return NO_ROOM


def why_no_room(work: Work, entry: GroupEntry, part: Part, within: Rows | None) -> Explanation:
    """Its queues allow it, but there is no room for all of it together."""
    shapes: dict[str, tuple[ShapeState, int]] = {}
    for take in part.all_takes():
        state = work.state(entry.pending[take.members].shape)
        shapes[state.shape.digest] = (state, shapes.get(state.shape.digest, (state, 0))[1] + take.number)
    for state, _ in shapes.values():
        if (why := why_nowhere(work, state)) is not None:
            return why
    avoided = avoided_nodes(work, entry)
    if not avoided:
        return _why_too_little_here(work, entry, part, list(shapes.values()), within)
    within = all_but(work, avoided, within)
    why = _why_too_little_here(work, entry, part, list(shapes.values()), within)
    return why.with_more(AVOIDED, avoided=", ".join(avoided[:NAMES_LISTED]))


def _why_too_little_here(
    work: Work, entry: GroupEntry, part: Part, shapes: list[tuple[ShapeState, int]], within: Rows | None
) -> Explanation:
    rule = _hard_rule(part)
    if rule is None:
        return _why_too_little(work, shapes, within)
    if has_inner_rules(part) and len(work.topology):
        why = why_not_nested(work, entry, part, within)
        if why.reason is Reason.SUB_GROUP_INCOMPLETE:
            return Explanation(Reason.TOPOLOGY, PARTS_APART if why.number("without") else OTHERS_APART, why.numbers)
    else:
        why = _why_no_domain(work, entry, rule, shapes, within)
    if why.reason is not Reason.TOPOLOGY or int(why.number("fits")) < (need := int(why.number("need"))):
        return why
    # By count a domain holds it, but not with respect to other pods, or not all kinds of its pods at once.
    if any(state.is_dynamic for state, _ in shapes):
        return _why_beside_others(work, shapes, need - 1)
    return Explanation(why.reason, why.message, tuple(sorted({**dict(why.numbers), "fits": need - 1}.items())))


def _hard_rule(part: Part) -> TopologyRule | None:
    """The outermost of its rules that must be met."""
    if part.rule is not None and part.rule.mode is TopologyMode.HARD:
        return part.rule
    return next((rule for child in part.children if (rule := _hard_rule(child)) is not None), None)


def _why_no_domain(
    work: Work, entry: GroupEntry, rule: TopologyRule, shapes: list[tuple[ShapeState, int]], within: Rows | None
) -> Explanation:
    fits = np.array([state.fit(work.room) for state, _ in shapes])
    if within is not None:
        outside = np.ones(fits.shape[1], dtype=np.bool_)
        outside[within] = False
        fits[:, outside] = 0
    needs = [count for _, count in shapes]
    bound = [int(work.snapshot.pods.node[row]) for row in entry.bound]
    return why_not(work.topology, rule, work.topology.sums(fits), needs, bound=bound)


def why_nowhere(work: Work, state: ShapeState) -> Explanation | None:
    """Not even on an empty cluster."""
    columns = work.snapshot.columns
    if state.shape.resource_claims:
        return Explanation(Reason.DEVICE_NOT_AVAILABLE, UNSERVED_CLAIMS)
    for name, units in state.shape.requests.entries:
        column = columns.column_by_resource.get(name)
        largest = int(columns.allocatable[column].max()) if column is not None and len(columns) else 0
        if units > largest:
            return explain(
                Reason.NEVER_FITS,
                request=text_of_units(name, units),
                resource=name,
                largest=text_of_units(name, largest),
            )
    usable = work.usable_nodes(state.shape)
    if not usable.any():
        return work.why_no_node(state.shape)
    why = work.neighbours.volumes.why(state.shape, usable)
    return None if why is None or why.number("problem") in HELD_BY_PODS else why


def _why_too_little(work: Work, shapes: list[tuple[ShapeState, int]], within: Rows | None) -> Explanation:
    """As many are placed as fit, the largest first, to see what the next one lacks."""
    ordered = sorted(shapes, key=lambda it: (work.size_of(it[0].shape), it[0].shape.digest), reverse=True)
    need = sum(count for _, count in shapes)
    fits, beside_others, lacking = 0, False, None
    mark = work.statement.mark()
    for state, count in ordered:
        placed = len(work.place(state, count, within, partly=True))
        fits += placed
        if placed < count and lacking is None:
            fit = state.fit(work.room)
            beside_others = state.is_dynamic and bool((fit if within is None else fit[within]).any())
            lacking = _scarcest(work, state, count - placed, within)
    work.statement.rollback(mark)
    if beside_others or (lacking is None and any(state.is_dynamic for state, _ in shapes)):
        return _why_beside_others(work, shapes, min(fits, need - 1))
    resource, short = lacking or _scarcest(work, ordered[0][0], 1, within)
    why = explain(
        Reason.INSUFFICIENT_RESOURCES,
        fits=min(fits, need - 1),
        need=need,
        resource=resource,
        short=text_of_units(resource, short),
    )
    groups = said_by(ordered[0][0].shape.node_affinity)
    return why.with_more(NODE_GROUPS, groups=groups) if groups else why


def _why_beside_others(work: Work, shapes: list[tuple[ShapeState, int]], fits: int) -> Explanation:
    """Where other pods are is in the way; or what they have, where that is known."""
    why = explain(Reason.AFFINITY, fits=fits, need=sum(count for _, count in shapes))
    for state, _ in shapes:
        held = work.neighbours.volumes.why(state.shape)
        if held is not None:
            return why.with_more(HELD_BY_OTHERS, **dict(held.numbers))
    return why


def _scarcest(work: Work, state: ShapeState, missing: int, within: Rows | None) -> tuple[str, int]:
    """The resource of which most nodes lack enough for one more pod, and how much the missing pods ask of it."""
    columns = work.snapshot.columns
    rows = np.flatnonzero(state.static) if within is None else within[state.static[within]]
    lacking = []
    for column, units in state.request:
        name = columns.resources[column]
        share = units * SCORE_SCALE // max(1, work.total.get(name))
        lacking.append((int(np.count_nonzero(work.room.free[column, rows] < units)), share, name, units))
    _, _, name, units = max(lacking)
    return name, units * missing
