"""The installed rights, on the real API server: as their service accounts, scheduler and controllers do all that they
are for; the server's audit log shows that nothing was refused, and that nothing is granted that nobody uses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from allhands.api.kinds import Resource
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.cli import root
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.lifecycle.command import COMMANDS
from allhands.measure.processes import Reaper, Service
from allhands.ports import Query
from allhands.runtime.installation import InstallOptions, install_objects, people_objects
from tests.controlplane import ControlPlane
from tests.foreign_kinds import define_all
from tests.gang_cluster import Gangs
from tests.manifests import CONFIG_MAPS, JOBS, LEASES, PODS, PRIORITY_CLASSES
from tests.volcano_jobs import command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from allhands.api.definitions import Definition
    from allhands.ports import Objects

pytestmark = pytest.mark.timeout(900)  # much happens here, and some machines are slow
NAMESPACE = "allhands-system"
OPTIONS = InstallOptions(scheduler_names=("allhands", "volcano"))
WITHIN_SECONDS = 120
PROGRAM = "from allhands.cli import main; main()"
ACCOUNTS = "system:serviceaccount:allhands-system:"
VOLUMES = Resource("", "v1", "persistentvolumes")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
QUOTAS = Resource("", "v1", "resourcequotas")
SERVICES = Resource("", "v1", "services")
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews")
EVERYONE_MAY = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews"})
"""What the server grants whoever has logged in."""
AFTER_A_MISHAP = frozenset(
    {
        ("allhands-scheduler", "get pods"),  # a bind whose answer was lost is read back
        ("allhands-scheduler", "get persistentvolumes"),  # a volume is given back if its gang is not bound after all
        ("allhands-scheduler", "get events"),  # a leader before us has told the same
        ("allhands-scheduler", "patch events"),  # it happened again
        ("allhands-controllers", "get events"),
        ("allhands-controllers", "patch events"),
        ("allhands-controllers", "create events"),  # queues have nothing to tell yet; the next controllers do
        ("allhands-controllers", "get jobs.batch.volcano.sh"),  # one is there already: whose is it?
        *(
            ("allhands-controllers", f"get {it}")  # what is made once is there already: whose is it?
            for it in (
                "persistentvolumeclaims",
                "podgroups.scheduling.volcano.sh",
                "pods",
            )
        ),
        # Volcano's own definition has no status apart; other releases of it do.
        ("allhands-scheduler", "patch podgroups/status.scheduling.volcano.sh"),
    }
)
"""What is granted for days that are not as good as this test's. Each is what the code does then, and no more."""


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "log"


@pytest.fixture(scope="module")
def plane(real_tools: Path, audit_log: Path) -> Iterator[ControlPlane]:
    del real_tools
    policy = audit_log.with_name("policy.yaml")
    rules = [{"level": "Metadata", "userGroups": ["system:serviceaccounts:allhands-system"]}, {"level": "None"}]
    policy.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}", "--audit-log-mode=blocking")
    wanted = ("job-controller", "persistentvolume-binder-controller", "clusterrole-aggregation-controller")
    with ControlPlane(controllers=wanted, kwok=True, api_flags=flags) as plane:
        names = [f"--scheduler-name={it}" for it in OPTIONS.scheduler_names]
        done = CliRunner(env={"KUBECONFIG": str(plane.kubeconfig)}).invoke(root, ["install", *names])
        assert done.exit_code == 0, done.output
        yield plane


def audited(log: Path) -> list[dict[str, Any]]:
    """What our service accounts asked for, and were answered."""
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [it for it in entries if it["stage"] in ("ResponseStarted", "ResponseComplete") and "objectRef" in it]


