"""The order of a merged list: items of the patch in the patch's order, the others where the live list had them.

Both relative orders are kept; where they leave a choice, the live list decides. The result must be the one that a
kube-apiserver computes, also in its odd corners, or two servers would show different lists for the same patch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.patch.errors import failed
from allhands.api.patch.values import go_text, go_type, identity

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from allhands.api.document import Json, Manifest
    from allhands.api.patch.errors import PatchError


def no_merge_key(item: Manifest, merge_key: str) -> PatchError:
    return failed(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")


def wrong_type(wanted: str, actual: Json) -> PatchError:
    return failed(f"expected a {wanted}, but received a {go_type(actual)}")


def item_identity(item: Json, merge_key: str) -> Hashable:
    """What tells items of one list apart: the merge key's value or, without merge key, the item itself."""
    if not merge_key:
        return identity(item)
    if not isinstance(item, dict):
        raise wrong_type("map[string]interface {}", item)
    if merge_key not in item:
        raise no_merge_key(item, merge_key)
    return identity(item[merge_key])


def ordered(
    merged: Sequence[Json], patch_order: Sequence[Json], live_order: Sequence[Json], merge_key: str
) -> list[Json]:
    """The items of `merged` in their final order; `patch_order` and `live_order` need only carry the merge key."""
    patch_places = _places(patch_order, merge_key)
    live_places = _places(live_order, merge_key)
    from_patch: list[tuple[Hashable, Json]] = []
    only_live: list[tuple[Hashable, Json]] = []
    for item in merged:
        key = item_identity(item, merge_key)
        (from_patch if key in patch_places else only_live).append((key, item))
    return _interleaved(_sorted(only_live, live_places), _sorted(from_patch, patch_places), live_places)


def _places(order: Sequence[Json], merge_key: str) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for index, item in enumerate(order):
        places.setdefault(item_identity(item, merge_key), index)
    return places


def _sorted(items: list[tuple[Hashable, Json]], places: dict[Hashable, int]) -> list[tuple[Hashable, Json]]:
    if all(key in places for key, _ in items):
        return sorted(items, key=lambda pair: places[pair[0]])
    # An item without a place compares as less than anything, and the server's insertion sort lets it travel forward.
    arranged: list[tuple[Hashable, Json]] = []
    for pair in items:
        at = len(arranged)
        while at and _before(pair[0], arranged[at - 1][0], places):
            at -= 1
        arranged.insert(at, pair)
    return arranged


def _before(left: Hashable, right: Hashable, places: dict[Hashable, int]) -> bool:
    return left not in places or right not in places or places[left] < places[right]


def _interleaved(
    only_live: list[tuple[Hashable, Json]],
    from_patch: list[tuple[Hashable, Json]],
    live_places: dict[Hashable, int],
) -> list[Json]:
    """Each live item goes before the first item of the patch that the live list has behind it."""
    result: list[Json] = []
    at = 0
    for key, item in from_patch:
        while at < len(only_live) and key in live_places:
            live_key, live_item = only_live[at]
            if live_key not in live_places or live_places[live_key] >= live_places[key]:
                break
            result.append(live_item)
            at += 1
        result.append(item)
    result += [item for _, item in only_live[at:]]
    return result
