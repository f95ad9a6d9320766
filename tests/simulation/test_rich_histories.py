"""Random histories with much that meets in a cluster: priorities and preemption, volumes, Jobs after Jobs; with faults.
Everyone ends well, and whoever waits knows why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.api.kinds import Resource
from allhands.compose.fuzzing import ROUGH
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.compose.system import SystemOptions
from allhands.runtime.scheduling.scheduler import SchedulerOptions
from allhands.sim.checkers import ReasonWatch
from allhands.sim.faults import NONE, Faults
from allhands.sim.fuzzing import Fuzz, History
from tests.depth import examples
from tests.manifests import JOBS, PODS, PRIORITY_CLASSES

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster

CLAIMS = Resource("", "v1", "persistentvolumeclaims")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")


class RichFuzz(Fuzz):
    """The same jobs, each with something more."""

    _reasons: ReasonWatch | None = None

    async def _submit(self, number: int) -> None:
        await self._prepare()
        await super()._submit(number)
        chance, name = self._chance, f"job-{number}"
        job = (await self._objects.get(JOBS, name, "default")).manifest()
        await self._objects.delete(JOBS, name, "default")
        spec: Manifest = job["spec"]
        for key in ("selector", "manualSelector"):
            spec.pop(key, None)
        template = spec["template"]
        template["metadata"].pop("labels", None)
        if chance.random() < 0.5:
            template["spec"]["priorityClassName"] = chance.choice(("low", "high"))
        annotations = job["metadata"].get("annotations") or {}
        if number and chance.random() < 0.3:
            annotations["allhands.dev/after"] = f"job-{chance.randrange(number)}"
        cpu = int(template["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        if chance.random() < 0.2 and cpu * spec["parallelism"] <= 8:  # such a volume is on one node, for all of them
            await self._claim(name)
            template["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        body = {"metadata": {"name": f"rich-{number}", "annotations": annotations}, "spec": spec}
        if "allhands.dev/after" in annotations:
            annotations["allhands.dev/after"] = annotations["allhands.dev/after"].replace("job-", "rich-")
        self._least[f"rich-{number}"] = self._least.pop(name)
        self._names[-1] = f"rich-{number}"
        await self._objects.create(JOBS, body, "default")

    async def _prepare(self) -> None:
        if self._reasons is not None:
            return
        self._reasons = ReasonWatch()
        for name, value in (("low", 10), ("high", 1000)):
            await self._objects.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        kind = {
            "metadata": {"name": "local"},
            "provisioner": "allhands.dev/host-path",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self._objects.create(STORAGE_CLASSES, kind)

    async def _claim(self, name: str) -> None:
        spec = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await self._objects.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default")

    async def _look_at_gangs(self) -> None:
        await super()._look_at_gangs()
        assert self._reasons is not None
        page = await self._objects.list(PODS)
        unexplained = []
        for raw in page.items:
            pod = msgspec.json.decode(raw)
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            conditions = pod["status"].get("conditions") or ()
            if not any(it["type"] == "PodScheduled" and it.get("message") for it in conditions):
                unexplained.append(pod["metadata"]["name"])
        self._reasons.look(unexplained, self._cluster.seconds)


def rich(seed: int, faults: Faults = ROUGH, flight: int = 1) -> History:
    async def scenario(cluster: SimulatedCluster) -> History:
        async def add(name: str, cpu: int) -> None:
            await add_node(cluster.objects, node_manifest(name, NodeSize(str(cpu)), cluster.store.now()))

        return await RichFuzz(cluster, seed, add).run()

    scheduler = SchedulerOptions(names=("allhands", "default-scheduler"), flight=flight)
    options = SystemOptions(seed=seed, flight=flight, scheduler=scheduler)
    return simulate(scenario, seed=seed, options=options, faults=faults)


@pytest.mark.parametrize("seed", range(examples(8)))
def test_rich_histories_with_faults_end_well(seed: int) -> None:
    rich(seed)


@pytest.mark.parametrize("seed", range(2))
def test_rich_histories_without_faults_end_well(seed: int) -> None:
    rich(seed, NONE)


@pytest.mark.parametrize("seed", range(examples(4)))
def test_rich_histories_with_many_slow_writes_under_way_at_a_time_end_well(seed: int) -> None:
    rich(seed, msgspec.structs.replace(ROUGH, slow=0.5), flight=8)
