"""Random volumes of a case: claims, volumes and classes that are added to the world, and the pod's part that uses them.

Each function returns one entry for a pod's `spec.volumes`. None of them needs a volume controller: a claim is bound
because its annotation says so, and a volume is free because its status says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.judge.landscape import DRIVERS, HOST, LONG_AGO, RACK, ZONE, ZONES, Landscape

if TYPE_CHECKING:
    from collections.abc import Callable

Manifest = dict[str, Any]

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT = "WaitForFirstConsumer"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
KEEP = "example.com/keep"
"""A finalizer; the harness takes it away when the case is over."""


def bound_claim(land: Landscape, namespace: str) -> Manifest:
    """A claim bound to a volume that only some nodes reach: by node affinity, by zone labels, or both."""
    volume = _volume(land, _size(land))
    if land.likely(0.6):
        volume["spec"]["nodeAffinity"] = {"required": _reach(land)}
    if land.likely(0.5):
        zones = land.some_of(ZONES, 1, 1 + land.likely(0.4))
        labels = {OLD_ZONE if land.likely(0.25) else ZONE: "__".join(zones)}
        if land.likely(0.2):
            labels["topology.kubernetes.io/region"] = land.one_of(("here", "there"))
        volume["metadata"]["labels"] = labels
    return _use(land, _bind(land, namespace, volume))


def csi_claim(land: Landscape, namespace: str) -> Manifest:
    """A claim that counts against what a node can attach; two claims may share one volume handle.

    Its volume may hang on some node already, whatever pods say.
    """
    volume = _volume(land, "1Gi")
    handle = f"handle-{land.chance.randint(0, 5)}" if land.likely(0.3) else volume["metadata"]["name"]
    volume["spec"].pop("hostPath")
    volume["spec"]["csi"] = {"driver": land.one_of((DRIVERS[0], *DRIVERS)), "volumeHandle": handle}
    if land.likely(0.4):
        _attachment(land, volume)
    return _use(land, _bind(land, namespace, volume))


def private_claim(land: Landscape, namespace: str) -> Manifest:
    """A bound claim that one pod at a time may use."""
    volume = _volume(land, "1Gi", mode="ReadWriteOncePod")
    return _use(land, _bind(land, namespace, volume))


def waiting_claim(land: Landscape, namespace: str) -> Manifest:
    """A claim that is provisioned where its pod goes, perhaps only in some zones."""
    driver = land.one_of(DRIVERS)
    topologies = None
    if land.likely(0.6):
        keys = land.some_of((ZONE, "disk"), 1, 2)
        values: dict[str, list[str]] = {ZONE: land.some_of(ZONES, 1, 2), "disk": ["ssd"]}
        topologies = [{"matchLabelExpressions": [{"key": key, "values": values[key]} for key in keys]}]
    name = _class(land, "provision", driver, WAIT, topologies)
    claim = _claim(land, namespace, name, _size(land))
    if land.likely(0.15):
        claim["metadata"]["annotations"] = {SELECTED_NODE: land.one_of(land.node_names)}
    return _use(land, claim)


def measured_claim(land: Landscape, namespace: str) -> Manifest:
    """A claim of a class whose driver publishes how much room there is where."""
    driver = f"measured-{land.seed}.csi.example.com"
    if not any(each["metadata"]["name"] == driver for each in land.world.get("CSIDriver", ())):
        spec = {"storageCapacity": True, "attachRequired": False}
        land.add(
            "CSIDriver",
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec},
        )
    name = _class(land, "measured", driver, WAIT, None)
    for _ in range(land.chance.randint(1, 3)):
        _capacity(land, namespace, name)
    return _use(land, _claim(land, namespace, name, _size(land)))


def local_claim(land: Landscape, namespace: str) -> Manifest:
    """A claim that only an existing free volume can satisfy."""
    name = _class(land, "local", NO_PROVISIONER, WAIT, None)
    for _ in range(land.chance.randint(0, 3)):
        volume = _volume(land, _size(land), name, "ReadWriteMany" if land.likely(0.15) else "ReadWriteOnce")
        volume["spec"]["nodeAffinity"] = {"required": _reach(land)}
        if land.likely(0.15):
            volume["spec"]["volumeMode"] = "Block"
        volume["status"] = {"phase": land.one_of(("Available", "Available", "Available", "Released"))}
        if land.likely(0.3):
            volume["metadata"]["labels"] = {"speed": land.one_of(("fast", "slow"))}
    claim = _claim(land, namespace, name, _size(land))
    if land.likely(0.25):
        claim["spec"]["selector"] = {"matchLabels": {"speed": "fast"}}
    if land.likely(0.2):
        volume = _volume(land, _size(land), name)
        volume["spec"]["nodeAffinity"] = {"required": _reach(land)}
        volume["spec"]["claimRef"] = {"namespace": namespace, "name": claim["metadata"]["name"]}
        volume["status"] = {"phase": "Available"}
    return _use(land, claim)


def hopeless_claim(land: Landscape, namespace: str) -> Manifest:
    """A claim that keeps its pod from every node, or seems to."""
    kind = land.one_of(("missing", "immediate", "no class", "no volume", "prebound", "ephemeral", "lost", "ending"))
    if kind == "missing":
        return {"name": "data", "persistentVolumeClaim": {"claimName": "nobody-made-this"}}
    if kind == "ephemeral":
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        return {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    if kind == "immediate":
        name = _class(land, "immediate", DRIVERS[0], "Immediate", None)
        return _use(land, _claim(land, namespace, name, "1Gi"))
    if kind == "no class":
        return _use(land, _claim(land, namespace, "nobody-made-this", "1Gi"))
    if kind in ("lost", "ending"):
        claim = _bind(land, namespace, _volume(land, "1Gi"))
        if kind == "lost":
            claim["status"] = {"phase": "Lost"}
        else:
            claim["metadata"].update(finalizers=[KEEP], deletionTimestamp=LONG_AGO)
        return _use(land, claim)
    claim = _claim(land, namespace, "", "1Gi")
    claim["spec"]["volumeName"] = "nobody-made-this"
    if kind == "no volume":
        claim["metadata"]["annotations"] = {BOUND: "yes"}
    return _use(land, claim)


def inline_disk(land: Landscape, namespace: str) -> Manifest:
    """A disk named in the pod itself; two pods may share it on a node only if both read."""
    disk = f"disk-{land.chance.randint(0, 2)}"
    reads = {"readOnly": True} if land.likely(0.4) else {}
    kind = land.one_of(("gce", "iscsi", "rbd"))
    if kind == "gce":
        return {"name": "disk", "gcePersistentDisk": {"pdName": disk, **reads}}
    if kind == "iscsi":
        source = {"targetPortal": "10.0.0.1:3260", "iqn": f"iqn.2001-04.com.example:{disk}", "lun": 0}
        return {"name": "disk", "iscsi": {**source, **reads}}
    return {"name": "disk", "rbd": {"monitors": ["10.0.0.2:6789"], "image": disk, "pool": "rbd", **reads}}


KINDS: tuple[Callable[[Landscape, str], Manifest], ...] = (
    bound_claim, csi_claim, private_claim, waiting_claim, measured_claim, local_claim, inline_disk,
)  # fmt: skip


def shared_claim(land: Landscape, namespace: str) -> Manifest | None:
    """A claim of this namespace that was made before."""
    claims = [
        each for each in land.world.get("PersistentVolumeClaim", ()) if each["metadata"]["namespace"] == namespace
    ]
    return _use(land, land.one_of(claims)) if claims else None


def _use(land: Landscape, claim: Manifest) -> Manifest:
    name = claim["metadata"]["name"]
    source = {"claimName": name, **({"readOnly": True} if land.likely(0.1) else {})}
    return {"name": name.removesuffix(f"-{land.seed}"), "persistentVolumeClaim": source}


def _size(land: Landscape) -> str:
    return str(land.one_of(("1Gi", "2Gi", "5G", "10Gi")))


def _name(land: Landscape, word: str, kind: str) -> str:
    return f"{word}-{land.number_of(kind)}-{land.seed}"


def _reach(land: Landscape) -> Manifest:
    """Which nodes reach a volume."""
    wanted = land.one_of(
        (
            {"key": ZONE, "operator": "In", "values": land.some_of(ZONES, 1, 2)},
            {"key": HOST, "operator": "In", "values": land.some_of(land.node_names, 1, 3)},
            {"key": RACK, "operator": "NotIn", "values": ["r1", "r2"]},
            {"key": "disk", "operator": "Exists"},
        )
    )
    terms = [{"matchExpressions": [wanted]}]
    if land.likely(0.2):
        terms.append({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]})
    return {"nodeSelectorTerms": terms}


def _volume(land: Landscape, size: str, class_name: str = "", mode: str = "ReadWriteOnce") -> Manifest:
    spec = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": class_name,
        "hostPath": {"path": "/data"},
    }
    metadata = {"name": _name(land, "volume", "PersistentVolume")}
    manifest = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    return land.add("PersistentVolume", manifest)


def _claim(land: Landscape, namespace: str, class_name: str, size: str, mode: str = "ReadWriteOnce") -> Manifest:
    metadata: Manifest = {"name": _name(land, "claim", "PersistentVolumeClaim"), "namespace": namespace}
    spec: Manifest = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": size}},
        "storageClassName": class_name,
    }
    manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return land.add("PersistentVolumeClaim", manifest)


def _bind(land: Landscape, namespace: str, volume: Manifest) -> Manifest:
    spec = volume["spec"]
    claim = _claim(land, namespace, "", spec["capacity"]["storage"], spec["accessModes"][0])
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["metadata"]["annotations"] = {BOUND: "yes"}
    volume["spec"]["claimRef"] = {"namespace": namespace, "name": claim["metadata"]["name"]}
    return claim


def _attachment(land: Landscape, volume: Manifest) -> None:
    spec = {
        "attacher": volume["spec"]["csi"]["driver"],
        "nodeName": land.one_of(land.node_names),
        "source": {"persistentVolumeName": volume["metadata"]["name"]},
    }
    metadata = {"name": _name(land, "attachment", "VolumeAttachment")}
    manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": metadata, "spec": spec}
    land.add("VolumeAttachment", manifest)


def _class(land: Landscape, word: str, provisioner: str, mode: str, topologies: list[Manifest] | None) -> str:
    if topologies is None:
        for known in land.world.get("StorageClass", ()):
            if known["metadata"]["name"].startswith(f"{word}-") and "allowedTopologies" not in known:
                return str(known["metadata"]["name"])
    manifest: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": _name(land, word, "StorageClass")},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    if topologies is not None:
        manifest["allowedTopologies"] = topologies
    land.add("StorageClass", manifest)
    return str(manifest["metadata"]["name"])


def _capacity(land: Landscape, namespace: str, class_name: str) -> None:
    manifest: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": _name(land, "capacity", "CSIStorageCapacity"), "namespace": namespace},
        "storageClassName": class_name,
        "capacity": land.one_of(("1Gi", "4Gi", "20Gi")),
        "nodeTopology": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": land.some_of(ZONES, 1, 2)}]},
    }
    if land.likely(0.3):
        manifest["maximumVolumeSize"] = land.one_of(("2Gi", "10Gi"))
    land.add("CSIStorageCapacity", manifest)
