"""Puts one group on nodes: its parts into domains, its members onto nodes, all of what is asked for or nothing.

It tries and takes back inside the cycle's Statement, and never looks at queues, order or time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.core.actions.closely import Region
from allhands.core.actions.nested import has_inner_rules, place_nested
from allhands.core.plan import Bind, Start
from allhands.core.topology.search import candidates
from allhands.model.podgroup import TopologyMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.columns import Rows
    from allhands.core.gang import Part, Take
    from allhands.core.plan_volumes import PrepareVolume
    from allhands.core.shapes import ShapeState
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.shape import PodShape


class Placed(NamedTuple):
    """Where the members went, and the domain that the group's own rule led to ("" for none)."""

    picks: tuple[tuple[Take, list[int]], ...]
    domain: str


def place_group(work: Work, entry: GroupEntry, part: Part, within: Rows | None = None) -> Placed | None:
    """Places the whole part, or leaves everything as it was and returns None."""
    if avoided := avoided_nodes(work, entry):
        within = all_but(work, avoided, within)
    mark = work.statement.mark()
    picks: list[tuple[Take, list[int]]] = []
    domain = _place_part(work, entry, part, within, picks)
    if domain is None:
        work.statement.rollback(mark)
        return None
    return Placed(tuple(picks), domain)


def start_of(work: Work, entry: GroupEntry, placed: Placed, flavor: str = "") -> Start:
    """The placement as an operation of the plan: members in the order of their ranks on nodes that are neighbours."""
    names = work.snapshot.columns.names
    binds: list[Bind] = []
    prepare: list[PrepareVolume] = []
    for take, picks in placed.picks:
        members = entry.pending[take.members]
        if len(picks) == 1:
            ref = members.pods[take.first]
            binds.append(Bind(ref.key, ref.uid, names[picks[0]]))
        else:
            pods = members.pods[take.first : take.first + take.number]
            ordered = work.in_rank_order(picks)
            binds.extend(Bind(ref.key, ref.uid, names[row]) for ref, row in zip(pods, ordered, strict=False))
        if members.shape.claims:
            prepare.extend(work.prepare(members.shape, picks))
    prepared = tuple(dict.fromkeys(prepare)) if prepare else ()
    return Start(entry.group.key, tuple(binds), prepared, placed.domain, flavor)


def hold_room(work: Work, entry: GroupEntry, picks: Iterable[tuple[Take, list[int]]]) -> None:
    """What was placed so is not there yet: room is held for it. Nobody else may count on it."""
    for take, rows in picks:
        state = work.state(entry.pending[take.members].shape)
        if state.is_noticed or state.is_dynamic:
            _hold_each(work, state.shape, rows)


def _hold_each(work: Work, shape: PodShape, rows: list[int]) -> None:
    for row in rows:
        work.neighbours.held(shape, row, 1)

    def undo() -> None:
        for row in rows:
            work.neighbours.held(shape, row, -1)

    work.statement.done(undo)


def _place_part(
    work: Work, entry: GroupEntry, part: Part, within: Rows | None, picks: list[tuple[Take, list[int]]]
) -> str | None:
    """The domain's name, "" if none was asked for; None if it does not fit. Picks are added, also by failed tries."""
    if part.rule is None and not part.children:
        return "" if _place_members(work, entry, part, within, picks) else None
    if has_inner_rules(part) and len(work.topology):
        return place_nested(work, entry, part, within, picks)
    if part.rule is None or not len(work.topology):
        # Without any domain, nothing is together and nothing is apart: only a hard rule minds.
        is_free = part.rule is None or part.rule.mode is TopologyMode.SOFT
        return "" if is_free and _place_members(work, entry, part, within, picks) else None
    if within is None and len(part.takes) == 1 and not part.children and not entry.bound:
        take = part.takes[0]
        state = work.state(entry.pending[take.members].shape)
        if not state.is_dynamic:
            chosen, name = work.fillings.place(work, state, take.number, part.rule)
            if chosen:
                picks.append((take, chosen))
            return name if chosen else None
    asked = _asked(work, entry, part)
    bound = _bound_rows(work, entry, part)
    fits = [_inside(state.fit(work.room), within) for state, _ in asked]
    needs = [count for _, count in asked]
    sums = work.topology.sums(fits[0] if len(fits) == 1 else np.array(fits))
    found = candidates(work.topology, part.rule, sums, needs[0] if len(needs) == 1 else needs, bound=bound)
    for tried, domain in enumerate(found):
        if tried == work.policy.max_domains_tried:
            break
        mark, before = work.statement.mark(), len(picks)
        region = Region(work, domain, within, bound, part.rule.tree)
        if _place_members(work, entry, part, region.rows, picks, region):
            return "" if domain is None else work.topology.domains[domain].name
        work.statement.rollback(mark)
        del picks[before:]
    return None


def _place_members(
    work: Work,
    entry: GroupEntry,
    part: Part,
    within: Rows | None,
    picks: list[tuple[Take, list[int]]],
    region: Region | None = None,
) -> bool:
    """With a region, close together in it; else wherever it is best."""
    takes = part.takes
    if len(takes) > 1:
        # The largest first: small ones fit into what is left.
        takes = tuple(sorted(takes, key=lambda take: work.size_of(entry.pending[take.members].shape), reverse=True))
    for take in takes:
        state = work.state(entry.pending[take.members].shape)
        rows = work.place(state, take.number, within) if region is None else region.place(state, take.number)
        if not rows:
            return False
        picks.append((take, rows))
    if not part.children:
        return True
    return all(_place_part(work, entry, child, within, picks) is not None for child in part.children)


def _asked(work: Work, entry: GroupEntry, part: Part) -> list[tuple[ShapeState, int]]:
    """Shape -> how many of it, in all of the part."""
    counts: dict[str, tuple[ShapeState, int]] = {}
    for take in part.all_takes():
        state = work.state(entry.pending[take.members].shape)
        _, before = counts.get(state.shape.digest, (state, 0))
        counts[state.shape.digest] = (state, before + take.number)
    return list(counts.values())


def _bound_rows(work: Work, entry: GroupEntry, part: Part) -> list[int]:
    if not entry.bound:
        return []
    inside = None
    if part.name:
        whole = next(it for it in entry.group.members.walk() if it.name == part.name)
        inside = {below.name for below in whole.walk()}
    node = work.snapshot.pods.node
    return [
        int(node[row])
        for row, name in zip(entry.bound, entry.bound_parts, strict=True)
        if inside is None or name in inside
    ]


def _inside(fit: Rows, within: Rows | None) -> Rows:
    if within is None:
        return fit
    restricted = np.zeros_like(fit)
    restricted[within] = fit[within]
    return restricted


def avoided_nodes(work: Work, entry: GroupEntry) -> tuple[str, ...]:
    """Where its last start failed, for a while: a group that can go nowhere else must not wait for ever."""
    status = entry.status
    if not status.avoid_nodes:
        return ()
    until = status.retry_at_seconds + work.policy.retry_max_seconds
    if until <= work.now:
        return ()
    work.wake_at(until)
    return status.avoid_nodes


def all_but(work: Work, avoided: tuple[str, ...], within: Rows | None) -> Rows:
    """The nodes of `within`, or of the cluster, without these."""
    row_by_name = work.snapshot.columns.row_by_name
    bad = [row_by_name[name] for name in avoided if name in row_by_name]
    rows = np.arange(len(work.snapshot.columns)) if within is None else within
    return rows[~np.isin(rows, bad)]
