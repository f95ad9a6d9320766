"""What a durable store asks of its disk: to keep batches of changes, whole and in order, and to give back what it kept.

A port, so that tests can cut the power at any moment. A disk never changes what it was given, and says a batch is kept
only when no power cut can take it away again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.store.record import Key


class Kept(msgspec.Struct, frozen=True, gc=False):
    """One object as it is on disk."""

    resource: str
    """`plural.group`: where it is kept does not depend on the version that its kind is stored in."""
    key: Key
    version: int
    raw: bytes


class Batch(msgspec.Struct, frozen=True):
    """Changes that are kept together or not at all: of each object only how it ended."""

    version: int
    """That of the last change."""
    ceiling: int
    """No version above this one has been given."""
    puts: tuple[Kept, ...]
    removals: tuple[tuple[str, Key], ...]
    """(resource, key) of each object that is gone."""
    touched: dict[str, int]
    """By resource, the version of its last change."""


class Head(msgspec.Struct, frozen=True):
    """What a disk says of all it kept."""

    version: int
    ceiling: int
    floor: int
    """About changes up to this version nothing is known."""
    touched: dict[str, int]


class DiskError(Exception):
    """The disk has refused a batch. The text says which file, and why."""

    def __init__(self, message: str, *, is_full: bool = False, may_be_kept: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full
        self.may_be_kept = may_be_kept
        """It failed so late that nobody knows."""


class Disk(Protocol):
    """Where a store's changes are kept."""

    def head(self) -> Head: ...

    def objects(self) -> Iterable[Kept]:
        """Everything that is kept, each resource in the order of its keys."""

    def begin(self, ceiling: int) -> None:
        """From now on it is written to. Returns when it is kept that versions up to `ceiling` may have been given."""

    async def write(self, batch: Batch) -> None:
        """Returns when the batch is kept; a `DiskError` means that it is not."""

    async def close(self, version: int) -> None:
        """Ends in good order; `version` is the last one that was given to anybody."""
