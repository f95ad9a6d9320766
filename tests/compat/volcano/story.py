"""What a story is: something that users do with their manifests, told in a namespace of its own, up to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.compat.volcano.stage import Stage

    Telling: TypeAlias = Callable[[Stage], Awaitable[None]]


class Story(NamedTuple):
    """`name` is its namespace, too."""

    name: str
    tell: Telling


class Stories(list[Story]):
    """Those of one file, in the order in which they stand there."""

    def __call__(self, tell: Telling) -> Telling:
        """A decorator: the name of the function is that of the story."""
        self.append(Story(tell.__name__.replace("_", "-"), tell))
        return tell
