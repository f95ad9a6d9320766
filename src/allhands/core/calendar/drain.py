"""Which nodes to keep for a big group when nobody knows when what runs there will end.

Wanted are the nodes for which the fewest running groups must end. Every group whose end is not known counts one in all,
spread over the nodes that it is on; nodes are taken in the order of these costs, then of their names, as few of them as
hold the group once they are empty. Nobody new gets what the group needs there, so the cost of the chosen nodes only
falls, and the choice changes only for one that has become better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.actions.placing import place_group
from allhands.core.calendar.promises import UNTIL_IT_STARTS, Promise, amounts_of

if TYPE_CHECKING:
    from allhands.core.calendar.future import Future
    from allhands.core.calendar.search import Ask
    from allhands.core.calendar.windows import Windows
    from allhands.core.columns import Column, Rows
    from allhands.core.work import Work

ONE: Final = 1 << 30
"""What one running group costs, over all its nodes."""


def chosen_room(work: Work, future: Future, windows: Windows, ask: Ask) -> Promise | None:
    """What to keep for the group from now on; None if even the empty nodes would not do."""
    order = np.argsort(_costs(work, future), kind="stable")
    if ask.within is not None:
        order = order[np.isin(order, ask.within)]
    order = order[~np.isin(order, windows.closed(work.now, ask.end(work.now), ask.entitled))]
    best = None
    low, high = 1, len(order)
    while low <= high:
        middle = high if best is None else (low + high) // 2
        placed = _place(future, ask, np.sort(order[:middle]))
        if placed is None:
            if best is None:
                return None
            low = middle + 1
        else:
            best, high = placed, middle - 1
    if best is None:
        return None
    return Promise(ask.entry.group.key, work.now, UNTIL_IT_STARTS, *best)


def _place(future: Future, ask: Ask, rows: Rows) -> tuple[Rows, Column] | None:
    """Where it would be on these nodes if all groups had gone."""
    work = future.work
    future.look(UNTIL_IT_STARTS - 1, UNTIL_IT_STARTS, ask.entitled)
    mark = work.statement.mark()
    placed = place_group(work, ask.entry, ask.part, rows)
    found = None if placed is None else amounts_of(work, ask.entry, placed)
    work.statement.rollback(mark)
    return found


def _costs(work: Work, future: Future) -> Column:
    """By node: the groups on it whose end nobody knows."""
    releases = future.releases
    costs = np.zeros(len(work.snapshot.columns), dtype=np.int64)
    unknown = releases.pods(releases.known, len(releases.times))
    pairs = np.unique(releases.run[unknown] * len(costs) + releases.node[unknown])
    runs, nodes = pairs // max(1, len(costs)), pairs % max(1, len(costs))
    _, of_run, spread = np.unique(runs, return_inverse=True, return_counts=True)
    np.add.at(costs, nodes, ONE // spread[of_run])
    return costs
