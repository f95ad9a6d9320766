"""An independent checker of plans: from the snapshot and the plan alone, is every law of the core kept?

It is written the slow and obvious way, pod by pod, and shares no code with the core's own placement.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allhands.core.snapshot import PodFlag
from allhands.model.podgroup import TopologyMode
from allhands.model.queue import Queue

if TYPE_CHECKING:
    from allhands.core.plan import Plan, Start
    from allhands.core.snapshot import GroupEntry, Members, Snapshot
    from allhands.model.podgroup import Slot


def violations(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Every broken law, as a sentence."""
    return [
        *_overfilled_nodes(snapshot, plan),
        *_misplaced_pods(snapshot, plan),
        *_bound_twice(plan),
        *_half_gangs(snapshot, plan),
        *_scattered_gangs(snapshot, plan),
        *_exceeded_caps(snapshot, plan),
        *_silent_groups(snapshot, plan),
    ]


def _members_of(snapshot: Snapshot) -> dict[str, tuple[GroupEntry, Members]]:
    return {
        ref.key: (entry, members)
        for entry in snapshot.groups.values()
        for members in entry.pending
        for ref in members.pods
    }


def _overfilled_nodes(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Pods that others have nominated are in what is used; they count for groups of their priority, and of lower."""
    columns = snapshot.columns
    pods = _members_of(snapshot)
    taken: dict[str, Counter[str]] = {}
    found = []
    for start in plan.starts:
        nodes = list(dict.fromkeys(bind.node for bind in start.binds))
        for bind in start.binds:
            counts = taken.setdefault(bind.node, Counter())
            counts["pods"] += 1
            for name, units in pods[bind.pod][1].shape.requests.entries:
                counts[name] += units
        for node in nodes:
            row = columns.row_by_name[node]
            outranked = _nominated_below(snapshot, row, snapshot.groups[start.group].group.priority)
            for name in _asked_there(start, node, pods):
                column = columns.column_by_resource.get(name)
                room = 0 if column is None else int(columns.allocatable[column, row] - columns.used[column, row])
                room += outranked[name]
                if taken[node][name] > max(room, 0):
                    found.append(f"{node} gets {taken[node][name]} of {name} and has room for {room}")
    return found


def _asked_there(start: Start, node: str, pods: dict[str, tuple[GroupEntry, Members]]) -> list[str]:
    """The resources that a start takes something of on a node."""
    shapes = [pods[bind.pod][1].shape for bind in start.binds if bind.node == node]
    return sorted({"pods", *(name for shape in shapes for name, units in shape.requests.entries if units)})


def _nominated_below(snapshot: Snapshot, row: int, priority: int) -> Counter[str]:
    """What is counted on a node for nominated pods that a group of this priority outranks."""
    pods = snapshot.pods
    found: Counter[str] = Counter()
    for at in range(len(pods)):
        if pods.node[at] == row and pods.flags[at] & PodFlag.NOMINATED and pods.priority[at] < priority:
            found["pods"] += 1
            found.update(dict(pods.shapes[pods.shape[at]].requests.entries))
    return found


def _misplaced_pods(snapshot: Snapshot, plan: Plan) -> list[str]:
    pods = _members_of(snapshot)
    found = []
    for bind in plan.binds:
        shape = pods[bind.pod][1].shape
        node = snapshot.columns.nodes[snapshot.columns.row_by_name[bind.node]]
        if (taint := node.repelling_taint(shape.tolerations)) is not None:
            found.append(f"{bind.pod} does not tolerate {taint} of {bind.node}")
        if any(node.labels.get(key) != value for key, value in shape.node_selector):
            found.append(f"{bind.pod} does not select {bind.node}")
    return found


def _bound_twice(plan: Plan) -> list[str]:
    counts = Counter(bind.pod for bind in plan.binds)
    return [f"{pod} is bound {count} times" for pod, count in counts.items() if count > 1]


def _starts_by_group(plan: Plan) -> dict[str, list[Start]]:
    found: dict[str, list[Start]] = {}
    for start in plan.starts:
        found.setdefault(start.group, []).append(start)
    return found


def _half_gangs(snapshot: Snapshot, plan: Plan) -> list[str]:
    pods = _members_of(snapshot)
    found = []
    for key, starts in _starts_by_group(plan).items():
        entry = snapshot.groups[key]
        counts: Counter[Slot] = Counter(entry.present_counts)
        for start in starts:
            counts.update(pods[bind.pod][1].slot for bind in start.binds)
        if lacking := entry.group.members.shortfalls(counts):
            found.append(f"{key} starts below its minimum: {lacking}")
        placed = {pods[bind.pod][1].slot.subgroup for start in starts for bind in start.binds}
        found += [
            f"part {part.name!r} of {key} gets members and stays below its minimum"
            for part in entry.group.members.walk()
            if part.shortfalls(counts) and not placed.isdisjoint(below.name for below in part.walk())
        ]
        most = entry.group.members.max_count
        if most is not None and sum(counts.values()) > max(most, sum(entry.present_counts.values())):
            found.append(f"{key} gets {sum(counts.values())} members of at most {most}")
    return found


def _scattered_gangs(snapshot: Snapshot, plan: Plan) -> list[str]:
    pods = _members_of(snapshot)
    found = []
    for key, starts in _starts_by_group(plan).items():
        entry = snapshot.groups[key]
        for part in entry.group.members.walk():
            rule = part.topology
            if rule is None or rule.mode is not TopologyMode.HARD:
                continue
            inside = {below.name for below in part.walk()}
            nodes = {bind.node for start in starts for bind in start.binds if pods[bind.pod][1].slot.subgroup in inside}
            if not nodes:
                continue
            nodes |= _bound_nodes(snapshot, entry, inside)
            assert rule.highest_tier is not None
            if not _share_a_domain(snapshot, nodes, rule.highest_tier):
                found.append(f"part {part.name!r} of {key} is scattered over {sorted(nodes)}")
    return found


def _bound_nodes(snapshot: Snapshot, entry: GroupEntry, inside: set[str]) -> set[str]:
    return {
        snapshot.columns.names[int(snapshot.pods.node[row])]
        for row, part in zip(entry.bound, entry.bound_parts, strict=True)
        if part in inside
    }


def _share_a_domain(snapshot: Snapshot, nodes: set[str], highest_tier: int) -> bool:
    domains = {domain.name: domain for domain in snapshot.facts.domains}

    def around(node: str) -> set[str]:
        names = set()
        for domain in domains.values():
            if node in domain.nodes:
                current: str | None = domain.name
                while current is not None:
                    if domains[current].tier <= highest_tier:
                        names.add(current)
                    current = domains[current].parent
        return names

    return bool(set.intersection(*(around(node) for node in nodes)))


def _exceeded_caps(snapshot: Snapshot, plan: Plan) -> list[str]:
    accounts = {account.name: account for account in snapshot.facts.accounts}
    use: dict[str, Counter[str]] = {name: Counter() for name in accounts}
    started: set[tuple[str, str]] = set()

    def charge(queue: str, units: Counter[str]) -> None:
        current: str | None = queue if queue in accounts else None
        while current is not None:
            use[current].update(units)
            current = accounts[current].parent

    for entry in snapshot.groups.values():
        charge(entry.group.queue, Counter(dict(entry.holding)))
    pods = _members_of(snapshot)
    for start in plan.starts:
        entry = snapshot.groups[start.group]
        for bind in start.binds:
            charge(entry.group.queue, Counter(dict(pods[bind.pod][1].shape.requests.entries)))
        begun = bool(entry.bound) and not entry.is_whole
        if not begun:
            asked = {name for bind in start.binds for name, units in pods[bind.pod][1].shape.requests.entries if units}
            current: str | None = entry.group.queue if entry.group.queue in accounts else None
            while current is not None:
                started |= {(current, name) for name in asked}
                current = accounts[current].parent
    return [
        f"{name} uses {use[name][quota.resource]} {quota.resource} of {quota.capability}"
        for name, resource in sorted(started)
        for quota in accounts[name].quotas
        if quota.resource == resource and quota.capability is not None and use[name][quota.resource] > quota.capability
    ] + [
        f"{start.group} started in the queue {snapshot.groups[start.group].group.queue!r} that is not there"
        for start in plan.starts
        if snapshot.groups[start.group].group.queue
        and not snapshot.groups[start.group].bound
        and not isinstance(accounts.get(snapshot.groups[start.group].group.queue), Queue)
    ]


def _silent_groups(snapshot: Snapshot, plan: Plan) -> list[str]:
    told = {wait.group for wait in plan.waits} | {start.group for start in plan.starts}
    return [
        f"{key} waits and is not told why"
        for key, entry in snapshot.groups.items()
        if (entry.pending or entry.gated) and not entry.is_whole and key not in told
    ]
