"""JSON values as patches see them: copies, equality that keeps types apart, and how Go prints them in messages.

Python takes 1, 1.0 and True for equal and the API does not, so no patch may compare values with `==`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from allhands.api.document import Json


def copied(value: Json) -> Json:
    """The same value with containers of its own."""
    kind = type(value)
    if kind is dict:
        return {key: each if type(each) is str else copied(each) for key, each in value.items()}
    if kind is list:
        return [each if type(each) is str else copied(each) for each in value]
    return value


def same(left: Json, right: Json) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(key in right and same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: Json) -> Hashable:
    """Equal for values that are the same, so that lists can be looked through by hash."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return (dict, frozenset((key, identity(each)) for key, each in value.items()))
    if isinstance(value, list):
        return (list, tuple(identity(each) for each in value))
    return (type(value), value)


def go_text(value: Json) -> str:
    """The value as Go's %v prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def go_type(value: Json) -> str:
    """The name of the type Go's decoder gives the value."""
    if value is None:
        return "%!s(<nil>)"
    names = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64"}
    return names.get(type(value), "float64")
