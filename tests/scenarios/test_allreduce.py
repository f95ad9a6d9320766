"""The all-reduce example really runs: four processes that find each other and agree on a sum."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml

from tests.manifests import CONFIG_MAPS, JOBS, PODS, config_map, owned_by
from tests.unit.agents.local import NODE, local

EXAMPLE = Path(__file__).parents[2] / "examples" / "allreduce"
Manifest = dict[str, Any]


def pods_of(job: Manifest) -> list[Manifest]:
    """The pods as the Job controller makes them, bound to the node."""
    pods = []
    for index in range(job["spec"]["completions"]):
        template = job["spec"]["template"]
        annotation = "batch.kubernetes.io/job-completion-index"
        container = dict(template["spec"]["containers"][0])
        field = {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
        container["env"] = [
            {"name": "JOB_COMPLETION_INDEX", "valueFrom": field},
            {"name": "VECTOR_SIZE", "value": "50001"},
        ]
        metadata = {"name": f"allreduce-{index}", "annotations": {annotation: str(index)}}
        pod = {"metadata": metadata, "spec": {**template["spec"], "containers": [container], "nodeName": NODE}}
        pod = owned_by(pod, job)
        pod["metadata"]["ownerReferences"][0]["controller"] = True
        pods.append(pod)
    return pods


async def test_four_workers_find_each_other_and_agree_on_the_sum(tmp_path: Path) -> None:
    manifest = yaml.safe_load((EXAMPLE / "job.yaml").read_text())
    async with local(tmp_path) as here:
        program = {"data": {"worker.py": (EXAMPLE / "worker.py").read_text()}}
        await here.objects.create(CONFIG_MAPS, config_map("allreduce") | program, "default")
        job = (await here.objects.create(JOBS, manifest, "default")).manifest()
        for pod in pods_of(job):
            await here.objects.create(PODS, pod, "default")
        statuses = await asyncio.gather(*(here.ended(f"allreduce-{index}") for index in range(4)))
        said = [await here.log(f"allreduce-{index}") for index in range(4)]
        assert [status["phase"] for status in statuses] == ["Succeeded"] * 4, said
        addresses = [status["podIP"] for status in statuses]
        assert len(set(addresses)) == 4
        for index, text in enumerate(said):
            assert text.startswith(f"worker {index} of 4 at {addresses[index]}: sum of 50001 numbers correct")
