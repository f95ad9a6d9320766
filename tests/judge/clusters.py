"""Random clusters with pods to place, for comparing our feasible sets with those of the real kube-scheduler.

Everything of a case follows from one integer, its seed. A case holds manifests as a user would write them; what the
API server makes of them (defaults, admission) is read back from it. It never draws from anything but its own `Random`.

Three marks in a manifest are for the harness, since an API server ignores them on creation: `status` of pods and
volumes is written after the creation, and `metadata.deletionTimestamp` means "delete it with a long grace".
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from tests.judge.bound import bound_pods, nominated_pods
from tests.judge.landscape import NAMESPACES, Landscape
from tests.judge.pending import THEMES, pending_pod

Manifest = dict[str, Any]


class Case(msgspec.Struct, frozen=True):
    """One cluster and the unbound pods that are judged against it, each as if it were alone."""

    seed: int
    world: dict[str, list[Manifest]]
    pods: list[Manifest]
    themes: list[str]


def random_case(seed: int) -> Case:
    """The case of this seed: 5 to 12 nodes, up to 40 bound pods, and one unbound pod for each theme."""
    chance = random.Random(seed)
    land = Landscape(chance, seed)
    land.add_nodes(chance.randint(5, 12))
    land.world["Namespace"] = [_namespace(chance, name) for name in NAMESPACES]
    themes = list(THEMES)
    chance.shuffle(themes)
    land.world["Pod"] = bound_pods(land, chance.choice((0, 8, 16, 24, 40)))
    land.world["Pod"] += nominated_pods(land, chance.choice((0, 0, 2, 5, 12)))
    pods = [pending_pod(land, f"pending-{number}", theme) for number, theme in enumerate(themes)]
    return Case(seed, {kind: found for kind, found in land.world.items() if found}, pods, themes)


def _namespace(chance: random.Random, name: str) -> Manifest:
    labels = {"team": chance.choice(("red", "blue"))}
    if chance.random() < 0.6:
        labels["stage"] = chance.choice(("dev", "prod"))
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
