"""How it is said what becomes of a word of Volcano's scheduler configuration: the same, ours instead, or refused.

Refused is what nothing here serves: a cluster must not lose it without being told. Ours instead is what is served
another way; whoever asks for it is told. The rows themselves are in `volcano_actions` and `volcano_plugins`.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class Verdict(enum.StrEnum):
    SAME = "same"
    OURS = "ours instead"
    REFUSED = "refused"


class Type(enum.StrEnum):
    """What an argument's value must be. Volcano also takes "true" and "false" as text."""

    WHOLE = "whole number"
    NUMBER = "number"
    BOOL = "true or false"
    TEXT = "text"
    DURATION = "duration"
    MAPPING = "mapping"
    LIST = "list"


class Row(msgspec.Struct, frozen=True):
    """One word. `note` says what it becomes (same), what to tell (ours instead), or what is wrong (refused)."""

    name: str
    verdict: Verdict
    note: str
    type: Type = Type.BOOL
    neutral: tuple[Any, ...] = ()
    """Values that need no word, because they ask for what is done anyway."""
    unless_off: str = ""
    """The switch that, when it is off, makes nobody read the argument."""

    def is_neutral(self, value: Any) -> bool:
        """Whether the value asks for nothing that needs a word. A mapping does only if it says `enable: true`."""
        if self.type is Type.MAPPING and self.verdict is Verdict.REFUSED:
            return value.get("enable") is not True
        return value in self.neutral

    def matches(self, name: str) -> bool:
        """Whether the row is about an argument of this name."""
        before, placeholder, after = self.name.partition("<")
        if not placeholder:
            return name == self.name
        end = after.partition(">")[2]
        return name.startswith(before) and name.endswith(end) and len(name) > len(before) + len(end)


class ActionRow(msgspec.Struct, frozen=True):
    name: str
    verdict: Verdict
    note: str
    arguments: tuple[Row, ...] = ()


class PluginRow(msgspec.Struct, frozen=True):
    """`switches` are those that mean something to the plugin, and what becomes of it when one is off."""

    name: str
    verdict: Verdict
    note: str
    arguments: tuple[Row, ...] = ()
    switches: tuple[Row, ...] = ()


def same(name: str, note: str, type: Type = Type.BOOL) -> Row:
    return Row(name, Verdict.SAME, note, type)


def ours(name: str, note: str, type: Type = Type.BOOL, neutral: tuple[Any, ...] = ()) -> Row:
    return Row(name, Verdict.OURS, note, type, neutral)


def refused(name: str, note: str, type: Type = Type.BOOL, neutral: tuple[Any, ...] = ()) -> Row:
    return Row(name, Verdict.REFUSED, note, type, neutral)
