"""The JSON patch that makes one document of another: what a mutating webhook answers with.

Applied to `before` by `json_patch` it gives `after`, to the last type of a number. It is not the shortest patch there
is: lists are compared place by place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.patch.values import copied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Json, Manifest


def json_difference(before: Json, after: Json) -> list[Manifest]:
    """The operations, in the order in which they are to be applied; none if nothing differs."""
    return list(_steps("", before, after))


def _steps(path: str, before: Json, after: Json) -> Iterator[Manifest]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _object_steps(path, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_steps(path, before, after)
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": copied(after)}


def _object_steps(path: str, before: Manifest, after: Manifest) -> Iterator[Manifest]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in after.items():
        below = f"{path}/{_escaped(name)}"
        if name in before:
            yield from _steps(below, before[name], value)
        else:
            yield {"op": "add", "path": below, "value": copied(value)}


def _list_steps(path: str, before: list[Json], after: list[Json]) -> Iterator[Manifest]:
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        yield from _steps(f"{path}/{index}", old, new)
    for index in range(len(before) - 1, len(after) - 1, -1):
        yield {"op": "remove", "path": f"{path}/{index}"}
    for index in range(len(before), len(after)):
        yield {"op": "add", "path": f"{path}/{index}", "value": copied(after[index])}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
