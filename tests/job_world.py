"""A toy cluster for one Job: an API with versions, conflicts and finalizers, and a kubelet that does what it is told.

Instructions are carried out as a server would, with the server's own rules about Job statuses; any number of them may
be left out, as after a crash.
"""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.builtin.job import default_job, prepare_job
from allhands.api.builtin.job_status import validate_job_status
from allhands.api.patch.merge_patch import merged_value
from allhands.lifecycle.instructions import NOTHING_TO_DO, Create, Delete, Patch, Record
from allhands.lifecycle.job import JOBS, decode_job, decode_pod, reconcile
from allhands.lifecycle.job.pod import FINALIZER, INDEX

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.instructions import Instruction, Outcome
    from allhands.lifecycle.job import JobDocument, JobPod

NAMESPACE = "team"
BEGIN_SECONDS = 1_800_000_000.0
MOST_LOOKS = 200


class RefusedError(Exception):
    """The toy server says no."""


class JobWorld:
    def __init__(self, name: str = "train", template: Manifest | None = None, **spec: Any) -> None:
        self.now_seconds = BEGIN_SECONDS
        self._version = 1
        self._uids = 0
        pod_spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}
        job: Manifest = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": "job-uid", "resourceVersion": "1"},
            "spec": {"template": template or {"spec": pod_spec}, **spec},
        }
        default_job(job)
        prepare_job(job)
        self.job: Manifest | None = job
        self.pods: dict[str, Manifest] = {}
        self.let_go: dict[str, str] = {}
        """By uid, of pods that lost our finalizer: what they should have been counted as, if at all."""
        self.events: list[Record] = []
        self.writes = 0
        self.most_active = 0

    # -- looking

    @property
    def document(self) -> JobDocument:
        return decode_job(msgspec.json.encode(self.job))

    @property
    def observed(self) -> list[JobPod]:
        return [decode_pod(msgspec.json.encode(self.pods[name])) for name in sorted(self.pods)]

    @property
    def status(self) -> Manifest:
        assert self.job is not None
        return self.job.get("status") or {}

    @property
    def conditions(self) -> list[str]:
        return [it["type"] for it in self.status.get("conditions", ()) if it["status"] == "True"]

    @property
    def is_gone(self) -> bool:
        return self.job is None

    @property
    def is_over(self) -> bool:
        return self.job is None or not {"Complete", "Failed"}.isdisjoint(self.conditions)

    def names(self, phase: str = "", *, going: bool = False) -> list[str]:
        """Pods in a phase; of active ones if no phase is given. Their order depends on all but their names."""
        return [
            name
            for name, pod in sorted(self.pods.items(), key=_rank)
            if ("deletionTimestamp" in pod["metadata"]) == going
            and (_phase(pod) == phase if phase else _phase(pod) not in ("Succeeded", "Failed"))
        ]

    def index_of(self, name: str) -> int:
        return int(self.pods[name]["metadata"]["annotations"][INDEX])

    def by_index(self, index: int) -> str:
        """The active pod with this index."""
        return next(name for name in self.names() if self.index_of(name) == index)

    # -- the controller

    def look(self, limit: int | None = None) -> Outcome:
        """One look, of whose instructions the first `limit` are carried out."""
        outcome = reconcile(self.document, self.observed, self.now_seconds)
        for instruction in outcome.instructions[:limit]:
            self.carry_out(instruction)
        return outcome

    def settle(self) -> Outcome:
        """Looks until there is nothing to do at this moment."""
        for _ in range(MOST_LOOKS):
            if self.job is None:
                return NOTHING_TO_DO
            outcome = self.look()
            if not [it for it in outcome.instructions if not isinstance(it, Record)]:
                assert outcome.wake_at_seconds is None or outcome.wake_at_seconds > self.now_seconds
                return outcome
        raise AssertionError("it never comes to rest")

    def advance(self, seconds: float) -> Outcome:
        self.now_seconds += seconds
        return self.settle()

    def carry_out(self, instruction: Instruction) -> None:
        self.writes += 1
        if isinstance(instruction, Record):
            self.events.append(instruction)
        elif isinstance(instruction, Create):
            self._create(instruction.manifest)
        elif isinstance(instruction, Delete):
            self._delete(instruction)
        elif instruction.resource == JOBS:
            self._patch_job(instruction)
        else:
            self._patch_pod(instruction)

    def reasons(self) -> list[str]:
        return [it.reason for it in self.events]

    # -- the server

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _create(self, manifest: Manifest) -> None:
        pod = merged_value({}, manifest)
        name = pod["metadata"]["name"]
        if name in self.pods:
            raise RefusedError(f"{name} exists")
        self._uids += 1
        pod["metadata"] |= {
            "uid": f"pod-{self._uids}",
            "resourceVersion": self._next_version(),
            "creationTimestamp": _text(self.now_seconds),
        }
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod
        self.most_active = max(self.most_active, sum(map(_is_active, self.pods.values())))

    def add_pod(self, manifest: Manifest) -> None:
        self._create(manifest)

    def _delete(self, wanted: Delete) -> None:
        if wanted.resource == JOBS:
            self.job = None
            return
        self.delete(wanted.name, wanted.uid)

    def delete(self, name: str, uid: str = "") -> None:
        """A pod that is on no node goes at once, as far as finalizers let it."""
        pod = self.pods.get(name)
        if pod is None:
            return
        if uid and pod["metadata"]["uid"] != uid:
            raise RefusedError("another uid")
        if "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"] |= {
                "deletionTimestamp": _text(self.now_seconds + 30),
                "deletionGracePeriodSeconds": 30,
                "resourceVersion": self._next_version(),
            }
        if "nodeName" not in pod["spec"] or _phase(pod) in ("Succeeded", "Failed"):
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        self.pods[name]["metadata"]["deletionGracePeriodSeconds"] = 0
        self._collect(name)

    def _collect(self, name: str) -> None:
        metadata = self.pods[name]["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers"):
            del self.pods[name]

    def _patch_job(self, wanted: Patch) -> None:
        assert wanted.subresource == "status"
        assert self.job is not None
        if wanted.version and wanted.version != self.job["metadata"]["resourceVersion"]:
            raise RefusedError("the job has changed")
        new = merged_value(self.job, wanted.patch)
        assert new["status"] != self.job.get("status"), "a patch that changes nothing"
        errors = validate_job_status(new, self.job)
        assert not errors, errors
        new["metadata"]["resourceVersion"] = self._next_version()
        self.job = new

    def _patch_pod(self, wanted: Patch) -> None:
        pod = self.pods.get(wanted.name)
        if pod is None:
            raise RefusedError("no such pod")
        if wanted.version != pod["metadata"]["resourceVersion"]:
            raise RefusedError("the pod has changed")
        was_tracked = FINALIZER in pod["metadata"].get("finalizers", ())
        pod = self.pods[wanted.name] = merged_value(pod, wanted.patch)
        pod["metadata"]["resourceVersion"] = self._next_version()
        if was_tracked and FINALIZER not in pod["metadata"].get("finalizers", ()):
            uid = pod["metadata"]["uid"]
            assert uid not in self.let_go, "a pod is let go once"
            self.let_go[uid] = self._fate(pod)
        self._collect(wanted.name)

    def _fate(self, pod: Manifest) -> str:
        going = "deletionTimestamp" in pod["metadata"]
        if _phase(pod) == "Succeeded":
            return "succeeded"
        if "SuccessCriteriaMet" in self.conditions and going:
            return "in vain"
        if "FailureTarget" in self.conditions or going or _phase(pod) == "Failed":
            return "failed"
        return "not needed"

    # -- users

    def change_spec(self, **spec: Any) -> None:
        assert self.job is not None
        self.job = merged_value(self.job, {"spec": spec})
        self.job["metadata"]["resourceVersion"] = self._next_version()

    # -- the kubelet

    def run(self, *names: str) -> None:
        for name in names:
            pod = self.pods[name]
            pod["spec"]["nodeName"] = "node"
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": _text(self.now_seconds)}
            self._report(pod, {"phase": "Running", "conditions": [ready]})

    def succeed(self, *names: str) -> None:
        for name in names:
            self._end(name, "Succeeded", 0)

    def fail(self, *names: str, code: int = 1, condition: str = "") -> None:
        for name in names:
            self._end(name, "Failed", code, condition)

    def terminate(self, name: str) -> None:
        """The end of a pod that was told to go: the kubelet says how it ended and lets it go."""
        if _phase(self.pods[name]) not in ("Succeeded", "Failed"):
            self._end(name, "Failed", 137)
        self._let_go(name)

    def _end(self, name: str, phase: str, code: int, condition: str = "") -> None:
        pod = self.pods[name]
        pod["spec"]["nodeName"] = "node"
        terminated = {"exitCode": code, "finishedAt": _text(self.now_seconds)}
        status: Manifest = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": _text(self.now_seconds)}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"terminated": terminated}}],
        }
        if condition:
            status["conditions"].append({"type": condition, "status": "True"})
        self._report(pod, status)

    def restart(self, name: str, count: int) -> None:
        self._report(
            self.pods[name], {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": count}]}
        )

    def _report(self, pod: Manifest, status: Manifest) -> None:
        pod["status"] = status
        pod["metadata"]["resourceVersion"] = self._next_version()


def created(instructions: Iterable[Instruction]) -> list[Manifest]:
    return [it.manifest for it in instructions if isinstance(it, Create)]


def _phase(pod: Manifest) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def _is_active(pod: Manifest) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and _phase(pod) not in ("Succeeded", "Failed")


def _rank(item: tuple[str, Manifest]) -> tuple[int, str, bool, str, str]:
    name, pod = item
    metadata = pod["metadata"]
    index = int(metadata.get("annotations", {}).get(INDEX, 0))
    return index, _phase(pod), "nodeName" in pod["spec"], metadata["creationTimestamp"], name


def _text(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shuffled(instructions: Sequence[Instruction], chance: random.Random) -> list[Instruction]:
    """Neighbours of one type on objects of one kind may be carried out in any order, as the performer does."""
    result: list[Instruction] = []
    for _, run in itertools.groupby(instructions, lambda it: (type(it), getattr(it, "resource", None))):
        neighbours = list(run)
        chance.shuffle(neighbours)
        result += neighbours
    return result
