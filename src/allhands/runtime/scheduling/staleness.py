"""Whether a start that was decided a moment ago still holds: the last look before the first bind. Whole or not at all.

It compares with what has been seen since plus what we ourselves have sent; only what makes the placement wrong counts,
not that an object has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.rivals import looked_past
from allhands.model.queue import Queue
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from allhands.core.plan import Bind, Start
    from allhands.core.snapshot import Snapshot
    from allhands.model.pod import Pod
    from allhands.runtime.scheduling.watched_world import WatchedWorld


def why_stale(start: Start, watched: WatchedWorld) -> str:
    """What changed so that the start no longer holds; "" if nothing did. Its pods are assumed to be on their nodes."""
    needed: dict[str, set[str]] = {}
    for bind in start.binds:
        if problem := _pod_problem(bind, watched):
            return problem
        record = watched.pods.get(bind.pod)
        assert record is not None
        needed.setdefault(bind.node, set()).update(_asked(record.pod))
    snapshot = watched.snapshot(lasting=False)
    if problem := _group_problem(start, snapshot):
        return problem
    priority = snapshot.groups[start.group].group.priority
    for node in sorted(needed):
        if problem := _node_problem(node, needed[node], priority, snapshot):
            return problem
    return ""


def why_bind_stale(bind: Bind, watched: WatchedWorld) -> str:
    """The same for one bind of a start that has begun, where something unexpected was seen since then."""
    if problem := _pod_problem(bind, watched):
        return problem
    record = watched.pods.get(bind.pod)
    assert record is not None
    return _node_problem(bind.node, _asked(record.pod), record.pod.priority, watched.snapshot(lasting=False))


def _group_problem(start: Start, snapshot: Snapshot) -> str:
    entry = snapshot.groups.get(start.group)
    if entry is None:
        return "the group is gone"
    if entry.problem is not None:
        return str(entry.problem)
    if entry.group.suspended:
        return "the group is suspended"
    if start.is_whole and not entry.is_whole:
        return "the group needs more pods than before"
    for account in snapshot.facts.accounts:
        if account.name in entry.group.charged_accounts and isinstance(account, Queue):
            return "" if account.state.starts_groups else f"queue {account.name} is {account.state.value.lower()}"
    return ""


def _pod_problem(bind: Bind, watched: WatchedWorld) -> str:
    record = watched.pods.get(bind.pod)
    if record is None or record.pod.uid != bind.uid:
        return f"pod {bind.pod} is gone"
    pod = record.pod
    if pod.node_name:
        return f"pod {bind.pod} is on {pod.node_name} already"
    if pod.deleting:
        return f"pod {bind.pod} is being deleted"
    node = watched.nodes.get(bind.node)
    if node is None:
        return f"node {bind.node} is gone"
    if (taint := node.repelling_taint(pod.tolerations)) is not None:
        return f"node {bind.node} has the taint {taint}"
    if not all(node.labels.get(name) == value for name, value in pod.node_selector.items()):
        return f"node {bind.node} has not the labels any more that pod {bind.pod} asks for"
    if not pod.node_affinity.matches(node.labels, node.name):
        return f"node {bind.node} is not one any more that pod {bind.pod} may be on"
    return ""


def _asked(pod: Pod) -> set[str]:
    """The resources of which it takes something: others may be overdrawn without being in its way."""
    return {PODS, *(resource for resource, amount in pod.requests.entries if amount)}


def _node_problem(node: str, needed: set[str], priority: int, snapshot: Snapshot) -> str:
    """Pods that others have nominated are in nobody's way who outranks them."""
    columns = snapshot.columns
    row = columns.row_by_name.get(node)
    if row is None:
        return f"node {node} cannot be used"
    for resource in sorted(needed):
        column = columns.column_by_resource.get(resource)
        if column is None or columns.used[column, row] <= columns.allocatable[column, row]:
            continue
        over = int(columns.used[column, row] - columns.allocatable[column, row])
        if over > looked_past(snapshot, row, priority).get(column, 0):
            return f"node {node} has no room for {resource} any more"
    return ""
