"""Shares out whole units: exactly, never more than there is, and the same whatever machine or order of asking.

Callers list the parties by name; where units do not divide evenly, those that come first get the odd ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def scale_down(total: int, needs: Sequence[int]) -> list[int]:
    """The needs as they are if the total allows it, else cut in proportion so that they add up to it."""
    wanted = sum(needs)
    if wanted <= total:
        return list(needs)
    return _in_proportion(max(total, 0), needs, wanted)


def water_fill(total: int, weights: Sequence[int], floors: Sequence[int], caps: Sequence[int | None]) -> list[int]:
    """By weight, none below its floor or above its cap; what a cap leaves goes to the others.

    A cap below its floor counts as the floor. Where the floors alone are too much, they are cut in proportion; a
    weight of 0 gets its floor. The sum is the total, unless caps or zero weights leave some of it over.
    """
    if sum(floors) >= total:
        return scale_down(total, floors)
    ceilings = [None if cap is None else max(cap, floor) for cap, floor in zip(caps, floors, strict=True)]
    given = list(floors)
    open_parties = [party for party, weight in enumerate(weights) if weight > 0]
    left = total - sum(floor for floor, weight in zip(floors, weights, strict=True) if weight <= 0)
    while open_parties:
        weight_sum = sum(weights[party] for party in open_parties)
        settled = _settled(open_parties, left, weight_sum, weights, floors, ceilings)
        if not settled:
            break
        for party, amount in settled.items():
            given[party] = amount
            left -= amount
        open_parties = [party for party in open_parties if party not in settled]
    if open_parties:
        shares = _in_proportion(left, [weights[party] for party in open_parties])
        for party, amount in zip(open_parties, shares, strict=True):
            given[party] = amount
    return given


def _settled(
    parties: Sequence[int],
    left: int,
    weight_sum: int,
    weights: Sequence[int],
    floors: Sequence[int],
    ceilings: Sequence[int | None],
) -> dict[int, int]:
    """Those whose plain share breaks a bound, and the bound: the floors or the caps, whichever err by more.

    Settling only the worse side is what makes the result independent of the order (it is the rule by which flexible
    lengths are resolved in page layout). All amounts are times `weight_sum`, so that nothing is rounded.
    """
    raised: dict[int, int] = {}
    lowered: dict[int, int] = {}
    error = 0
    for party in parties:
        share, floor, ceiling = left * weights[party], floors[party] * weight_sum, ceilings[party]
        if share < floor:
            raised[party] = floors[party]
            error += floor - share
        elif ceiling is not None and share > ceiling * weight_sum:
            lowered[party] = ceiling
            error += ceiling * weight_sum - share
    if error > 0:
        return raised
    return lowered if error < 0 else raised | lowered


def _in_proportion(total: int, weights: Sequence[int], weight_sum: int | None = None) -> list[int]:
    whole = sum(weights) if weight_sum is None else weight_sum
    if whole <= 0:
        return [0] * len(weights)
    given = [total * weight // whole for weight in weights]
    odd = total - sum(given)
    for party, weight in enumerate(weights):
        if odd == 0:
            break
        # One who gets a whole number already may stand at its cap.
        if total * weight % whole:
            given[party] += 1
            odd -= 1
    return given