class Processes:
    """Our two commands, called as the Deployments call them, with the tokens of their service accounts."""

    def __init__(self, plane: ControlPlane, objects: KubeObjects, folder: Path) -> None:
        self._plane = plane
        self._objects = objects
        self._folder = folder
        self._reaper = Reaper(folder / "reaped")
        self._running: list[Service] = []

    async def start(self, part: str, number: int = 0) -> Service:
        deployments = [it for it in install_objects(OPTIONS) if it["kind"] == "Deployment"]
        found = next(it for it in deployments if it["metadata"]["name"] == f"allhands-{part}")
        arguments = [
            it
            for it in found["spec"]["template"]["spec"]["containers"][0]["args"]
            if not it.startswith("--metrics-address")
        ]
        config = await self._kubeconfig(f"allhands-{part}")
        # As in a container whose root is read only: there is no place to write to.
        nowhere = {"HOME": "/nonexistent", "TMPDIR": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", PROGRAM, *arguments, f"--kubeconfig={config}"]
        service = Service(f"{part}-{number}", command, self._folder, self._reaper, nowhere)
        self._running.append(service)
        return service

    async def _kubeconfig(self, account: str) -> Path:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        answer = await self._objects.request("POST", path, None, json.dumps(wanted).encode())
        config = yaml.safe_load(self._plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": answer.manifest()["status"]["token"]}
        file = self._folder / account
        file.write_text(yaml.safe_dump(config))
        return file

    def check_alive(self) -> None:
        for service in self._running:
            service.check_alive()

    def logs(self) -> str:
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self._folder.glob("*.log")))

    def stop(self, service: Service) -> None:
        service.stop(grace_seconds=60)
        self._running.remove(service)

    def close(self) -> None:
        while self._running:
            self._running.pop().stop(grace_seconds=20)
        self._reaper.close()


@pytest.fixture
async def objects(plane: ControlPlane) -> AsyncIterator[KubeObjects]:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        yield objects


@pytest.fixture
async def processes(plane: ControlPlane, objects: KubeObjects, tmp_path: Path) -> AsyncIterator[Processes]:
    (tmp_path / "reaped").mkdir()
    made = Processes(plane, objects, tmp_path)
    try:
        yield made
    finally:
        await asyncio.to_thread(made.close)


