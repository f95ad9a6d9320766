"""Resource names and lists of quantities (`requests`, `limits`, `capacity`): rounding, naming rules, arithmetic.

Quantities stay the canonical strings of the API; they are parsed only where a value decides something.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.errors import FieldError, invalid
from allhands.model.quantity import Quantity, canonical_resource

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_NANOS_PER_MILLI = 1_000_000
_MILLIS_PER_UNIT = 1_000

HUGE_PAGES_PREFIX = "hugepages-"
CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
POD_LEVEL_RESOURCES = frozenset({"cpu", "memory"})
INTEGER_RESOURCES = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)


def nanos(text: str) -> int:
    """The exact value of a quantity, times 10^9."""
    return Quantity.parse(text).nanos


def round_to_milli(amounts: dict[str, str] | None) -> None:
    """The API keeps no amount finer than a thousandth: finer ones are rounded away from zero, in place."""
    if amounts:
        for name, text in amounts.items():
            if text[-1] in "un" or "." in text or "-" in text[1:]:
                amounts[name] = canonical_resource(text)


def is_native(name: str) -> bool:
    """In the *kubernetes.io/ name space, where names without a slash are."""
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES_PREFIX)


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def is_integer(name: str) -> bool:
    return name in INTEGER_RESOURCES or is_extended(name)


def is_pod_level(name: str) -> bool:
    return name in POD_LEVEL_RESOURCES or is_huge_pages(name)


def check_amount(name: str, text: str, path: str, errors: list[FieldError]) -> None:
    """Not negative, and whole where the resource is counted in pieces."""
    amount = nanos(text)
    if amount < 0:
        errors.append(invalid(path, text, "must be greater than or equal to 0"))
    if -(-amount // _NANOS_PER_MILLI) % _MILLIS_PER_UNIT and is_integer(name):
        errors.append(invalid(path, text, "must be an integer"))


def aggregate(spec: Manifest, side: str) -> dict[str, str]:
    """What all containers together ask for (`side` is requests or limits): the sum of those that run at the same
    time, but at least what the hungriest init container needs besides the sidecars started before it."""
    running: dict[str, str] = {}
    for container in spec.get("containers", ()):
        _add(running, container.get("resources", {}).get(side, {}))
    sidecars: dict[str, str] = {}
    starting: dict[str, str] = {}
    for container in spec.get("initContainers", ()):
        amounts = container.get("resources", {}).get(side, {})
        if container.get("restartPolicy") == "Always":
            _add(running, amounts)
            _add(sidecars, amounts)
            _raise_to(starting, sidecars)
        else:
            together = dict(amounts)
            _add(together, sidecars)
            _raise_to(starting, together)
    _raise_to(running, starting)
    return running


def _add(total: dict[str, str], amounts: dict[str, str]) -> None:
    for name, text in amounts.items():
        total[name] = str(Quantity.parse(total[name]) + Quantity.parse(text)) if name in total else text


def _raise_to(total: dict[str, str], floor: dict[str, str]) -> None:
    for name, text in floor.items():
        if name not in total or nanos(text) > nanos(total[name]):
            total[name] = text
