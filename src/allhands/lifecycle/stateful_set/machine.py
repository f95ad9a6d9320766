"""The decisions of a StatefulSet: who is made next, who goes next, and who is exchanged for the new template.

In order, one pod at a time is made or ended, and nobody as long as another is not well; side by side, all at once. A
pod that has ended, or whose claim is still going, keeps its place until it is gone: no name is ever there twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.lifecycle.controller_revision import HASH_LABEL, REVISIONS, Revision, history_of
from allhands.lifecycle.instructions import Create, Delete, Instruction, Outcome, Patch
from allhands.lifecycle.ownership import MOST_NAMED, Manager, claim
from allhands.lifecycle.replica_set import BURST, PODS
from allhands.lifecycle.stateful_set import claims, members, status
from allhands.lifecycle.stateful_set.kinds import REVISION_HASH_LABEL, StatefulSet
from allhands.lifecycle.volume_kinds import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.lifecycle.controller_revision import History
    from allhands.lifecycle.observed import Pod
    from allhands.lifecycle.replica_set import Refusal


def reconcile(
    stateful: StatefulSet,
    pods: Sequence[Pod],
    revisions: Sequence[Revision],
    now_seconds: float,
    *,
    find_revision: Callable[[str], Revision | None] = lambda _name: None,
    find_claim: claims.Find = lambda _name: None,
    is_taken: Callable[[str], bool] = lambda _name: False,
    refusal: Refusal | None = None,
) -> Outcome:
    """`pods` and `revisions` are those it controls and those in its namespace that nobody does; the others give any
    revision, any claim, and whether there is any pod, of that name. `refusal` is why the last attempt stopped."""
    manager = Manager("StatefulSet", stateful.metadata)
    selector = stateful.selector
    if selector.nothing:
        text = "This stateful set is selecting all pods. A non-empty selector is required."
        return Outcome((manager.event("SelectingAll", text, warning=True),))
    mine, taken = claim(manager, PODS, selector, pods, lambda pod: members.ordinal_of(stateful, pod) is not None)
    known, kept = claim(manager, REVISIONS, selector, revisions)
    if stateful.metadata.is_going:
        names = (stateful.status.get("currentRevision", ""), stateful.status.get("updateRevision", ""))
        return Outcome(tuple(status.patch_of(stateful, status.counted(stateful, mine, names, now_seconds))))
    collisions = stateful.count("collisionCount")
    history = history_of(
        manager,
        stateful.spec.template,
        known,
        find_revision,
        collisions=collisions,
        hash_label=REVISION_HASH_LABEL,
    )
    if history is None:
        told = {**stateful.status, "collisionCount": collisions + 1}
        told.setdefault("replicas", 0)
        told.setdefault("availableReplicas", 0)
        return Outcome((*kept, *status.patch_of(stateful, told)))
    look = _Look(manager, stateful, mine, history, now_seconds, find_claim, is_taken)
    look.take()
    return look.outcome([*taken, *kept, *history.steps], refusal)


class _Look:
    """One look at a StatefulSet: what was seen, and what is to be done in the end."""

    def __init__(
        self,
        manager: Manager,
        stateful: StatefulSet,
        pods: Sequence[Pod],
        history: History,
        now_seconds: float,
        find_claim: claims.Find,
        is_taken: Callable[[str], bool],
    ) -> None:
        self._manager = manager
        self._set = stateful
        self._history = history
        self._now = now_seconds
        self._find_claim = find_claim
        self._is_taken = is_taken
        self._pods = pods
        named = stateful.status.get("currentRevision", "")
        self._current = next((it for it in history.others if it.name == named), history.present)
        places = {members.ordinal_of(stateful, it): it for it in pods}
        self._members = {place: it for place, it in places.items() if place is not None}
        self._condemned = sorted((it for it in self._members if it not in stateful.ordinals), reverse=True)
        self._steps: list[Instruction] = []
        self._done: dict[str, list[str]] = {}
        """By what is done to pods, the names of those to whom it is."""
        self._claimed: list[tuple[str, str]] = []
        """Claims that are made, and for which pod."""
        self._waits: list[Instruction] = []
        self._ending: set[str] = set()
        self._made: set[int] = set()

    # -- deciding

    def take(self) -> None:
        if not self._keep_members() or not self._shrink():
            return
        if self._set.spec.update_strategy.type != "OnDelete":
            self._roll()

    def _keep_members(self) -> bool:
        """Whether all places are well filled, or it does not matter."""
        for ordinal in self._set.ordinals:
            if not self._keep(ordinal) and self._set.is_ordered:
                return False
            if len(self._made) >= BURST:
                return False
        return True

    def _keep(self, ordinal: int) -> bool:
        pod = self._members.get(ordinal)
        if pod is None:
            self._make(ordinal)
            return False
        if pod.has_ended:
            if not pod.metadata.is_going:
                self._end(pod)
            return False
        if pod.status.phase == "Pending" and not pod.metadata.is_going:
            self._steps += claims.lacking(self._manager, self._set, ordinal, self._find_claim)
        if self._set.is_ordered and not self._is_available(pod):
            return False
        if not pod.metadata.is_going:
            self._mend(pod, ordinal)
        return True

    def _make(self, ordinal: int) -> None:
        """First the claims, so that the pod finds them."""
        name = members.pod_name(self._set, ordinal)
        waits = claims.in_the_way(self._set, name, ordinal, self._find_claim)
        if self._is_taken(name):
            waits = f'pods "{name}" is there and does not belong to this StatefulSet'
        if waits:
            text = f"Create Pod {name} in StatefulSet {self._set.metadata.name} failed error: {waits}"
            self._waits.append(self._manager.event("FailedCreate", text, warning=True))
            return
        self._made.add(ordinal)
        revision = self._revision_of(ordinal)
        template = revision.template or self._set.spec.template
        pod = members.new_pod(self._manager, self._set, template, revision.name, ordinal)
        lacking = claims.lacking(self._manager, self._set, ordinal, self._find_claim)
        self._steps += [*lacking, Create(PODS, self._set.metadata.namespace, pod)]
        self._claimed += [(each.manifest["metadata"]["name"], name) for each in lacking]
        self._tell("Create", name)

    def _revision_of(self, ordinal: int) -> Revision:
        """What a pod in this place is made from: below the partition, or while others of it are there, the former."""
        strategy, start = self._set.spec.update_strategy, self._set.ordinals.start
        if strategy.rolling_update is not None:
            is_former = ordinal < self._set.first_updated
        else:
            is_former = strategy.type == "RollingUpdate" and ordinal < start + self._set.count("currentReplicas")
        return self._current if is_former else self._history.present

    def _mend(self, pod: Pod, ordinal: int) -> None:
        metadata = pod.metadata
        if patch := members.identity_patch(self._set, pod, ordinal):
            self._steps.append(Patch(PODS, metadata.namespace, metadata.name, patch))
            self._tell("Update", metadata.name)
        self._steps += claims.ownership(self._manager, self._set, metadata, ordinal, self._find_claim)

    def _shrink(self) -> bool:
        """Ends those beyond the number of replicas, the last first; whether nobody is left who has to go in order."""
        for ordinal in self._condemned:
            pod = self._members[ordinal].metadata
            self._steps += claims.ownership(self._manager, self._set, pod, ordinal, self._find_claim)
        first_unwell = self._first_unwell() if self._set.is_ordered else None
        for ordinal in self._condemned:
            pod_there = self._members[ordinal]
            if self._set.is_ordered:
                if not pod_there.metadata.is_going and (self._is_available(pod_there) or ordinal == first_unwell):
                    self._end(pod_there)
                return False
            if not pod_there.metadata.is_going and len(self._ending) < BURST:
                self._end(pod_there)
        return True

    def _first_unwell(self) -> int | None:
        """All that should be there are well when this is asked, so it is one of the others."""
        return min((it for it in self._condemned if not self._is_available(self._members[it])), default=None)

    def _roll(self) -> None:
        """Ends the last pod of a former template, if all after it are well."""
        new = self._history.present.name
        for ordinal in reversed(self._set.ordinals):
            if ordinal < self._set.first_updated:
                return
            pod = self._members.get(ordinal)
            if pod is None:
                return
            if pod.metadata.label(HASH_LABEL) != new and not pod.metadata.is_going:
                if pod.metadata.uid not in self._ending:
                    self._end(pod)
                return
            if not self._is_available(pod):
                return

    def _is_available(self, pod: Pod) -> bool:
        return status.is_available(pod, self._set.spec.min_ready_seconds, self._now)

    # -- doing

    def _end(self, pod: Pod) -> None:
        metadata = pod.metadata
        self._ending.add(metadata.uid)
        self._steps.append(Delete(PODS, metadata.namespace, metadata.name, metadata.uid))
        self._tell("Delete", metadata.name)

    def _tell(self, verb: str, pod: str) -> None:
        self._done.setdefault(verb, []).append(pod)

    def _events(self) -> list[Instruction]:
        of = f"in StatefulSet {self._set.metadata.name}"
        told = [("Create", f"Create Claim {name} Pod {pod} {of} success") for name, pod in self._claimed]
        if len(told) > MOST_NAMED:
            told = [("Create", f"Create {len(told)} Claims {of} success")]
        for verb, pods in self._done.items():
            if len(pods) > MOST_NAMED:
                told.append((verb, f"{verb} {len(pods)} Pods {of} successful"))
            else:
                told += [(verb, f"{verb} Pod {pod} {of} successful") for pod in pods]
        return [*self._waits[:MOST_NAMED], *(self._manager.event(f"Successful{verb}", text) for verb, text in told)]

    def outcome(self, before: list[Instruction], refusal: Refusal | None) -> Outcome:
        names = (self._current.name, self._history.present.name)
        told = status.counted(self._set, self._pods, names, self._now, self._ending)
        status_patch = status.patch_of(self._set, told)
        after = [*self._forget(), *self._events()]
        if refusal is None:
            instructions = [*before, *self._steps, *status_patch, *after]
        else:  # what is refused again must not keep the reason from being told
            instructions = [*status_patch, *self._failure([*before, *self._steps], refusal)]
            instructions += [*before, *self._steps, *after]
        return Outcome(tuple(instructions), self._next_availability())

    def _failure(self, tried: Sequence[Instruction], refusal: Refusal) -> list[Instruction]:
        """Of what is tried first, since all before it was done."""
        first = next((it for it in tried if not isinstance(it, Patch) or it.resource != PODS), None)
        if not isinstance(first, Create | Delete | Patch):
            return []
        verb = {Create: "Create", Delete: "Delete", Patch: "Update"}[type(first)]
        kind = {PODS: "Pod", CLAIMS: "Claim"}.get(first.resource, "ControllerRevision")
        name = first.manifest["metadata"]["name"] if isinstance(first, Create) else first.name
        text = f"{verb} {kind} {name} in StatefulSet {self._set.metadata.name} failed error: {refusal.message}"
        return [self._manager.event(f"Failed{verb}", text, warning=True)]

    def _forget(self) -> list[Instruction]:
        """Revisions beyond the number to keep, oldest first; never one that a pod is of."""
        limit = self._set.spec.revision_history_limit
        if limit is None:
            return []
        live = {self._current.name, *(it.metadata.label(HASH_LABEL) for it in self._pods)}
        past = [it.metadata for it in self._history.others if it.name not in live]
        surplus = past[: max(0, len(past) - max(0, limit))]
        return [Delete(REVISIONS, it.namespace, it.name, it.uid) for it in surplus]

    def _next_availability(self) -> float | None:
        times = [pod.available_at_seconds(self._set.spec.min_ready_seconds) for pod in self._pods]
        return min((it for it in times if it is not None and it > self._now), default=None)
