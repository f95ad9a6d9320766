"""What a case costs beside the same case without it: two lists of times, taken in turn, as one number with its goal.

The rounds of both alternate in one process, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.measure.core_cases import Case


class Comparison(TypedDict):
    """`value` is the median over the rounds, in `unit`; it is to be at most `goal`, if there is one."""

    name: str
    unit: str
    value: float
    goal: float | None
    base_seconds: float


def compare(case: Case, own: Sequence[float], base: Sequence[float]) -> Comparison:
    """Of the times of a case and those of its base, round by round."""
    ratios = [one / other for one, other in zip(own, base, strict=True)]
    if case.topology:
        name, unit, values, goal = "two-tier hard topology ÷ none", "×", ratios, 2.0
    elif case.queues > 1:
        name, unit, values, goal = f"{case.queues} queues ÷ one queue", "×", ratios, 1.5
    else:
        name, unit, goal = f"each of {case.shapes - 1:,} further shapes", "ms", 0.5
        values = [1_000 * (one - other) / (case.shapes - 1) for one, other in zip(own, base, strict=True)]
    return Comparison(
        name=name,
        unit=unit,
        value=round(statistics.median(values), 4),
        goal=goal if case.is_judged else None,
        base_seconds=round(statistics.median(base), 6),
    )
