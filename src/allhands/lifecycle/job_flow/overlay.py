"""The patch of a step goes over the spec of its template: what it names is changed, all else stays.

Lists of things with names merge by the name, other lists are replaced, as Volcano's design says field by field. Neither
input is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest

MERGED_BY: Final = {
    "tasks": ("name",),
    "containers": ("name",),
    "initContainers": ("name",),
}
"""Lists whose items are merged with the one of the same key."""
EXCHANGED_BY: Final = {
    "volumes": ("name", "mountPath"),
    "volumeMounts": ("mountPath",),
    "env": ("name",),
    "ports": ("containerPort",),
    "tolerations": ("key",),
    "hostAliases": ("ip",),
}
"""Lists whose items take the place of the one of the same key: their fields exclude each other."""
WHOLE: Final = frozenset(
    {"affinity", "securityContext", "livenessProbe", "readinessProbe", "startupProbe", "networkTopology"}
)
"""Objects that are replaced, not merged."""


def overlaid(template: Manifest, patch: Manifest) -> Manifest:
    """The template's spec with the patch over it."""
    result = dict(template)
    for field, value in patch.items():
        present = result.get(field)
        if value is None:
            continue  # nothing is said of it
        if isinstance(value, dict) and isinstance(present, dict) and field not in WHOLE:
            result[field] = overlaid(present, value)
        elif isinstance(value, list) and isinstance(present, list) and (field in MERGED_BY or field in EXCHANGED_BY):
            result[field] = _items(field, present, value)
        else:
            result[field] = value
    return result


def _items(field: str, present: list[Json], patches: list[Json]) -> list[Json]:
    """Items without a key are meant by their place: a template with one task needs no name to patch it."""
    keys = MERGED_BY.get(field) or EXCHANGED_BY[field]
    result = list(present)
    places = {_key(item, keys): at for at, item in reversed(list(enumerate(result)))}
    places.pop(None, None)
    for number, patch in enumerate(patches):
        key = _key(patch, keys)
        at = places.get(key) if key is not None else (number if number < len(present) else None)
        if at is None:
            result.append(patch)
            if key is not None:
                places[key] = len(result) - 1
        elif field in MERGED_BY and isinstance(result[at], dict) and isinstance(patch, dict):
            result[at] = overlaid(result[at], patch)
        else:
            result[at] = patch
    return result


def _key(item: Json, keys: tuple[str, ...]) -> tuple[str, str] | None:
    if not isinstance(item, dict):
        return None
    return next(((key, str(item[key])) for key in keys if item.get(key) not in (None, "")), None)
