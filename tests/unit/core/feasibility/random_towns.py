"""Random small clusters with pods that ask much of each other: few labels, so that terms often meet somebody.

Everything follows from one integer. That is far quicker than drawing each part from a strategy, and so more is tried.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

import msgspec
from hypothesis import strategies as st

from allhands.model.affinity import (
    NAME_FIELD,
    NO_POD_AFFINITY,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodTerm,
    SpreadConstraint,
    WeightedPodTerm,
)
from allhands.model.node import Node, Taint, Toleration
from allhands.model.pod import HostPort, Pod
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelector, Requirement
from tests.unit.core.feasibility.town import HOST, ZONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Value = TypeVar("Value")

NAMES = tuple(f"node-{number}" for number in range(6))
NAMESPACES = {"home": {"team": "red"}, "away": {"team": "blue", "stage": "prod"}, "bare": {}}
ROOM = ResourceVector.of({"cpu": 4000, "memory": 1 << 32, "pods": 100})
NAMESPACE_SELECTORS = (
    None,
    None,
    LabelSelector(),
    LabelSelector.of({"team": "red"}),
    LabelSelector(match_expressions=(Requirement("stage", "DoesNotExist"),)),
    LabelSelector(match_expressions=(Requirement("team", "In", ("blue", "green")),)),
)
BOUNDS = (("1",), ("2",), ("002",), ("many",), (), ("1", "2"), (str(2**63 - 1),), (str(-(2**63)),))
KEYS = (ZONE, ZONE, HOST, "rack")


class RandomTown:
    """`nodes`, `bound` and `waiting` of one town; more can be drawn."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes = [self.node(name) for name in NAMES]
        self.bound = self.several(lambda: self.pod(self.one((*NAMES, "no such"))), 10)
        self.bound = [self.named(it, f"bound{number}") for number, it in enumerate(self.bound)]
        self.nominated = self.several(lambda: self.pod(""), 3) if self.likely(0.5) else []
        self.nominated = [
            msgspec.structs.replace(self.named(it, f"rival{number}"), nominated_node=self.one(NAMES))
            for number, it in enumerate(self.nominated)
        ]
        self.waiting = [self.named(self.pod(""), f"waiting{number}") for number in range(self.chance.randint(1, 4))]

    def one(self, choices: Sequence[Value]) -> Value:
        return self.chance.choice(choices)

    def likely(self, probability: float) -> bool:
        return self.chance.random() < probability

    def several(self, make: Callable[[], Value], most: int) -> list[Value]:
        return [make() for _ in range(self.chance.randint(0, most))]

    def moves(self) -> list[tuple[Pod, str]]:
        return [(self.one(self.waiting), self.one(NAMES)) for _ in range(self.chance.randint(1, 6))]

    def node(self, name: str) -> Node:
        labels = {HOST: name} if self.likely(0.7) else {}
        if zone := self.one(("", "a", "b", "c")):
            labels[ZONE] = zone
        if rack := self.one(("", "1", "2", "03", "many")):
            labels["rack"] = rack
        taints = tuple(self.several(self._taint, 2)) if self.likely(0.5) else ()
        return Node(name=name, labels=labels, taints=taints, unschedulable=self.likely(0.2), allocatable=ROOM)

    def pod(self, on: str) -> Pod:
        return Pod(
            namespace=self.one(("home", "home", "away", "bare", "unheard-of")),
            name="",
            labels=self._labels(),
            node_name=on,
            deleting=bool(on) and self.likely(0.25),
            pod_affinity=self._affinity(),
            spread=tuple(self.several(self._constraint, 2)) if self.likely(0.4) else (),
            host_ports=tuple(self.several(self._port, 2)) if self.likely(0.3) else (),
            node_selector=self.one(({}, {}, {ZONE: "a"}, {"rack": "1", ZONE: "b"})),
            node_affinity=NodeAffinity(tuple(self.several(self._node_term, 2)) if self.likely(0.4) else None),
            tolerations=tuple(self.several(self._toleration, 2)),
        )

    @staticmethod
    def named(pod: Pod, name: str, on: str | None = None) -> Pod:
        fields = {field: getattr(pod, field) for field in pod.__struct_fields__}
        fields |= {"name": name, "uid": f"uid-{name}", "node_name": pod.node_name if on is None else on}
        return Pod(**fields)

    def _labels(self) -> dict[str, str]:
        return {key: self.one(("x", "y")) for key in ("app", "tier") if self.likely(0.6)}

    def _requirement(self) -> Requirement:
        key = self.one(("app", "tier"))
        if self.likely(0.5):
            return Requirement(key, self.one(("Exists", "DoesNotExist")))
        values = tuple(self.one(("x", "y", "z")) for _ in range(self.chance.randint(1, 2)))
        return Requirement(key, self.one(("In", "NotIn")), values)

    def _selector(self) -> LabelSelector | None:
        if self.likely(0.1):
            return None
        return LabelSelector.of(self._labels(), self.several(self._requirement, 1))

    def _term(self) -> PodTerm:
        names = {self.one(("home", "home", "away")) for _ in range(self.chance.randint(0, 2))}
        return PodTerm(self._selector(), self.one(KEYS), tuple(sorted(names)), self.one(NAMESPACE_SELECTORS))

    def _weighted(self) -> WeightedPodTerm:
        return WeightedPodTerm(self.chance.randint(1, 100), self._term())

    def _affinity(self) -> PodAffinity:
        if self.likely(0.4):
            return NO_POD_AFFINITY
        return PodAffinity(
            required_together=tuple(self.several(self._term, 2)) if self.likely(0.3) else (),
            preferred_together=tuple(self.several(self._weighted, 1)),
            required_apart=tuple(self.several(self._term, 2)) if self.likely(0.4) else (),
            preferred_apart=tuple(self.several(self._weighted, 1)),
        )

    def _constraint(self) -> SpreadConstraint:
        return SpreadConstraint(
            max_skew=self.chance.randint(1, 3),
            topology_key=self.one(KEYS),
            hard=self.likely(0.7),
            selector=self._selector(),
            min_domains=self.one((None, None, 1, 2, 3, 4)),
            honor_node_affinity=self.likely(0.5),
            honor_node_taints=self.likely(0.5),
        )

    def _port(self) -> HostPort:
        return HostPort(self.one(("0.0.0.0", "10.0.0.1", "10.0.0.2")), self.one(("TCP", "UDP")), 80)

    def _taint(self) -> Taint:
        return Taint(self.one(("spot", "slow")), self.one(("NoSchedule", "NoExecute", "PreferNoSchedule")))

    def _toleration(self) -> Toleration:
        key = self.one(("spot", "slow", "", "node.kubernetes.io/unschedulable"))
        return Toleration(key, self.one(("Exists", "Equal")), "", self.one(("", "NoSchedule", "NoExecute")))

    def _node_term(self) -> NodeSelectorTerm:
        fields = tuple(self.several(self._field, 1)) if self.likely(0.3) else ()
        return NodeSelectorTerm(tuple(self.several(self._node_requirement, 2)), fields)

    def _field(self) -> Requirement:
        values = tuple(self.several(lambda: self.one((*NAMES[:3], "no such", "")), 2))
        return Requirement(
            self.one((NAME_FIELD, NAME_FIELD, "spec.unknown")), self.one(("In", "NotIn", "Like")), values
        )

    def _node_requirement(self) -> Requirement:
        key = self.one((ZONE, HOST, "rack"))
        kind = self.chance.random()
        if kind < 0.4:
            values = tuple(self.several(lambda: self.one(("a", "b", "1", "node-2", "other")), 5))
            return Requirement(key, self.one(("In", "NotIn", "Like")), values)
        if kind < 0.7:
            return Requirement(key, self.one(("Exists", "DoesNotExist")))
        return Requirement(self.one(("rack", ZONE)), self.one(("Gt", "Lt")), self.one(BOUNDS))


towns = st.integers(0, 2**32 - 1).map(RandomTown)
