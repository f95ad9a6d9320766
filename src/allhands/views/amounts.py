"""Amounts of resources for people: short, rounded where exactness helps nobody, in the units that everybody uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.model.resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.model.resources import ResourceVector

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FIRST: Final = (CPU, MEMORY)


def in_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX)


def amount_text(resource: str, units: int) -> str:
    """`7.5` of cpu, `12.3Gi` of memory, `4` of anything that is counted."""
    if resource == CPU:
        return f"{units / 1000:,.2f}".rstrip("0").rstrip(".") if units % 1000 else f"{units // 1000:,}"
    if not in_bytes(resource):
        return f"{units:,}"
    scaled, power = float(units), 0
    while abs(scaled) >= 1024 and power < len(_BINARY) - 1:
        scaled, power = scaled / 1024, power + 1
    return f"{scaled:.1f}".removesuffix(".0") + _BINARY[power]


def vector_text(amounts: ResourceVector) -> str:
    """`cpu 2, memory 4Gi, nvidia.com/gpu 1`; nothing of what is zero."""
    present = [name for name in amounts if amounts[name]]
    return ", ".join(f"{name} {amount_text(name, amounts[name])}" for name in in_order(present)) or "nothing"


def in_order(resources: Iterable[str]) -> list[str]:
    """Cpu and memory first, pods last, all others by name."""
    return sorted(set(resources), key=lambda it: (_FIRST.index(it) if it in _FIRST else 2 + (it == PODS), it))


def short_name(resource: str) -> str:
    """As a heading: what follows the vendor."""
    return resource.rpartition("/")[2]


def percent(part: int, whole: int) -> int:
    """Rounded down, except that something is never nothing; nothing of nothing is nothing, any of nothing is all."""
    if whole <= 0:
        return 100 if part > 0 else 0
    return max(1, part * 100 // whole) if part > 0 else 0
