"""The decisions of a Deployment: adopt, make the ReplicaSet of the present template, move pods over, forget the past.

Every look takes one step and tells the status first. The status is read off the ReplicaSets, so a step that was not
taken because of a crash is simply taken at the next look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.lifecycle.changes import merge_patch, object_reference, owner_reference
from allhands.lifecycle.deployment import revisions, sizes, status
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS, REVISION, Deployment
from allhands.lifecycle.instructions import Create, Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.observed import NO_LABELS
from allhands.lifecycle.ownership import owned_by
from allhands.lifecycle.replica_set import REPLICA_SETS, Refusal, ReplicaSet
from allhands.lifecycle.selection import managing_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest


def reconcile(
    deployment: Deployment,
    candidates: Sequence[ReplicaSet],
    now_seconds: float,
    find: Callable[[str], ReplicaSet | None] = lambda _name: None,
    refusal: Refusal | None = None,
) -> Outcome:
    """`candidates` are the ReplicaSets it controls and those that nobody does; `find` gives any by its name.

    `refusal` is why the last attempt stopped, while that is so.
    """
    selector = managing_selector(deployment.spec.selector)
    if selector.nothing:
        text = "This deployment is selecting all pods. A non-empty selector is required."
        return Outcome((_event(deployment, "SelectingAll", text, warning=True),))
    look = _Look(deployment, now_seconds)
    for each in candidates:
        controller = each.metadata.controller
        fits = selector.matches(each.metadata.labels or NO_LABELS)
        if controller is None:
            if fits and not each.metadata.is_going and not deployment.metadata.is_going:
                look.adopt(each)
        elif controller.uid == deployment.metadata.uid:
            if fits or deployment.metadata.is_going:
                look.sets.append(each)
            else:
                look.release(each)
    look.take(find, refusal)
    return look.outcome()


def _event(deployment: Deployment, reason: str, message: str, *, warning: bool = False) -> Record:
    involved = object_reference("apps/v1", "Deployment", deployment.metadata)
    return Record(involved, "Warning" if warning else "Normal", reason, message)


class _Look:
    """One look at a Deployment: what was seen, and what is to be done in the end."""

    def __init__(self, deployment: Deployment, now_seconds: float) -> None:
        self.deployment = deployment
        self.now = now_seconds
        self.sets: list[ReplicaSet] = []
        self.status: Manifest = {}
        self._ownership: list[Instruction] = []
        self._steps: list[Instruction] = []
        self._events: list[Instruction] = []
        self._revision = 0
        """The revision of the present template, if its ReplicaSet is known."""

    # -- ownership

    def adopt(self, replica_set: ReplicaSet) -> None:
        owners = [msgspec.to_builtins(it) for it in replica_set.metadata.owner_references or ()]
        owners.append(owner_reference("apps/v1", "Deployment", self.deployment.metadata))
        self._ownership.append(owned_by(REPLICA_SETS, replica_set.metadata, owners))

    def release(self, replica_set: ReplicaSet) -> None:
        mine = self.deployment.metadata.uid
        others = [msgspec.to_builtins(it) for it in replica_set.metadata.owner_references or () if it.uid != mine]
        self._ownership.append(owned_by(REPLICA_SETS, replica_set.metadata, others))

    # -- deciding

    def take(self, find: Callable[[str], ReplicaSet | None], refusal: Refusal | None) -> None:
        deployment, now = self.deployment, self.now
        new, old = revisions.split(deployment, self.sets)
        everyone = [*old, *([new] if new else [])]
        fresh = status.counted(deployment, new, everyone)
        fresh = status.with_availability(deployment, fresh, now)
        if deployment.metadata.is_going or self._ownership:
            self.status = fresh  # who was only just adopted is counted at the next look
            return
        fresh = status.with_pause(deployment, fresh, now)
        self.status = fresh
        if deployment.spec.paused or sizes.is_scaled(deployment, everyone):
            self._scale(new, old)
            return
        if deployment.is_rolling:
            self._roll(new, old, find, refusal)
        else:
            self._recreate(new, old, find, refusal)

    def _scale(self, new: ReplicaSet | None, old: list[ReplicaSet]) -> None:
        """The number of replicas changed, or the rollout rests: the balance of old and new stays."""
        wanted, tell_all = sizes.proportional(self.deployment, new, old)
        self._resize(new, old, wanted, tell_all=tell_all)
        if self.deployment.spec.paused:
            self._forget(old)

    def _roll(
        self,
        new: ReplicaSet | None,
        old: list[ReplicaSet],
        find: Callable[[str], ReplicaSet | None],
        why: Refusal | None,
    ) -> None:
        if new is None:
            self._make(old, find, why)
            return
        wanted = sizes.rolled(self.deployment, new, old)
        self._follow(new, old, wanted)

    def _recreate(
        self,
        new: ReplicaSet | None,
        old: list[ReplicaSet],
        find: Callable[[str], ReplicaSet | None],
        why: Refusal | None,
    ) -> None:
        """All old pods are over before the first new one is made."""
        wanted = sizes.recreated(old)
        if new is None:
            if wanted or sizes.may_still_run(old):
                self._resize(None, old, wanted)
                self._judge(None, old)
            else:
                self._make(old, find, why)
            return
        if not wanted and not sizes.may_still_run(old) and new.spec.replicas != self.deployment.spec.replicas:
            wanted = {new.metadata.uid: self.deployment.spec.replicas}
        self._follow(new, old, wanted)

    def _follow(self, new: ReplicaSet, old: list[ReplicaSet], wanted: sizes.Sizes) -> None:
        self._resize(new, old, wanted)
        self.status = status.with_found_set(self.deployment, self.status, new, self.now)
        if not wanted and status.is_complete(self.deployment, self.deployment.status):
            self._forget(old)
        self._judge(new, old)

    def _judge(self, new: ReplicaSet | None, old: list[ReplicaSet]) -> None:
        judged = status.with_progress(self.deployment, self.status, new, self.now)
        self.status = status.with_failures(judged, new, [*old, *([new] if new else [])])

    def _make(self, old: list[ReplicaSet], find: Callable[[str], ReplicaSet | None], refusal: Refusal | None) -> None:
        """The status tells of the new ReplicaSet before it is made: its clock must run whatever happens then."""
        deployment = self.deployment
        number = revisions.next_revision(old)
        manifest = revisions.new_set(deployment, sizes.first_size(deployment, old), number)
        name = manifest["metadata"]["name"]
        if find(name) is not None:
            self.status = {**self.status, "collisionCount": deployment.count("collisionCount") + 1}
            return
        if deployment.deadline_seconds is not None:
            if refusal is None:
                self.status = status.with_new_set(self.status, name, self.now)
            else:
                self.status = status.with_refusal(self.status, name, refusal.message, self.now)
        self._steps.append(Create(REPLICA_SETS, deployment.metadata.namespace, manifest))
        if refusal is not None:
            text = f'Failed to create new replica set "{name}": {refusal.message}'
            self._events.append(_event(deployment, "ReplicaSetCreateError", text, warning=True))
        elif manifest["spec"]["replicas"]:
            self._tell_size(name, 0, manifest["spec"]["replicas"])

    # -- doing

    def _tell_size(self, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {after}"
        self._events.append(_event(self.deployment, "ScalingReplicaSet", text))

    def _resize(
        self, new: ReplicaSet | None, old: list[ReplicaSet], wanted: sizes.Sizes, *, tell_all: bool = False
    ) -> None:
        """One patch for each ReplicaSet that changes: its size, its annotations, and when its pods count."""
        deployment = self.deployment
        for each in (*old, *([new] if new else [])):
            metadata = each.metadata
            annotations: dict[str, str] = {}
            spec: Manifest = {}
            if each is new:
                number = revisions.next_revision(old)
                annotations.update(revisions.wanted_annotations(deployment, each, number))
                told = annotations.get(REVISION, "")
                self._revision = int(told) if told else revisions.revision(each)
                if each.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
                    spec["minReadySeconds"] = deployment.spec.min_ready_seconds
            if metadata.uid in wanted:
                spec["replicas"] = wanted[metadata.uid]
                self._tell_size(metadata.name, each.spec.replicas, wanted[metadata.uid])
            if metadata.uid in wanted or (tell_all and each.spec.replicas > 0):
                present = metadata.annotations or NO_LABELS
                told_sizes = revisions.size_annotations(deployment)
                annotations.update({key: it for key, it in told_sizes.items() if present.get(key) != it})
            patch: Manifest = {"metadata": {"annotations": annotations}} if annotations else {}
            if spec:
                patch["spec"] = spec
            if patch:
                self._steps.append(
                    Patch(REPLICA_SETS, metadata.namespace, metadata.name, patch, version=metadata.resource_version)
                )

    def _forget(self, old: list[ReplicaSet]) -> None:
        for each in revisions.out_of_history(self.deployment, old):
            self._steps.append(Delete(REPLICA_SETS, each.metadata.namespace, each.metadata.name, each.metadata.uid))

    def outcome(self) -> Outcome:
        deployment, metadata = self.deployment, self.deployment.metadata
        instructions = [*self._ownership]
        body: Manifest = {}
        if changed := merge_patch(deployment.status, self.status):
            body["status"] = changed
        if self._revision and metadata.annotation(REVISION) != str(self._revision):
            # Through the status, where it does not count as a new generation of what is wanted.
            body["metadata"] = {"annotations": {REVISION: str(self._revision)}}
        if body:
            version = metadata.resource_version
            instructions.append(Patch(DEPLOYMENTS, metadata.namespace, metadata.name, body, "status", version))
        instructions += self._steps
        return Outcome((*instructions, *self._events), status.overdue_at_seconds(deployment, self.status))
