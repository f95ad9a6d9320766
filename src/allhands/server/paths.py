"""What a URL path addresses: a collection, an object, a sub-resource. Pure, and total: any path has an answer.

`namespaces` is the one word with two meanings: a kind of its own, and the scope of what follows it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from allhands.api.kinds import Resource

_OF_NAMESPACES: Final = frozenset({"finalize", "status"})
"""What may follow a namespace's name and still be about the namespace itself."""


class Target(msgspec.Struct, frozen=True):
    """What a request is about."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    """What follows the sub-resource: only a proxy has such paths."""
    old_watch: bool = False
    """The path says `/watch/`, as it was written before the parameter `watch`."""


def target_of(segments: list[str]) -> Target | None:
    """The target of `/api/v1/...` or `/apis/{group}/{version}/...`; None if it is neither, or goes no further."""
    if any(not segment or "/" in segment for segment in segments):
        return None
    if segments[:1] == ["api"] and len(segments) > 2:
        return _within("", segments[1], segments[2:])
    if segments[:1] == ["apis"] and len(segments) > 3:
        return _within(segments[1], segments[2], segments[3:])
    return None


def _within(group: str, version: str, parts: list[str]) -> Target | None:
    old_watch = parts[0] == "watch" and len(parts) > 1
    if old_watch:
        parts = parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and not (len(parts) == 3 and parts[2] in _OF_NAMESPACES):
        namespace, parts = parts[1], parts[2:]
    plural, *further = parts
    name, subresource, *rest = (*further, "", "")[: max(len(further), 2)]
    if rest and subresource != "proxy":
        return None
    return Target(Resource(group, version, plural), namespace, name, subresource, tuple(rest), old_watch)
