"""Which units to evict so that so many more pods of one shape fit: what every node offers, at what price.

On a node with few units every combination of them is counted; on one with many they are lined up, and it is counted
after how many of them one more pod fits, then two, and so on. The nodes where a place costs least are chosen. The price
of a gang may be spread over the places that it could free. It is a guess at the best set: whoever asks gives back what
turns out not to be needed.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from allhands.core.actions.slots import Stock
    from allhands.core.columns import Column, Mask

FEW: Final = 6
"""Up to so many units on a node, all their combinations are counted."""
MOST_COMBINED: Final = 2048
"""On so many nodes at most."""


class Lining(enum.Enum):
    """In which order the units on a node are lined up, and whether a gang's price is spread over its places."""

    SPREAD_CHEAP = (True, False)
    FULL_CHEAP = (False, False)
    SPREAD_LARGE = (True, True)
    FULL_LARGE = (False, True)

    @property
    def spreads(self) -> bool:
        return self.value[0]

    @property
    def prefers_large(self) -> bool:
        return self.value[1]


def cheapest(stock: Stock, missing: int, usable: Mask, lining: Lining) -> list[int]:
    """Units that free places for at most `missing` more pods, in the order of their choice; ask again for the rest."""
    pool = stock.pool
    at = np.flatnonzero(usable[pool.unit] & stock.mask[pool.row])
    if not at.size:
        return []
    lines = _lined_up(stock, at, missing, lining)
    offers = _offers(stock, lines)
    if not offers.row.size:
        return []
    found: dict[int, None] = {}
    for offer in _chosen(offers, missing):
        found.update(dict.fromkeys(lines.units(int(offers.start[offer]), int(offers.which[offer]))))
    return list(found)


class _Lines(NamedTuple):
    """The units on each node, one line after the other."""

    row: Column
    unit: Column
    amounts: Column
    price: Column
    start: Column
    """Where each line begins."""
    length: Column

    def units(self, start: int, which: int) -> list[int]:
        """Of the line that begins there: the first -which, or those whose bits are set."""
        if which < 0:
            units: list[int] = self.unit[start : start - which].tolist()
            return units
        return [int(self.unit[start + bit]) for bit in range(FEW) if which >> bit & 1]

    def of_lines(self, chosen: Mask) -> _Lines:
        each = np.repeat(chosen, self.length)
        length = self.length[chosen]
        start = np.cumsum(length) - length
        return _Lines(self.row[each], self.unit[each], self.amounts[:, each], self.price[each], start, length)


class _Offers(NamedTuple):
    """So many places on a node for so much: `which` units of the line that begins at `start` (see `_Lines.units`)."""

    row: Column
    gain: Column
    price: Column
    start: Column
    which: Column


def _lined_up(stock: Stock, at: Column, missing: int, lining: Lining) -> _Lines:
    pool = stock.pool
    at = at[np.argsort(pool.row[at], kind="stable")]
    row, unit, amounts = pool.row[at], pool.unit[at], stock.amounts[:, at]
    price = pool.price[unit]
    start = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    if lining.spreads:
        price = _spread(stock, row, unit, amounts, price, start, missing)
    key = price
    if lining.prefers_large:
        key = price // np.maximum.reduce(amounts * 64 // stock.asked, axis=0).clip(1)
    order = np.lexsort((unit, key, row))
    length = np.diff(np.append(start, len(row)))
    return _Lines(row[order], unit[order], amounts[:, order], price[order], start, length)


