"""A flow as a plan: its steps by name, and why it cannot be followed at all.

Made once for each spec, since a flow of a thousand steps is looked at thousands of times. Nothing here recurses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.task_rules import first_cycle, shown_cycle
from allhands.lifecycle.job_flow.documents import OUTSIDE, RETRIES, FlowSpec, Step

if TYPE_CHECKING:
    from allhands.lifecycle.observed import Metadata

MOST_RETRIES: Final = 100


class FlowPlan(msgspec.Struct, frozen=True):
    """With a `problem` nothing of it is begun."""

    steps: tuple[Step, ...] = ()
    outside: tuple[str, ...] = ()
    """Targets that are Jobs of batch/v1, as they are written."""
    problem: str = ""


def plan_of(spec: FlowSpec) -> FlowPlan:
    steps = spec.flows or ()
    known: dict[str, Step] = {}
    waits: dict[str, list[str]] = {}
    outside: dict[str, None] = {}
    problem = ""
    for index, step in enumerate(steps):
        if step.name in known:
            problem = problem or f'spec.flows[{index}].name: there are two steps "{step.name}"'
        known[step.name] = step
    for index, step in enumerate(steps):
        waits[step.name] = []
        for at, target in enumerate(step.targets):
            if target in known:
                waits[step.name].append(target)
            elif target.startswith(OUTSIDE) and len(target) > len(OUTSIDE):
                outside[target] = None
            else:
                where = f"spec.flows[{index}].dependsOn.targets[{at}]"
                problem = problem or (
                    f'{where}: there is no step "{target}"; a target is a step of the flow or {OUTSIDE}NAME'
                )
    cycle = first_cycle(waits)
    if cycle and not problem:
        problem = f"spec.flows: steps would wait for each other for ever: {shown_cycle(cycle)}"
    return FlowPlan(steps, tuple(outside), problem)


def retries_of(metadata: Metadata) -> tuple[int | None, str]:
    """How many times a failed step is made again; None if nothing is said. And what is wrong with what is said."""
    text = metadata.annotation(RETRIES)
    if not text:
        return None, ""
    if text.isdecimal() and len(text) < 4 and int(text) <= MOST_RETRIES:
        return int(text), ""
    return None, f'annotation {RETRIES} of {metadata.name}: "{text}" is no number from 0 to {MOST_RETRIES}'
