"""Strategic merge patch: a merge patch that knows which lists are maps in disguise, and by which key.

Such lists merge item by item; directives in the patch (`$patch`, `$retainKeys`, `$setElementOrder/…`,
`$deleteFromPrimitiveList/…`) say what a merge cannot. Which lists those are comes from the schema, never from the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from allhands.api.patch.element_order import item_identity, no_merge_key, ordered, wrong_type
from allhands.api.patch.errors import failed, malformed, not_applicable, wrong_json_type
from allhands.api.patch.values import copied, go_text, identity

if TYPE_CHECKING:
    from collections.abc import Hashable

    from allhands.api.document import Json, Manifest

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ORDER: Final = "$setElementOrder"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList"

_BAD_PRIMITIVE_LIST: Final = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_BAD_SET_ORDER: Final = "invalid patch format of setElementOrder list"


class MergeSchema(Protocol):
    """What the schema of an object says about merging its fields."""

    def field(self, name: str) -> FieldMerge | None:
        """None for a field without a rule: its objects merge, its lists are replaced. The schema of a map with free
        keys answers for every name with the rule of its values."""
        ...


class FieldMerge(msgspec.Struct, frozen=True):
    """How one field merges. `child` speaks for the members of its object, or of the items of its list."""

    strategies: frozenset[str] = frozenset()
    merge_key: str = ""
    child: MergeSchema | None = None


_PLAIN: Final = FieldMerge()


def strategic_merge_patch(document: Manifest, patch: Json, schema: MergeSchema | None) -> Manifest:
    """The object after the patch, or a `PatchError`."""
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        raise malformed(wrong_json_type(patch, "value of type map[string]interface {}"))
    # From here on both are ours, and may be changed and taken apart.
    return _merge_objects(copied(document), copied(patch), schema)


def _rule(schema: MergeSchema | None, name: str) -> FieldMerge:
    return (schema.field(name) if schema is not None else None) or _PLAIN


def _merge_objects(live: Manifest, patch: Manifest, schema: MergeSchema | None) -> Manifest:
    if _DIRECTIVE in patch:
        return _replaced_object(patch)
    _retain_keys(live, patch)
    for directive in [key for key in patch if key.startswith(_SET_ORDER)]:
        _merge_ordered_list(live, patch, directive, schema)
    for key, value in patch.items():
        deletes = key.startswith(_DELETE_PRIMITIVES)
        name = _field_behind(key, _DELETE_PRIMITIVES, _BAD_PRIMITIVE_LIST) if deletes else key
        if value is None:
            live.pop(name, None)
        elif name in live and type(live[name]) is type(value):
            live[name] = _merge_values(live[name], value, _rule(schema, name), deletes=deletes)
        elif not deletes:
            if _is_directive(value):
                live.pop(name, None)
            else:
                live[name] = _taken_from_patch(value)
    return live


def _merge_values(live: Json, patch: Json, rule: FieldMerge, *, deletes: bool) -> Json:
    """Two values of the same type."""
    if isinstance(patch, dict):
        return patch if "replace" in rule.strategies else _merge_objects(live, patch, rule.child)
    if isinstance(patch, list):
        return _merge_lists(live, patch, rule, deletes=deletes) if deletes or "merge" in rule.strategies else patch
    return patch


def _replaced_object(patch: Manifest) -> Manifest:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Json, patch: Manifest) -> Exception:
    return failed(f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}")


def _is_directive(value: Json) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _taken_from_patch(value: Json) -> Json:
    """A value that has nothing to merge with: nulls and everything that only gives directions are left out."""
    if isinstance(value, dict):
        return {
            key: _taken_from_patch(each) for key, each in value.items() if each is not None and not _is_directive(each)
        }
    if isinstance(value, list):
        return [_taken_from_patch(each) for each in value if not _is_directive(each)]
    return value


def _field_behind(directive: str, prefix: str, complaint: str) -> str:
    """`$prefix/field` names a field."""
    head, slash, name = directive.partition("/")
    if not slash or head != prefix:
        raise malformed(complaint)
    return name


def _retain_keys(live: Manifest, patch: Manifest) -> None:
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    if not isinstance(retained, list):
        raise malformed(_BAD_RETAIN_KEYS)
    names = {name for name in retained if isinstance(name, str)}
    for key, value in patch.items():
        if value is not None and key not in names and not key.startswith((_DELETE_PRIMITIVES, _SET_ORDER)):
            raise malformed(_BAD_RETAIN_KEYS)
    for key in [key for key in live if key not in names]:
        del live[key]


def _merge_ordered_list(live: Manifest, patch: Manifest, directive: str, schema: MergeSchema | None) -> None:
    """Merges the list that `$setElementOrder/<field>` speaks of, and takes both out of the patch."""
    order = patch.pop(directive)
    if not isinstance(order, list):
        raise wrong_type("[]interface {}", order)
    name = _field_behind(directive, _SET_ORDER, _BAD_SET_ORDER)
    for side in (live, patch):
        if name in side and not isinstance(side[name], list):
            raise wrong_type("[]interface {}", side[name])
    live_list, patch_list = live.get(name), patch.get(name)
    rule = _rule(schema, name)
    _check_order(patch_list or [], order, rule.merge_key)
    if live_list is None and patch_list is None:
        return
    live_order = live_list or []
    if patch_list is None:
        merged = live_order
    elif live_list is None:
        merged = [each for each in patch_list if not _is_directive(each)]
        merged = [_without_directives(each) for each in merged]
    elif "merge" in rule.strategies:
        merged, live_order = _merge_for_order(live_list, patch_list, rule)
    else:
        merged = patch_list
    _element_type(live_list or [], patch_list or [])
    live[name] = ordered(merged, order, live_order, rule.merge_key)
    patch.pop(name, None)


def _without_directives(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_directives(each) for key, each in value.items() if not _is_directive(each)}
    if isinstance(value, list):
        return [_without_directives(each) for each in value if not _is_directive(each)]
    return value


def _check_order(patch_list: list[Json], order: list[Json], merge_key: str) -> None:
    """Items that the patch changes must appear in the wanted order, in that order."""
    if not order or not patch_list:
        return
    at = 0
    places = [item_identity(each, merge_key) for each in order]
    for item in patch_list:
        if merge_key and not isinstance(item, dict):
            raise wrong_type("map[string]interface {}", item)
        if _is_directive(item) and (item[_DIRECTIVE] == "delete" or at < len(places)):
            continue
        if at < len(places):
            key = item_identity(item, merge_key)
            while at < len(places) and places[at] != key:
                at += 1
        if at == len(places):
            lists = f"{go_text(patch_list)}\n doesn't match {_SET_ORDER} list:\n{go_text(order)}"
            raise failed(f"The order in patch list:\n{lists}\n")
        at += 1


def _merge_for_order(live: list[Json], patch: list[Json], rule: FieldMerge) -> tuple[list[Json], list[Json]]:
    """The merged list, and the live order to place its items by.

    The server removes and appends in the memory of the live list itself. So a new item that takes the room of a removed
    one counts as having a place in the live list, behind all others; clients see its order and we show the same.
    """
    if not live and not patch:
        return live, live
    size = len(live)
    if _element_type(live, patch) is not dict:
        return _merge_lists(live, patch, rule, deletes=False), live
    kept, changes = _apply_list_directives(live, patch, rule.merge_key)
    replaced = any(each.get(_DIRECTIVE) == "replace" for each in patch)
    merged = _merge_items(kept, changes, rule)
    return ordered(merged, changes, kept, rule.merge_key), live if replaced else merged[:size]


def _merge_lists(live: list[Json], patch: list[Json], rule: FieldMerge, *, deletes: bool) -> list[Json]:
    if not live and not patch:
        return live
    if _element_type(live, patch) is not dict:
        if deletes:
            unwanted = {identity(each) for each in patch}
            return [each for each in live if identity(each) not in unwanted]
        union = {identity(each): each for each in [*live, *patch]}
        return ordered(list(union.values()), patch, live, rule.merge_key)
    kept, changes = _apply_list_directives(live, patch, rule.merge_key)
    return ordered(_merge_items(kept, changes, rule), changes, kept, rule.merge_key)


def _element_type(*lists: list[Json]) -> type:
    kinds = {type(each): each for items in lists for each in items}
    if not kinds:
        raise failed("no elements in any of the given slices")
    if list in kinds:
        raise not_applicable("lists of lists are not supported")
    if len(kinds) > 1 or type(None) in kinds:
        raise failed(f"list element types are not identical: {go_text(list(lists))}")
    return next(iter(kinds))


def _apply_list_directives(
    live: list[Manifest], patch: list[Manifest], merge_key: str
) -> tuple[list[Manifest], list[Manifest]]:
    """What remains of the live list, and what remains to be merged into it."""
    if not merge_key:
        raise failed("cannot merge lists without merge key for struct")
    changes: list[Manifest] = []
    unwanted: set[Hashable] = set()
    replace = False
    for item in patch:
        if _DIRECTIVE not in item:
            changes.append(item)
            continue
        directive = item[_DIRECTIVE]
        if directive == "delete":
            if merge_key not in item:
                raise no_merge_key(item, merge_key)
            unwanted.add(identity(item[merge_key]))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise failed("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(directive, item)
    if replace:
        return changes, []
    if not unwanted:
        return live, changes
    return [each for each in live if merge_key not in each or identity(each[merge_key]) not in unwanted], changes


def _merge_items(kept: list[Manifest], changes: list[Manifest], rule: FieldMerge) -> list[Manifest]:
    """Each change merges into the first live item with its merge key, or comes behind them."""
    merged = list(kept)
    places: dict[Hashable, int] = {}
    for index, item in enumerate(kept):
        if rule.merge_key in item:
            places.setdefault(identity(item[rule.merge_key]), index)
    for change in changes:
        key = item_identity(change, rule.merge_key)
        if key in places:
            merged[places[key]] = _merge_objects(merged[places[key]], change, rule.child)
        else:
            places[key] = len(merged)
            merged.append(change)
    return merged
