"""What users and kubelets do to Jobs, as scenarios that run against any Job controller behind any API server.

Each scenario makes its own Job in its own namespace, plays the kubelet by patching the status of pods, waits for what
must come, and leaves the Job at rest. It says nothing about how the Job then looks: that is compared between sides.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.errors import StatusError
from allhands.lifecycle.job import JOBS, PODS
from allhands.lifecycle.job.pod import FINALIZER, INDEX
from allhands.ports import DeleteOptions, Query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.api.document import Manifest
    from allhands.ports import Objects

NAME = "train"
POLL_SECONDS = 0.15
PATIENCE_SECONDS = 40.0
OVER = ("Succeeded", "Failed")


class Stage:
    """One Job in one namespace, seen and handled through the port."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self._objects = objects
        self.namespace = namespace

    async def create(self, **spec: Any) -> None:
        pod_spec = spec.pop("pod_spec", {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]})
        template = {"metadata": {"labels": {"app": "x"}}, "spec": {"terminationGracePeriodSeconds": 30, **pod_spec}}
        job = {"metadata": {"name": NAME}, "spec": {"template": template, **spec}}
        await self._objects.create(JOBS, job, self.namespace)

    async def change(self, **spec: Any) -> None:
        await self._objects.patch(JOBS, NAME, "merge", {"spec": spec}, self.namespace)

    async def delete_job(self) -> None:
        await self._objects.delete(JOBS, NAME, self.namespace, DeleteOptions(propagation="Background"))

    async def job(self) -> Manifest | None:
        try:
            return (await self._objects.get(JOBS, NAME, self.namespace)).manifest()
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            return None

    async def status(self) -> Manifest:
        job = await self.job()
        assert job is not None
        return job.get("status") or {}

    async def pods(self) -> list[Manifest]:
        page = await self._objects.list(PODS, Query(namespace=self.namespace))
        return sorted((msgspec.json.decode(it) for it in page.items), key=lambda it: str(it["metadata"]["name"]))

    async def active(self) -> list[Manifest]:
        return [
            it
            for it in await self.pods()
            if it["status"].get("phase", "Pending") not in OVER and "deletionTimestamp" not in it["metadata"]
        ]

    async def going(self, count: int) -> list[Manifest]:
        """Waits for so many pods that were told to go and are still there."""
        found: list[Manifest] = []

        async def holds() -> bool:
            found[:] = [
                it
                for it in await self.pods()
                if it["status"].get("phase", "Pending") not in OVER and "deletionTimestamp" in it["metadata"]
            ]
            return len(found) == count

        await self.until(f"{count} pods that go", holds)
        return found

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(int(PATIENCE_SECONDS / POLL_SECONDS)):
            if await holds():
                return
            await asyncio.sleep(POLL_SECONDS)
        job, pods = await self.job(), await self.pods()
        raise AssertionError(f"no {what}; status {job and job.get('status')}; {len(pods)} pods")

    async def actives(self, count: int, *, status: bool = True) -> list[Manifest]:
        """Waits for so many active pods, in the status too."""

        async def holds() -> bool:
            said = (await self.status()).get("active", 0) == count if status else True
            return said and len(await self.active()) == count

        await self.until(f"{count} active pods", holds)
        return sorted(await self.active(), key=_index)

    async def condition(self, type: str) -> None:
        async def holds() -> bool:
            return any(
                it["type"] == type and it["status"] == "True" for it in (await self.status()).get("conditions", ())
            )

        await self.until(f"condition {type}", holds)

    async def says(self, **fields: Any) -> None:
        async def holds() -> bool:
            status = await self.status()
            return all(status.get(field) == value for field, value in fields.items())

        await self.until(f"{fields}", holds)

    async def all_let_go(self) -> None:
        async def holds() -> bool:
            return not any(FINALIZER in it["metadata"].get("finalizers", ()) for it in await self.pods())

        await self.until("pods without finalizer", holds)

    # -- the kubelet

    async def run(self, *pods: Manifest) -> None:
        for pod in pods:
            name = pod["metadata"]["name"]
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
            await self._objects.bind(self.namespace, name, binding)
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": pod["metadata"]["creationTimestamp"]}
            await self._report(pod, {"phase": "Running", "conditions": [ready]})

    async def succeed(self, *pods: Manifest) -> None:
        for pod in pods:
            await self._end(pod, "Succeeded", 0)

    async def fail(self, *pods: Manifest, code: int = 1, condition: str = "") -> None:
        for pod in pods:
            await self._end(pod, "Failed", code, condition)

    async def delete(self, *pods: Manifest) -> None:
        for pod in pods:
            await self._objects.delete(PODS, pod["metadata"]["name"], self.namespace)

    async def terminate(self, *pods: Manifest) -> None:
        """The end of pods that were told to go."""
        for pod in pods:
            await self._end(pod, "Failed", 137)
            options = DeleteOptions(grace_seconds=0)
            try:
                await self._objects.delete(PODS, pod["metadata"]["name"], self.namespace, options)
            except StatusError as refusal:
                assert refusal.code == 404, refusal

    async def change_pod(self, pod: Manifest, metadata: Manifest) -> None:
        await self._objects.patch(PODS, pod["metadata"]["name"], "merge", {"metadata": metadata}, self.namespace)

    async def _end(self, pod: Manifest, phase: str, code: int, condition: str = "") -> None:
        now = pod["metadata"]["creationTimestamp"]
        terminated = {"exitCode": code, "finishedAt": now, "startedAt": now, "reason": "Ended"}
        container = {
            "name": "main",
            "image": "work",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": terminated},
        }
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": now}]
        if condition:
            conditions.append({"type": condition, "status": "True", "lastTransitionTime": now})
        await self._report(pod, {"phase": phase, "conditions": conditions, "containerStatuses": [container]})

    async def _report(self, pod: Manifest, status: Manifest) -> None:
        name = pod["metadata"]["name"]
        await self._objects.patch(PODS, name, "merge", {"status": status}, self.namespace, subresource="status")


