"""From Volcano Jobs to bound pods on the real API server: the whole system beside one that only makes and binds pods.

The clock runs from the first Job that is sent to the last bind as the API server has written it down. The floor
(`null`) creates the very pods of these Jobs and binds each as soon as it is there, with the same client. Our processes
run before the clock starts, talk as the accounts of an installation, and a Job that no figure counts shows that they
work.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.volcano.job import JOB
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.kube.transport import Settings
from allhands.lifecycle.volcano_job import decode_job
from allhands.lifecycle.volcano_job.pod_making import PodMaker
from allhands.lifecycle.volcano_job.tasks import Tasks
from allhands.measure.api.audit import CUSTOMER, AuditLog, Calls
from allhands.measure.api.cluster import AT_ONCE, NAMESPACES, PODS, all_of, delete_everything
from allhands.measure.api.contenders import ContenderError
from allhands.measure.api.running import LOOK_SECONDS, MOST_QUIET_SECONDS, QUIET_SECONDS, STOP_SECONDS
from allhands.measure.api.usage import Usage, usage_of_group
from allhands.measure.api.workload import GROUP_LABEL, NODE_CPU, Shape, pod_manifest
from allhands.measure.processes import ServiceEndedError, free_ports
from allhands.runtime.installation.webhooks import NAME as WEBHOOKS_NAME
from allhands.runtime.installation.webhooks import VALIDATING, accounts_of
from allhands.runtime.installing import install_kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from allhands.api.document import Manifest
    from allhands.measure.api.cluster import BenchCluster
    from allhands.measure.processes import Service

NULL: Final = "null"
OURS: Final = "allhands"
FLIGHTS: Final = (16, 32, 64, 128)
"""Of the null system, of which the best is used."""
SWEEP_PODS: Final = 1_000
SUBMITTERS: Final = 32
"""Jobs on their way at a time."""
READY_SECONDS: Final = 120.0
SYSTEM_NAMESPACE: Final = "allhands-system"
CONTROLLERS_USER, SCHEDULER_USER = accounts_of(SYSTEM_NAMESPACE)
WEBHOOKS_USER: Final = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{WEBHOOKS_NAME}"
USERS: Final = {"scheduler": SCHEDULER_USER, "controllers": CONTROLLERS_USER, "webhooks": WEBHOOKS_USER}
"""As whom each of our processes talks: the accounts of an installation."""
NOT_FOUND: Final = 404


class JobsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`flight`: requests at a time of the null system, 0 for the best. `webhooks`: whether Jobs are reviewed."""

    shapes: tuple[Shape, ...] = (Shape(500, 20), Shape(1, 10_000))
    nodes: int = 1_000
    rounds: int = 1
    flight: int = 0
    limit_seconds: float = 600.0
    webhooks: bool = True

    def problem(self) -> str:
        """Why it cannot be run; "" if it can."""
        room = self.nodes * NODE_CPU
        for shape in self.shapes:
            if shape.pods > room:
                return (
                    f"{shape}: {shape.pods:,} pods do not fit on {self.nodes:,} nodes, which hold {room:,}: add nodes"
                )
        return ""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one of our processes used, from the first Job until it asked for nothing more."""

    cpu_seconds: float
    peak_mib: float


class JobsRun(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: from the first Job that was sent to the last bind; None if it was not reached in time."""

    system: str
    shape: str
    round: int
    pods: int
    bound: int
    seconds: float | None
    submitted_seconds: float
    """Until the last Job was answered."""
    first_bind_seconds: float | None
    parts: dict[str, Part]
    server_cpu_seconds: float
    """Of kube-apiserver and etcd, until the last bind."""
    calls: Calls
    half_gangs: int
    overfull_nodes: int

    @property
    def calls_per_pod(self) -> float:
        """Of all of our processes, beyond the creation of pods."""
        return (self.calls.total - self.calls.by_what.get("create pods", 0)) / self.pods

    @property
    def cpu_seconds(self) -> float:
        return sum(part.cpu_seconds for part in self.parts.values())

    @property
    def all_cpu_seconds(self) -> float:
        """With the API server and etcd: where all cores are busy, this is what time is made of."""
        return self.cpu_seconds + self.server_cpu_seconds

    @property
    def peak_mib(self) -> float:
        return sum(part.peak_mib for part in self.parts.values())


