"""Whether a snapshot that was read from a file holds together: the core relies on all of this and checks none of it.

`World` makes no other snapshots. It only looks, and names the first thing that is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.columns import ABSURD_UNITS

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


def problem_of(snapshot: Snapshot) -> str | None:
    """What does not fit together in it, in a few words."""
    return _problem_of_nodes(snapshot) or _problem_of_pods(snapshot) or _problem_of_groups(snapshot)


def _problem_of_nodes(snapshot: Snapshot) -> str | None:
    columns = snapshot.columns
    if list(columns.names) != sorted(set(columns.names)) or columns.names != tuple(it.name for it in columns.nodes):
        return "its nodes are not in order"
    if list(columns.resources) != sorted({*columns.resources, "cpu", "memory", "pods"}):
        return "its resources are not in order"
    size = (len(columns.resources), len(columns.names))
    if columns.allocatable.shape != size or columns.used.shape != size:
        return "the columns of its nodes have different lengths"
    if (
        columns.allocatable.size
        and not 0 <= int(columns.allocatable.min()) <= int(columns.allocatable.max()) < ABSURD_UNITS
    ):
        return "a node has an absurd amount of a resource"
    if columns.used.size and not 0 <= int(columns.used.min()) <= int(columns.used.max()) < 1 << 62:
        return "an absurd amount of a resource is in use"
    return None


def _problem_of_pods(snapshot: Snapshot) -> str | None:
    pods = snapshot.pods
    size = (len(pods.keys),)
    columns = (pods.node, pods.shape, pods.priority, pods.since, pods.flags)
    if len(pods.uids) != size[0] or any(column.shape != size for column in columns):
        return "the columns of its pods have different lengths"
    if size[0] and not -1 <= int(pods.node.min()) <= int(pods.node.max()) < len(snapshot.columns):
        return "a pod is on a node that is not there"
    if size[0] and not 0 <= int(pods.shape.min()) <= int(pods.shape.max()) < len(pods.shapes):
        return "a pod has a shape that is not there"
    return None


def _problem_of_groups(snapshot: Snapshot) -> str | None:
    if list(snapshot.groups) != sorted(snapshot.groups):
        return "its groups are not in order"
    pods, counted, seen = len(snapshot.pods), 0, set[int]()
    for entry in snapshot.groups.values():
        rows = (*entry.bound, *entry.leaving)
        if len(entry.bound) != len(entry.bound_parts) or (rows and not 0 <= min(rows) <= max(rows) < pods):
            return f'group "{entry.key}" has members that are not there'
        counted += len(rows)
        seen.update(rows)
        if len(seen) < counted:
            return f'a member of group "{entry.key}" is counted twice'
        if entry.problem is None and not _is_sound(entry):
            return f'group "{entry.key}" asks for something absurd'
    return None


def _is_sound(entry: GroupEntry) -> bool:
    parts = {part.name for part in entry.group.members.walk()}
    return all(
        members.pods
        and members.slot.subgroup in parts
        and all(0 <= units < ABSURD_UNITS for _, units in members.shape.requests.entries)
        for members in entry.pending
    )
