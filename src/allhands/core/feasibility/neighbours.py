"""Where a shape may go by which pods are where: host ports, affinity, anti-affinity, topology spreading, volumes.

Counts are made when a shape first asks for them and follow every placement. A shape that asks nothing of other pods,
in a cluster where no pod asks anything of it, costs nothing here. Shapes are those of the snapshot, bound or waiting.

Nominated pods count on the node that they are nominated for and nowhere else, and never make a place better: a pod must
be welcome there with them and without them, as kube-scheduler has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.feasibility.counts import Count
from allhands.core.feasibility.demands import Demands
from allhands.core.feasibility.pod_terms import (
    MeaningIt,
    MeantByAll,
    MeantByOwn,
    Namespaces,
    TermIndex,
    terms_apart,
    terms_liked,
    terms_preferred,
)
from allhands.core.feasibility.ports import ConflictingPorts
from allhands.core.feasibility.spread_counts import Likes, SoftSpread, SpreadCount, counted_nodes
from allhands.core.feasibility.static import StaticFeasibility
from allhands.core.feasibility.tally import Tally
from allhands.core.feasibility.volumes import VolumeFeasibility
from allhands.core.rivals import rivals_of
from allhands.core.scores.pod_affinity import PodAffinity
from allhands.core.scores.spread import HOSTNAME, Spread, is_system_default
from allhands.model.affinity import PodTerm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.columns import Column, Mask
    from allhands.core.feasibility.pod_terms import TermsOf, WeightedTerms
    from allhands.core.plan_volumes import PrepareVolume
    from allhands.core.rivals import Rivals
    from allhands.core.room import Room
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.model.affinity import SpreadConstraint
    from allhands.model.shape import PodShape

_SCORES: Final = (PodAffinity(), Spread())


class Neighbours:
    """For one snapshot and what is placed on it.

    `static` may be shared with whoever asks about the same nodes, `volumes` be those of the last cycle's Neighbours.
    `waiting` are the groups of which waiting members look at others, by key, if that is known. `rivals` knows which
    nominated pods count for the one who asks.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        room: Room,
        static: StaticFeasibility | None = None,
        volumes: VolumeFeasibility | None = None,
        waiting: Iterable[GroupEntry] | None = None,
        rivals: Rivals | None = None,
    ) -> None:
        self._node_count = len(room.columns)
        self._static = StaticFeasibility(room.columns) if static is None else static
        self.volumes = VolumeFeasibility(snapshot.facts.volumes, room.columns, snapshot.pods, volumes)
        self._namespaces = Namespaces(snapshot.facts.namespaces)
        self._tally = Tally(snapshot.pods, self._node_count)
        self._rivals = rivals_of(snapshot) if rivals is None else rivals
        self._apart = TermIndex()
        """Terms that forbid, of pods that are there or may come."""
        self._liked = TermIndex()
        """Terms that make places better or worse for others, of the same pods."""
        self._read = TermIndex()
        """Terms by which waiting pods look at others."""
        self._is_dynamic: dict[str, bool] = {}
        self._is_noticed: dict[str, bool] = {}
        self._demands: dict[str, Demands] = {}
        self._liking: dict[str, tuple[Count, ...]] = {}
        self._learn_terms(snapshot, snapshot.groups.values() if waiting is None else waiting)

    # -- who is concerned

    def is_dynamic(self, shape: PodShape) -> bool:
        """Whether `mask` changes as pods come and go: then it is placed one at a time.

        The volumes of bound claims have a say, too, which does not change: `volumes.reach`.
        """
        if shape.host_ports or shape.spread or not shape.pod_affinity.is_empty or self.volumes.is_dynamic(shape):
            return True
        if not self._apart:
            return False
        found = self._is_dynamic.get(shape.digest)
        if found is None:
            about = self._apart.about(shape, self._namespaces.is_meant)
            found = self._is_dynamic[shape.digest] = next(about, None) is not None
        return found

    def is_noticed(self, shape: PodShape) -> bool:
        """Whether some shape may see that a pod of this one came or went."""
        if shape.host_ports or not shape.pod_affinity.is_empty or self.volumes.is_dynamic(shape):
            return True
        if not self._read:
            return False
        found = self._is_noticed.get(shape.digest)
        if found is None:
            about = self._read.about(shape, self._namespaces.means)
            found = self._is_noticed[shape.digest] = next(about, None) is not None
        return found

    def placed(self, shape: PodShape, row: int, sign: int, *, leaving: bool = False) -> None:
        """A pod came (1) or went (-1). `leaving` says of a pod that went that it was being deleted already."""
        self._tally.move(shape, row, sign, leaving=leaving)
        self.volumes.placed(shape, row, sign)

    def held(self, shape: PodShape, row: int, sign: int) -> None:
        """A pod that was `placed` is yet to come: it keeps others away, and opens no place to anybody. -1 takes that
        back."""
        self._tally.hold(shape, row, sign)

    def prepare(self, shape: PodShape, row: int) -> tuple[PrepareVolume, ...]:
        """What must be done before a pod that is placed there is bound."""
        return self.volumes.prepare(shape, row)

    # -- answers

    def mask(self, shape: PodShape) -> Mask:
        """Where one more pod of this shape may go now, by everything that other pods decide but resources."""
        demands = self._demands.get(shape.digest)
        if demands is None:
            demands = self._demands[shape.digest] = self._demands_of(shape)
        mask = demands.mask()
        if self._rivals is not None:
            self._mind_nominated(mask, demands, self._rivals)
        if self.volumes.concerns(shape):
            mask &= self.volumes.mask(shape)
        return mask

    def _mind_nominated(self, mask: Mask, demands: Demands, rivals: Rivals) -> None:
        for row, added in self._tally.nominations(rivals, demands.minding_nominated()).items():
            for count, weight in added:
                count.add(row, weight)
            mask[row] &= demands.mask(np.array([row]))[0]
            for count, weight in added:
                count.add(row, -weight)

    def score(self, shape: PodShape, among: Mask | None = None) -> Column:
        """How good each node is by preferred affinity and soft spreading: 0 to SCORE_SCALE, all 0 if it has neither.

        Points are stretched over the nodes of `among`, or over all.
        """
        parts = [part for plugin in _SCORES if (part := plugin.neighbour_score(shape, self, among)) is not None]
        if not parts:
            return np.zeros(self._node_count, dtype=np.int64)
        return parts[0] if len(parts) == 1 else (parts[0] + parts[1]) // 2

    def affinity_points(self, shape: PodShape) -> Column | None:
        """The weights of preferences that a pod on each node would meet, its own and others'; None without any."""
        counts = self._liking.get(shape.digest)
        if counts is None:
            own = terms_preferred(shape.pod_affinity)
            counts = self._liking[shape.digest] = self._by_topology(shape, own, self._liked, terms_liked)
        total: Column | None = None
        for count in counts:
            points = count.at_rows()
            total = points if total is None else total + points
        return total

    def soft_spread(self, shape: PodShape) -> tuple[SoftSpread, ...]:
        """Pods like it around each node, for each of its soft constraints."""
        soft = tuple(it for it in shape.spread if not it.hard)
        keys = () if is_system_default(soft) else tuple(sorted({it.topology_key for it in soft}))
        return tuple(self._soft(constraint, shape, keys) for constraint in soft)

    # -- what a shape reads

    def _demands_of(self, shape: PodShape) -> Demands:
        hard = tuple(it for it in shape.spread if it.hard)
        if not (shape.pod_affinity.is_valid and all(it.selector is None or it.selector.is_valid for it in hard)):
            return Demands(self._node_count, is_valid=False)
        together = shape.pod_affinity.required_together
        keys = tuple(sorted({it.topology_key for it in hard}))
        return Demands(
            self._node_count,
            apart=self._by_topology(shape, terms_apart(shape.pod_affinity), self._apart, terms_apart),
            together=tuple(self._together(key, together) for key in sorted({it.topology_key for it in together})),
            asks_of_pods=bool(together or shape.pod_affinity.required_apart),
            means_itself=all(self._namespaces.means(term, shape) for term in together),
            spread=tuple(self._hard(constraint, shape, keys) for constraint in hard),
            ports=(self._ports(shape),) if shape.host_ports else (),
        )

    def _by_topology(
        self, shape: PodShape, own: WeightedTerms, known: TermIndex, terms_of: TermsOf
    ) -> tuple[Count, ...]:
        """One count a topology key: pods that own terms mean, and pods whose terms mean the shape."""
        keys = {term.topology_key for term, _ in own}
        keys.update(term.topology_key for term in known.about(shape, self._namespaces.is_meant))

        def make(key: str) -> Count:
            mine = MeantByOwn([(term, weight) for term, weight in own if term.topology_key == key], self._namespaces)
            theirs = MeaningIt(shape, terms_of, key, known, self._namespaces)
            column = self._static.labels.column(key)
            return Count((mine, theirs), column.ids, column.size)

        about = (terms_of.__name__, shape.namespace, shape.labels, tuple(own))
        return tuple(self._tally.count((*about, key), lambda key=key: make(key)) for key in sorted(keys))  # type: ignore[misc]

    def _together(self, key: str, terms: tuple[PodTerm, ...]) -> Count:
        column = self._static.labels.column(key)
        return self._tally.count(
            ("together", key, terms), lambda: Count((MeantByAll(terms, self._namespaces),), column.ids, column.size)
        )

    def _hard(self, constraint: SpreadConstraint, shape: PodShape, keys: tuple[str, ...]) -> SpreadCount:
        def make() -> SpreadCount:
            counted = counted_nodes(constraint, shape, keys, self._static)
            return SpreadCount(constraint, shape, self._static.labels.column(constraint.topology_key), counted)

        found = self._tally.count(("hard", constraint, keys, shape.labels, *_counted_by(constraint, shape)), make)
        assert isinstance(found, SpreadCount)
        return found

    def _soft(self, constraint: SpreadConstraint, shape: PodShape, keys: tuple[str, ...]) -> SoftSpread:
        column = self._static.labels.column(constraint.topology_key)
        watches = (Likes(shape.namespace, constraint.selector),)

        def make() -> Count:
            if constraint.topology_key == HOSTNAME:
                # As in kube-scheduler: pods of the node itself, whatever the policies say of it.
                return Count(watches, self._tally.own_domains, self._node_count + 1, leaving=False)
            counted = counted_nodes(constraint, shape, keys, self._static)
            return Count(watches, column.ids, column.size, counted=counted, leaving=False)

        count = self._tally.count(("soft", constraint, keys, *_counted_by(constraint, shape)), make)
        return SoftSpread(constraint, count.at_rows(), column)

    def _ports(self, shape: PodShape) -> Count:
        watches = (ConflictingPorts(shape.host_ports),)
        domains = self._tally.own_domains
        return self._tally.count(("ports", shape.host_ports), lambda: Count(watches, domains, self._node_count + 1))

    # -- what is known of terms

    def _learn_terms(self, snapshot: Snapshot, groups: Iterable[GroupEntry]) -> None:
        shapes = snapshot.pods.shapes
        looking = snapshot.pods.looking
        if looking is None:
            # A shape that looks at pods has its namespace, others mostly have not.
            looks = [shape.namespace and not shape.pod_affinity.is_empty for shape in shapes]
            looking = tuple(number for number, it in enumerate(looks) if it)
        if looking:
            there = set(self._tally.occupants.present)
            nominated = self._rivals.shapes if self._rivals is not None else {}
            for number in looking:
                if number in there:
                    self._learn(shapes[number], number)
                elif shapes[number].digest in nominated:
                    self._learn(shapes[number])
        waiting = {
            members.shape.digest: members.shape
            for entry in groups
            for members in entry.pending
            if members.shape.namespace and members.shape.selects_pods
        }
        for shape in waiting.values():
            self._learn(shape)
            for term in shape.pod_affinity.terms():
                self._read.add(term)
            for constraint in shape.spread:
                self._read.add(PodTerm(constraint.selector, constraint.topology_key, (shape.namespace,)))

    def _learn(self, shape: PodShape, number: int | None = None) -> None:
        for term, _ in terms_apart(shape.pod_affinity):
            self._apart.add(term, number)
        for term, _ in terms_liked(shape.pod_affinity):
            self._liked.add(term, number)


def _counted_by(constraint: SpreadConstraint, shape: PodShape) -> tuple[object, ...]:
    """All of a shape that decides which pods on which nodes a constraint counts."""
    return (
        shape.namespace,
        (shape.node_selector, shape.node_affinity.required) if constraint.honor_node_affinity else None,
        shape.tolerations if constraint.honor_node_taints else None,
    )
