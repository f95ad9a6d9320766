"""Shows what an update tried to change, as the lines that differ. Only refusals contain it.

The real server compares its internal types, printed as JSON with every field; `internaltypes.txt` says how those are
laid out, so that ours prints the same lines.
"""

from __future__ import annotations

import difflib
import json
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest

_MAX_LINES = 3000
"""Comparing takes quadratic time at worst; nobody reads more."""

_GO_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class _Field(NamedTuple):
    shown: str
    name: str
    absent: Json
    type_name: str


@lru_cache(maxsize=1)
def _types() -> dict[str, list[_Field]]:
    found: dict[str, list[_Field]] = {}
    for line in resources.files(__package__).joinpath("internaltypes.txt").read_text().splitlines():
        if line.startswith("  "):
            shown, name, kind = line.split()
            is_leaf = kind[0] in '"0' or kind in ("null", "false")
            field = _Field(shown, name, json.loads(kind), "") if is_leaf else _Field(shown, name, None, kind)
            found[next(reversed(found))].append(field)
        elif not line.startswith("#"):
            found[line] = []
    return found


def unified(type_name: str, old: Manifest, new: Manifest) -> str:
    """The lines that differ. The type is PodSpec, PersistentVolumeClaimSpec or PersistentVolumeSource."""
    before, after = (_lines(_internal(type_name, value, value)) for value in (old, new))
    if len(before) + len(after) > _MAX_LINES:
        return ""
    lines = list(difflib.unified_diff(before, after, lineterm=""))
    return "".join(f"{line}\n" for line in lines[2:])


def _lines(value: Json) -> list[str]:
    return json.dumps(value, indent=1, ensure_ascii=False).translate(_GO_JSON_ESCAPES).split("\n")


def _internal(type_name: str, value: Manifest, root: Manifest) -> Manifest:
    # The metadata of a claim template is embedded, so its fields stand beside the spec.
    shown: Manifest = dict(value.get("metadata", {})) if type_name == "PersistentVolumeClaimTemplate" else {}
    for field in _types()[type_name]:
        item = root.get(field.name[1:]) if field.name[0] == "^" else value.get(field.name)
        shown[field.shown] = _shown(field, item, root)
    return shown


def _shown(field: _Field, item: Json, root: Manifest) -> Json:
    kind = field.type_name
    if item is None:
        return _internal(kind, {}, root) if kind and kind[0] not in "*[" else field.absent
    if kind.startswith("[]"):
        return [_internal(kind[2:], each, root) for each in item]
    if kind:
        return _internal(kind.lstrip("*"), item, root)
    return _sorted_maps(item) if isinstance(item, dict) else item


def _sorted_maps(item: Manifest) -> Manifest:
    """Go prints maps sorted, and a label selector, which is no map, in the order of its type."""
    labels, expressions = item.get("matchLabels"), item.get("matchExpressions")
    if isinstance(labels, dict) or isinstance(expressions, list):
        shown = {"matchLabels": _sorted_maps(labels)} if isinstance(labels, dict) else {}
        return shown if expressions is None else shown | {"matchExpressions": expressions}
    return {key: item[key] for key in sorted(item)}
