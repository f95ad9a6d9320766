"""Sub-groups that are told by the labels of pods: which sub-group a pod is in, and what the group needs of each.

A rule makes one sub-group of all pods that its selector takes and that have the same values of its keys. A sub-group
that has fewer pods than its size is never started. Pods that no rule takes are members of the group itself. Nothing
here looks at a cluster: the pods are counted by others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.model.podgroup import SubGroup, TopologyRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.model.selector import LabelSelector

MOST_PARTS: Final = 1_000
"""Of one group: more is taken for a slip, and would cost everybody else time."""
NO_PART: Final = ""
_ALL: Final = "*"


class PartRule(msgspec.Struct, frozen=True):
    """`size` pods make a sub-group whole; at least `min_parts` sub-groups of this rule must be."""

    name: str
    size: int = 1
    min_parts: int = 0
    selector: LabelSelector | None = None
    """None takes every pod."""
    keys: tuple[str, ...] = ()
    """None of them: all pods that are taken are one sub-group."""
    topology: TopologyRule | None = None


def part_of(rules: Sequence[PartRule], labels: Mapping[str, str]) -> str:
    """The name of its sub-group by the first rule that takes it, NO_PART if none does. No label has a slash in it."""
    for rule in rules:
        if rule.selector is not None and not rule.selector.matches(labels):
            continue
        values = [labels.get(key, "") for key in rule.keys]
        if all(values):
            return "/".join((rule.name, *(values or (_ALL,))))
    return NO_PART


def with_parts(members: SubGroup, rules: Sequence[PartRule], counts: Mapping[str, int]) -> SubGroup:
    """The group with its sub-groups: those of which there are pods, and as many more as must come. Of several rules
    each has a part of its own, in which its sub-groups are counted."""
    if not rules:
        return members
    if len(rules) == 1:
        least = max(rules[0].min_parts, _needed(members, rules[0], counts))
        return msgspec.structs.replace(members, children=_children(rules[0], counts, least), min_children=least)
    parts = (
        SubGroup(rule.name, children=_children(rule, counts, rule.min_parts), min_children=rule.min_parts)
        for rule in rules
    )
    return msgspec.structs.replace(members, children=tuple(parts))


def why_too_many(counts: Mapping[str, int]) -> str:
    """What is wrong with the sub-groups that there are, "" if nothing is."""
    number = len(counts) - (NO_PART in counts)
    return f"its pods make {number} sub-groups, and at most {MOST_PARTS} can be kept" if number > MOST_PARTS else ""


def _children(rule: PartRule, counts: Mapping[str, int], least: int) -> tuple[SubGroup, ...]:
    names = _parts_of(rule, counts)
    names += [f"{rule.name}/(yet to come {number})" for number in range(1, least - len(names) + 1)]
    return tuple(SubGroup(name, min_count=rule.size, topology=rule.topology) for name in names)


def _needed(members: SubGroup, rule: PartRule, counts: Mapping[str, int]) -> int:
    """Sub-groups are started whole: so many of them at least it takes to reach the group's own minimum."""
    left = members.min_count - counts.get(NO_PART, 0)
    sizes = sorted((counts[name] for name in _parts_of(rule, counts) if counts[name] >= rule.size), reverse=True)
    number = 0
    for size in sizes:
        if left <= 0:
            break
        left -= size
        number += 1
    return number


def _parts_of(rule: PartRule, counts: Mapping[str, int]) -> list[str]:
    return sorted(name for name, count in counts.items() if count and name.partition("/")[0] == rule.name)
