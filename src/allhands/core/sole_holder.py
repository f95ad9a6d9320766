"""Whether an attribute is all that holds a value: then it may be changed in place, and nobody can tell.

What a snapshot handed out must stay as it was for whoever still reads it, and copying for readers that are gone is most
of the work of a small change. How many references an attribute alone makes is measured, not assumed: interpreters
differ. Who finds another number, for whatever reason, has to copy.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Final


class _Holder:
    def __init__(self) -> None:
        self.value: list[int] = []


def _references(owner: Any, name: str) -> int:
    return getrefcount(getattr(owner, name))


_ALONE: Final = _references(_Holder(), "value")


def holds_alone(owner: Any, name: str) -> bool:
    """Views of an array hold it too."""
    return _references(owner, name) == _ALONE
