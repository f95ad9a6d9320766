"""Whether a group could never start, whoever else ended: by what nodes and domains have in all, and by quotas alone.

It counts what would fit on empty nodes, which is more than can really be placed: so what it rules out is ruled out, and
what it does not may still never fit. It changes nothing, and is asked only for the sake of words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.explain import why_nowhere
from allhands.core.quota.book import QuotaBook
from allhands.core.topology.rules import close_enough, rule_fault
from allhands.core.topology.search import in_order, left_over, outermost
from allhands.core.topology.totals import tier_text
from allhands.model.podgroup import TopologyMode
from allhands.model.reason import MORE_THAN_ALL, NEVER_ALLOWED, Explanation, Reason
from allhands.model.resources import PODS, text_of_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.columns import Column
    from allhands.core.gang import Part
    from allhands.core.quota.bill import Bill
    from allhands.core.shapes import ShapeState
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.podgroup import TopologyRule

IN_NO_DOMAIN: Final = (
    '{whose} must be in one domain of tier {in_tier}, and the largest of {choices}, "{largest_domain}", '
    "holds {at_most} of them when it is empty: it can never start on these nodes."
)


TOO_LARGE: Final = "Empty nodes hold {at_most} of its {members} pods: it can never start on these nodes."


def why_never_held(work: Work, entry: GroupEntry, part: Part) -> Explanation | None:
    """Why no empty domain that it allows, or all nodes together, would hold it."""
    units: dict[str, int] = {PODS: part.count}
    for take in part.all_takes():
        for name, amount in entry.pending[take.members].shape.requests.entries:
            units[name] = units.get(name, 0) + amount * take.number
    for name, amount in sorted(units.items()):
        if amount > (everything := work.total.get(name)):
            return _never(
                MORE_THAN_ALL,
                members=part.count,
                together=text_of_units(name, amount),
                scarce=name,
                everything=text_of_units(name, everything),
            )
    shapes = _shapes(work, entry, part)
    for state, _ in shapes:
        if (nowhere := why_nowhere(work, state)) is not None and nowhere.reason is Reason.NEVER_FITS:
            return nowhere
    held = sum(min(count, int(np.minimum(_on_empty_nodes(work, state), count).sum())) for state, count in shapes)
    if held < part.count:
        return _never(TOO_LARGE, at_most=held, members=part.count)
    for inner, rule in _hard_parts(part):
        if (why := _why_in_no_domain(work, entry, inner, rule)) is not None:
            return why
    return None


def _shapes(work: Work, entry: GroupEntry, part: Part) -> list[tuple[ShapeState, int]]:
    """The shapes of its pods, and how many pods there are of each."""
    found: dict[str, tuple[ShapeState, int]] = {}
    for take in part.all_takes():
        state = work.state(entry.pending[take.members].shape)
        found[state.shape.digest] = (state, found.get(state.shape.digest, (state, 0))[1] + take.number)
    return list(found.values())


def _hard_parts(part: Part) -> Iterator[tuple[Part, TopologyRule]]:
    if part.rule is not None and part.rule.mode is TopologyMode.HARD:
        yield part, part.rule
    for child in part.children:
        yield from _hard_parts(child)


def _why_in_no_domain(work: Work, entry: GroupEntry, part: Part, rule: TopologyRule) -> Explanation | None:
    columns = work.topology
    if not part.count or rule_fault(columns, rule) is not None:
        return None
    widest = outermost(columns, close_enough(columns, rule) & columns.usable).nonzero()[0]
    if not len(widest):
        return None  # that is told in other words
    shapes = _shapes(work, entry, part)
    needs = [count for _, count in shapes]
    sums = columns.sums(np.array([_on_empty_nodes(work, state) for state, _ in shapes]))
    if next(in_order(columns, rule, left_over(sums, needs)), None) is not None:
        return None
    held = np.minimum(sums, np.array(needs)[:, np.newaxis]).sum(axis=0)
    best = int(widest[held[widest].argmax()])
    return _never(
        IN_NO_DOMAIN,
        whose=f'The {part.count} pods of sub-group "{part.name}"' if part.name else f"Its {part.count} pods",
        members=part.count,
        in_tier=tier_text(columns, rule),
        choices=len(widest),
        largest_domain=columns.domains[best].name,
        at_most=int(held[best]),
    )


def _on_empty_nodes(work: Work, state: ShapeState) -> Column:
    """How many such pods each node would hold if there were no others."""
    allocatable = work.snapshot.columns.allocatable
    counts = np.where(state.static, np.iinfo(np.int64).max >> 2, 0)
    for column, units in state.request:
        counts = np.minimum(counts, allocatable[column] // units)
    return np.maximum(counts, 0)


class QuotaAlone:
    """What quotas would say if nothing ran."""

    def __init__(self, book: QuotaBook) -> None:
        self._book = book
        self._empty = QuotaBook(book.layout)
        self._known: dict[int, Explanation | None] = {}
        """By the identity of bills: equal demands have the same one, for as long as the layout lives."""

    def why_never(self, bill: Bill) -> Explanation | None:
        """Why its accounts refuse it now, if they would even then."""
        if id(bill) not in self._known:
            alone = self._empty.refusal(bill)
            now = None if alone is None else self._book.refusal(bill) or alone
            self._known[id(bill)] = None if now is None else now.with_more(NEVER_ALLOWED, never=1)
        return self._known[id(bill)]


def _never(sentence: str, **numbers: int | str) -> Explanation:
    return Explanation(Reason.GROUP_NEVER_FITS, sentence, tuple(sorted(numbers.items())))
