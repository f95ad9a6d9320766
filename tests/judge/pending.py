"""Random unbound pods, one maker for each theme: together the themes touch every filter of the real scheduler.

A pod has one theme, sometimes a second, and otherwise little that keeps it from a node, so that its feasible set is
often neither empty nor full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.judge.landscape import APPS, GPU, HOST, RACK, ZONE, ZONES
from tests.judge.parts import (
    ON_RACK,
    PRIORITY_CLASSES,
    RUNTIME_OVERHEAD,
    container,
    host_ports,
    large_requests,
    name_requirement,
    node_requirement,
    pod,
    pod_term,
    spread,
    topology_key,
    weighted,
)
from tests.judge.volumes import (
    bound_claim,
    csi_claim,
    hopeless_claim,
    inline_disk,
    local_claim,
    measured_claim,
    private_claim,
    shared_claim,
    waiting_claim,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.landscape import Landscape

Manifest = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
COMBINABLE = ("plain requests", "node selector", "node affinity", "tolerations", "spread", "anti-affinity", "claim")


def pending_pod(land: Landscape, name: str, theme: str) -> Manifest:
    manifest = pod(land, name)
    if land.likely(0.7):
        manifest["spec"]["tolerations"] = [{"operator": "Exists"}]
    THEMES[theme](land, manifest)
    if land.likely(0.25):
        other = land.one_of([each for each in COMBINABLE if each != theme])
        THEMES[other](land, manifest)
    if land.likely(0.2):
        manifest["spec"]["priorityClassName"] = land.one_of(tuple(PRIORITY_CLASSES))
    return manifest


def _plain(land: Landscape, manifest: Manifest) -> None:
    """Nothing at all beside small requests."""


def _requests(land: Landscape, manifest: Manifest) -> None:
    if "resources" in manifest["spec"]:
        return  # containers may not ask for more than their pod
    _first(manifest).update(container(land, "main", large_requests(land)))


def _init_containers(land: Landscape, manifest: Manifest) -> None:
    made = []
    for number in range(land.chance.randint(1, 3)):
        more = {"restartPolicy": "Always"} if land.likely(0.5) else {}
        made.append(container(land, f"init-{number}", large_requests(land), **more))
    manifest["spec"]["initContainers"] = made


def _overhead(land: Landscape, manifest: Manifest) -> None:
    manifest["spec"]["runtimeClassName"] = land.one_of((*RUNTIME_OVERHEAD, ON_RACK))
    _requests(land, manifest)


def _pod_level(land: Landscape, manifest: Manifest) -> None:
    found = {"cpu": land.one_of(("1", "3", "6")), "memory": land.one_of(("1Gi", "3Gi", "6Gi"))}
    kept = found if land.likely(0.6) else dict([land.one_of(tuple(found.items()))])
    manifest["spec"]["containers"] = [container(land, "main", {"cpu": "100m", "memory": "64Mi"})]
    if land.likely(0.4):
        inner = {"cpu": land.one_of(("500m", "1")), "memory": "128Mi"}
        manifest["spec"]["initContainers"] = [container(land, "init", inner)]
    manifest["spec"]["resources"] = {"requests": kept}


def _extended(land: Landscape, manifest: Manifest) -> None:
    if land.likely(0.7):
        requests = {GPU: land.one_of(("0", "1", "2", "4"))}
    else:
        requests = {"hugepages-2Mi": land.one_of(("2Mi", "64Mi")), "cpu": "100m"}
    manifest["spec"]["containers"].append(container(land, "device", requests))
    if land.likely(0.3):
        manifest["spec"]["initContainers"] = [container(land, "init", {GPU: "3"})]


def _nothing_asked(land: Landscape, manifest: Manifest) -> None:
    asked = {"cpu": "0", "memory": "0", "ephemeral-storage": "0"} if land.likely(0.5) else None
    manifest["spec"]["containers"] = [container(land, "main", asked)]


def _node_selector(land: Landscape, manifest: Manifest) -> None:
    choices = (("disk", "ssd"), (ZONE, land.one_of(ZONES)), ("disk", "hdd"), (HOST, land.one_of(land.node_names)))
    manifest["spec"]["nodeSelector"] = dict(land.some_of(choices, 1, 1 + land.likely(0.25)))


def _node_affinity(land: Landscape, manifest: Manifest) -> None:
    terms = [{"matchExpressions": _several(land, node_requirement, 3)} for _ in range(land.chance.randint(1, 2))]
    _affinity(manifest)["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}


def _node_fields(land: Landscape, manifest: Manifest) -> None:
    terms: list[Manifest] = [{"matchFields": [name_requirement(land)]} for _ in range(land.chance.randint(1, 4))]
    for term in terms:
        if land.likely(0.3):
            term["matchExpressions"] = [node_requirement(land)]
    if land.likely(0.15):
        terms.append({})
    wanted = {"weight": 10, "preference": {"matchExpressions": [node_requirement(land)]}}
    _affinity(manifest)["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: [wanted]}


def _tolerations(land: Landscape, manifest: Manifest) -> None:
    found = _several(land, land.__class__.toleration, 3)
    if land.likely(0.3):
        found.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
    if land.likely(0.15):
        found.append({"operator": "Exists", "effect": "NoSchedule"})
    manifest["spec"]["tolerations"] = found


def _ports(land: Landscape, manifest: Manifest) -> None:
    _first(manifest)["ports"] = host_ports(land)
    if land.likely(0.2):
        manifest["spec"]["hostNetwork"] = True
    elif land.likely(0.3):
        more = {"restartPolicy": "Always"} if land.likely(0.6) else {}
        manifest["spec"]["initContainers"] = [container(land, "init", None, ports=host_ports(land), **more)]


def _together(land: Landscape, manifest: Manifest) -> None:
    terms = [pod_term(land) for _ in range(1 + land.likely(0.3))]
    _affinity(manifest)["podAffinity"] = {REQUIRED: terms}
    if land.likely(0.3):
        _affinity(manifest)["podAffinity"][PREFERRED] = [weighted(land, pod_term(land, wide=True))]


def _apart(land: Landscape, manifest: Manifest) -> None:
    terms = [pod_term(land) for _ in range(1 + land.likely(0.3))]
    _affinity(manifest)["podAntiAffinity"] = {REQUIRED: terms}


def _other_namespaces(land: Landscape, manifest: Manifest) -> None:
    side = land.one_of(("podAffinity", "podAntiAffinity"))
    _affinity(manifest)[side] = {REQUIRED: [pod_term(land, wide=True)]}


def _first_of_its_kind(land: Landscape, manifest: Manifest) -> None:
    """Wants to be with pods like itself, of which there may be none."""
    manifest["metadata"]["labels"] = {"app": land.one_of(("lonely", "lonely", *APPS))}
    term: Manifest = {
        "topologyKey": topology_key(land),
        "labelSelector": {"matchLabels": manifest["metadata"]["labels"]},
    }
    terms = [term]
    if land.likely(0.3):
        terms.append({**pod_term(land), "labelSelector": {"matchLabels": {"app": land.one_of(("lonely", "web"))}}})
    if land.likely(0.3):
        term["namespaceSelector"] = {"matchLabels": {"team": "red"}}
    _affinity(manifest)["podAffinity"] = {REQUIRED: terms}


def _spread(land: Landscape, manifest: Manifest) -> None:
    constraint = spread(land, topology_key(land), manifest["metadata"]["labels"])
    manifest["spec"]["topologySpreadConstraints"] = [constraint]


def _spread_beyond_reach(land: Landscape, manifest: Manifest) -> None:
    """Node affinity keeps whole domains out of reach; the policy says whether they count as domains all the same."""
    found = _spread_by_own_label(land, manifest)
    found["nodeAffinityPolicy"] = land.one_of(("Honor", "Ignore", "Ignore"))
    wanted = {"key": found["topologyKey"], "operator": "In", "values": ["za", "zb", "r1", "r2"]}
    _affinity(manifest)["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}


def _spread_among_taints(land: Landscape, manifest: Manifest) -> None:
    """Taints keep nodes, or a whole zone, out of reach; the policy says whether those count all the same."""
    found = _spread_by_own_label(land, manifest)
    found["nodeTaintsPolicy"] = land.one_of(("Honor", "Honor", "Ignore"))
    manifest["spec"]["tolerations"] = [land.toleration()]


def _spread_by_own_label(land: Landscape, manifest: Manifest) -> Manifest:
    found: Manifest = {
        "maxSkew": 1,
        "topologyKey": land.one_of((ZONE, ZONE, RACK)),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": manifest["metadata"]["labels"]["app"]}},
    }
    manifest["spec"]["topologySpreadConstraints"] = [found]
    manifest["spec"]["containers"] = [container(land, "main", None)]
    return found


def _spread_domains(land: Landscape, manifest: Manifest) -> None:
    found = _spread_by_own_label(land, manifest)
    found["topologyKey"] = land.one_of((ZONE, RACK, "disk", HOST))
    found["minDomains"] = land.one_of((2, 3, 4, 5, 15))
    manifest["spec"]["topologySpreadConstraints"] = [found]


def _spread_twice(land: Landscape, manifest: Manifest) -> None:
    keys, own = land.some_of((HOST, ZONE, "disk"), 2, 3), manifest["metadata"]["labels"]
    ways = ("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")
    found = [spread(land, key, own, land.one_of(ways)) for key in keys]
    for each in found:
        if each.get("labelSelector", {}).keys() == {"matchLabels"} and land.likely(0.5):
            each["matchLabelKeys"] = land.some_of(("version", "tier"), 1, 2)
    manifest["spec"]["topologySpreadConstraints"] = found


def _gated(land: Landscape, manifest: Manifest) -> None:
    manifest["spec"]["schedulingGates"] = [{"name": "example.com/not-yet"}]


def _many_constraints(land: Landscape, manifest: Manifest) -> None:
    for theme in land.some_of(COMBINABLE, 2, 3):
        THEMES[theme](land, manifest)


def _volume(*makers: Callable[[Landscape, str], Manifest]) -> Callable[[Landscape, Manifest], None]:
    def fill(land: Landscape, manifest: Manifest) -> None:
        namespace = manifest["metadata"]["namespace"]
        found: list[Manifest] = manifest["spec"].setdefault("volumes", [])
        for _ in range(1 + land.likely(0.3)):
            made = land.one_of(makers)(land, namespace)
            if made["name"] not in {each["name"] for each in found}:
                found.append(made)

    return fill


def _used_claim(land: Landscape, manifest: Manifest) -> None:
    """A claim that a bound pod or an earlier unbound one uses too; often one that allows only a single pod."""
    users = [each for each in land.world["Pod"] if "volumes" in each["spec"]] if "Pod" in land.world else []
    if users and land.likely(0.8):
        user = land.one_of(users)
        manifest["metadata"]["namespace"] = user["metadata"]["namespace"]
        manifest["spec"]["volumes"] = [dict(each) for each in user["spec"]["volumes"]]
        return
    found = shared_claim(land, manifest["metadata"]["namespace"])
    manifest["spec"]["volumes"] = [found or private_claim(land, manifest["metadata"]["namespace"])]


def _several(land: Landscape, make: Callable[[Landscape], Manifest], most: int) -> list[Manifest]:
    return [make(land) for _ in range(land.chance.randint(1, most))]


def _first(manifest: Manifest) -> Manifest:
    first: Manifest = manifest["spec"]["containers"][0]
    return first


def _affinity(manifest: Manifest) -> Manifest:
    found: Manifest = manifest["spec"].setdefault("affinity", {})
    return found


THEMES: dict[str, Callable[[Landscape, Manifest], None]] = {
    "nothing special": _plain,
    "plain requests": _requests,
    "init containers and sidecars": _init_containers,
    "overhead": _overhead,
    "pod-level requests": _pod_level,
    "extended resources": _extended,
    "no requests": _nothing_asked,
    "node selector": _node_selector,
    "node affinity": _node_affinity,
    "node affinity by field": _node_fields,
    "tolerations": _tolerations,
    "host ports": _ports,
    "affinity": _together,
    "anti-affinity": _apart,
    "affinity across namespaces": _other_namespaces,
    "affinity to itself": _first_of_its_kind,
    "spread": _spread,
    "spread and node affinity": _spread_beyond_reach,
    "spread and taints": _spread_among_taints,
    "spread with a minimum of domains": _spread_domains,
    "spread over several keys": _spread_twice,
    "scheduling gates": _gated,
    "many constraints": _many_constraints,
    "claim": _volume(bound_claim),
    "claim that waits": _volume(waiting_claim, measured_claim),
    "claim of local volumes": _volume(local_claim),
    "attach limits": _volume(csi_claim),
    "claim in use": _used_claim,
    "inline disk": _volume(inline_disk),
    "hopeless claim": _volume(hopeless_claim),
}