def _index(pod: Manifest) -> tuple[int, str]:
    return int(pod["metadata"].get("annotations", {}).get(INDEX, -1)), pod["metadata"]["name"]


async def fixed_completions(stage: Stage) -> None:
    await stage.create(completions=3, parallelism=2)
    await stage.run(*await stage.actives(2))
    await stage.says(ready=2)
    await stage.succeed(*await stage.actives(2))
    await stage.succeed(*await stage.actives(1))
    await stage.condition("Complete")


async def work_queue(stage: Stage) -> None:
    await stage.create(parallelism=3)
    first, second, third = await stage.actives(3)
    await stage.succeed(first)
    await stage.actives(2)
    await stage.fail(second)
    await stage.succeed(third)
    await stage.condition("Complete")


async def zero_completions(stage: Stage) -> None:
    await stage.create(completions=0)
    await stage.condition("Complete")


async def indexed(stage: Stage) -> None:
    await stage.create(completions=4, parallelism=3, completionMode="Indexed")
    pods = await stage.actives(3)
    await stage.succeed(pods[0], pods[2])
    await stage.says(completedIndexes="0,2")
    await stage.succeed(*await stage.actives(2))
    await stage.condition("Complete")


async def no_second_chance(stage: Stage) -> None:
    await stage.create(completions=3, parallelism=3, backoffLimit=0)
    pods = await stage.actives(3)
    await stage.run(*pods)
    await stage.fail(pods[0])
    await stage.condition("FailureTarget")
    await stage.says(terminating=2)
    await stage.terminate(*await stage.going(2))
    await stage.condition("Failed")


async def one_second_chance(stage: Stage) -> None:
    await stage.create(backoffLimit=1)
    await stage.fail(*await stage.actives(1))
    await stage.says(failed=1)
    await stage.fail(*await stage.actives(1))
    await stage.condition("Failed")


async def failures_by_index(stage: Stage) -> None:
    await stage.create(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    first, second = await stage.actives(2)
    await stage.fail(first)
    again = (await stage.actives(2))[0]
    await stage.fail(again)
    await stage.says(failedIndexes="0")
    await stage.succeed(second)
    await stage.condition("Failed")


async def too_many_failed_indexes(stage: Stage) -> None:
    await stage.create(
        completions=4, parallelism=4, completionMode="Indexed", backoffLimitPerIndex=0, maxFailedIndexes=0
    )
    pods = await stage.actives(4)
    await stage.run(*pods)
    await stage.fail(pods[2])
    await stage.condition("FailureTarget")
    await stage.terminate(*await stage.going(3))
    await stage.condition("Failed")


async def policy_fails_the_job(stage: Stage) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}
    await stage.create(podFailurePolicy={"rules": [rule]}, completions=1)
    await stage.fail(*await stage.actives(1), code=42)
    await stage.condition("Failed")


async def policy_ignores(stage: Stage) -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    await stage.create(podFailurePolicy={"rules": [rule]}, backoffLimit=0, completions=1)
    before = await stage.actives(1)
    await stage.fail(*before, condition="DisruptionTarget")
    await stage.actives(0)
    await stage.succeed(*await stage.actives(1))
    await stage.condition("Complete")


async def policy_fails_the_index(stage: Stage) -> None:
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}}
    policy = {"rules": [rule]}
    await stage.create(
        completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=3, podFailurePolicy=policy
    )
    first, second = await stage.actives(2)
    await stage.fail(second, code=42)
    await stage.says(failedIndexes="1")
    await stage.succeed(first)
    await stage.condition("Failed")


