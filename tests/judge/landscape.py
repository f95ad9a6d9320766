"""The ground a random case stands on: nodes with labels, taints and room, and small random parts that pods share.

It owns the `Random` of the case and the world that grows while pods are made (a pod that needs a volume adds one).
It never looks at what an object will be judged to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

Manifest = dict[str, Any]

NAMESPACES = ("alpha", "beta", "gamma")
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOST = "kubernetes.io/hostname"
RACK = "example.com/rack"
ZONES = ("za", "zb", "zc")
APPS = ("web", "db", "cache")
VERSIONS = ("v1", "v2")
GPU = "example.com/gpu"
DRIVERS = ("one.csi.example.com", "two.csi.example.com")
LONG_AGO = "2020-01-01T00:00:00Z"
TAINT_EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")
TAINTS = (("dedicated", "a"), ("dedicated", "b"), ("spot", ""), ("level", "3"))


class Landscape:
    """The world of one case while it is being made."""

    def __init__(self, chance: random.Random, seed: int) -> None:
        self.chance = chance
        self.seed = seed
        self.world: dict[str, list[Manifest]] = {}

    @property
    def node_names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.world["Node"]]

    def add(self, kind: str, manifest: Manifest) -> Manifest:
        self.world.setdefault(kind, []).append(manifest)
        return manifest

    def number_of(self, kind: str) -> int:
        return len(self.world.get(kind, ()))

    def likely(self, probability: float) -> bool:
        return self.chance.random() < probability

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.chance.choice(choices)

    def some_of(self, choices: Sequence[Any], low: int = 1, high: int | None = None) -> list[Any]:
        """A random sample, in its original order."""
        count = self.chance.randint(low, min(high or len(choices), len(choices)))
        picked = set(self.chance.sample(range(len(choices)), count))
        return [each for number, each in enumerate(choices) if number in picked]

    def add_nodes(self, count: int) -> None:
        """Nodes; in some cases one whole zone has a taint, so that it is empty of most pods."""
        closed = self.one_of(ZONES) if self.likely(0.4) else None
        for number in range(count):
            # The seed in the name tells the harness at once when a node of an earlier case is still around.
            name = f"node-{number}-{self.seed}"
            node = self.add("Node", self._node(name))
            if closed and node["metadata"]["labels"].get(ZONE) == closed:
                node["spec"]["taints"] = [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]
            if self.likely(0.6):
                self.add("CSINode", self._csi_node(name))

    def labels(self) -> dict[str, str]:
        """Labels of a pod."""
        found = {"app": self.one_of((APPS[0], *APPS))}
        if self.likely(0.6):
            found["version"] = self.one_of(VERSIONS)
        if self.likely(0.3):
            found["tier"] = self.one_of(("front", "back"))
        return found

    def selector(self) -> Manifest:
        """A label selector over what `labels` makes."""
        if self.likely(0.6):
            return {"matchLabels": {"app": self.one_of(APPS)}}
        wanted = self.one_of(
            (
                {"key": "app", "operator": "In", "values": self.some_of(APPS, 1, 3)},
                {"key": "app", "operator": "NotIn", "values": self.some_of(APPS, 1, 2)},
                {"key": "version", "operator": "Exists"},
                {"key": "tier", "operator": "DoesNotExist"},
                {"key": "version", "operator": "NotIn", "values": ["v1"]},
            )
        )
        found: Manifest = {"matchExpressions": [wanted]}
        if self.likely(0.3):
            found["matchLabels"] = {"tier": self.one_of(("front", "back"))}
        return found

    def toleration(self) -> Manifest:
        key, value = self.one_of(TAINTS)
        found: Manifest = {"key": key, "operator": "Exists"}
        if self.likely(0.5):
            found = {"key": key, "value": value}
            if self.likely(0.5):
                found["operator"] = "Equal"
        if self.likely(0.6):
            found["effect"] = self.one_of(("NoSchedule", "NoExecute"))
        if found.get("effect") == "NoExecute" and self.likely(0.5):
            found["tolerationSeconds"] = self.chance.randint(0, 300)
        return found

    def _node(self, name: str) -> Manifest:
        labels = {}
        if self.likely(0.9):
            labels[HOST] = name
        if self.likely(0.85):
            labels[ZONE] = self.one_of(ZONES)
            labels[REGION] = "here"
        if self.likely(0.7):
            labels[RACK] = self.one_of(("r1", "r2", "r3", "r4"))
        if self.likely(0.7):
            labels["disk"] = self.one_of(("ssd", "hdd"))
        if self.likely(0.7):
            labels["cores"] = self.one_of(("4", "8", "16", "64", "many", "010"))
        spec: Manifest = {}
        if self.likely(0.35):
            taints = [self._taint(*pair) for pair in self.some_of(TAINTS, 1, 2)]
            unique = {(taint["key"], taint["effect"]): taint for taint in taints}
            spec["taints"] = list(unique.values())
        if self.likely(0.1):
            spec["unschedulable"] = True
        room = self._room()
        status = {"allocatable": room, "capacity": room, "images": self._images()}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": status,
        }

    def _taint(self, key: str, value: str) -> Manifest:
        return {"key": key, "effect": self.one_of(TAINT_EFFECTS), **({"value": value} if value else {})}

    def _room(self) -> dict[str, str]:
        room = {
            "cpu": self.one_of(("1", "2", "4", "7500m", "16")),
            "memory": self.one_of(("2Gi", "4Gi", "8G", "16384Mi")),
            "pods": self.one_of(("4", "8", "12", "110", "110")),
        }
        if self.likely(0.04):
            del room[self.one_of(("cpu", "memory", "pods"))]
        if self.likely(0.8):
            room["ephemeral-storage"] = self.one_of(("1Gi", "10Gi", "100Gi"))
        if self.likely(0.4):
            room[GPU] = self.one_of(("0", "1", "4", "8"))
        if self.likely(0.3):
            room["hugepages-2Mi"] = self.one_of(("0", "64Mi", "1Gi"))
        return room

    def _images(self) -> list[Manifest]:
        names = self.some_of(("busybox:1", "train:9", "serve:3"), 0)
        return [{"names": [name], "sizeBytes": self.chance.randint(1, 2000) << 20} for name in names]

    def _csi_node(self, name: str) -> Manifest:
        drivers: list[Manifest] = []
        for driver in self.some_of(DRIVERS, 1):
            entry: Manifest = {"name": driver, "nodeID": name, "topologyKeys": [ZONE]}
            if self.likely(0.7):
                entry["allocatable"] = {"count": self.one_of((0, 1, 1, 2, 2, 3))}
            drivers.append(entry)
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": name},
            "spec": {"drivers": drivers},
        }
