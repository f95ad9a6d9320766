"""Puts a group with sub-groups into domains: each part within its own tier, and all of them within that of the whole.

Which domain each part gets is planned by counting; each plan is tried out with real placement, and the next is taken if
it fails.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from allhands.core.actions.closely import Region
from allhands.core.topology.parts import PartDemand
from allhands.core.topology.spread import is_closest
from allhands.core.topology.subgroups import plan_subgroups, why_no_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.columns import Column, Rows
    from allhands.core.gang import Part, Take
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.podgroup import SubGroup
    from allhands.model.reason import Explanation


def has_inner_rules(part: Part) -> bool:
    return any(child.rule is not None or has_inner_rules(child) for child in part.children)


def place_nested(
    work: Work, entry: GroupEntry, part: Part, within: Rows | None, picks: list[tuple[Take, list[int]]]
) -> str | None:
    """The name of the outermost domain, "" for anywhere; None, and nothing placed, if it does not fit."""
    demand, fits = _demand(work, entry, part, within)
    for plan in islice(plan_subgroups(work.topology, demand, fits), work.policy.max_domains_tried):
        mark, before = work.statement.mark(), len(picks)
        if _place_as_planned(work, entry, part, plan, within, picks):
            domain = plan.get(part.name)
            return "" if domain is None else work.topology.domains[domain].name
        work.statement.rollback(mark)
        del picks[before:]
    return None


def why_not_nested(work: Work, entry: GroupEntry, part: Part, within: Rows | None) -> Explanation:
    demand, fits = _demand(work, entry, part, within)
    return why_no_plan(work.topology, demand, fits)


def _demand(work: Work, entry: GroupEntry, part: Part, within: Rows | None) -> tuple[PartDemand, Column]:
    numbers: dict[str, int] = {}
    columns: list[Column] = []
    for take in part.all_takes():
        shape = entry.pending[take.members].shape
        if shape.digest not in numbers:
            numbers[shape.digest] = len(columns)
            columns.append(work.state(shape).fit(work.room))
    fits = np.array(columns)
    if within is not None:
        outside = np.ones(fits.shape[1], dtype=np.bool_)
        outside[within] = False
        fits[:, outside] = 0
    return _part_demand(work, entry, part, numbers), fits


def _part_demand(work: Work, entry: GroupEntry, part: Part, numbers: Mapping[str, int]) -> PartDemand:
    needs: dict[int, int] = {}
    for take in part.takes:
        number = numbers[entry.pending[take.members].shape.digest]
        needs[number] = needs.get(number, 0) + take.number
    names = {below.name for below in _subgroup(entry, part.name).walk()}
    for child in part.children:
        names -= {below.name for below in _subgroup(entry, child.name).walk()}
    node = work.snapshot.pods.node
    bound = tuple(int(node[row]) for row, name in zip(entry.bound, entry.bound_parts, strict=True) if name in names)
    children = tuple(_part_demand(work, entry, child, numbers) for child in part.children)
    return PartDemand(part.name, tuple(needs.items()), part.rule, children, None, bound)


def _subgroup(entry: GroupEntry, name: str) -> SubGroup:
    return next(part for part in entry.group.members.walk() if part.name == name)


def _place_as_planned(
    work: Work,
    entry: GroupEntry,
    part: Part,
    plan: Mapping[str, int | None],
    within: Rows | None,
    picks: list[tuple[Take, list[int]]],
) -> bool:
    """Parts below it first, as it was planned: its own members may be anywhere in it, and must not take their room."""
    domain = plan.get(part.name)
    inside = Region(work, domain, within).rows
    if not all(_place_as_planned(work, entry, child, plan, inside, picks) for child in part.children):
        return False
    near: list[int] = []
    if part.takes and not is_closest(work.topology, domain):
        node = work.snapshot.pods.node
        near = [int(node[row]) for row in entry.bound] + [row for _, rows in picks for row in rows]
    region = Region(work, domain, within, near, None if part.rule is None else part.rule.tree)
    for take in part.takes:
        chosen = region.place(work.state(entry.pending[take.members].shape), take.number)
        if not chosen:
            return False
        picks.append((take, chosen))
    return True
