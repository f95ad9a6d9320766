"""The groups that objects of several kinds declare, each by one key: its namespace, the prefix of its kind, its name.

A kind that the cluster does not know has no objects, until it is installed. Nothing is decided here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from allhands.dialects.group_kinds import GROUP_KINDS, GroupKind
from allhands.runtime.informer import Informer, key_of, split_key
from allhands.runtime.scheduling.group_homes import POD_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allhands.api.kinds import Resource
    from allhands.dialects.groups import GroupRecord
    from allhands.ports import Objects

_OF_POD: Final = f"/{POD_PREFIX}"


class WatchedGroups:
    def __init__(self, objects: Objects) -> None:
        self._by_prefix: dict[str, Informer[GroupRecord]] = {
            kind.prefix: Informer(objects, kind.resource, kind.read, optional=True, in_pages=True)
            for kind in GROUP_KINDS
        }
        self._kinds = {kind.prefix: kind for kind in GROUP_KINDS}

    @property
    def informers(self) -> list[Informer[GroupRecord]]:
        return list(self._by_prefix.values())

    def __contains__(self, group: object) -> bool:
        return isinstance(group, str) and self.get(group) is not None

    def get(self, group: str) -> GroupRecord | None:
        namespace, prefix, name = _parts(group)
        informer = self._by_prefix.get(prefix)
        return None if informer is None else informer.get(key_of(namespace, name))

    def all(self) -> Iterator[GroupRecord]:
        for informer in self._by_prefix.values():
            yield from informer.all()

    def kind_of(self, group: str) -> GroupKind | None:
        """None for what is no group of these kinds: that of a Job or of a pod."""
        if _OF_POD in group:  # of which there may be more than can be remembered
            return None
        return self._kinds.get(_parts(group)[1])

    def informer_of(self, resource: Resource) -> Informer[GroupRecord]:
        return next(it for it in self._by_prefix.values() if it.resource == resource)

    def on_change(self, callback: Callable[[str, GroupRecord | None, GroupRecord | None], None]) -> None:
        """Calls it with the key of the group and what is known of it before and after."""

        def of_kind(prefix: str) -> Callable[[str, GroupRecord | None, GroupRecord | None], None]:
            def told(key: str, before: GroupRecord | None, after: GroupRecord | None) -> None:
                namespace, name = split_key(key)
                callback(key_of(namespace, f"{prefix}{name}"), before, after)

            return told

        for prefix, informer in self._by_prefix.items():
            informer.on_change(of_kind(prefix))


@functools.lru_cache(maxsize=1 << 14)
def _parts(group: str) -> tuple[str, str, str]:
    """Namespace, prefix and name of the object."""
    namespace, name = split_key(group)
    prefix, colon, rest = name.partition(":")
    return (namespace, f"{prefix}:", rest) if colon else (namespace, "", name)
