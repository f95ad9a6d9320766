"""Amounts of several resources at once, as whole numbers of base units: cpu in millis, all else in whole units.

A vector never changes and never guesses: a resource that is absent is not the same as one that is 0, and which of
the two "nothing" means is said by the question that is asked (`fits` a room, or stays `within` limits).
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.model.quantity import Format, Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES_PREFIX: Final = "hugepages-"

MAX_UNITS: Final = 2**63 - 1
"""Amounts from outside end here, so that each one fits a 64-bit column."""

_LONGEST_CACHED_TEXT: Final = 40


class DominantShare(NamedTuple):
    """The largest share of any resource in some total, and which resource that is ("" if there is none)."""

    share: Fraction
    resource: str


class ResourceVector(msgspec.Struct, frozen=True):
    """Resource name -> amount in base units. `entries` are sorted by name; build with `of` or `from_quantities`."""

    entries: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        previous = ""
        for name, _ in self.entries:
            if name <= previous:
                raise ValueError(
                    f"resource names must be sorted, distinct and not empty, got {name!r} after {previous!r}"
                )
            previous = name

    @staticmethod
    def of(amounts: Mapping[str, int]) -> ResourceVector:
        return ResourceVector(tuple(sorted(amounts.items())))

    @staticmethod
    def from_quantities(quantities: Mapping[str, str | int | float] | None) -> ResourceVector:
        """Reads a Kubernetes resource map; a malformed amount raises QuantityError that names its resource."""
        if not quantities:
            return EMPTY
        return ResourceVector.of({name: _units_of_text(name, text) for name, text in quantities.items()})

    def to_quantities(self) -> dict[str, str]:
        """The Kubernetes resource map, written canonically."""
        return {name: str(quantity_of_units(name, units)) for name, units in self.entries}

    def __getitem__(self, name: str) -> int:
        for known, units in self.entries:
            if known == name:
                return units
        raise KeyError(name)

    def get(self, name: str, default: int = 0) -> int:
        for known, units in self.entries:
            if known == name:
                return units
        return default

    def __contains__(self, name: object) -> bool:
        return any(known == name for known, _ in self.entries)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __add__(self, other: ResourceVector) -> ResourceVector:
        return self._merged(other, lambda mine, theirs: mine + theirs)

    def __sub__(self, other: ResourceVector) -> ResourceVector:
        return self._merged(other, lambda mine, theirs: mine - theirs)

    def __mul__(self, times: int) -> ResourceVector:
        return ResourceVector(tuple((name, units * times) for name, units in self.entries))

    def max(self, other: ResourceVector) -> ResourceVector:
        """The larger of each; a resource that only one has keeps that one's amount, as Kubernetes does."""
        larger = dict(self.entries)
        for name, units in other.entries:
            larger[name] = max(larger.get(name, units), units)
        return ResourceVector.of(larger)

    def fits(self, room: ResourceVector) -> bool:
        """Whether this much can be taken from a room. What the room does not list, it does not have."""
        return all(units <= 0 or units <= room.get(name) for name, units in self.entries)

    def shortage(self, room: ResourceVector) -> ResourceVector:
        """What a room lacks to hold this; empty exactly if it fits."""
        lacking = ((name, units - room.get(name)) for name, units in self.entries if units > 0)
        return ResourceVector(tuple((name, units) for name, units in lacking if units > 0))

    def within(self, limits: ResourceVector) -> bool:
        """Whether this stays under limits. What the limits do not list is not limited."""
        return all(self.get(name) <= limit for name, limit in limits.entries)

    def dominant_share(self, total: ResourceVector) -> DominantShare:
        """Exact, ties to the first name. Of a resource with no total, any use counts as all of it."""
        best = DominantShare(Fraction(0), "")
        for name, units in self.entries:
            whole = total.get(name)
            share = Fraction(units, whole) if whole > 0 else Fraction(units > 0)
            if share > best.share:
                best = DominantShare(share, name)
        return best

    def _merged(self, other: ResourceVector, combine: Callable[[int, int], int]) -> ResourceVector:
        names = {name for name, _ in self.entries} | {name for name, _ in other.entries}
        return ResourceVector(tuple((name, combine(self.get(name), other.get(name))) for name in sorted(names)))


EMPTY: Final = ResourceVector()


def units_of_quantity(name: str, quantity: Quantity) -> int:
    """A quantity in the base units of its resource, rounded away from zero and clamped to 64 bits."""
    units = quantity.milli_value() if name == CPU else quantity.value()
    return max(-MAX_UNITS, min(MAX_UNITS, units))


def quantity_of_units(name: str, units: int) -> Quantity:
    """The way back, in the format that people expect of the resource."""
    if name == CPU:
        return Quantity.of_millis(units)
    in_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES_PREFIX)
    return Quantity.of_units(units, Format.BINARY_SI if in_bytes else Format.DECIMAL_SI)


def text_of_units(name: str, units: int) -> str:
    """For sentences, where amounts stand side by side: cpu is told in one unit, `57.6` beside `57`, not `57600m`."""
    if name == CPU and units % 1000:
        return f"{units / 1000:.3f}".rstrip("0")
    return str(quantity_of_units(name, units))


@functools.lru_cache(maxsize=1 << 13)
def _units_of_cached_text(name: str, text: str) -> int:
    return units_of_quantity(name, Quantity.parse(text))


def _units_of_text(name: str, text: str | int | float) -> int:
    try:
        if type(text) is str and len(text) <= _LONGEST_CACHED_TEXT:
            return _units_of_cached_text(name, text)
        return units_of_quantity(name, Quantity.parse(text))
    except QuantityError as error:
        raise QuantityError(f"{name}: {error}") from None