async def seen(
    objects: Objects, resource: Resource, name: str, namespace: str, good: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The object, as soon as it is as wanted."""
    async with asyncio.timeout(WITHIN_SECONDS):
        watch = await objects.watch(resource, Query(namespace=namespace, fields=f"metadata.name={name}"))
        try:
            async for event in watch:
                if event.type in ("ADDED", "MODIFIED") and good(found := event.manifest()):
                    return found
        finally:
            await watch.close()
    raise AssertionError(f"the watch of {name} ended")


def leader(lease: dict[str, Any]) -> str:
    return str(lease["spec"].get("holderIdentity") or "")


async def a_gang_with_volumes(objects: Objects) -> None:
    """One volume is there already, the other would be made where the pod goes; nobody makes it."""
    gangs = Gangs(objects, "volumes", "native")
    await gangs.prepare(nodes=1)
    for name, provisioner in (("kept", "kubernetes.io/no-provisioner"), ("made", "nobody.example")):
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        await objects.create(
            STORAGE_CLASSES, {**head, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        )
        claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
        size = {"resources": {"requests": {"storage": "1Gi"}}}
        await objects.create(CLAIMS, {"metadata": {"name": name}, "spec": {**claim, **size}}, "volumes")
    term = {"matchExpressions": [{"key": "room", "operator": "In", "values": ["volumes"]}]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "kept",
        "local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await objects.create(VOLUMES, {"metadata": {"name": "kept"}, "spec": volume})
    for name in ("kept", "made"):
        mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        await gangs.group(name, 1)
        await gangs.pods(name, 1, volumes=mounted)
    await gangs.bound("kept", 1)
    chosen = "volume.kubernetes.io/selected-node"
    await seen(objects, CLAIMS, "made", "volumes", lambda it: chosen in (it["metadata"].get("annotations") or {}))


def gang_job(name: str, size: int, room: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    places = {"schedulerName": "allhands", "nodeSelector": {"room": room}}
    template = {
        "metadata": {"labels": {"gang": name}},
        "spec": {**places, "restartPolicy": "Never", "containers": [container], **spec},
    }
    metadata = {"name": name, "annotations": {"allhands.dev/min-available": "all"}}
    return {"metadata": metadata, "spec": {"parallelism": size, "completions": size, "template": template}}


async def a_preemption(objects: Objects) -> None:
    """A Job that is urgent takes the place of a gang that is not; one that is too large waits, and is told why."""
    gangs = Gangs(objects, "preemption", "native")
    await gangs.prepare(nodes=1)
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await objects.create(PRIORITY_CLASSES, {**head, "metadata": {"name": "urgent"}, "value": 1000})
    await gangs.gang("low", 4)
    await gangs.bound("low", 4)
    await objects.create(JOBS, gang_job("wide", 9, "preemption"), "preemption")
    await seen(objects, JOBS, "wide", "preemption", lambda it: "allhands.dev/scheduling" in str(it["metadata"]))
    await objects.create(JOBS, gang_job("high", 3, "preemption", priorityClassName="urgent"), "preemption")
    await gangs.bound("high", 3)


async def a_bare_pod_that_preempts(objects: Objects) -> None:
    """Its group has no other home than itself."""
    gangs = Gangs(objects, "bare", "native")
    await gangs.prepare(nodes=1)
    for name, cpu, more in (("small", "4", {}), ("large", "4", {"priorityClassName": "urgent"})):
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "allhands", "nodeSelector": {"room": "bare"}, "containers": [container], **more}
        await objects.create(PODS, {"metadata": {"name": name}, "spec": spec}, "bare")
        await seen(objects, PODS, name, "bare", lambda it: bool(it["spec"].get("nodeName")))


def volcano(definition: Definition, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": definition.api_version, "kind": definition.kind, "metadata": {"name": name}, "spec": spec}


async def what_makes_volcano_jobs(objects: KubeObjects) -> None:
    """A flow whose Job goes when it has succeeded, and a CronJob that has missed its last times."""
    gangs = Gangs(objects, "making", "native")
    await gangs.prepare(nodes=1)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    pod = {"nodeSelector": {"room": "making"}, "restartPolicy": "Never", "containers": [container]}
    spec = {"schedulerName": "allhands", "tasks": [{"name": "work", "replicas": 1, "template": {"spec": pod}}]}
    await objects.create(JOB_TEMPLATE.resource, volcano(JOB_TEMPLATE, "step", spec), "making")
    flow = {"flows": [{"name": "step"}], "jobRetainPolicy": "delete"}
    await objects.create(JOB_FLOW.resource, volcano(JOB_FLOW, "flow", flow), "making")
    listed = "jobDependsOnList"
    await seen(objects, JOB_TEMPLATE.resource, "step", "making", lambda it: listed in (it.get("status") or {}))
    await seen(objects, JOB_FLOW.resource, "flow", "making", lambda it: "Succeed" in str(it.get("status")))
    await seen(objects, JOB_TEMPLATE.resource, "step", "making", lambda it: listed not in (it.get("status") or {}))
    cron = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": spec}}
    await objects.create(CRON_JOB.resource, volcano(CRON_JOB, "tick", cron), "making")
    missed = {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}
    await objects.patch(CRON_JOB.resource, "tick", "merge", missed, "making", subresource="status")
    await seen(objects, CRON_JOB.resource, "tick", "making", lambda it: "2020" not in str(it["status"]))


async def a_volcano_job(objects: KubeObjects) -> None:
    """With plugins and a volume; it is scaled, restarted when it has ended, fails, and goes."""
    gangs = Gangs(objects, "leading", "native")
    await gangs.prepare(nodes=0)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    pod = {"nodeSelector": {"room": "leading"}, "restartPolicy": "Never", "containers": [container]}
    task = {"name": "work", "replicas": 1, "minAvailable": 1, "template": {"spec": pod}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "x"}
    spec: dict[str, Any] = {
        "schedulerName": "allhands",
        "minAvailable": 1,
        "tasks": [task],
        "plugins": {"svc": [], "ssh": []},
        "volumes": [{"mountPath": "/data", "volumeClaim": claim}],
        "policies": [{"event": "TaskCompleted", "action": "RestartTask"}],
        "maxRetry": 2,
        "ttlSecondsAfterFinished": 20,
    }
    # There is no node for its pods: what becomes of them is told here.
    await objects.create(JOB.resource, volcano(JOB, "led", spec), "leading")
    await seen(objects, PODS, "led-work-0", "leading", lambda _pod: True)
    await objects.create(COMMANDS, command("resume", "ResumeJob", "led"), "leading")
    await gone(objects, COMMANDS, "leading")
    scaled = {"spec": {"tasks": [{**task, "replicas": 2}]}}
    await objects.patch(JOB.resource, "led", "merge", scaled, "leading")
    await seen(objects, PODS, "led-work-1", "leading", lambda _pod: True)
    await seen(objects, CONFIG_MAPS, "led-svc", "leading", lambda it: "led-work-1" in str(it["data"]))
    for number in range(2):
        done = {"status": {"phase": "Succeeded"}}
        await objects.patch(PODS, f"led-work-{number}", "merge", done, "leading", subresource="status")
    await seen(objects, JOB.resource, "led", "leading", lambda it: (it.get("status") or {}).get("retryCount") == 1)
    for number in range(2):
        await seen(objects, PODS, f"led-work-{number}", "leading", lambda it: it["status"]["phase"] == "Pending")
        done = {"status": {"phase": "Succeeded"}}
        await objects.patch(PODS, f"led-work-{number}", "merge", done, "leading", subresource="status")
    for resource in (SERVICES, POLICIES):
        await gone(objects, resource, "leading")
    assert (await objects.list(JOB.resource, Query(namespace="leading"))).items, "they went before the Job did"
    await gone(objects, JOB.resource, "leading")


async def a_plain_pod_for_volcano(objects: KubeObjects) -> None:
    """A group is made for it, once it is known whether it has an owner that asks for more."""
    gangs = Gangs(objects, "plain", "native")
    await gangs.prepare(nodes=1)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "volcano", "nodeSelector": {"room": "plain"}, "containers": [container]}
    made = await objects.create(PODS, {"metadata": {"name": "solo"}, "spec": spec}, "plain")
    group = f"podgroup-{made.manifest()['metadata']['uid']}"
    await seen(objects, POD_GROUP.resource, group, "plain", lambda it: (it.get("status") or {}).get("running") == 1)


async def a_job_that_a_quota_holds_back(objects: KubeObjects) -> None:
    """Nobody counts here what is used, so it is said by hand."""
    gangs = Gangs(objects, "limited", "native")
    await gangs.prepare(nodes=1)
    hard = {"hard": {"pods": "1"}}
    await objects.create(QUOTAS, {"metadata": {"name": "narrow"}, "spec": hard}, "limited")
    counted = {"status": {**hard, "used": {"pods": "0"}}}
    await objects.patch(QUOTAS, "narrow", "merge", counted, "limited", subresource="status")
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"schedulerName": "allhands", "tasks": [{"name": "work", "replicas": 2, "template": {"spec": pod}}]}
    await objects.create(JOB.resource, volcano(JOB, "wide", spec), "limited")
    why = 'ResourceQuota "narrow" of its namespace allows 1 pods'
    await seen(objects, JOB.resource, "wide", "limited", lambda it: why in str(it.get("status")))


async def gone(objects: Objects, resource: Resource, namespace: str) -> None:
    async with asyncio.timeout(WITHIN_SECONDS):
        while (await objects.list(resource, Query(namespace=namespace))).items:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def what_is_said_of_nodes(objects: KubeObjects) -> None:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "."}}}]
    await objects.create(HYPER_NODE.resource, volcano(HYPER_NODE, "leaf", {"tier": 1, "members": members}))
    await objects.create(NUMATOPOLOGY.resource, volcano(NUMATOPOLOGY, "some-node", {}))
    await seen(objects, HYPER_NODE.resource, "leaf", "", lambda it: "Accepted" in str(it.get("status")))
    await seen(objects, NUMATOPOLOGY.resource, "some-node", "", lambda it: "Used" in str(it.get("status")))


async def everything_that_they_are_for(objects: KubeObjects) -> None:
    await what_makes_volcano_jobs(objects)
    await a_volcano_job(objects)
    await a_job_that_a_quota_holds_back(objects)
    await what_is_said_of_nodes(objects)
    await a_plain_pod_for_volcano(objects)
    for kind in ("native", "coscheduling", "volcano"):
        gangs = Gangs(objects, kind, kind)
        await gangs.prepare(nodes=1)
        await gangs.gang("large", 6)
        await gangs.gang("fits", 4)
        await gangs.bound("fits", 4)
        await gangs.told("large")
        await gangs.status("large", bool)
    await a_preemption(objects)
    await a_bare_pod_that_preempts(objects)
    await a_gang_with_volumes(objects)
    for name, parent in (("team", "root"), ("part", "team")):
        await objects.create(QUEUE.resource, volcano(QUEUE, name, {"weight": 1, "parent": parent}))
        await seen(objects, QUEUE.resource, name, "", lambda it: (it.get("status") or {}).get("state") == "Open")
    closed = {"status": {"state": "Closed"}}
    await objects.patch(QUEUE.resource, "team", "merge", closed, subresource="status")
    await seen(objects, QUEUE.resource, "part", "", lambda it: (it.get("status") or {}).get("state") == "Closed")


async def test_they_do_their_work_with_what_they_were_granted_and_use_all_of_it(
    audit_log: Path, objects: KubeObjects, processes: Processes
) -> None:
    await define_all(objects)
    await processes.start("controllers")
    first = await processes.start("scheduler", 1)
    lease = await seen(objects, LEASES, "allhands-scheduler", NAMESPACE, lambda it: bool(leader(it)))
    await processes.start("scheduler", 2)
    with _naming_the_end(processes):
        await everything_that_they_are_for(objects)
        # What is remembered is written down; the first replica ends, and the second one leads and writes on.
        await seen(objects, CONFIG_MAPS, "usage-ledger", NAMESPACE, bool)
        await asyncio.to_thread(processes.stop, first)
        await seen(objects, LEASES, "allhands-scheduler", NAMESPACE, lambda it: leader(it) not in ("", leader(lease)))
        before = (await objects.get(CONFIG_MAPS, "usage-ledger", NAMESPACE)).manifest()["metadata"]["resourceVersion"]
        gangs = Gangs(objects, "afterwards", "native")
        await gangs.prepare(nodes=1)
        await objects.create(JOBS, gang_job("later", 4, "afterwards"), "afterwards")
        await gangs.bound("later", 4)
        await seen(
            objects, CONFIG_MAPS, "usage-ledger", NAMESPACE, lambda it: it["metadata"]["resourceVersion"] != before
        )
    await asyncio.to_thread(processes.close)
    assert "missing rights" not in processes.logs()
    entries = audited(audit_log)
    refused = [(it["user"]["username"], it["verb"], it["requestURI"]) for it in entries if it_was_refused(it)]
    assert refused == []
    used = {(it["user"]["username"].removeprefix(ACCOUNTS), right_of(it)) for it in entries}
    used = {(who, right) for who, right in used if right.partition(" ")[2].partition(".")[0] not in EVERYONE_MAY}
    # Where a server cannot send what is there as the beginning of a watch, it is listed.
    listed = {(who, right.replace("watch", "list", 1)) for who, right in used if right.startswith("watch ")}
    assert sorted(granted() - used - listed - AFTER_A_MISHAP) == []
    assert sorted(used - granted()) == []


async def test_who_may_edit_a_namespace_may_submit_jobs_there_and_nowhere_else(objects: KubeObjects) -> None:
    def has_jobs(role: dict[str, Any]) -> bool:
        return any("batch.volcano.sh" in rule["apiGroups"] for rule in role["rules"] or ())

    await seen(objects, CLUSTER_ROLES, "edit", "", has_jobs)
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": "edit"}
    ann = {"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": "ann"}
    binding = {"metadata": {"name": "ann"}, "roleRef": role, "subjects": [ann]}
    await objects.create(ROLE_BINDINGS, binding, "default")
    assert [await may(objects, "ann", "create", namespace) for namespace in ("default", NAMESPACE)] == [True, False]


async def may(objects: KubeObjects, who: str, verb: str, namespace: str) -> bool:
    asked = {"namespace": namespace, "verb": verb, "group": "batch.volcano.sh", "resource": "jobs"}
    review = {"spec": {"user": who, "resourceAttributes": asked}}
    return bool((await objects.create(ACCESS_REVIEWS, review)).manifest()["status"]["allowed"])


@contextlib.contextmanager
def _naming_the_end(processes: Processes) -> Iterator[None]:
    """If one of them ended, that is the reason."""
    try:
        yield
    except BaseException:
        processes.check_alive()
        raise


def it_was_refused(entry: dict[str, Any]) -> bool:
    return entry.get("responseStatus", {}).get("code") in (401, 403)


def right_of(entry: dict[str, Any]) -> str:
    about = entry["objectRef"]
    name = about["resource"] + (f"/{about['subresource']}" if "subresource" in about else "")
    group = f".{about['apiGroup']}" if about.get("apiGroup") else ""
    return f"{entry['verb']} {name}{group}"


def granted() -> set[tuple[str, str]]:
    return {
        (it["metadata"]["name"], f"{verb} {name}" + (f".{rule['apiGroups'][0]}" if rule["apiGroups"][0] else ""))
        for it in install_objects(OPTIONS)
        if it["kind"] in ("Role", "ClusterRole") and it not in people_objects()
        for rule in it["rules"]
        for verb in rule["verbs"]
        for name in rule["resources"]
    }
