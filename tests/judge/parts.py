"""Random parts of a pod's spec that both bound and unbound pods are made of: containers, ports, terms about other pods.

Parts are valid to the API server; whether they can be satisfied is left to chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.judge.landscape import GPU, HOST, NAMESPACES, RACK, ZONE, ZONES

if TYPE_CHECKING:
    from tests.judge.landscape import Landscape

Manifest = dict[str, Any]

RUNTIME_OVERHEAD = {"light": {"cpu": "50m", "memory": "16Mi"}, "heavy": {"cpu": "900m", "memory": "512Mi"}}
ON_RACK = "on-rack"
"""A runtime class without overhead that brings its own node selector."""
CROWDED = (NAMESPACES[0],) * 4 + NAMESPACES[1:]
"""Most pods are in one namespace, so that selectors, which look at one, find several."""
PRIORITY_CLASSES = {"bottom": -10, "middle": 100, "top": 1000}


def pod(land: Landscape, name: str, **spec: Any) -> Manifest:
    """A pod with small requests and nothing that keeps it from anywhere."""
    metadata = {"name": name, "namespace": land.one_of(CROWDED), "labels": land.labels()}
    spec.setdefault("containers", [container(land, "main", small_requests(land))])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(land: Landscape, name: str, requests: dict[str, str] | None, **more: Any) -> Manifest:
    found: Manifest = {"name": name, "image": land.one_of(("busybox:1", "train:9", "serve:3")), **more}
    if requests:
        found["resources"] = {"requests": requests}
        exact = {key: value for key, value in requests.items() if key == GPU or key.startswith("hugepages-")}
        if exact:
            found["resources"]["limits"] = exact
    return found


def small_requests(land: Landscape) -> dict[str, str] | None:
    if land.likely(0.15):
        return None
    return {"cpu": land.one_of(("0", "50m", "100m", "250m")), "memory": land.one_of(("0", "64Mi", "100M", "256Mi"))}


def large_requests(land: Landscape) -> dict[str, str]:
    found = {}
    if land.likely(0.8):
        found["cpu"] = land.one_of(("500m", "1", "1500m", "2", "3750m", "7", "0.1"))
    if land.likely(0.7):
        found["memory"] = land.one_of(("512Mi", "1Gi", "2Gi", "3000M", "5Gi", "1e9", "1073741824500m"))
    if land.likely(0.2):
        found["ephemeral-storage"] = land.one_of(("512Mi", "5Gi", "20Gi"))
    return found


def host_ports(land: Landscape) -> list[Manifest]:
    found: list[Manifest] = []
    for number in (8080, 9000) if land.likely(0.2) else (8080,):
        port: Manifest = {"containerPort": number, "hostPort": number}
        if land.likely(0.75):
            port["hostIP"] = land.one_of(("127.0.0.1", "10.0.0.7", "10.0.0.8", "0.0.0.0"))
        if land.likely(0.3):
            port["protocol"] = land.one_of(("TCP", "UDP", "SCTP"))
        found.append(port)
    return found


def topology_key(land: Landscape) -> str:
    return str(land.one_of((HOST, HOST, ZONE, ZONE, RACK, "disk")))


def pod_term(land: Landscape, *, wide: bool = False) -> Manifest:
    """One affinity or anti-affinity term; a wide one looks at other namespaces and at the pod's own label values."""
    term: Manifest = {"topologyKey": topology_key(land)}
    if land.likely(0.95):
        term["labelSelector"] = land.selector()
    if not wide:
        return term
    scope = land.one_of(("names", "selector", "everything", "both", "own"))
    if scope in ("names", "both"):
        term["namespaces"] = land.some_of(NAMESPACES, 1, 2)
    if scope in ("selector", "both"):
        term["namespaceSelector"] = land.one_of(
            (
                {"matchLabels": {"team": land.one_of(("red", "blue"))}},
                {"matchExpressions": [{"key": "stage", "operator": "In", "values": ["prod"]}]},
                {"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]},
            )
        )
    if scope == "everything":
        term["namespaceSelector"] = {}
    if "labelSelector" in term and land.likely(0.6):
        used = set(term["labelSelector"].get("matchLabels", ()))
        used |= {each["key"] for each in term["labelSelector"].get("matchExpressions", ())}
        free = [key for key in ("version", "tier", "app") if key not in used]
        if free:
            term[land.one_of(("matchLabelKeys", "mismatchLabelKeys"))] = land.some_of(free, 1, 1)
    return term


def weighted(land: Landscape, term: Manifest) -> Manifest:
    return {"weight": land.chance.randint(1, 100), "podAffinityTerm": term}


def node_requirement(land: Landscape) -> Manifest:
    numbers = land.one_of(("4", "8", "8", "10", "015", "63", "many"))
    found: Manifest = land.one_of(
        (
            {"key": ZONE, "operator": "In", "values": land.some_of(ZONES, 1, 2)},
            {"key": ZONE, "operator": "NotIn", "values": land.some_of(ZONES, 1, 2)},
            {"key": RACK, "operator": "In", "values": ["r1", "r2", "r9"]},
            {"key": RACK, "operator": "DoesNotExist"},
            {"key": "disk", "operator": "Exists"},
            {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
            {"key": "cores", "operator": "Gt", "values": [numbers]},
            {"key": "cores", "operator": "Lt", "values": [numbers]},
            {"key": HOST, "operator": "In", "values": land.some_of(land.node_names, 1, 4)},
        )
    )
    return found


def name_requirement(land: Landscape) -> Manifest:
    return {
        "key": "metadata.name",
        "operator": land.one_of(("In", "In", "NotIn")),
        "values": [land.one_of([*land.node_names, "nowhere"])],
    }


def spread(land: Landscape, key: str, own: dict[str, str], when: str = "DoNotSchedule") -> Manifest:
    """One constraint; mostly over pods with one of the pod's `own` labels, as people write them."""
    found: Manifest = {
        "maxSkew": land.one_of((1, 1, 2, 3)),
        "topologyKey": key,
        "whenUnsatisfiable": when,
    }
    if land.likely(0.6):
        found["labelSelector"] = {"matchLabels": {"app": own["app"]}}
    elif land.likely(0.9):
        found["labelSelector"] = land.selector()
    return found