async def success_policy(stage: Stage) -> None:
    policy = {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}
    await stage.create(completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
    pods = await stage.actives(3)
    await stage.run(*pods)
    await stage.succeed(pods[1])
    await stage.condition("SuccessCriteriaMet")
    await stage.says(terminating=2)
    await stage.terminate(*await stage.going(2))
    await stage.condition("Complete")


async def suspended_and_resumed(stage: Stage) -> None:
    await stage.create(completions=2, parallelism=2, suspend=True)
    await stage.condition("Suspended")
    await stage.change(suspend=False)
    await stage.run(*await stage.actives(2))
    await stage.says(ready=2)
    await stage.change(suspend=True)
    await stage.condition("Suspended")
    await stage.says(terminating=2)
    await stage.terminate(*await stage.going(2))
    await stage.says(terminating=0)
    await stage.change(suspend=False)
    await stage.succeed(*await stage.actives(2))
    await stage.condition("Complete")


async def left_suspended(stage: Stage) -> None:
    await stage.create(completions=2, parallelism=2)
    await stage.actives(2)
    await stage.change(suspend=True)
    await stage.condition("Suspended")
    await stage.says(terminating=0)


async def deadline(stage: Stage) -> None:
    await stage.create(completions=2, parallelism=2)
    await stage.run(*await stage.actives(2))
    await stage.change(activeDeadlineSeconds=1)  # only now: however slow the machine is, the pods have run before
    await stage.condition("FailureTarget")
    await stage.terminate(*await stage.going(2))
    await stage.condition("Failed")


async def elastic(stage: Stage) -> None:
    await stage.create(completions=2, parallelism=2, completionMode="Indexed")
    await stage.actives(2)
    await stage.change(completions=3, parallelism=3)
    pods = await stage.actives(3)
    await stage.succeed(pods[2])
    await stage.says(completedIndexes="2")
    await stage.change(completions=1, parallelism=1)
    await stage.succeed(*await stage.actives(1))
    await stage.condition("Complete")


async def less_parallelism(stage: Stage) -> None:
    await stage.create(completions=4, parallelism=4)
    pods = await stage.actives(4)
    await stage.run(*pods[:2])
    await stage.says(ready=2)
    await stage.change(parallelism=2)
    await stage.actives(2)
    await stage.says(ready=2, terminating=0)


async def replaced_when_failed(stage: Stage) -> None:
    await stage.create(podReplacementPolicy="Failed", completions=1)
    pods = await stage.actives(1)
    await stage.run(*pods)
    await stage.delete(*pods)
    await stage.says(terminating=1)
    await stage.terminate(*await stage.going(1))
    await stage.succeed(*await stage.actives(1))
    await stage.condition("Complete")


async def replaced_when_going(stage: Stage) -> None:
    await stage.create(completions=1)
    pods = await stage.actives(1)
    await stage.run(*pods)
    await stage.delete(*pods)
    fresh = await stage.actives(1)
    await stage.says(failed=1, terminating=1)
    await stage.terminate(*await stage.going(1))
    await stage.succeed(*fresh)
    await stage.condition("Complete")


async def managed_by_another(stage: Stage) -> None:
    await stage.create(managedBy="example.com/another")
    await asyncio.sleep(2)


async def released_and_adopted(stage: Stage) -> None:
    await stage.create(completions=2, parallelism=2)
    first, second = await stage.actives(2)
    await stage.change_pod(first, {"labels": {"batch.kubernetes.io/controller-uid": "none"}})

    async def is_released() -> bool:
        return len(await stage.active()) == 3

    await stage.until("a pod in place of the released one", is_released)
    await stage.change_pod(second, {"ownerReferences": None})

    async def is_adopted() -> bool:
        return sum("ownerReferences" in it["metadata"] for it in await stage.active()) == 2

    await stage.until("the orphan adopted", is_adopted)
    await stage.says(active=2)


async def foreign_finalizers(stage: Stage) -> None:
    await stage.create(completions=1)
    (pod,) = await stage.actives(1)
    await stage.change_pod(pod, {"finalizers": [*pod["metadata"]["finalizers"], "example.com/other"]})
    await stage.succeed(pod)
    await stage.condition("Complete")


async def deleted_with_its_pods(stage: Stage) -> None:
    await stage.create(completions=2, parallelism=2)
    await stage.actives(2)
    await stage.delete_job()

    async def is_empty() -> bool:
        return await stage.job() is None and not await stage.pods()

    await stage.until("nothing left", is_empty)


async def time_to_live(stage: Stage) -> None:
    await stage.create(completions=1, ttlSecondsAfterFinished=1)
    await stage.succeed(*await stage.actives(1))

    async def is_empty() -> bool:
        return await stage.job() is None and not await stage.pods()

    await stage.until("nothing left", is_empty)


SCENARIOS: tuple[Callable[[Stage], Awaitable[None]], ...] = (
    fixed_completions,
    work_queue,
    zero_completions,
    indexed,
    no_second_chance,
    one_second_chance,
    failures_by_index,
    too_many_failed_indexes,
    policy_fails_the_job,
    policy_ignores,
    policy_fails_the_index,
    success_policy,
    suspended_and_resumed,
    left_suspended,
    deadline,
    elastic,
    less_parallelism,
    replaced_when_failed,
    replaced_when_going,
    managed_by_another,
    released_and_adopted,
    foreign_finalizers,
)
WITH_GARBAGE_COLLECTION: tuple[Callable[[Stage], Awaitable[None]], ...] = (deleted_with_its_pods, time_to_live)
