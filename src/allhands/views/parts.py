"""The sub-groups of a group that has some: what is asked of each, how many of its pods are on nodes or have
succeeded, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.dialects.group_parts import part_of
from allhands.model.pod import PodPhase
from allhands.model.podgroup import TopologyMode

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    for it in group.pods:
        pod = it.record.pod
        # Who has succeeded counts on: its part needs no other in its place.
        if pod.phase is PodPhase.SUCCEEDED or not (pod.is_finished or pod.deleting):
            seen.setdefault(part_of(rules, pod.labels), []).append(pod.is_bound)
    lines: list[str] = []
    for rule in rules:
        lines.append(f"{rule.name}: {_asked(rule)}")
        parts = sorted(name for name in seen if name.partition("/")[0] == rule.name and name)
        lines += [f"{name}: {_how_it_is(rule, seen[name])}" for name in _most_telling(parts, seen)]
        if len(parts) > PARTS_SHOWN:
            lines.append(f"and {len(parts) - PARTS_SHOWN} more")
    if "" in seen:
        lines.append(f"in none of them: {sum(seen[''])} of {len(seen[''])} pods on nodes or done")
    return lines


def _most_telling(parts: list[str], seen: Mapping[str, list[bool]]) -> list[str]:
    """Those that wait before those that are on nodes; what is left is by name."""
    chosen = sorted(parts, key=lambda name: (all(seen[name]), name))[:PARTS_SHOWN]
    return sorted(chosen)


def _how_it_is(rule: PartRule, pods: list[bool]) -> str:
    bound = sum(pods)
    words = f"{bound} of {len(pods)} pods on nodes or done"
    if len(pods) < rule.size:
        return f"{words}; it waits for {rule.size - len(pods)} more pods, since it starts with {rule.size}"
    if bound == len(pods):
        return words
    where = f" {_where(rule.topology)}" if rule.topology is not None else ""
    beside = ", beside those" if bound and where else ""
    return f"{words}; it waits for room for {max(rule.size, len(pods)) - bound}{where}{beside}"


def _asked(rule: PartRule) -> str:
    """What its sub-groups are, before one of them is told of."""
    pods = f"{rule.size} pods" if rule.size != 1 else "1 pod"
    where = f", {_where(rule.topology)}" if rule.topology is not None else ""
    least = f"; at least {rule.min_parts} of them must start" if rule.min_parts else ""
    if not rule.keys:
        return f"one sub-group, which starts with {pods} or not at all{where}{least}"
    return f"sub-groups by {', '.join(rule.keys)}, each of which starts with {pods} or not at all{where}{least}"


def _where(rule: TopologyRule) -> str:
    must = "in" if rule.mode is TopologyMode.HARD else "if possible in"
    if rule.tier_name is not None:
        return f"{must} one {rule.tier_name.rpartition('/')[2]}"
    return f"{must} one domain" + (f" of tier {rule.highest_tier} at most" if rule.highest_tier is not None else "")
