"""What is refused of a JobFlow, with the path of each field. Pure: steps wait for steps that are there, in no ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.errors import FieldError, duplicate, invalid, not_found
from allhands.api.names import qualified_name
from allhands.api.volcano.job_flow import OUTSIDE_JOB
from allhands.api.volcano.task_rules import first_cycle, shown_cycle

if TYPE_CHECKING:
    from allhands.api.document import Manifest


def job_flow_errors(flow: Manifest, old: Manifest | None = None) -> list[FieldError]:
    """Why a JobFlow that is new, or has changed, is refused."""
    spec, name = flow.get("spec") or {}, flow["metadata"].get("name", "")
    if old is not None and spec == (old.get("spec") or {}):
        return []
    steps = spec.get("flows") or []
    names = [step.get("name", "") for step in steps]
    known = frozenset(names)
    seen: set[str] = set()
    errors: list[FieldError] = []
    waits: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for index, step in enumerate(steps):
        where, step_name = f"spec.flows[{index}]", names[index]
        if step_name in seen:
            errors.append(duplicate(f"{where}.name", step_name))
        seen.add(step_name)
        job = f"{name}-{step_name}"
        errors += [
            invalid(f"{where}.name", step_name, f"its Job would be called {job}: {it}") for it in qualified_name(job)
        ]
        targets = (step.get("dependsOn") or {}).get("targets") or []
        path = f"{where}.dependsOn.targets"
        errors += [
            not_found(f"{path}[{at}]", target)
            for at, target in enumerate(targets)
            if target not in known and not is_outside_job(target)
        ]
        waits[step_name] = [target for target in targets if target in known]
        places[step_name] = path
    cycle = first_cycle(waits)
    if cycle:
        detail = f"steps would wait for each other for ever: {shown_cycle(cycle)}"
        errors.append(invalid(places[cycle[0]], waits[cycle[0]], detail))
    return errors


def is_outside_job(target: str) -> bool:
    name = target.removeprefix(OUTSIDE_JOB)
    return name != target and "/" not in name and not qualified_name(name)
