"""The judge: a real control plane whose kube-scheduler says, for every unbound pod of a case, which nodes are feasible.

One control plane serves many cases, one after another: the world of a case is created, its pods are judged, all is
deleted. No pod is ever bound (see the extender) and nothing is preempted, so each pod meets the same world.
The scheduler reads each kind of object over its own watch, so on a very busy machine a verdict may rest on a world that
had not arrived whole; whoever finds a surprising verdict has the case judged again before believing it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import threading
from typing import TYPE_CHECKING, Any, Self

import msgspec

from allhands.measure.processes import wait_until
from tests.conformance.client import Client, Server
from tests.controlplane import ControlPlane
from tests.judge import beacons
from tests.judge.extender import Extender
from tests.judge.landscape import NAMESPACES, RACK
from tests.judge.parts import ON_RACK, PRIORITY_CLASSES, RUNTIME_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tests.judge.clusters import Case

Manifest = dict[str, Any]

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
}
"""In the order of creation; see `_wait_for_the_rest` for why pods are last."""
NAMESPACED = {kind for kind, path in PATHS.items() if "{namespace}" in path}
WITH_STATUS = ("Pod", "PersistentVolume", "PersistentVolumeClaim")
PATIENCE_SECONDS = 60.0
PROBE_SECONDS = 0.5
"""How long a probe may be without a verdict until another one is sent; no verdict means that it fits nowhere."""
WORKERS = 4
ATTEMPTS = 3
FEATURE_GATES = "GenericWorkload=true,GangScheduling=true,SchedulerPopFromBackoffQ=false"
"""The last one is not about verdicts: it keeps judged pods from being tried again whenever the scheduler is idle."""
UNBOUND = "fieldSelector=spec.nodeName%3D"
UNBOUND_PODS = f"/api/v1/pods?{UNBOUND}"


class RefusedError(RuntimeError):
    """The API server does not take a manifest of the case."""


class Verdict(msgspec.Struct, frozen=True):
    """`why` is the scheduler's own message about the nodes that did not survive."""

    nodes: frozenset[str]
    why: str


class Judgement(msgspec.Struct, frozen=True):
    """A case as the API server returned it, and what the real scheduler found for each of its pods."""

    world: dict[str, list[Manifest]]
    pods: list[Manifest]
    verdicts: list[Verdict]


