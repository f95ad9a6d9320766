"""What one group would charge, compiled to flat cell numbers, so that asking, taking and giving back are short loops.

A bill is fixed for its book's layout and holds no usage. Units in a flavor are also charged to the flavor `*`, and
each account is charged once even where the paths of two accounts meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.core.quota.forest import NO_PARENT
from allhands.core.quota.limits import NO_LIMIT
from allhands.model.queue import ANY_FLAVOR
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import MAX_UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.quota.layout import Layout

Demand = tuple[tuple[str, str, int], ...]
"""Flavor, resource, units: what a group asks for."""


class Step(NamedTuple):
    """One account of a chain that leads from the charged account up to where something is kept for others.

    `pool` is its cell among the pools; less than `keep` of it is never free for others; the pool may grow up to
    `ceiling`; `up` is the position of the step above, 0 at the end of the chain.
    """

    pool: int
    keep: int
    ceiling: int
    up: int


Chain = tuple[int, tuple[tuple[int, int, int], ...]]
"""The units of a bill, and the pool, keep and ceiling of each step of a chain that no other meets."""


class Bill(NamedTuple):
    """`refused` is why it can never start, if so. `headrooms` are the cells with a limit, and the most that may be
    in use there already. `chains` is what `steps` says, in short, where one account is charged and no paths meet.
    `rows` are the charged accounts, `amounts` the units by dimension. `size` is how many cells a book needs for it.
    """

    names: tuple[str, ...]
    refused: Explanation | None
    charges: tuple[tuple[int, int], ...]
    headrooms: tuple[tuple[int, int], ...]
    steps: tuple[Step, ...]
    units: tuple[int, ...]
    chains: tuple[Chain, ...]
    rows: tuple[int, ...]
    amounts: tuple[tuple[int, int], ...]
    size: int


def compile_bill(layout: Layout, names: tuple[str, ...], demand: Demand) -> Bill:
    problem = _problem(demand)
    amounts = _amounts(layout, demand)
    known = [layout.row_by_name[name] for name in names if name in layout.row_by_name]
    rows = tuple(dict.fromkeys(row for start in known for row in layout.path(start)))
    charged = (*rows, layout.cluster_row)
    stride = layout.stride
    headrooms = []
    for row in rows:
        for dimension, units in amounts:
            if (limit := _hard_limit(layout, dimension, row)) < NO_LIMIT:
                headrooms.append((dimension * stride + row, limit - units))
    steps, units_of_steps = _steps(layout, rows, amounts)
    return Bill(
        names=names,
        refused=problem or layout.standing(names),
        charges=tuple((dimension * stride + row, units) for row in charged for dimension, units in amounts),
        headrooms=tuple(headrooms),
        steps=steps,
        units=units_of_steps,
        chains=_chains(steps, units_of_steps) if len(known) == 1 else (),
        rows=rows,
        amounts=amounts,
        size=layout.size,
    )


def _problem(demand: Demand) -> Explanation | None:
    for flavor, resource, units in demand:
        if not 0 <= units <= MAX_UNITS:
            text = f'the request for {units} {resource} in flavor "{flavor}" is not between 0 and {MAX_UNITS}'
            return explain(Reason.INVALID, problem=text)
    return None


def _amounts(layout: Layout, demand: Demand) -> tuple[tuple[int, int], ...]:
    """Units by dimension, by name; a negative request never lowers anybody's use."""
    summed: dict[tuple[str, str], int] = {}
    for flavor, resource, units in demand:
        if units > 0:
            for over in {(flavor, resource), (ANY_FLAVOR, resource)}:
                summed[over] = summed.get(over, 0) + units
    return tuple((layout.dimension(over), summed[over]) for over in sorted(summed))


def _hard_limit(layout: Layout, dimension: int, row: int) -> int:
    """What use may never exceed: the cap, and where nothing is kept for anybody, what may be borrowed too."""
    if dimension < len(layout.limits) and layout.tops[row] not in layout.limits[dimension].kept_tops:
        ceiling = layout.limits[dimension].ceiling[row]
        if ceiling < NO_LIMIT:
            return ceiling
    capability = layout.capability(dimension, row)
    return NO_LIMIT if capability is None else capability


def _steps(
    layout: Layout, rows: Sequence[int], amounts: Sequence[tuple[int, int]]
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    bottom_up = sorted(rows, reverse=True)
    steps: list[Step] = []
    units_of_steps: list[int] = []
    for dimension, units in amounts:
        if dimension < len(layout.limits):
            _add_chain(steps, layout, dimension, bottom_up)
            units_of_steps.extend([units] * (len(steps) - len(units_of_steps)))
    return tuple(steps), tuple(units_of_steps)


def _add_chain(steps: list[Step], layout: Layout, dimension: int, bottom_up: Sequence[int]) -> None:
    """The steps of one dimension, accounts before those above them, and the cluster last.

    A tree in which as much is kept from siblings as from the cluster needs one chain for both.
    """
    limits = layout.limits[dimension]
    lending = [row for row in bottom_up if layout.tops[row] in limits.kept_tops]
    guarding = [row for row in bottom_up if limits.guarded and layout.tops[row] in limits.split_tops]
    position = {row: len(steps) + number for number, row in enumerate(lending)}
    guard_position = {row: len(steps) + len(lending) + number for number, row in enumerate(guarding)}
    cluster = len(steps) + len(lending) + len(guarding) if limits.guarded else 0
    base, guard_base = dimension * layout.stride, (len(layout.limits) + dimension) * layout.stride
    for row in lending:
        parent = layout.parents[row]
        above = 0 if row in guard_position else cluster
        up = above if parent == NO_PARENT else position[parent]
        steps.append(Step(base + row, limits.keep[row], limits.ceiling[row], up))
    for row in guarding:
        parent = layout.parents[row]
        up = cluster if parent == NO_PARENT else guard_position[parent]
        steps.append(Step(guard_base + row, limits.guarantee[row], NO_LIMIT, up))
    if limits.guarded and limits.total is not None:
        steps.append(Step(guard_base + layout.cluster_row, 0, limits.total, 0))


def _chains(steps: Sequence[Step], units_of_steps: Sequence[int]) -> tuple[Chain, ...]:
    starts = set(range(len(steps))) - {step.up for step in steps}
    chains = []
    for start in sorted(starts | ({0} if steps else set())):
        links = []
        position = start
        while True:
            pool, keep, ceiling, up = steps[position]
            links.append((pool, keep, ceiling))
            if not up:
                break
            position = up
        chains.append((units_of_steps[start], tuple(links)))
    return tuple(chains)
