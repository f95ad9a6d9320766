"""Pools: what an account and those below it use, plus what is kept for them and not used.

`pool = own use + for each child (what the child holds - what it uses)`, and a child holds its pool or its keep,
whichever is more. So a pool says how much of a level is no longer free for others. It is a function of the use alone,
which is why taking and giving back are exact inverses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.quota.forest import NO_PARENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.core.quota.bill import Bill, Chain
    from allhands.core.quota.layout import Layout


def empty_pools(layout: Layout) -> list[int]:
    """The pools while nothing is used: those that lend within a tree, then those that guard against the cluster."""
    pools = [0] * (2 * len(layout.limits) * layout.stride)
    for dimension, limits in enumerate(layout.limits):
        guard = (len(layout.limits) + dimension) * layout.stride
        _fill(pools, dimension * layout.stride, layout.parents, limits.keep, None)
        _fill(pools, guard, layout.parents, limits.guarantee, guard + layout.cluster_row)
    return pools


def _fill(pools: list[int], base: int, parents: Sequence[int], keep: Sequence[int], cluster: int | None) -> None:
    for row in range(len(parents) - 1, -1, -1):
        held = max(pools[base + row], keep[row])
        if parents[row] != NO_PARENT:
            pools[base + parents[row]] += held
        elif cluster is not None:
            pools[cluster] += held


def take_from_chains(pools: list[int], chains: tuple[Chain, ...]) -> None:
    for units, links in chains:
        growth = units
        for pool, keep, _ in links:
            before = pools[pool]
            pools[pool] = before + growth
            if before < keep:
                growth += before - keep
                if growth <= 0:
                    break


def give_back_to_chains(pools: list[int], chains: tuple[Chain, ...]) -> None:
    for units, links in chains:
        growth = units
        for pool, keep, _ in links:
            after = pools[pool] - growth
            pools[pool] = after
            if after < keep:
                growth += after - keep
                if growth <= 0:
                    break


def chains_overflow(pools: list[int], chains: tuple[Chain, ...]) -> bool:
    """Whether any pool would grow beyond its ceiling."""
    for units, links in chains:
        growth = units
        for pool, keep, ceiling in links:
            before = pools[pool]
            if before + growth > ceiling:
                return True
            if before < keep:
                growth += before - keep
                if growth <= 0:
                    break
    return False


def shift_steps(pools: list[int], bill: Bill, sign: int) -> None:
    """The same where paths meet: by 1 takes, by -1 gives back."""
    growths = [units * sign for units in bill.units]
    for position, (pool, keep, _, up) in enumerate(bill.steps):
        before = pools[pool]
        after = pools[pool] = before + growths[position]
        if up:
            growths[up] += max(after, keep) - max(before, keep) - bill.units[position] * sign


def overflows(pools: list[int], bill: Bill) -> Iterator[tuple[int, int, int]]:
    """Each pool that would grow beyond its ceiling: its cell, the ceiling, and the pool then."""
    growths = list(bill.units)
    for position, (pool, keep, ceiling, up) in enumerate(bill.steps):
        before = pools[pool]
        after = before + growths[position]
        if after > before and after > ceiling:
            yield pool, ceiling, after
        if up:
            growths[up] += max(after, keep) - max(before, keep) - bill.units[position]