class Judge:
    """`with Judge() as judge: judge.judge(case)`."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as starting:
            self._extender = starting.enter_context(Extender())
            self.plane = starting.enter_context(
                ControlPlane(
                    scheduler=True,
                    scheduler_settings=_scheduler_settings(self._extender.url),
                    feature_gates=FEATURE_GATES,
                    api_flags=[
                        # No controller runs here that would take these admission plugins' marks away again.
                        "--disable-admission-plugins=StorageObjectInUseProtection,TaintNodesByCondition",
                        "--delete-collection-workers=4",
                    ],
                )
            )
            self._server = Server("real", self.plane.url, self.plane.token, str(self.plane.ca_file))
            self._judgements = 0
            self._clients = threading.local()
            self._opened: list[Client] = []
            starting.callback(self._close_clients)
            self._workers = starting.enter_context(concurrent.futures.ThreadPoolExecutor(WORKERS))
            self._create_what_all_cases_share()
            self._closing = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    def judge(self, case: Case) -> Judgement:
        """Creates the world of the case, has its pods judged, and leaves nothing of it behind."""
        for _ in range(ATTEMPTS):
            found = self._judge_once(case)
            nodes = {node["metadata"]["name"] for node in found.world.get("Node", ())}
            if all(verdict.nodes <= nodes for verdict in found.verdicts):
                return found
        message = f"nodes of another case were around {ATTEMPTS} times while seed {case.seed} was judged"
        raise RuntimeError(message)

    def _judge_once(self, case: Case) -> Judgement:
        self._judgements += 1
        try:
            world = {kind: self._create_with_beacons(kind, case) for kind in PATHS if kind != "Pod"}
            self._wait_for_the_rest(world["Node"])
            world["Pod"] = self._create_present_pods(case.world.get("Pod", ()))
            pods = self._create_all("Pod", case.pods)
            verdicts = self._verdicts(pods)
        finally:
            self._clear(case)
        return Judgement({kind: found for kind, found in world.items() if found}, pods, verdicts)

    def _close_clients(self) -> None:
        for client in self._opened:
            client.__exit__()

    def _create_what_all_cases_share(self) -> None:
        for name in NAMESPACES:
            self._call("POST", PATHS["Namespace"], {"metadata": {"name": name}})
        for name, value in PRIORITY_CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            self._call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        for name, overhead in RUNTIME_OVERHEAD.items():
            body = {"metadata": {"name": name}, "handler": name, "overhead": {"podFixed": overhead}}
            self._call("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)
        body = {"metadata": {"name": ON_RACK}, "handler": "plain", "scheduling": {"nodeSelector": {RACK: "r1"}}}
        self._call("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)

    def _create_all(self, kind: str, manifests: Sequence[Manifest]) -> list[Manifest]:
        return list(self._workers.map(lambda manifest: self._create(kind, manifest), manifests))

    def _create(self, kind: str, manifest: Manifest) -> Manifest:
        path = PATHS[kind].format(**manifest["metadata"])
        mine = f"{path}/{manifest['metadata']['name']}"
        if kind == "Namespace":
            return self._call("PUT", mine, manifest)
        made = self._call("POST", path, manifest)
        if kind in WITH_STATUS and "status" in manifest:
            made = self._call("PATCH", f"{mine}/status", {"status": manifest["status"]})
        if "deletionTimestamp" in manifest["metadata"]:
            made = self._call("DELETE", mine, {"gracePeriodSeconds": 3600})
        return made

    def _create_with_beacons(self, kind: str, case: Case) -> list[Manifest]:
        made = self._create_all(kind, case.world.get(kind, ()))
        for beacon in beacons.beacons(self._judgements).get(kind, ()):
            self._create(kind, beacon)
        return made

    def _create_present_pods(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """Pods that have ended come first, so that the scheduler never sees them beside the others.

        Its cache holds the ports of a node as a set: of two pods with the same port, the end of one frees the port.
        A verdict that hung on that would say something about the past, not about the cluster.
        """
        ended = self._create_all("Pod", [each for each in manifests if _has_ended(each)])
        return ended + self._create_all("Pod", [each for each in manifests if not _has_ended(each)])

    def _wait_for_the_rest(self, nodes: list[Manifest]) -> None:
        """Until the scheduler has seen what was created so far.

        Each kind comes over its own watch, in order. A probe that goes anywhere, but needs the last object of the
        kinds that come in numbers, is found to fit these nodes and no others once all of them have arrived. Pods
        share one watch with the probe, and the kinds without a beacon were written well before.
        """
        roomy = frozenset(
            node["metadata"]["name"] for node in nodes if node["status"].get("allocatable", {}).get("pods")
        )
        numbers = itertools.count()

        def seen() -> bool:
            self.plane.raise_if_ended()
            sent = self._create("Pod", beacons.probe(self._judgements, next(numbers)))
            return self._extender.wait_for(sent["metadata"]["uid"], PROBE_SECONDS) == roomy

        if roomy:
            wait_until(seen, PATIENCE_SECONDS, "the scheduler's view of the cluster")

    def _verdicts(self, pods: list[Manifest]) -> list[Verdict]:
        """Every pod ends with a condition that says why it waits; if some node survived, the extender was asked."""
        uids = [pod["metadata"]["uid"] for pod in pods]
        why: dict[str, str] = {}

        def all_judged() -> bool:
            self.plane.raise_if_ended()
            for pod in self._call("GET", UNBOUND_PODS, None)["items"]:
                reason = _refusal(pod)
                if reason is not None:
                    why[pod["metadata"]["uid"]] = reason
            return why.keys() >= set(uids)

        wait_until(all_judged, PATIENCE_SECONDS, "the verdict on every pod")
        return [Verdict(self._extender.verdicts.get(uid, frozenset()), why[uid]) for uid in uids]

    def _clear(self, case: Case) -> None:
        """Unbound pods go first, so that what follows does not make the scheduler try them again."""
        at_once = {"gracePeriodSeconds": 0}
        unbound = [f"{PATHS['Pod'].format(namespace=name)}?{UNBOUND}" for name in NAMESPACES]
        self._delete_all(unbound, at_once)
        for claim in case.world.get("PersistentVolumeClaim", ()):
            if "finalizers" in claim["metadata"]:
                path = PATHS["PersistentVolumeClaim"].format(**claim["metadata"])
                self._call(
                    "PATCH", f"{path}/{claim['metadata']['name']}", {"metadata": {"finalizers": None}}, known=False
                )
        rest = []
        for kind in [kind for kind in PATHS if kind in beacons.KINDS or case.world.get(kind)]:
            if kind in NAMESPACED:
                rest += [PATHS[kind].format(namespace=name) for name in NAMESPACES]
            elif kind != "Namespace":
                rest.append(PATHS[kind])
        self._delete_all(rest, at_once)
        self._extender.verdicts.clear()

    def _delete_all(self, paths: list[str], options: Manifest) -> None:
        for _ in self._workers.map(lambda path: self._call("DELETE", path, options), paths):
            pass

    def _call(self, method: str, path: str, body: Manifest | None, *, known: bool = True) -> Manifest:
        """`known` is whether the object is surely there; the half of a world that was refused may not be."""
        client = getattr(self._clients, "client", None)
        if client is None:
            client = self._clients.client = Client(self._server)
            self._opened.append(client)
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.plane.token}", "Content-Type": media, "Accept": "application/json"}
        answer = client.request(method, path, headers, None if body is None else json.dumps(body).encode())
        if answer.status >= 300 and (known or answer.status != 404):
            message = f"{method} {path} {json.dumps(body)}: {answer.status} {json.dumps(answer.body)}"
            raise RefusedError(message)
        found: Manifest = answer.body
        return found


def _has_ended(manifest: Manifest) -> bool:
    return manifest.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _refusal(pod: Manifest) -> str | None:
    """Why the scheduler gave up on the pod, once it did."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition['reason']}: {condition.get('message', '')}"
    return None


def _scheduler_settings(extender_url: str) -> Manifest:
    no_preemption = {"postFilter": {"disabled": [{"name": "*"}]}}
    return {
        "percentageOfNodesToScore": 100,
        # A pod is judged once; whatever happens later is too late to matter.
        "podInitialBackoffSeconds": 3600,
        "podMaxBackoffSeconds": 3600,
        "profiles": [{"schedulerName": name, "plugins": no_preemption} for name in ("default-scheduler", "rival")],
        "extenders": [{"urlPrefix": extender_url, "filterVerb": "filter", "nodeCacheCapable": True}],
    }
