"""Chooses units for one place: as many as the group needs, within its rights, and none that it could do without.

It works on counts (`slots.Stock`) and on `Rights`, and leaves both as it found them. It makes several cheap guesses,
each cleaned up to a set from which nothing can be given back; a small set it then tries to do without one unit after
the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.actions.offers import Lining, cheapest
from allhands.core.actions.pool import SURPLUS
from allhands.core.actions.rights import Ground

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allhands.core.actions.pool import Pool
    from allhands.core.actions.rights import Rights
    from allhands.core.actions.slots import Stock
    from allhands.core.columns import Mask

MOST_UNITS_GUESSED: Final = 256
"""How many units may be chosen again in guesses that do without one of them; counted work."""
SMALL_POOL: Final = 128
"""Up to so many units, it is also guessed by giving back instead of adding; up to TINY_POOL, again and again."""
TINY_POOL: Final = 32
MANY: Final = 64
"""Of more units than that, fewer guesses are made."""


class Selection:
    def __init__(
        self, pool: Pool, rights: Rights, stock: Callable[[], Stock], need: int, already: tuple[int, ...] = ()
    ) -> None:
        """`stock` counts afresh what fits now. `already` are units that are gone for another shape of the group."""
        self.pool = pool
        self._rights = rights
        self._stock = stock
        self._need = need
        self._already = already

    def first(self) -> list[int] | None:
        """The first guess that suffices, cleaned up."""
        for lining in Lining:
            if (found := self.guess(lining, ())) is not None:
                return found
        return None

    def guess(self, lining: Lining | None, banned: Iterable[int]) -> list[int] | None:
        """Units that suffice, none of them banned, or None. Rights are as before.

        With a lining, units are added until they suffice; without one, all are taken and given back one by one.
        """
        usable = np.ones(len(self.pool), dtype=np.bool_)
        usable[list(banned)] = False
        usable[list(self._already)] = False
        guess = _Guess(self.pool, self._rights, self._stock(), self._need, usable, self._already)
        for unit in self._already:
            self._rights.take(self.pool, unit)
        chosen = guess.run(lining)
        for unit in (*self._already, *guess.taken):
            self._rights.give_back(self.pool, unit)
        return chosen


class _Guess:
    def __init__(
        self, pool: Pool, rights: Rights, stock: Stock, need: int, usable: Mask, already: tuple[int, ...]
    ) -> None:
        self._pool = pool
        self._rights = rights
        self._stock = stock
        self._need = need
        self._usable = usable
        self._already = already
        self.taken: dict[int, None] = {}
        self._lacks_quota = not rights.quota_allows()

    def run(self, lining: Lining | None) -> list[int] | None:
        if not self._make_owed():
            return None
        if not (self._take_everything() if lining is None else self._make_room(lining)) or not self._make_quota():
            return None
        if lining is None:
            self._peel()
        self._clean_up()
        return sorted(self.taken)

    def _make_owed(self) -> bool:
        """Where own members go until others owe the rest: as many as that takes, the least important first."""
        rights, pool = self._rights, self._pool
        if rights.ground is not Ground.BOTH:
            return True
        is_own = [rights.is_own(int(group)) for group in pool.group]
        others = [unit for unit in range(len(pool)) if not is_own[unit]]
        own = [unit for unit in range(len(pool)) if is_own[unit] and self._usable[unit]]
        for unit in own:
            if any(rights.may_take(pool, other) for other in others):
                return True
            self._take(unit)
        return any(rights.may_take(pool, other) for other in others)

    def _make_room(self, lining: Lining) -> bool:
        stock = self._stock
        while (missing := self._need - stock.total) > 0:
            units = cheapest(stock, missing, self._usable, lining)
            if not units:
                return False
            units = self._enough(units)
            if not self._take_all(units):
                for unit in units:
                    self._take(unit)
                    if stock.total >= self._need:
                        break
        return True

    def _enough(self, units: list[int]) -> list[int]:
        """As many of them as suffice, the first first: a gang that goes for one place may free others too."""
        low, high = 1, len(units)
        while low < high:
            middle = (low + high) // 2
            if self._stock.total_with(units[:middle]) >= self._need:
                high = middle
            else:
                low = middle + 1
        return units[:low]

    def _make_quota(self) -> bool:
        rights, pool = self._rights, self._pool
        while self._lacks_quota and not rights.quota_allows():
            left = np.flatnonzero(self._usable).tolist()
            if not left:
                return False
            lacking = rights.lacks()
            if lacking is not None:
                left = [unit for unit in left if rights.frees(pool, unit, lacking[0]) > 0]
                if not left:
                    return False
                left.sort(key=lambda unit: self._price_of_quota(unit, *lacking))
            self._take(left[0])
        return True

    def _price_of_quota(self, unit: int, cell: int, lacking: int) -> tuple[int, int, int]:
        """By rank; then what it would cost to free all that lacks with units like this one."""
        freed = self._rights.frees(self._pool, unit, cell)
        return (int(self._pool.rank[unit]), int(self._pool.price[unit]) * -(-lacking // freed), unit)

    def _with_surplus(self, unit: int) -> list[int]:
        """Who evicts the rest of a gang evicts its surplus too."""
        return [
            *(it for it in self._pool.surplus_of.get(unit, ()) if it not in self.taken and it not in self._already),
            unit,
        ]

    def _take_all(self, units: list[int]) -> bool:
        """Takes all of them if that can be told at once to be right; else none."""
        wanted = list(dict.fromkeys(other for unit in units for other in self._with_surplus(unit)))
        if not self._usable[wanted].all() or not self._rights.may_take_all(self._pool, wanted):
            return False
        if not self._pool.can_spare((*self._already, *self.taken, *wanted)):
            return False
        for unit in wanted:
            self._rights.take(self._pool, unit)
        self._usable[wanted] = False
        self._stock.release_all(wanted)
        self.taken.update(dict.fromkeys(wanted))
        return True

    def _take(self, unit: int) -> None:
        """Takes it if that is right, with the surplus of its gang; else it is not usable."""
        rights, pool, usable = self._rights, self._pool, self._usable
        if not usable[unit]:
            return
        got: list[int] = []
        for other in self._with_surplus(unit):
            if not usable[other] or not rights.may_take(pool, other) or not self._can_spare(other):
                for back in got:
                    rights.give_back(pool, back)
                    usable[back] = True
                usable[other] = usable[unit] = False
                return
            usable[other] = False
            rights.take(pool, other)
            got.append(other)
        for other in got:
            self._stock.release(other)
        self.taken.update(dict.fromkeys(got))

    def _can_spare(self, unit: int) -> bool:
        pool = self._pool
        if pool.rank[unit] != SURPLUS or unit in pool.core_of:
            return True
        others = [it for it in (*self._already, *self.taken) if pool.group[it] == pool.group[unit]]
        return pool.can_spare((*others, unit))

    def _take_everything(self) -> bool:
        for unit in np.flatnonzero(self._usable).tolist():
            self._take(unit)
        return self._stock.total >= self._need

    def _peel(self) -> None:
        """Gives back the unit that costs most for each place that it frees, again and again, while places are left."""
        pool = self._pool
        while self.taken:
            units = [unit for unit in sorted(self.taken, reverse=True) if pool.core_of.get(unit) not in self.taken]
            losses = np.array(self._stock.losses(units), dtype=np.int64)
            worth = np.where(losses > 0, pool.price[units] // losses.clip(1), np.iinfo(np.int64).max)
            worth[losses > self._stock.total - self._need] = -1
            best = int(worth.argmax())
            if worth[best] < 0 or not self._give_back(units[best]):
                break

    def _clean_up(self) -> None:
        """Gives back, from the most important on, whatever is not needed for room, quota or right."""
        units = sorted(self.taken, reverse=True)
        losses = self._stock.losses(units)
        at = 0
        while at < len(units):
            unit = units[at]
            spare = self._stock.total - self._need
            if losses[at] <= spare and self._pool.core_of.get(unit) not in self.taken and self._give_back(unit):
                units = units[at + 1 :]
                losses = self._stock.losses(units)
                at = 0
            else:
                at += 1

    def _give_back(self, unit: int) -> bool:
        rights, pool = self._rights, self._pool
        rights.give_back(pool, unit)
        del self.taken[unit]
        if (self._lacks_quota and not rights.quota_allows()) or not rights.stand_without(pool, self.taken):
            rights.take(pool, unit)
            self.taken[unit] = None
            return False
        self._stock.release(unit, -1)
        return True


def improved(selection: Selection) -> list[int] | None:
    """The best of all guesses; if it is small, also of those that do without one of its units."""
    pool = selection.pool
    best = selection.guess(Lining.SPREAD_CHEAP, ())
    linings: list[Lining | None] = [lining for lining in Lining if lining is not Lining.SPREAD_CHEAP]
    if best is not None and len(best) > MANY:
        linings = [Lining.FULL_LARGE]
    if len(pool) <= SMALL_POOL:
        linings.append(None)
    for lining in linings:
        found = selection.guess(lining, ())
        if found is not None and (best is None or pool.cost(found) < pool.cost(best)):
            best = found
    if best is None:
        return None
    left = MOST_UNITS_GUESSED
    again = (Lining.SPREAD_CHEAP, None) if len(pool) <= TINY_POOL else (Lining.SPREAD_CHEAP,)
    banned: set[int] = set()
    while True:
        better = None
        for unit in reversed(best):
            left -= len(best)
            if left < 0:
                return best
            guesses = [selection.guess(lining, (*banned, unit)) for lining in again]
            found = min((guess for guess in guesses if guess is not None), key=pool.cost, default=None)
            if found is not None and pool.cost(found) < pool.cost(best):
                better = found
                banned.add(unit)
                break
        if better is None:
            return best
        best = better


def select_all(pool: Pool, rights: Rights) -> list[int] | None:
    """Every unit that may be taken, one after the other by importance; None if quota is not enough even then."""
    taken: list[int] = []
    for unit in range(len(pool)):
        has_its_surplus = all(other in taken for other in pool.surplus_of.get(unit, ()))
        if has_its_surplus and rights.may_take(pool, unit) and pool.can_spare((*taken, unit)):
            rights.take(pool, unit)
            taken.append(unit)
    suffices = bool(taken) and rights.quota_allows()
    for unit in taken:
        rights.give_back(pool, unit)
    return taken if suffices else None
