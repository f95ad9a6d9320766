"""Builds Snapshots from object events, touching only what changed. In any order, the same objects give the same.

It holds watched state and, on top, an overlay of our own writes that the watch has not shown yet. It never decides, and
an object that makes no sense is set aside with a reason instead of stopping anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.core.entries import build_entry, is_lone_group_of, lone_group, missing_group
from allhands.core.facts import NO_FACTS, Facts
from allhands.core.node_usage import NodeUsage
from allhands.core.pod_rows import PodRows
from allhands.core.pod_shapes import PodShapes
from allhands.core.pod_state import PodState, has_shape_of
from allhands.core.sanity import group_object, node_problem, set_aside, without_doubles
from allhands.core.snapshot import Changes, GroupEntry, SetAside, Snapshot
from allhands.core.sole_holder import holds_alone
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.podgroup import PodGroup, Slot

if TYPE_CHECKING:
    from allhands.core.entries import Predicted
    from allhands.core.sanity import GroupObject
    from allhands.model.node import Node
    from allhands.model.pod import Pod
    from allhands.model.reason import Explanation

NO_SLOT: Final = Slot("", "")
LONGEST_CHANGES: Final = 1 << 14
"""The list of changed groups begins anew beyond that, or beyond as many as there are groups."""


class World:
    """Feed it events, take snapshots. Not for use by two threads at a time."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, PodState] = {}
        self._groups: dict[str, GroupObject] = {}
        self._members: dict[str, dict[str, PodState]] = {}
        self._by_node: dict[str, dict[str, PodState]] = {}
        self._unheld: dict[str, PodState] = {}
        """By uid: pods whose room is yet to be held. Nobody can tell before the next snapshot, and by then some of them
        may be elsewhere, or gone."""
        self._facts = NO_FACTS
        self._version = 0
        self._rows = PodRows()
        self._usage = NodeUsage()
        self._entries: dict[str, GroupEntry] = {}
        self._entries_shared = False
        self._lone: dict[str, PodGroup] = {}
        """Of pods that are groups of their own, by the group's key."""
        self._dirty: set[str] = set()
        self._changes: list[str] = []
        self._shapes = PodShapes()
        self._bad_nodes: dict[str, SetAside] = {}
        self._bad_pods: dict[str, SetAside] = {}
        """By uid."""
        self._doubles: dict[str, tuple[SetAside, ...]] = {}
        """By group: pods whose name another pod has by now."""

    # -- events

    def set_node(self, node: Node) -> None:
        known = self._nodes.get(node.name)
        if known == node:
            return
        self._version += 1
        self._nodes[node.name] = node
        problem = node_problem(node)
        was_bad = self._bad_nodes.pop(node.name, None) is not None
        if problem is not None:
            self._bad_nodes[node.name] = problem
        same_row = known is not None and problem is None and not was_bad and not self._usage.is_stale
        if same_row and set(known.allocatable) == set(node.allocatable):  # type: ignore[union-attr]
            self._usage.change(node, self._version)
        else:
            self._usage.is_stale = True

    def delete_node(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._bad_nodes.pop(name, None)
            self._version += 1
            self._usage.is_stale = True

    def set_pod(
        self,
        pod: Pod,
        *,
        group: str = "",
        slot: Slot = NO_SLOT,
        ours: bool = True,
        status: GroupStatus = NO_STATUS,
    ) -> None:
        """`group` is the key of its pod-group (in the pod's own namespace, if it names none); a pod without one is a
        group of its own, with this status. The pod is complete: constraints that the system adds to it (see
        `default_spread`) are in it already."""
        self._version += 1
        known = self._pods.get(pod.uid)
        try:
            shape = known.shape if known is not None and has_shape_of(pod, known.pod) else self._shapes.of(pod)
        except OverflowError:
            self._set_pod_aside(pod, "It has a number beyond 64 bits.")
            return
        if not pod.uid:
            self._set_pod_aside(pod, "It has no uid.")
            return
        self._bad_pods.pop(pod.uid, None)
        if group and "/" not in group:
            group = f"{pod.namespace}/{group}"
        if group and (members := self._members.get(group)):
            # What they have in common is kept once.
            other = next(iter(members.values()))
            group, slot = other.group, other.slot if other.slot == slot else slot
        group = group or _lone_key(pod)
        if known is not None and known.shape is shape and known.stays(pod, group, slot, ours=ours):
            self._renew(known, pod, status)
            return
        state = PodState(pod, group, slot, ours=ours, shape=shape, status=status)
        if known is not None:
            state.assumed_node, state.assumed_at = known.assumed_node, known.assumed_at
            state.evicted = known.evicted
            self._forget(known)
            state.renew(pod, status)
        self._remember(state)

    def renew_pod(self, pod: Pod) -> bool:
        """As `set_pod` with all else as it is, where it is plain that the pod stays what it is and where it is. False:
        that is not plain, and nothing was done."""
        state = self._pods.get(pod.uid)
        if state is None or not has_shape_of(pod, state.pod):
            return False
        if not state.stays(pod, state.group, state.slot, ours=state.ours):
            return False
        self._version += 1
        self._renew(state, pod, state.status)
        return True

    def delete_pod(self, uid: str) -> None:
        if self._bad_pods.pop(uid, None) is not None:
            self._version += 1
        if (state := self._pods.get(uid)) is not None:
            self._version += 1
            self._forget(state)

    def assume_bound(self, uid: str, node: str, at_seconds: int | None = None) -> None:
        """Overlay: a binding that was sent and not seen yet. `node` "" takes it back."""
        if (state := self._pods.get(uid)) is not None and not state.pod.node_name:
            self._version += 1
            if state.row >= 0:
                self._leave_node(state)
            state.assumed_node, state.assumed_at = node, at_seconds if node else None
            self._dirty.add(state.group)
            self._unheld[uid] = state

    def assumed_node(self, uid: str) -> str:
        """Where a binding that was sent and not seen yet puts the pod; "" if there is none."""
        state = self._pods.get(uid)
        return "" if state is None else state.assumed_node

    def assume_evicted(self, uid: str, *, evicted: bool = True) -> None:
        """Overlay: an eviction that was sent and not seen yet."""
        if (state := self._pods.get(uid)) is not None and state.evicted != evicted:
            self._version += 1
            self._forget(state)
            state.evicted = evicted
            self._remember(state)

    def set_group(
        self,
        group: PodGroup,
        status: GroupStatus = NO_STATUS,
        predicted: tuple[Predicted, ...] = (),
        problem: str = "",
        waits_for: Explanation | None = None,
    ) -> None:
        """`predicted` are the members that the group's owner will create once it is admitted. `problem` is what the
        object that it comes from says wrongly: then it is never placed, and told so. `waits_for` is what must happen
        first, outside of what is decided here: it is not begun before, but what has begun goes on."""
        key = group.key
        known = self._groups.get(key)
        if known is not None and not problem and known == (group, status, predicted, None, waits_for):
            return
        self._version += 1
        self._count_predicted(key, -1)
        self._groups[key] = group_object(group, status, predicted, problem, waits_for)
        self._count_predicted(key, 1)
        self._dirty.add(key)

    def delete_group(self, key: str) -> None:
        if key in self._groups:
            self._version += 1
            self._count_predicted(key, -1)
            del self._groups[key]
            self._dirty.add(key)

    def set_facts(self, facts: Facts) -> None:
        self._version += 1
        self._facts = facts
        self._shapes.select_for_budgets(budget.selector.keys for budget in facts.budgets)

    # -- the snapshot

    def snapshot(self, *, lasting: bool = True) -> Snapshot:
        """What there is now. One that is not `lasting` may be read only until the next event; it costs by what changed
        since the last, where one that lasts costs by all there is."""
        self._settle_label_keys()
        if self._unheld:
            self._hold_all_room()
        if self._usage.is_stale:
            self._lay_out_nodes()
        self._rebuild_entries()
        self._entries_shared = self._entries_shared or lasting
        return Snapshot(
            columns=self._usage.shown(lasting=lasting),
            pods=self._rows.table(lasting=lasting),
            groups=self._entries,
            facts=self._facts,
            set_aside=self._set_aside(),
            version=self._version,
            changes=Changes(self._changes, len(self._changes)),
        )

    # -- pods

    def _remember(self, state: PodState) -> None:
        uid = state.pod.uid
        self._pods[uid] = state
        self._members.setdefault(state.group, {})[uid] = state
        self._dirty.add(state.group)
        # A shape that looks at pods has its namespace, others mostly have not.
        if state.shape.namespace:
            self._shapes.count_selecting(state.shape.selecting_keys, 1)
        self._hold_room(state)

    def _hold_room(self, state: PodState) -> None:
        """Where it has a node."""
        uid = state.pod.uid
        if node := state.node:
            self._by_node.setdefault(node, {})[uid] = state
            state.row = self._rows.put(
                -1,
                key=state.pod.key,
                uid=uid,
                shape=state.shape,
                priority=state.priority,
                since=state.since,
                flags=state.flags,
            )
            if not self._usage.is_stale:
                self._put_on_node(state)

    def _hold_all_room(self) -> None:
        unheld, self._unheld = self._unheld, {}
        for state in unheld.values():
            self._hold_room(state)

    def _renew(self, state: PodState, pod: Pod, status: GroupStatus) -> None:
        """What forgetting and remembering it would come to, where it stays where it is."""
        state.renew(pod, status)
        self._dirty.add(state.group)
        if state.row >= 0:
            self._rows.rewrite(state.row, priority=state.priority, since=state.since, flags=state.flags)
            if state.node_row >= 0 and not self._usage.is_stale:
                self._usage.touch(state.node_row, self._version)

    def _forget(self, state: PodState) -> None:
        uid = state.pod.uid
        del self._pods[uid]
        self._unheld.pop(uid, None)
        members = self._members[state.group]
        del members[uid]
        if not members:
            del self._members[state.group]
        self._dirty.add(state.group)
        if state.shape.namespace:
            self._shapes.count_selecting(state.shape.selecting_keys, -1)
        if state.row >= 0:
            self._leave_node(state)

    def _leave_node(self, state: PodState) -> None:
        at_node = self._by_node[state.node]
        del at_node[state.pod.uid]
        if not at_node:
            del self._by_node[state.node]
        if not self._usage.is_stale:
            self._usage.take(state, self._version)
        self._rows.remove(state.row)
        state.row = -1

    def _put_on_node(self, state: PodState) -> None:
        self._usage.add(state, self._version)
        self._rows.place(state.row, state.node_row)

    def _lay_out_nodes(self) -> None:
        names = sorted(name for name in self._nodes if name not in self._bad_nodes)
        self._usage.lay_out(tuple(self._nodes[name] for name in names), self._version)
        for at_node in self._by_node.values():
            for state in at_node.values():
                was_known = state.node_row >= 0
                self._put_on_node(state)
                if was_known != (state.node_row >= 0):
                    self._dirty.add(state.group)

    # -- which labels matter

    def _count_predicted(self, key: str, by: int) -> None:
        known = self._groups.get(key)
        for expected in known.predicted if known is not None else ():
            self._shapes.count_selecting(self._shapes.of(expected.pod).selecting_keys, by)

    def _settle_label_keys(self) -> None:
        """Shapes hold only the labels that some pod or budget selects by; if those change, all are made anew."""
        if not self._shapes.settle():
            return
        for state in self._pods.values():
            shape = self._shapes.of(state.pod)
            if shape.digest != state.shape.digest:
                state.shape = shape
                self._dirty.add(state.group)
                if state.row >= 0:
                    self._rows.reshape(state.row, shape)
        self._dirty.update(key for key, known in self._groups.items() if known.predicted)

    # -- groups

    def _rebuild_entries(self) -> None:
        if not self._dirty:
            return
        is_read = self._entries_shared and not holds_alone(self, "_entries")
        entries = dict(self._entries) if is_read else self._entries
        last = next(reversed(entries), "")
        in_order = True
        if len(self._changes) > LONGEST_CHANGES + len(entries):
            self._changes = []
        for key in sorted(self._dirty) if len(self._dirty) > 1 else self._dirty:
            entry = self._entry(key)
            if entry is None:
                entries.pop(key, None)
                self._lone.pop(key, None)
            else:
                if key not in entries:
                    in_order = in_order and key > last
                    last = key
                entries[key] = entry
            self._changes.append(key)
        self._entries = entries if in_order else dict(sorted(entries.items()))
        self._entries_shared = False
        self._dirty.clear()

    def _entry(self, key: str) -> GroupEntry | None:
        members = self._members.get(key) or {}
        self._doubles.pop(key, None)
        if len(members) > 1 and len({state.pod.name for state in members.values()}) < len(members):
            # Those who are doubled hold their room, and no more.
            members, self._doubles[key] = without_doubles(members.values())
        known = self._groups.get(key)
        if known is not None:
            entry = build_entry(known.group, known.status, members, known.predicted, self._shapes.of)
            problem = known.problem or (known.waits_for if not entry.bound else None)
            return entry if problem is None else msgspec.structs.replace(entry, problem=problem)
        if not members:
            return None
        if len(members) == 1:
            (first,) = members.values()
        else:
            first = min(members.values(), key=lambda state: state.pod.uid)
        if key == _lone_key(first.pod):
            if not first.ours:
                return None
            return build_entry(self._lone_group(key, first.pod), first.status, members, (), self._shapes.of)
        return missing_group(key, members, first.status)

    def _lone_group(self, key: str, pod: Pod) -> PodGroup:
        """The one that it had before, if nothing of it is different."""
        group = self._lone.get(key)
        if group is None or not is_lone_group_of(group, pod):
            group = self._lone[key] = lone_group(pod)
        return group

    def _set_pod_aside(self, pod: Pod, problem: str) -> None:
        if (known := self._pods.get(pod.uid)) is not None:
            self._forget(known)
        self._bad_pods[pod.uid] = set_aside("Pod", pod.key, problem)

    def _set_aside(self) -> tuple[SetAside, ...]:
        known = self._usage.columns.row_by_name
        if self._by_node.keys() <= known.keys():
            if not (self._bad_nodes or self._bad_pods or self._doubles):
                return ()
            stranded = []
        else:
            stranded = [
                set_aside("Pod", state.pod.key, f'It is on node "{node}", which is unknown.')
                for node, at_node in self._by_node.items()
                if node not in known
                for state in at_node.values()
            ]
        doubles = (it for found in self._doubles.values() for it in found)
        found = (*self._bad_nodes.values(), *self._bad_pods.values(), *stranded, *doubles)
        return tuple(sorted(found, key=lambda it: (it.kind, it.name, str(it.why))))


def _lone_key(pod: Pod) -> str:
    # No pod-group can have a colon in its name.
    return f"{pod.namespace}/pod:{pod.name}"
