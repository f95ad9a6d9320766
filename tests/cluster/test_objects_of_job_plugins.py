"""What job plugins make is taken by the real API server and the embedded one as it is: every object, every pod, every
field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.errors import StatusError
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.lifecycle.volcano_job.plugins.catalog import names, plugin_errors
from allhands.ports import WriteOptions
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock
from tests.manifests import PODS
from tests.plugin_jobs import all_pods, companions, job, task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.kinds import Resource
    from allhands.ports import Objects
    from tests.controlplane import ControlPlane

STRICTLY = WriteOptions(dry_run=True, field_validation="Strict")
JOB = job(
    {name: ["--wait-master-enabled"] if name == "pytorch" else [] for name in names()},
    task("master", initContainers=[{"name": "first", "image": "none"}]),
    task("worker", 2),
    task("head"),
    task("ps"),
)


@pytest.fixture(params=["real", "embedded"])
async def objects(request: pytest.FixtureRequest) -> AsyncIterator[Objects]:
    if request.param == "embedded":
        yield InProcessObjects(Store(ManualClock(), CountingIds()))
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as reached:
        yield reached


def lacking(wanted: Any, stored: Any, path: str = "") -> list[str]:
    """The paths of what was written and is not there."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return [it for key, value in wanted.items() for it in lacking(value, stored.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) <= len(stored):
        pairs = enumerate(zip(wanted, stored, strict=False))
        return [it for index, (one, other) in pairs for it in lacking(one, other, f"{path}[{index}]")]
    return [] if wanted == stored else [path]


async def refusals(objects: Objects, resource: Resource, manifest: dict[str, Any]) -> list[str]:
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    try:
        stored = (await objects.create(resource, manifest, "default", STRICTLY)).manifest()
    except StatusError as refusal:
        return [f"{name}: {refusal.message}"]
    return [f"{name}: {path} is not there" for path in lacking(manifest, stored)]


async def test_every_object_and_every_pod_is_taken_as_it_is(objects: Objects) -> None:
    assert plugin_errors(JOB) == []
    told = [it for made in companions(JOB) for it in await refusals(objects, made.resource, made.manifest)]
    told += [it for pod in all_pods(JOB) for it in await refusals(objects, PODS, pod)]
    assert told == []
