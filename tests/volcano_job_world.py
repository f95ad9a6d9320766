"""A toy cluster for one Volcano Job: an API with versions and conflicts, a scheduler that opens groups and starts whole
gangs, and a kubelet that does what it is told.

Instructions are carried out as a server would; any number of them may be left out, as after a crash.
"""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.patch.merge_patch import merged_value
from allhands.lifecycle.command import COMMANDS, decode_command
from allhands.lifecycle.instructions import Create, Delete, Patch, Record
from allhands.lifecycle.volcano_job import (
    JOBS,
    POD_GROUPS,
    PODS,
    Equipment,
    Observed,
    decode_group,
    decode_job,
    decode_pod,
    reconcile,
)
from allhands.lifecycle.volcano_job.names import TASK_INDEX
from tests.job_world import shuffled
from tests.volcano_jobs import command, job

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.instructions import Instruction, Outcome

NAMESPACE = "team"
BEGIN_SECONDS = 1_800_000_000.0
MOST_LOOKS = 200
OVER = ("Completed", "Terminated", "Failed")


class RefusedError(Exception):
    """The toy server says no."""


class VolcanoJobWorld:
    """`opens`: whether groups are let in by themselves."""

    def __init__(self, *tasks: Manifest, opens: bool = True, equipment: Equipment | None = None, **spec: Any) -> None:
        self.now_seconds = BEGIN_SECONDS
        self._version = 1
        self._uids = 0
        self._opens = opens
        self._equipment = equipment
        manifest = job("train", *tasks, **spec)
        manifest["metadata"] |= {
            "namespace": NAMESPACE,
            "uid": "job-uid",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": text_of(self.now_seconds),
        }
        self.job: Manifest | None = manifest
        self.pods: dict[str, Manifest] = {}
        self.group: Manifest | None = None
        self.commands: dict[str, Manifest] = {}
        self.others: dict[tuple[str, str], Manifest] = {}
        """Objects of other kinds, by plural and name."""
        self.events: list[Record] = []
        self.phases: list[str] = []
        self.status_writes = 0
        self.refusing = ""
        self._refused = ""
        self.most_pods = 0
        """How many there were at a time, going ones not counted."""

    # -- looking

    @property
    def status(self) -> Manifest:
        assert self.job is not None
        return self.job.get("status") or {}

    @property
    def phase(self) -> str:
        return str(self.status.get("state", {}).get("phase", ""))

    @property
    def message(self) -> str:
        return str(self.status["state"].get("message", ""))

    @property
    def reason(self) -> str:
        return str(self.status["state"].get("reason", ""))

    @property
    def is_over(self) -> bool:
        return self.job is None or self.phase in OVER

    def names(self, *phases: str, going: bool = False) -> list[str]:
        """Pods in one of these phases, in their order."""
        wanted = phases or ("Pending", "Running")
        return [
            name
            for name in sorted(self.pods, key=lambda it: (it.rpartition("-")[0], self.index_of(it)))
            if ("deletionTimestamp" in self.pods[name]["metadata"]) == going and _phase(self.pods[name]) in wanted
        ]

    def index_of(self, name: str) -> int:
        return int(self.pods[name]["metadata"]["annotations"][TASK_INDEX])

    def observed(self) -> Observed:
        return Observed(
            [decode_pod(msgspec.json.encode(self.pods[name])) for name in sorted(self.pods)],
            None if self.group is None else decode_group(msgspec.json.encode(self.group)),
            sorted((decode_command(msgspec.json.encode(it)) for it in self.commands.values()), key=lambda it: it.order),
            refused=self._refused,
        )

    # -- the controller

    def decide(self) -> Outcome:
        document = decode_job(msgspec.json.encode(self.job))
        return reconcile(document, self.observed(), self.now_seconds, equipment=self._equipment)

    def look(self, limit: int | None = None) -> Outcome:
        """One look, of whose instructions the first `limit` are carried out."""
        outcome = self.decide()
        self._do(outcome.instructions[:limit])
        return outcome

    def _do(self, instructions: Sequence[Instruction]) -> None:
        try:
            for instruction in instructions:
                self.carry_out(instruction)
        except RefusedError as refusal:
            self._refused = str(refusal)
        else:
            self._refused = ""

    def settle(self, chance: random.Random | None = None) -> None:
        """Looks until there is nothing to do at this moment. With chance, looks are cut off at random, and neighbours
        of one kind are done in any order."""
        for number in itertools.count():
            assert number < MOST_LOOKS, "it never comes to rest"
            if self.job is None:
                return
            outcome = self.decide()
            doing = [it for it in outcome.instructions if not isinstance(it, Record)]
            if chance is None:
                self._do(outcome.instructions)
            else:
                cut = chance.randint(0, len(doing)) if number < 30 else len(doing)
                self._do(shuffled(doing, chance)[:cut])
            opened = self._open()
            if not doing and not opened:
                assert outcome.wake_at_seconds is None or outcome.wake_at_seconds > self.now_seconds, outcome
                return

    def advance(self, seconds: float, chance: random.Random | None = None) -> None:
        self.now_seconds += seconds
        self.settle(chance)

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Record):
            self.events.append(instruction)
        elif isinstance(instruction, Create):
            self._create(instruction)
        elif isinstance(instruction, Delete):
            self._delete(instruction)
        elif instruction.resource == JOBS:
            self._patch_job(instruction)
        else:
            self._patch(instruction)

    def reasons(self) -> list[str]:
        return [it.reason for it in self.events]

    # -- the server

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _create(self, wanted: Create) -> None:
        if self.refusing:
            raise RefusedError(self.refusing)
        made = merged_value({}, wanted.manifest)
        name = made["metadata"]["name"]
        self._uids += 1
        made["metadata"] |= {
            "uid": f"uid-{self._uids}",
            "resourceVersion": self._next_version(),
            "creationTimestamp": text_of(self.now_seconds),
        }
        if wanted.resource == PODS:
            if name in self.pods:
                raise RefusedError(f"{name} exists")
            made["status"] = {"phase": "Pending"}
            self.pods[name] = made
            alive = [it for it in self.pods.values() if "deletionTimestamp" not in it["metadata"]]
            self.most_pods = max(self.most_pods, len(alive))
        elif wanted.resource == POD_GROUPS:
            assert self.group is None
            self.group = made
        else:
            assert wanted.unless_there
            self.others.setdefault((wanted.resource.plural, name), made)

    def _delete(self, wanted: Delete) -> None:
        if wanted.resource == JOBS:
            self.job = None
        elif wanted.resource == POD_GROUPS:
            assert self.group is None or self.group["metadata"]["uid"] == wanted.uid
            self.group = None
        elif wanted.resource == COMMANDS:
            self.commands.pop(wanted.name, None)
        elif wanted.resource == PODS:
            self.delete(wanted.name, wanted.uid)
        else:
            assert wanted.owner_uid == "job-uid"
            self.others.pop((wanted.resource.plural, wanted.name), None)

    def delete(self, name: str, uid: str = "") -> None:
        """A pod that is on no node, or has ended, goes at once."""
        pod = self.pods.get(name)
        if pod is None:
            return
        if uid and pod["metadata"]["uid"] != uid:
            raise RefusedError("another uid")
        if "nodeName" not in pod["spec"] or _phase(pod) in ("Succeeded", "Failed"):
            del self.pods[name]
        elif "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"] |= {
                "deletionTimestamp": text_of(self.now_seconds + 30),
                "deletionGracePeriodSeconds": 30,
                "resourceVersion": self._next_version(),
            }

    def vanish(self, name: str) -> None:
        """It is gone without a trace, as after a forced deletion."""
        del self.pods[name]

    def end_going(self) -> None:
        """The kubelet has ended all that were told to go."""
        for name in [it for it, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]]:
            del self.pods[name]

    def _patch_job(self, wanted: Patch) -> None:
        assert wanted.subresource == "status"
        assert self.job is not None
        if wanted.version and wanted.version != self.job["metadata"]["resourceVersion"]:
            raise RefusedError("the job has changed")
        new = merged_value(self.job, wanted.patch)
        assert new.get("status") != self.job.get("status"), "a patch that changes nothing"
        new["metadata"]["resourceVersion"] = self._next_version()
        before, self.job = self.phase, new
        self.status_writes += 1
        if self.phase != before:
            self.phases.append(self.phase)

    def _patch(self, wanted: Patch) -> None:
        if wanted.resource == PODS:
            pod = self.pods.get(wanted.name)
            if pod is None or pod["metadata"]["uid"] != wanted.patch["metadata"]["uid"]:
                raise RefusedError("no such pod")
            self.pods[wanted.name] = merged_value(pod, wanted.patch)
        elif wanted.resource == POD_GROUPS:
            assert self.group is not None
            self.group = merged_value(self.group, wanted.patch)
        else:
            key = (wanted.resource.plural, wanted.name)
            self.others[key] = merged_value(self.others[key], wanted.patch)

    # -- users

    def scale(self, task: str, replicas: int, **more: Any) -> None:
        assert self.job is not None
        tasks = [{**it, "replicas": replicas, **more} if it["name"] == task else it for it in self.job["spec"]["tasks"]]
        self.change_spec(tasks=tasks)

    def change_spec(self, **spec: Any) -> None:
        assert self.job is not None
        self.job = merged_value(self.job, {"spec": spec})
        self.job["metadata"]["resourceVersion"] = self._next_version()
        self.job["metadata"]["generation"] += 1

    def annotate(self, **annotations: str | None) -> None:
        self._change_metadata(annotations=annotations)

    def label(self, **labels: str | None) -> None:
        self._change_metadata(labels=labels)

    def _change_metadata(self, **metadata: Any) -> None:
        assert self.job is not None
        self.job = merged_value(self.job, {"metadata": metadata})
        self.job["metadata"]["resourceVersion"] = self._next_version()

    def order(self, action: str, **more: Any) -> None:
        """A command for the Job."""
        self._uids += 1
        name = f"order-{self._uids}"
        made = command(name, action, "train", "job-uid") | more
        made["metadata"] |= {
            "namespace": NAMESPACE,
            "uid": f"uid-{self._uids}",
            "creationTimestamp": text_of(self.now_seconds + self._uids),
        }
        self.commands[name] = made

    # -- the scheduler

    def _open(self) -> bool:
        if self._opens and self.group is not None and "status" not in self.group:
            self.group["status"] = {"phase": "Inqueue"}
            return True
        return False

    def lose_group(self) -> None:
        """Somebody deletes it."""
        self.group = None

    def open(self) -> None:
        assert self.group is not None
        self.group["status"] = {**(self.group.get("status") or {}), "phase": "Inqueue"}

    # -- the kubelet

    def run(self, *names: str) -> None:
        for name in names or self.names("Pending"):
            pod = self.pods[name]
            pod["spec"]["nodeName"] = "node"
            self._report(pod, {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]})

    def succeed(self, *names: str) -> None:
        for name in names or self.names():
            self._end(name, "Succeeded", 0)

    def fail(self, *names: str, code: int = 1) -> None:
        for name in names:
            self._end(name, "Failed", code)

    def restart(self, name: str, count: int) -> None:
        self.pods[name]["spec"]["nodeName"] = "node"
        status = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True, "restartCount": count}]}
        self._report(self.pods[name], status)

    def _end(self, name: str, phase: str, code: int) -> None:
        terminated = {"exitCode": code, "finishedAt": text_of(self.now_seconds)}
        pod = self.pods[name]
        pod["spec"]["nodeName"] = "node"
        status = {"name": "main", "restartCount": 0, "state": {"terminated": terminated}}
        self._report(pod, {"phase": phase, "containerStatuses": [status]})

    def _report(self, pod: Manifest, status: Manifest) -> None:
        pod["status"] = status
        pod["metadata"]["resourceVersion"] = self._next_version()


def text_of(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _phase(pod: Manifest) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))
