"""What contradicts itself in a Queue, or among queues, with the path of each field. A server checks the rest by schema.

Pure rules for whoever must answer a user: admission, the queue's condition, the scheduler that sets a queue aside.
Nothing here looks at what is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, invalid, not_found
from allhands.api.names import qualified_name
from allhands.api.volcano.queue import ROOT
from allhands.model.quantity import Quantity, QuantityError
from allhands.model.resources import CPU, MAX_UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.field_types import ResourceList
    from allhands.api.volcano.queue import QueueSpec

_LONGEST_SHOWN: Final = 60
_MOST_NAMES: Final = 8
CAPABILITY: Final = "spec.capability"
DESERVED: Final = "spec.deserved"
GUARANTEE: Final = "spec.guarantee.resource"


def spec_errors(name: str, spec: QueueSpec) -> list[FieldError]:
    """What is wrong with one queue, whatever other queues there are."""
    guaranteed = spec.guarantee.resource if spec.guarantee is not None else None
    errors: list[FieldError] = []
    capability = _amounts(CAPABILITY, spec.capability, errors)
    deserved = _amounts(DESERVED, spec.deserved, errors)
    guarantee = _amounts(GUARANTEE, guaranteed, errors)
    errors += _above(GUARANTEE, guarantee, DESERVED, deserved)
    errors += _above(GUARANTEE, guarantee, CAPABILITY, capability)
    errors += _above(DESERVED, deserved, CAPABILITY, capability)
    if name == ROOT and spec.parent:
        errors.append(invalid("spec.parent", _shown(spec.parent), "the queue root is above all others and has none"))
    elif spec.parent == name:
        errors.append(invalid("spec.parent", name, "a queue cannot be its own parent"))
    return errors


def parent_of(name: str, spec: QueueSpec | None) -> str | None:
    """The queue that this one is a part of; None of the one above all."""
    if name == ROOT:
        return None
    return spec.parent if spec is not None and spec.parent else ROOT


def place_error(name: str, parents: Mapping[str, str | None]) -> FieldError | None:
    """Why a queue has no place in the tree. `parents` has a row for every queue; root is there even without one."""
    walked = {name: None}
    last, parent = name, parents.get(name)
    while parent is not None and parent != ROOT:
        if parent in walked:
            names = list(walked)
            cycle = [*names[names.index(parent) :], parent]
            if len(cycle) > _MOST_NAMES:
                cycle = [*cycle[: _MOST_NAMES - 2], "…", parent]
            return invalid("spec.parent", _shown(parents[name]), f"the parents form a cycle: {' -> '.join(cycle)}")
        if parent not in parents:
            if last == name:
                return not_found("spec.parent", _shown(parent))
            detail = f'it is below "{last}", whose parent "{_shown(parent)}" does not exist'
            return invalid("spec.parent", _shown(parents[name]), detail)
        walked[parent] = None
        last, parent = parent, parents[parent]
    return None


def _amounts(path: str, quantities: ResourceList | None, errors: list[FieldError]) -> dict[str, Quantity]:
    """Those that make sense."""
    found: dict[str, Quantity] = {}
    for resource, text in (quantities or {}).items():
        where = f"{path}[{_shown(resource)}]"
        if faults := qualified_name(resource):
            errors.append(invalid(where, _shown(resource), f"not the name of a resource: {faults[0]}"))
            continue
        try:
            quantity = Quantity.parse(text)
        except QuantityError as error:
            errors.append(invalid(where, _shown(text), str(error)))
            continue
        if quantity.nanos < 0:
            errors.append(invalid(where, _shown(text), "must not be negative"))
        elif (quantity.milli_value() if resource == CPU else quantity.value()) > MAX_UNITS:
            errors.append(invalid(where, _shown(text), "is more than 64 bits can hold; leave it out for no limit"))
        else:
            found[resource] = quantity
    return found


def _above(
    path: str, amounts: Mapping[str, Quantity], limit_path: str, limits: Mapping[str, Quantity]
) -> list[FieldError]:
    return [
        invalid(f"{path}[{resource}]", str(amount), f"must not be more than {limit_path}, which is {limits[resource]}")
        for resource, amount in amounts.items()
        if resource in limits and amount > limits[resource]
    ]


def _shown(value: object) -> object:
    """Short enough for a message."""
    return f"{value[:_LONGEST_SHOWN]}…" if isinstance(value, str) and len(value) > _LONGEST_SHOWN else value
