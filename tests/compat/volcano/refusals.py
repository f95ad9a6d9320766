"""What makes no sense, and the path of the field that the refusal names: the same on every server.

A case is a manifest that is sound but for one thing. Nothing of it is stored: they are sent as dry runs.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.volcano_jobs import job, policy, task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

BATCH = "batch.volcano.sh/v1alpha1"
SCHEDULING = "scheduling.volcano.sh/v1beta1"
PARTS = {"totalPartitions": 2, "partitionSize": 2}


class Case(NamedTuple):
    name: str
    manifest: Manifest
    path: str


def cases() -> list[Case]:
    return [*_jobs(), *_tasks(), *_policies(), *_plugins(), *_others()]


def _kind(api_version: str, kind: str, **more: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **more}


def _template(**spec: Any) -> Manifest:
    made = task("a", 1)
    made["template"]["spec"] |= spec
    return job("j", made)


def _jobs() -> Iterator[Case]:
    """Of the Job as a whole."""
    one = task("a", 2)
    named: dict[str, tuple[Manifest, str]] = {
        "no tasks": (job("j"), "spec.tasks"),
        "more needed than there are": (job("j", one, minAvailable=3), "spec.minAvailable"),
        "fewer than none needed": (job("j", one, minAvailable=-1), "spec.minAvailable"),
        "fewer than no retries": (job("j", one, maxRetry=-1), "spec.maxRetry"),
        "a past time to live": (job("j", one, ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished"),
        "no successes needed": (job("j", one, minSuccess=0), "spec.minSuccess"),
        "a queue that is not there": (job("j", one, queue="missing"), "spec.queue"),
        "the queue above all": (job("j", one, queue="root"), "spec.queue"),
        "a name that makes no pod": (job("a" * 70, one), "metadata.name"),
        "an estimate in words": (job("j", one, runningEstimate="soon"), "spec.runningEstimate"),
        "a hard limit without a tier": (
            job("j", one, networkTopology={"mode": "hard"}),
            "spec.networkTopology.highestTierAllowed",
        ),
        "a limit of no known kind": (job("j", one, networkTopology={"mode": "near"}), "spec.networkTopology.mode"),
        "a volume without a claim": (job("j", one, volumes=[{"mountPath": "/a"}]), "spec.volumes[0].volumeClaimName"),
        "a volume without a place": (
            job("j", one, volumes=[{"mountPath": "", "volumeClaimName": "c"}]),
            "spec.volumes[0].mountPath",
        ),
        "two volumes in one place": (
            job("j", one, volumes=[{"mountPath": "/a", "volumeClaimName": it} for it in "ab"]),
            "spec.volumes[1].mountPath",
        ),
        "a claim for nothing": (
            job("j", one, volumes=[{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]),
            "spec.volumes[0].volumeClaim.resources",
        ),
    }
    yield from (Case(name, *case) for name, case in named.items())


def _tasks() -> Iterator[Case]:
    """Of its tasks, alone and beside each other, and of the pods that they make."""
    waiting = [task("a", 1, dependsOn={"name": ["b"]}), task("b", 1, dependsOn={"name": ["a"]})]
    named: dict[str, tuple[Manifest, str]] = {
        "two tasks of one name": (job("j", task("a", 1), task("a", 1)), "spec.tasks[1].name"),
        "a name with capitals": (job("j", task("Worker", 1)), "spec.tasks[0].name"),
        "a pod's name that is too long": (job("j", task("a" * 62, 1)), "spec.tasks[0].name"),
        "fewer than no pods": (job("j", task("a", -1)), "spec.tasks[0].replicas"),
        "more pods than a Job may have": (job("j", task("a", 100_001)), "spec.tasks"),
        "more needed of a task than there are": (
            job("j", task("a", 2, minAvailable=3)),
            "spec.tasks[0].minAvailable",
        ),
        "one that waits for nobody there": (
            job("j", task("a", 1, dependsOn={"name": ["b"]})),
            "spec.tasks[0].dependsOn.name[0]",
        ),
        "two that wait for each other": (job("j", *waiting), "spec.tasks[0].dependsOn.name"),
        "one that waits in an unknown way": (
            job("j", task("b", 1), task("a", 1, dependsOn={"name": ["b"], "iteration": "some"})),
            "spec.tasks[1].dependsOn.iteration",
        ),
        "parts that do not add up": (job("j", task("a", 5, partitionPolicy=PARTS)), "spec.tasks[0].replicas"),
        "more parts needed than there are": (
            job("j", task("a", 4, partitionPolicy={**PARTS, "minPartitions": 3})),
            "spec.tasks[0].partitionPolicy.minPartitions",
        ),
        "half a core to pin": (
            job("j", task("a", 1, cpu="500m", topologyPolicy="single-numa-node")),
            "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]",
        ),
        "a pod without containers": (_template(containers=[]), "spec.tasks[0].template.spec.containers"),
        "a container without an image": (
            _template(containers=[{"name": "main"}]),
            "spec.tasks[0].template.spec.containers[0].image",
        ),
        "pods that restart in an unknown way": (
            _template(restartPolicy="Sometimes"),
            "spec.tasks[0].template.spec.restartPolicy",
        ),
        "a mount of nothing": (
            _template(
                containers=[{"name": "main", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
            ),
            "spec.tasks[0].template.spec.containers[0].volumeMounts[0].name",
        ),
        "less than nothing asked for": (
            _template(containers=[{"name": "main", "image": "x", "resources": {"requests": {"cpu": "-1"}}}]),
            "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]",
        ),
    }
    yield from (Case(name, *case) for name, case in named.items())


def _policies() -> Iterator[Case]:
    def having(*policies: Manifest) -> Manifest:
        return job("j", task("a", 1), policies=list(policies))

    failed = policy("AbortJob", event="PodFailed")
    for event in ("OutOfSync", "PodRunning", "CommandIssued"):
        manifest = having(policy("AbortJob", event=event))
        yield Case(f"{event} which is for controllers", manifest, "spec.policies[0].event")
    for action in ("SyncJob", "EnqueueJob", "SyncQueue", "OpenQueue"):
        manifest = having(policy(action, event="PodFailed"))
        yield Case(f"{action} which is not for policies", manifest, "spec.policies[0].action")
    named: dict[str, tuple[Manifest, str]] = {
        "two answers to one event": (having(failed, policy("RestartJob", event="PodFailed")), "spec.policies[1].event"),
        "two answers to one exit code": (
            having(policy("AbortJob", exitCode=3), policy("RestartJob", exitCode=3)),
            "spec.policies[1].exitCode",
        ),
        "anything beside something": (having(failed, policy("RestartJob", event="*")), "spec.policies[1].event"),
        "an event and an exit code": (having({**failed, "exitCode": 3}), "spec.policies[0].exitCode"),
        "neither event nor exit code": (having(policy("AbortJob")), "spec.policies[0].event"),
        "an unknown event": (having(policy("AbortJob", event="PodTired")), "spec.policies[0].event"),
        "an unknown action": (having(policy("Sing", event="PodFailed")), "spec.policies[0].action"),
        "success as a failure": (having(policy("AbortJob", exitCode=0)), "spec.policies[0].exitCode"),
        "a time-out in words": (having({**failed, "timeout": "later"}), "spec.policies[0].timeout"),
        "a policy of a task": (
            job("j", task("a", 1, policies=[failed, policy("RestartPod", event="PodFailed")])),
            "spec.tasks[0].policies[1].event",
        ),
    }
    yield from (Case(name, *case) for name, case in named.items())


def _plugins() -> Iterator[Case]:
    named: dict[str, tuple[Manifest, str]] = {
        "an unknown plugin": (job("j", task("a", 1), plugins={"magic": []}), "spec.plugins[magic]"),
        "an unknown flag": (job("j", task("a", 1), plugins={"svc": ["--loud"]}), "spec.plugins[svc][0]"),
        "mpi without a master": (job("j", task("a", 1), plugins={"mpi": []}), "spec.plugins[mpi]"),
        "ray without a head": (job("j", task("a", 1), plugins={"ray": []}), "spec.plugins[ray]"),
    }
    yield from (Case(name, *case) for name, case in named.items())


def _others() -> Iterator[Case]:
    """Of the other kinds."""
    template = {"spec": job("j", task("a", 1))["spec"]}
    bad_template = copy.deepcopy(template)
    bad_template["spec"]["tasks"][0]["name"] = "A"
    steps = [{"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    member: Manifest = {"type": "Node", "selector": {"exactMatch": {"name": "n"}}}
    flow = "flow.volcano.sh/v1alpha1"
    named: dict[str, tuple[Manifest, str]] = {
        "a schedule in words": (
            _kind(BATCH, "CronJob", spec={"schedule": "daily", "jobTemplate": template}),
            "spec.schedule",
        ),
        "a time zone of nowhere": (
            _kind(BATCH, "CronJob", spec={"schedule": "@daily", "timeZone": "Mars/Base", "jobTemplate": template}),
            "spec.timeZone",
        ),
        "a schedule of Jobs that make no sense": (
            _kind(BATCH, "CronJob", spec={"schedule": "@daily", "jobTemplate": bad_template}),
            "spec.jobTemplate.spec.tasks[0].name",
        ),
        "steps that wait for each other": (
            _kind(flow, "JobFlow", spec={"flows": steps}),
            "spec.flows[0].dependsOn.targets",
        ),
        "a step that waits for nobody there": (
            _kind(flow, "JobFlow", spec={"flows": steps[:1]}),
            "spec.flows[0].dependsOn.targets[0]",
        ),
        "a queue of no weight": (_kind(SCHEDULING, "Queue", spec={"weight": 0}), "spec.weight"),
        "a queue that is its own parent": (_kind(SCHEDULING, "Queue", spec={"parent": "x"}), "spec.parent"),
        "a queue below nobody there": (_kind(SCHEDULING, "Queue", spec={"parent": "missing"}), "spec.parent"),
        "a queue that deserves more than it may have": (
            _kind(SCHEDULING, "Queue", spec={"deserved": {"cpu": "2"}, "capability": {"cpu": "1"}}),
            "spec.deserved[cpu]",
        ),
        "a path of queues without its weights": (
            {
                **_kind(SCHEDULING, "Queue", spec={}),
                "metadata": {
                    "name": "x",
                    "annotations": {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1"},
                },
            },
            "metadata.annotations[volcano.sh/hierarchy]",
        ),
        "a group in a queue that is not there": (
            _kind(SCHEDULING, "PodGroup", spec={"minMember": 1, "queue": "missing"}),
            "spec.queue",
        ),
        "a HyperNode without members": (
            _kind("topology.volcano.sh/v1alpha1", "HyperNode", spec={"tier": 1, "members": []}),
            "spec.members",
        ),
        "a HyperNode with a member by two ways": (
            _kind(
                "topology.volcano.sh/v1alpha1",
                "HyperNode",
                spec={
                    "tier": 1,
                    "members": [{**member, "selector": {**member["selector"], "regexMatch": {"pattern": "n"}}}],
                },
            ),
            "spec.members[0].selector",
        ),
    }
    yield from (Case(name, *case) for name, case in named.items())