def job_name(number: int) -> str:
    return f"job-{number:05d}"


def job_manifest(name: str, pods: int, scheduler_name: str = OURS) -> Manifest:
    """A gang of so many pods."""
    pod = pod_manifest("", scheduler_name)
    template = {"metadata": {"labels": {**pod["metadata"]["labels"], GROUP_LABEL: name}}, "spec": pod["spec"]}
    tasks = [{"name": "worker", "replicas": pods, "template": template}]
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler_name, "minAvailable": pods, "queue": "default", "tasks": tasks},
    }


def pods_of_jobs(shape: Shape, namespace: str) -> Iterator[bytes]:
    """The pods that our controller would make, but for the owner, who does not exist."""
    for number in range(shape.groups):
        manifest = job_manifest(job_name(number), shape.pods_per_group)
        manifest["metadata"] |= {"namespace": namespace, "uid": f"00000000-0000-0000-0000-{number:012d}"}
        job = decode_job(msgspec.json.encode(manifest))
        for task in Tasks(job.spec).all:
            for create in PodMaker(job, 0, 0, ()).pods(task, range(shape.pods_per_group)):
                del create.manifest["metadata"]["ownerReferences"]
                yield msgspec.json.encode(create.manifest)


class JobsTest:
    """On a cluster whose nodes are there; `progress` is told what runs, how many pods are bound, and the seconds."""

    def __init__(
        self,
        cluster: BenchCluster,
        plan: JobsPlan,
        progress: Callable[[str, int, int, float], None] | None = None,
        sampled: str = "",
    ) -> None:
        """`sampled`: a program and a folder, by a comma, that runs our processes and writes there what they did."""
        self._cluster = cluster
        self._plane = cluster.plane
        self._plan = plan
        self._progress = progress
        self._sampled = sampled
        self._audit = AuditLog(cluster.plane.audit_log)
        self._namespaces = 0
        self.flight = plan.flight or FLIGHTS[-1]
        self.sweep: dict[int, float] = {}

    async def prepare(self) -> None:
        """Our kinds, and the best flight of the null system."""
        await install_kinds(self._cluster.objects)
        await self._cluster.objects.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
        for part, user in USERS.items():
            shutil.copyfile(self._plane.kubeconfig_of(user), self._kubeconfig(part))
        if self._plan.flight:
            return
        shape = Shape(min(SWEEP_PODS, max(it.pods for it in self._plan.shapes)), 1)
        for flight in FLIGHTS:
            self.flight = flight
            run = await self._null(shape, 0, f"null with {flight} in flight")
            if run.seconds is not None:
                self.sweep[flight] = run.seconds
        self.flight = min(self.sweep, key=self.sweep.__getitem__, default=FLIGHTS[-1])

    async def runs(self) -> AsyncIterator[JobsRun]:
        """Round after round; who begins changes from round to round."""
        for number in range(1, self._plan.rounds + 1):
            for shape in self._plan.shapes:
                for system in (NULL, OURS) if number % 2 else (OURS, NULL):
                    text = f"round {number} of {self._plan.rounds}, {shape}, {system}"
                    run = self._null if system == NULL else self._ours
                    yield await run(shape, number, text)

    # -- the floor

    async def _null(self, shape: Shape, number: int, text: str) -> JobsRun:
        namespace = await self._namespace()
        bodies = list(pods_of_jobs(shape, namespace))
        nodes = cycle([f"node-{node:05d}" for node in range(self._plan.nodes)])
        settings = Settings(component="null-system", in_flight=self.flight)
        async with KubeObjects(kubeconfig.load(self._kubeconfig("controllers")), settings=settings) as objects:
            await self._cluster.calm()
            self._audit.begin()
            server, used, began = self._plane.server_cpu_seconds(), time.process_time(), time.time()
            pending = iter(bodies)

            async def some() -> None:
                for body in pending:
                    made = (await objects.create(PODS, body, namespace)).manifest()["metadata"]
                    target = {"metadata": {"uid": made["uid"]}, "target": {"kind": "Node", "name": next(nodes)}}
                    await objects.bind(namespace, made["name"], target)

            self._tell(text, 0, shape.pods, 0.0)
            async with asyncio.timeout(self._plan.limit_seconds):
                await asyncio.gather(*(some() for _ in range(self.flight)))
            server_used = self._plane.server_cpu_seconds() - server
            mine = Usage(time.process_time() - used, 0.0)
        await self._written_down(shape.pods)
        return await self._result(NULL, shape, number, namespace, began, 0.0, {NULL: mine}, server_used)

    async def _written_down(self, pods: int) -> None:
        """The audit log follows a moment later."""
        for _ in range(100):
            self._audit.read()
            if len(self._audit.bound_at) >= pods:
                return
            await asyncio.sleep(LOOK_SECONDS)

    # -- ours

    async def _ours(self, shape: Shape, number: int, text: str) -> JobsRun:
        namespace = await self._namespace()
        services: dict[str, Service] = {}
        self._tell(text, 0, shape.pods, 0.0)
        try:
            await self._start(services)
            async with KubeObjects(kubeconfig.load(self._plane.kubeconfig_of(CUSTOMER))) as customer:
                await self._warm(customer, namespace, services)
                await self._cluster.calm()
                self._audit.begin()
                server, began = self._plane.server_cpu_seconds(), time.time()
                before = {name: usage_of_group(it.pid) for name, it in services.items()}
                submitting = asyncio.create_task(_submit(customer, shape, namespace))
                is_done = await self._last_bind(services, submitting, text, shape.pods, began)
                submitted = await submitting
                server_used = self._plane.server_cpu_seconds() - server
            if is_done:
                await self._quiet(services)
            used = {name: _since(before[name], usage_of_group(it.pid)) for name, it in services.items()}
        except ServiceEndedError as error:
            raise ContenderError(f"{OURS}: {error}") from None
        finally:
            for service in reversed(services.values()):
                service.stop(STOP_SECONDS)
        return await self._result(OURS, shape, number, namespace, began, submitted - began, used, server_used)

    async def _start(self, services: dict[str, Service]) -> None:
        """Webhooks first: without them the API server would wait for an answer."""
        (port,) = free_ports(1)
        own = {
            "webhooks": (f"--address=127.0.0.1:{port}", f"--url=https://127.0.0.1:{port}"),
            "controllers": ("--no-leader-elect",),
            "scheduler": ("--no-leader-elect",),
        }
        if not self._plan.webhooks:
            del own["webhooks"]
        for part, options in own.items():
            command = [*self._program(part), part, f"--kubeconfig={self._kubeconfig(part)}", *options]
            services[part] = self._plane.start(f"jobs-{part}", command)
            if part == "webhooks":
                await self._reviewed(services[part], port)

    def _program(self, part: str) -> list[str]:
        if self._sampled:
            program, _, folder = self._sampled.partition(",")
            return [sys.executable, program, f"{folder}/{part}.txt"]
        return [sys.executable, "-c", "from allhands.cli import main; main()"]

    async def _reviewed(self, service: Service, port: int) -> None:
        """Until the API server is told to ask this very process."""
        async with asyncio.timeout(READY_SECONDS):
            while True:
                service.check_alive()
                try:
                    found = (await self._cluster.objects.get(VALIDATING, WEBHOOKS_NAME)).manifest()
                except StatusError as refusal:
                    if refusal.code != NOT_FOUND:
                        raise
                else:
                    if all(f":{port}/" in it["clientConfig"].get("url", "") for it in found["webhooks"]):
                        return
                await asyncio.sleep(LOOK_SECONDS)

    async def _warm(self, customer: KubeObjects, namespace: str, services: dict[str, Service]) -> None:
        """A Job that comes through shows that all of them work. A webhook may not be known to the API server yet."""
        self._audit.begin()
        async with asyncio.timeout(READY_SECONDS):
            while True:
                try:
                    await customer.create(JOB.resource, job_manifest("warm", 1), namespace)
                    break
                except StatusError as refusal:
                    if refusal.code < 500:
                        raise
                await asyncio.sleep(LOOK_SECONDS)
            while not self._audit.bound_at:
                await asyncio.sleep(LOOK_SECONDS)
                self._audit.read()
                self._check(services)
        await self._quiet(services)

    async def _last_bind(
        self, services: dict[str, Service], submitting: asyncio.Task[float], text: str, pods: int, began: float
    ) -> bool:
        """False if the time that there is ended before."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._audit.read()
            seconds = time.time() - began
            self._tell(text, len(self._audit.bound_at), pods, seconds)
            if len(self._audit.bound_at) >= pods:
                return True
            if submitting.done():
                submitting.result()
            if seconds > self._plan.limit_seconds:
                return False
            self._check(services)

    async def _quiet(self, services: dict[str, Service]) -> None:
        begin = heard = time.monotonic()
        while time.monotonic() - heard < QUIET_SECONDS and time.monotonic() - begin < MOST_QUIET_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            self._check(services)
            if self._audit.read():
                heard = time.monotonic()

    def _check(self, services: dict[str, Service]) -> None:
        for service in services.values():
            service.check_alive()
        self._plane.raise_if_ended()

    # -- both

    def _kubeconfig(self, part: str) -> Any:
        """Of a process; its account's own has a name that some programs take for several files."""
        return self._plane.folder / f"kubeconfig-of-{part}"

    async def _namespace(self) -> str:
        self._namespaces += 1
        name = f"jobs-{self._namespaces}"
        await self._cluster.objects.create(NAMESPACES, {"metadata": {"name": name}})
        return name

    def _tell(self, text: str, bound: int, pods: int, seconds: float) -> None:
        if self._progress is not None:
            self._progress(text, bound, pods, seconds)

    async def _result(
        self, system: str, shape: Shape, number: int, namespace: str, began: float, submitted_seconds: float,
        used: dict[str, Usage], server_seconds: float,
    ) -> JobsRun:  # fmt: skip
        objects = self._cluster.objects
        await _delete_warm(objects, namespace)
        placed = await self._cluster.placed(namespace)
        # There is no collector of garbage here; the owners first, or somebody might make them anew.
        for resource in (JOB.resource, POD_GROUP.resource, PODS):
            await delete_everything(objects, resource, namespace)
        times = sorted(moment - began for moment in self._audit.bound_at)
        is_done = placed.bound >= shape.pods and bool(times)
        return JobsRun(
            system=system,
            shape=str(shape),
            round=number,
            pods=shape.pods,
            bound=placed.bound,
            seconds=round(times[-1], 3) if is_done else None,
            submitted_seconds=round(submitted_seconds, 3),
            first_bind_seconds=round(times[0], 3) if times else None,
            parts={
                name: Part(cpu_seconds=round(it.cpu_seconds, 2), peak_mib=round(it.peak_mib, 1))
                for name, it in used.items()
            },
            server_cpu_seconds=round(server_seconds, 2),
            calls=self._audit.calls(),
            half_gangs=placed.half_gangs,
            overfull_nodes=placed.overfull_nodes,
        )


async def _submit(customer: KubeObjects, shape: Shape, namespace: str) -> float:
    """All Jobs, some at a time; returns when the last was answered."""
    pending = iter(msgspec.json.encode(job_manifest(job_name(it), shape.pods_per_group)) for it in range(shape.groups))

    async def create(body: bytes) -> None:
        await customer.create(JOB.resource, body, namespace)

    await all_of(create, pending)
    return time.time()


async def _delete_warm(objects: KubeObjects, namespace: str) -> None:
    try:
        await objects.delete(PODS, "warm-worker-0", namespace, AT_ONCE)
    except StatusError as refusal:
        if refusal.code != NOT_FOUND:
            raise


def _since(before: Usage, after: Usage) -> Usage:
    return Usage(after.cpu_seconds - before.cpu_seconds, after.peak_mib)