def _spread(
    stock: Stock, row: Column, unit: Column, amounts: Column, price: Column, start: Column, missing: int
) -> Column:
    """Prices of units at each of their nodes: by what the node could gain, of all that the unit could help to gain."""
    rows = row[start]
    free = stock.free[:, rows] + np.add.reduceat(amounts, start, axis=1)
    gain = np.minimum.reduce(free // stock.asked, axis=0).clip(0, stock.most) - stock.fit[rows]
    gain_here = np.repeat(gain, np.diff(np.append(start, len(row)))).clip(0, missing)
    gain_of_unit = np.zeros(len(stock.pool), dtype=np.int64)
    np.add.at(gain_of_unit, unit, gain_here)
    spread: Column = price // gain_of_unit[unit].clip(1, missing) * gain_here
    return np.where(gain_here > 0, spread, price)


def _offers(stock: Stock, lines: _Lines) -> _Offers:
    few = lines.length <= FEW
    if stock.shut is not None:
        few &= ~stock.shut[lines.row[lines.start]]
    few &= np.cumsum(few) <= MOST_COMBINED
    of_many, of_few = _along(stock, lines.of_lines(~few)), _combined(stock, lines.of_lines(few))
    starts = (lines.start[~few], lines.start[few])
    return _Offers(
        np.concatenate((of_many.row, of_few.row)),
        np.concatenate((of_many.gain, of_few.gain)),
        np.concatenate((of_many.price, of_few.price)),
        np.concatenate((starts[0][of_many.start], starts[1][of_few.start])),
        np.concatenate((of_many.which, of_few.which)),
    )


def _along(stock: Stock, lines: _Lines) -> _Offers:
    """The first units of each line, up to where one more pod fits. `start` is the number of the line."""
    line = np.repeat(np.arange(len(lines.start)), lines.length)
    free = stock.free[:, lines.row] + _running(lines.amounts, lines.start, line)
    fit = np.minimum.reduce(free // stock.asked, axis=0).clip(0, stock.most)
    place = np.arange(len(line)) - lines.start[line] if len(line) else line
    if stock.shut is not None:
        is_last = place + 1 == lines.length[line]
        fit[stock.shut[lines.row] & (stock.staying[lines.row] > 0) & ~is_last] = 0
    gain = fit - stock.fit[lines.row]
    before = np.where(place == 0, 0, np.roll(gain, 1))
    price = _running(lines.price[np.newaxis], lines.start, line)[0]
    at = np.flatnonzero((gain > 0) & (gain > before))
    return _Offers(lines.row[at], gain[at], price[at], line[at], -(place[at] + 1))


def _combined(stock: Stock, lines: _Lines) -> _Offers:
    """Every combination of the units of each line. `start` is the number of the line."""
    count = len(lines.start)
    line = np.repeat(np.arange(count), lines.length)
    place = np.arange(len(line)) - lines.start[line] if len(line) else line
    most = int(lines.length.max(initial=1))
    amounts = np.zeros((len(stock.asked), count, most), dtype=np.int64)
    amounts[:, line, place] = lines.amounts
    price = np.zeros((count, most), dtype=np.int64)
    price[line, place] = lines.price
    which = np.arange(1 << most)
    bits = (which[:, np.newaxis] >> np.arange(most) & 1).T
    rows = lines.row[lines.start]
    free = stock.free[:, rows, np.newaxis] + amounts @ bits
    fit = np.minimum.reduce(free // stock.asked[:, :, np.newaxis], axis=0).clip(0, stock.most)
    gain = fit - stock.fit[rows, np.newaxis]
    # What is not there frees nothing and costs nothing; naming it would name somebody else.
    is_real = which[np.newaxis, :] < (1 << lines.length)[:, np.newaxis]
    at, code = np.nonzero((gain > 0) & is_real)
    return _Offers(rows[at], gain[at, code], (price @ bits)[at, code], at, which[code])


def _chosen(offers: _Offers, missing: int) -> list[int]:
    """The cheapest for each place, one for a node at most, until one more would be enough, or that one."""
    row, gain, price = offers.row, offers.gain, offers.price
    # Places beyond those that lack are worth nothing.
    each = price // np.minimum(gain, missing)
    ordered = np.lexsort((-gain, each, row))
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = row[ordered[1:]] != row[ordered[:-1]]
    best = ordered[first]
    best = best[np.argsort(each[best], kind="stable")]
    reached = np.cumsum(gain[best])
    last = int(np.searchsorted(reached, missing))
    if last >= len(best):
        return [int(offer) for offer in best]
    if last:
        # The one that would be enough is asked for again: with these gone, some node may offer better.
        return [int(offer) for offer in best[:last]]
    # What is cheapest for each place is not always cheapest for all that still lack.
    enough = np.flatnonzero(gain >= missing)
    return [int(enough[np.argmin(price[enough])])]


def _running(values: Column, starts: Column, line: Column) -> Column:
    """Sums along each line. Where sums over all lines leave 64 bits, differences within one are still exact."""
    sums = np.cumsum(values, axis=1)
    base = sums[:, starts] - values[:, starts]
    running: Column = sums - base[:, line]
    return running
