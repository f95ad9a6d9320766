"""How the harness knows that the scheduler has seen the world of a case: a probe pod that needs the last objects of it.

Beacons belong to no case and no pod of a case can touch them. Each judgement has its own, by number: the beacons of an
earlier one prove nothing.
"""

from __future__ import annotations

from typing import Any

from tests.judge.landscape import NAMESPACES
from tests.judge.volumes import BOUND, WAIT

Manifest = dict[str, Any]

KINDS = ("StorageClass", "PersistentVolume", "PersistentVolumeClaim")


def beacons(judgement: int) -> dict[str, list[Manifest]]:
    """Objects to create after all others of their kind."""
    name = f"beacon-{judgement}"
    waiting = _claim(f"{name}-waiting", name)
    bound = _claim(f"{name}-bound", "", volumeName=name)
    volume_spec = {
        "capacity": {"storage": "1"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "claimRef": {"namespace": NAMESPACES[0], "name": bound["metadata"]["name"]},
    }
    return {
        "StorageClass": [{"metadata": {"name": name}, "provisioner": "example.com/any", "volumeBindingMode": WAIT}],
        "PersistentVolume": [{"metadata": {"name": name}, "spec": volume_spec}],
        "PersistentVolumeClaim": [waiting, bound],
    }


def probe(judgement: int, number: int) -> Manifest:
    """A pod that fits every node with room for a pod, once the beacons have been seen."""
    names = [claim["metadata"]["name"] for claim in beacons(judgement)["PersistentVolumeClaim"]]
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names],
    }
    return {"metadata": {"name": f"probe-{judgement}-{number}", "namespace": NAMESPACES[0]}, "spec": spec}


def _claim(name: str, class_name: str, **bound: Any) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACES[0], "annotations": {BOUND: "yes"} if bound else {}}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    return {"metadata": metadata, "spec": {**asked, "storageClassName": class_name, **bound}}
