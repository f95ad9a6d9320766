"""The sub-groups of a group that has some: how many pods each has, how many of them are on nodes, and what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.dialects.group_parts import part_of
from allhands.model.podgroup import TopologyMode

if TYPE_CHECKING:
    from allhands.dialects.group_parts import PartRule
    from allhands.model.podgroup import TopologyRule
    from allhands.views.groups import Group

PARTS_SHOWN: Final = 8
"""Of each rule."""


def part_name(group: Group | None, labels: dict[str, str]) -> str:
    """Of a pod with these labels, "" if it is in none."""
    if group is None or group.pod_group is None:
        return ""
    return part_of(group.pod_group.record.parts, labels)


def part_lines(group: Group) -> list[str]:
    rules = group.pod_group.record.parts if group.pod_group is not None else ()
    if not rules:
        return []
    seen: dict[str, list[bool]] = {}
    for it in group.live_pods:
        seen.setdefault(part_of(rules, it.record.pod.labels), []).append(it.record.pod.is_bound)
    lines: list[str] = []
    for rule in rules:
        lines.append(f"{rule.name}: {_asked(rule)}")
        parts = sorted(name for name in seen if name.partition("/")[0] == rule.name and name)
        lines += [f"{name}: {sum(seen[name])} of {len(seen[name])} pods on nodes" for name in parts[:PARTS_SHOWN]]
        if len(parts) > PARTS_SHOWN:
            lines.append(f"and {len(parts) - PARTS_SHOWN} more")
    if "" in seen:
        lines.append(f"in none of them: {sum(seen[''])} of {len(seen[''])} pods on nodes")
    return lines


def _asked(rule: PartRule) -> str:
    least = f"at least {rule.min_parts} sub-groups must start" if rule.min_parts else "no sub-group must start"
    where = f", each {_where(rule.topology)}" if rule.topology is not None else ""
    return f"{least}, of {rule.size} pods together{where}"


def _where(rule: TopologyRule) -> str:
    must = "in" if rule.mode is TopologyMode.HARD else "if possible in"
    if rule.tier_name is not None:
        return f"{must} one {rule.tier_name.rpartition('/')[2]}"
    return f"{must} one domain" + (f" of tier {rule.highest_tier} at most" if rule.highest_tier is not None else "")
