"""Builds Snapshots from object events, touching only what changed. In any order, the same objects give the same.

It holds watched state and, on top, an overlay of our own writes that the watch has not shown yet. It never decides, and
an object that makes no sense is set aside with a reason instead of stopping anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from allhands.core.columns import NodeColumns, allocatable_columns, resource_names
from allhands.core.entries import build_entry, lone_group, missing_group
from allhands.core.facts import NO_FACTS, Facts
from allhands.core.pod_rows import PodRows
from allhands.core.pod_state import PodState, has_shape_of, units_counted
from allhands.core.sanity import group_object, node_problem, set_aside, without_doubles
from allhands.core.snapshot import Changes, GroupEntry, SetAside, Snapshot
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.podgroup import PodGroup, Slot
from allhands.model.shape import PodShape

if TYPE_CHECKING:
    from allhands.core.entries import Predicted
    from allhands.core.sanity import GroupObject
    from allhands.model.node import Node
    from allhands.model.pod import Pod
    from allhands.model.reason import Explanation

NO_SLOT: Final = Slot("", "")
MOST_USED: Final = (1 << 62) - 1
MOST_SHAPES_SHARED: Final = 1 << 16
"""Of so many shapes one object each is kept for all pods alike; beyond that it begins anew."""
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
        self._facts = NO_FACTS
        self._version = 0
        self._rows = PodRows()
        self._columns: NodeColumns | None = None
        self._layout = 0
        self._layout_stale = True
        self._used_shared = self._allocatable_shared = False
        self._entries: dict[str, GroupEntry] = {}
        self._entries_shared = False
        self._dirty: set[str] = set()
        self._changes: list[str] = []
        self._selecting: dict[str, int] = {}
        self._selecting_pods = 0
        self._label_keys: frozenset[str] | None = None
        self._budget_keys: frozenset[str] | None = None
        self._bad_nodes: dict[str, SetAside] = {}
        self._bad_pods: dict[str, SetAside] = {}
        """By uid."""
        self._doubles: dict[str, tuple[SetAside, ...]] = {}
        """By group: pods whose name another pod has by now."""
        self._exact: dict[tuple[int, int], int] = {}
        """Sums that no column can hold, by column and row."""
        self._shapes: dict[str, PodShape] = {}
        self._counted: dict[str, tuple[tuple[int, int], ...]] = {}
        """Shape -> what it adds to the columns of a node; one value for all pods alike."""

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
        same_row = known is not None and problem is None and not was_bad and not self._layout_stale
        if same_row and set(known.allocatable) == set(node.allocatable):  # type: ignore[union-attr]
            self._change_row(node)
        else:
            self._layout_stale = True

    def delete_node(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._bad_nodes.pop(name, None)
            self._version += 1
            self._layout_stale = True

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
            shape = known.shape if known is not None and has_shape_of(pod, known.pod) else self._shape(pod)
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
            self._forget(state)
            state.assumed_node, state.assumed_at = node, at_seconds if node else None
            self._remember(state)

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
        selectors = [budget.selector.keys for budget in facts.budgets]
        self._budget_keys = frozenset().union(*selectors) if selectors else None

    # -- the snapshot

    def snapshot(self, *, lasting: bool = True) -> Snapshot:
        """What there is now. One that is not `lasting` may be read only until the next event; it costs by what changed
        since the last, where one that lasts costs by all there is."""
        self._settle_label_keys()
        if self._layout_stale or self._columns is None:
            self._rebuild_columns()
        self._rebuild_entries()
        assert self._columns is not None
        if lasting:
            self._used_shared = self._entries_shared = True
        # It is known by its identity, so it is never written to.
        self._allocatable_shared = True
        return Snapshot(
            columns=self._columns,
            pods=self._rows.table(lasting=lasting),
            groups=self._entries,
            facts=self._facts,
            set_aside=self._set_aside(),
            version=self._version,
            changes=Changes(self._changes, len(self._changes)),
        )

    # -- pods

    def _shape(self, pod: Pod) -> PodShape:
        shape = PodShape.of(pod, self._label_keys, pinned=False)
        if len(self._shapes) >= MOST_SHAPES_SHARED:
            self._shapes.clear()
            self._counted.clear()
        return self._shapes.setdefault(shape.digest, shape)

    def _remember(self, state: PodState) -> None:
        uid = state.pod.uid
        self._pods[uid] = state
        self._members.setdefault(state.group, {})[uid] = state
        self._dirty.add(state.group)
        # A shape that looks at pods has its namespace, others mostly have not.
        if state.shape.namespace:
            self._count_selecting(state.shape.selecting_keys, 1)
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
            if not self._layout_stale and self._columns is not None:
                self._add_to_node(state)

    def _renew(self, state: PodState, pod: Pod, status: GroupStatus) -> None:
        """What forgetting and remembering it would come to, where it stays where it is."""
        state.renew(pod, status)
        self._dirty.add(state.group)
        if state.row >= 0:
            self._rows.rewrite(state.row, priority=state.priority, since=state.since, flags=state.flags)
            if state.node_row >= 0 and not self._layout_stale:
                self._own_used().generation[state.node_row] = self._version

    def _forget(self, state: PodState) -> None:
        uid = state.pod.uid
        del self._pods[uid]
        members = self._members[state.group]
        del members[uid]
        if not members:
            del self._members[state.group]
        self._dirty.add(state.group)
        if state.shape.namespace:
            self._count_selecting(state.shape.selecting_keys, -1)
        if state.row >= 0:
            at_node = self._by_node[state.node]
            del at_node[uid]
            if not at_node:
                del self._by_node[state.node]
            if not self._layout_stale and self._columns is not None:
                self._take_from_node(state)
            self._rows.remove(state.row)
            state.row = -1

    def _add_to_node(self, state: PodState) -> None:
        columns = self._own_used()
        row = columns.row_by_name.get(state.node, -1)
        state.node_row = row
        self._rows.place(state.row, row)
        if row < 0:
            return
        counted = self._counted.get(state.shape.digest)
        if counted is None:
            counted = self._counted[state.shape.digest] = units_counted(state.shape, columns)
        state.counted = counted
        self._add_units(columns, row, state.counted, 1)
        columns.generation[row] = self._version

    def _take_from_node(self, state: PodState) -> None:
        if state.node_row < 0:
            return
        columns = self._own_used()
        self._add_units(columns, state.node_row, state.counted, -1)
        columns.generation[state.node_row] = self._version
        state.node_row = -1

    def _add_units(self, columns: NodeColumns, row: int, counted: tuple[tuple[int, int], ...], sign: int) -> None:
        """Sums beyond what a column holds are kept apart, so that they neither wrap around nor are forgotten."""
        used, exact = columns.used, self._exact
        for column, units in counted:
            total = int(used[column, row]) if not exact else exact.get((column, row), int(used[column, row]))
            total += sign * units
            if total > MOST_USED:
                exact[column, row] = total
            elif exact:
                exact.pop((column, row), None)
            used[column, row] = min(total, MOST_USED)

    # -- columns

    def _own_used(self) -> NodeColumns:
        """The columns, with `used` and `generation` that no snapshot reads."""
        assert self._columns is not None
        if self._used_shared:
            self._used_shared = False
            self._columns = msgspec.structs.replace(
                self._columns, used=self._columns.used.copy(), generation=self._columns.generation.copy()
            )
        return self._columns

    def _change_row(self, node: Node) -> None:
        columns = self._own_used()
        row = columns.row_by_name[node.name]
        nodes = list(columns.nodes)
        nodes[row] = node
        columns = msgspec.structs.replace(
            columns,
            nodes=tuple(nodes),
            allocatable=columns.allocatable.copy() if self._allocatable_shared else columns.allocatable,
            static_generation=columns.static_generation.copy(),
        )
        self._allocatable_shared = False
        for name in columns.resources:
            columns.allocatable[columns.column_by_resource[name], row] = node.allocatable.get(name)
        columns.generation[row] = columns.static_generation[row] = self._version
        self._columns = columns

    def _rebuild_columns(self) -> None:
        names = tuple(sorted(name for name in self._nodes if name not in self._bad_nodes))
        nodes = tuple(self._nodes[name] for name in names)
        resources = resource_names(nodes)
        self._layout += 1
        generation = np.full(len(names), self._version, dtype=np.int64)
        columns = NodeColumns(
            names=names,
            nodes=nodes,
            row_by_name={name: row for row, name in enumerate(names)},
            resources=resources,
            column_by_resource={name: column for column, name in enumerate(resources)},
            allocatable=allocatable_columns(nodes, resources),
            used=np.zeros((len(resources), len(names)), dtype=np.int64),
            generation=generation,
            static_generation=generation.copy(),
            layout=self._layout,
        )
        self._columns = columns
        self._exact.clear()
        self._counted.clear()
        self._layout_stale = self._used_shared = self._allocatable_shared = False
        for at_node in self._by_node.values():
            for state in at_node.values():
                was_known = state.node_row >= 0
                self._add_to_node(state)
                if was_known != (state.node_row >= 0):
                    self._dirty.add(state.group)

    # -- which labels matter

    def _count_predicted(self, key: str, by: int) -> None:
        known = self._groups.get(key)
        for expected in known.predicted if known is not None else ():
            self._count_selecting(self._shape(expected.pod).selecting_keys, by)

    def _count_selecting(self, keys: frozenset[str] | None, by: int) -> None:
        if keys is None:
            return
        self._selecting_pods += by
        for key in keys:
            count = self._selecting.get(key, 0) + by
            if count:
                self._selecting[key] = count
            else:
                del self._selecting[key]

    def _settle_label_keys(self) -> None:
        """Shapes hold only the labels that some pod or budget selects by; if those change, all are made anew."""
        keys = frozenset(self._selecting) if self._selecting_pods else None
        if self._budget_keys is not None:
            keys = self._budget_keys if keys is None else keys | self._budget_keys
        if keys == self._label_keys:
            return
        self._label_keys = keys
        self._shapes.clear()
        for state in self._pods.values():
            shape = self._shape(state.pod)
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
        entries = dict(self._entries) if self._entries_shared else self._entries
        last = next(reversed(entries), "")
        in_order = True
        if len(self._changes) > LONGEST_CHANGES + len(entries):
            self._changes = []
        for key in sorted(self._dirty) if len(self._dirty) > 1 else self._dirty:
            entry = self._entry(key)
            if entry is None:
                entries.pop(key, None)
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
            entry = build_entry(known.group, known.status, members, known.predicted, self._shape)
            problem = known.problem or (known.waits_for if not entry.bound else None)
            return entry if problem is None else msgspec.structs.replace(entry, problem=problem)
        if not members:
            return None
        first = min(members.values(), key=lambda state: state.pod.uid)
        if key == _lone_key(first.pod):
            if not first.ours:
                return None
            return build_entry(lone_group(first.pod), first.status, members, (), self._shape)
        return missing_group(key, members, first.status)

    def _set_pod_aside(self, pod: Pod, problem: str) -> None:
        if (known := self._pods.get(pod.uid)) is not None:
            self._forget(known)
        self._bad_pods[pod.uid] = set_aside("Pod", pod.key, problem)

    def _set_aside(self) -> tuple[SetAside, ...]:
        assert self._columns is not None
        known = self._columns.row_by_name
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
