"""Groups that ask for the same, however long they run: what is found out for one holds for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.calendar.windows import Windows
    from allhands.core.snapshot import GroupEntry


class KindNumbers:
    """The numbers that were given. Without windows they depend on the groups alone, and hold from cycle to cycle."""

    __slots__ = ("by_asked", "by_signature")

    def __init__(self) -> None:
        self.by_signature: dict[str, int] = {}
        self.by_asked: dict[tuple[object, ...], int] = {}

    def number(self, entry: GroupEntry) -> int:
        """Where there are no windows."""
        found = self.by_signature.get(entry.signature)
        if found is None:
            asked = (*_asked(entry), ())
            found = self.by_signature[entry.signature] = self.by_asked.setdefault(asked, len(self.by_asked))
        return found


class Kinds:
    """Numbers for the kinds of groups in one cycle. `numbers` are those of the cycles before."""

    def __init__(self, windows: Windows, numbers: KindNumbers | None = None) -> None:
        self.are_kept = numbers is not None and not windows.windows
        """Whether they hold in the next cycle too."""
        if numbers is None or not self.are_kept:
            numbers = KindNumbers()
        self._windows = windows
        self._names_groups = windows.names_groups
        self._by_signature = numbers.by_signature
        self._by_asked = numbers.by_asked

    def number(self, entry: GroupEntry) -> int:
        """Equal for groups of a queue with equal members, equally placed so far and entitled to the same windows."""
        signature = entry.signature
        if self._names_groups and self._windows.names_group(entry):
            signature = f"{signature} {entry.group.key}"
        found = self._by_signature.get(signature)
        if found is None:
            asked = (*_asked(entry), self._windows.entitled(entry))
            found = self._by_signature[signature] = self._by_asked.setdefault(asked, len(self._by_asked))
        return found


def _asked(entry: GroupEntry) -> tuple[object, ...]:
    group = entry.group
    members = tuple((it.slot, it.shape.digest, len(it.pods)) for it in entry.pending)
    # What a group has already, or must avoid, binds it to a place, so such a group is like no other.
    alone = group.key if entry.bound or entry.status.avoid_nodes else ""
    return (group.queue, group.accounts, group.members, members, entry.present, entry.gated, alone)
