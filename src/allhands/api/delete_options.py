"""What may stand in DeleteOptions, wherever they come: in a query, in the body of a DELETE or in an Eviction.

The words are the real server's. Nothing is decided here about what a deletion then does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import invalid, not_supported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.errors import FieldError

PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")


def dry_run_errors(values: Sequence[str]) -> list[FieldError]:
    """Every request that writes has this option; the only word it knows is `All`."""
    unknown = any(value != "All" for value in values)
    return [not_supported("dryRun", list(values), ["All"])] if unknown else []


def delete_option_errors(dry_run: Sequence[str], propagation: str | None, orphan: bool | None) -> list[FieldError]:
    """`orphan` is the old way to say what `propagation` says: one of the two is enough."""
    found = dry_run_errors(dry_run)
    if propagation is None:
        return found
    if orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        found.append(invalid("propagationPolicy", propagation, why))
    elif propagation not in PROPAGATIONS:
        found.append(not_supported("propagationPolicy", propagation, [*PROPAGATIONS, "nil"]))
    return found
