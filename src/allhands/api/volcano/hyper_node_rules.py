"""What is refused of a HyperNode, with the path of each field: at admission, and where one came past it (`dialects`).

The only place that judges one by itself; how HyperNodes fit together is told elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, forbidden, invalid, not_supported, required, too_long
from allhands.api.names import dns1123_subdomain
from allhands.api.schema.goregex import why_not
from allhands.api.selectors import validate_label_selector
from allhands.api.volcano.hyper_node import ONE_SELECTOR, MemberType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

LONGEST_PATTERN: Final = 1024
LABELS_OF_NODES: Final = (
    f"is only for members of type {MemberType.NODE.value}; name HyperNodes by exactMatch or regexMatch"
)
_WAYS: Final = ("exactMatch", "regexMatch", "labelMatch")
_KINDS: Final = tuple(it.value for it in MemberType)


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
    kind = member.get("type", MemberType.NODE.value)
    if kind not in _KINDS:
        yield not_supported(f"{path}.type", kind, _KINDS)
    selector = member.get("selector") or {}
    ways = [way for way in _WAYS if selector.get(way) is not None]
    where = f"{path}.selector"
    if not ways:
        yield required(where, ONE_SELECTOR)
    elif len(ways) > 1:
        yield forbidden(f"{where}.{ways[1]}", ONE_SELECTOR)
    exact = (selector.get("exactMatch") or {}).get("name")
    if not exact and "exactMatch" in ways:
        yield required(f"{where}.exactMatch.name", "the name of a member")
    elif exact:
        for fault in dns1123_subdomain(exact):
            yield invalid(f"{where}.exactMatch.name", exact, fault)
        if exact == name and kind == MemberType.HYPER_NODE:
            yield invalid(f"{where}.exactMatch.name", exact, "a HyperNode cannot be a member of itself")
    pattern = (selector.get("regexMatch") or {}).get("pattern")
    if not pattern and "regexMatch" in ways:
        yield required(f"{where}.regexMatch.pattern", "a pattern of at least one character")
    elif pattern and len(pattern) > LONGEST_PATTERN:
        yield too_long(f"{where}.regexMatch.pattern", LONGEST_PATTERN)
    elif pattern and (why := why_not(pattern)):
        yield invalid(f"{where}.regexMatch.pattern", pattern, f"is not a regular expression: {why}")
    if selector.get("labelMatch") is not None and kind == MemberType.HYPER_NODE:
        yield forbidden(f"{where}.labelMatch", LABELS_OF_NODES)
    yield from validate_label_selector(selector.get("labelMatch"), f"{where}.labelMatch")
