"""What is refused of a HyperNode, with the path of each field. Pure; how HyperNodes fit together is told elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, forbidden, invalid, required
from allhands.api.names import dns1123_subdomain
from allhands.api.schema.goregex import why_not
from allhands.api.selectors import validate_label_selector
from allhands.api.volcano.hyper_node import ONE_SELECTOR, MemberType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

_WAYS: Final = ("exactMatch", "regexMatch", "labelMatch")


def hyper_node_errors(node: Manifest, old: Manifest | None = None) -> list[FieldError]:
    """Why a HyperNode that is new, or has changed, is refused."""
    spec = node.get("spec") or {}
    if old is not None and spec == (old.get("spec") or {}):
        return []
    members = spec.get("members") or []
    if not members:
        return [required("spec.members", "a HyperNode has at least one member")]
    name = node["metadata"].get("name", "")
    return [
        error
        for index, member in enumerate(members)
        for error in _member_errors(member, f"spec.members[{index}]", name)
    ]


def _member_errors(member: Manifest, path: str, name: str) -> Iterator[FieldError]:
    selector = member.get("selector") or {}
    ways = [way for way in _WAYS if selector.get(way) is not None]
    where = f"{path}.selector"
    if not ways:
        yield required(where, ONE_SELECTOR)
    elif len(ways) > 1:
        yield forbidden(f"{where}.{ways[1]}", ONE_SELECTOR)
    exact = (selector.get("exactMatch") or {}).get("name")
    if exact is not None:
        for fault in dns1123_subdomain(exact):
            yield invalid(f"{where}.exactMatch.name", exact, fault)
        if exact == name and member.get("type") == MemberType.HYPER_NODE:
            yield invalid(f"{where}.exactMatch.name", exact, "a HyperNode cannot be a member of itself")
    pattern = (selector.get("regexMatch") or {}).get("pattern")
    if pattern is not None:
        if not pattern:
            yield required(f"{where}.regexMatch.pattern")
        elif why := why_not(pattern):
            yield invalid(f"{where}.regexMatch.pattern", pattern, f"is not a regular expression: {why}")
    yield from validate_label_selector(selector.get("labelMatch"), f"{where}.labelMatch")
