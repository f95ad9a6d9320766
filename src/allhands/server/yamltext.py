"""YAML in and out, with the meaning that the API server gives it: what it reads is what JSON could have said.

Dates stay text, keys become text, duplicates are reported with their line. The value is put together from the
parser's events, because the loaders of the library recurse without a bound on what strangers send.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from allhands.server.gojson import MAX_DEPTH

if TYPE_CHECKING:
    from allhands.api.document import Json

MAX_NODES: Final = 1_000_000
"""Values in one document after its aliases are followed; a few nested aliases could stand for billions."""

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TRUE: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER: Final = re.compile(r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)$")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$")


class MalformedError(ValueError):
    """The text is not YAML that JSON could express."""


class _Open:
    """A mapping or sequence that has not ended yet."""

    def __init__(self, value: dict[str, Json] | list[Json], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.nodes = 1
        self.merged: list[dict[str, Json]] = []

    def close(self) -> None:
        """What was merged in counts only where the mapping says nothing itself."""
        if isinstance(self.value, dict):
            for other in self.merged:
                self.value |= {name: child for name, child in other.items() if name not in self.value}


def parse(text: bytes) -> tuple[Json, list[str]]:
    """The value of the first document, and a complaint for each key that was given more than once."""
    try:
        return _Builder().build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise MalformedError(f"yaml: {_place(error)}{error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise MalformedError(f"yaml: {' '.join(str(error).split())}") from None


def _place(error: yaml.MarkedYAMLError) -> str:
    """Where Go's parser says that the mistake is: it counts lines from one only while it looks at characters, and says
    nothing about the first."""
    marks = [mark.line for mark in (error.context_mark, error.problem_mark) if mark is not None and mark.line]
    if not marks:
        return ""
    return f"line {marks[0] + 1 if isinstance(error, yaml.scanner.ScannerError) else marks[0]}: "


class _Dumper(_DUMPER):  # type: ignore[misc]
    """Quotes every text that some reader of YAML would take for something else."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    plain = dumper.resolve(yaml.ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str"
    style = None if plain and isinstance(_resolved(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(value: Json) -> bytes:
    """The value with sorted keys, as the server writes YAML."""
    text: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True)
    return text.encode()


class _Builder:
    def __init__(self) -> None:
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Json, int]] = {}
        self._duplicates: list[str] = []
        self._nodes = 0
        self._root: Json = None

    def build(self, events: Any) -> tuple[Json, list[str]]:
        for event in events:
            if isinstance(event, yaml.MappingStartEvent):
                self._open({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open([], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                done = self._stack.pop()
                done.close()
                self._keep_anchor(done.anchor, done.value, done.nodes)
                self._place(done.value, done.nodes, event)
            elif isinstance(event, yaml.ScalarEvent):
                value = _scalar(event)
                self._keep_anchor(event.anchor, value, 1)
                self._count(1)
                self._place(value, 1, event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentEndEvent):
                break
        return self._root, self._duplicates

    def _open(self, value: dict[str, Json] | list[Json], event: Any) -> None:
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise MalformedError(f"yaml: line {event.start_mark.line + 1}: a key must be a scalar")
        if len(self._stack) >= MAX_DEPTH:
            raise MalformedError("yaml: exceeded max depth")
        self._count(1)
        self._stack.append(_Open(value, event.anchor))

    def _keep_anchor(self, anchor: str | None, value: Json, nodes: int) -> None:
        if anchor:
            self._anchors[anchor] = (value, nodes)

    def _alias(self, event: Any) -> None:
        found = self._anchors.get(event.anchor)
        if found is None:
            raise MalformedError(f"yaml: unknown anchor '{event.anchor}' referenced")
        value, nodes = found
        self._count(nodes)
        self._place(value, nodes, event)

    def _count(self, nodes: int) -> None:
        """Each value once, however deep it is; what an alias stands for, each time."""
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise MalformedError("yaml: document contains excessive aliasing")

    def _place(self, value: Json, nodes: int, event: Any) -> None:
        """Puts a finished value where it belongs: the root, an item, a key or a key's value."""
        if not self._stack:
            self._root = value
            return
        parent = self._stack[-1]
        parent.nodes += nodes
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            parent.key = _key(value, event)
        else:
            self._set(parent, parent.key, value, event)

    def _set(self, parent: _Open, key: str, value: Json, event: Any) -> None:
        assert isinstance(parent.value, dict)
        parent.key = None
        if key == "<<" and isinstance(value, dict):
            parent.merged.append(value)
            return
        if key in parent.value:
            self._duplicates.append(f'line {event.start_mark.line + 1}: key "{key}" already set in map')
        parent.value[key] = value


def _key(value: Json, event: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise MalformedError(f"yaml: line {event.start_mark.line + 1}: a key must be a scalar")


def _scalar(event: Any) -> Json:
    text: str = event.value
    tag = event.tag or ""
    if event.style or tag.endswith(":str") or tag == "!":
        return text
    return _resolved(text)


def _resolved(text: str) -> Json:
    """What a text without quotes means."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INTEGER.match(text):
        return _integer(text)
    if _FLOAT.match(text) and any(char.isdigit() for char in text):
        return float(text.replace("_", ""))
    return text


def _integer(text: str) -> Json:
    plain = text.replace("_", "").lower()
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    bases = {"0b": 2, "0o": 8, "0x": 16}
    try:
        if digits[:2] in bases:
            return sign * int(digits[2:], bases[digits[:2]])
        if len(digits) > 1 and digits.startswith("0"):
            return sign * int(digits, 8)
        return sign * int(digits)
    except ValueError:
        return text
