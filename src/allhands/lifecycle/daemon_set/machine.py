"""The decisions of a DaemonSet: a pod for every node that lacks one, none where it does not belong, and the rollout.

First every node is brought in order; only if nothing is left to do there, the rollout takes its next step. A pod that
has failed goes, so that another can come, but not faster than its node can bear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.lifecycle.controller_revision import HASH_LABEL, REVISIONS, history_of
from allhands.lifecycle.daemon_set import placing, status
from allhands.lifecycle.daemon_set.kinds import GENERATION_LABEL, DaemonPod, DaemonSet
from allhands.lifecycle.daemon_set.patience import NO_PATIENCE, Patience
from allhands.lifecycle.daemon_set.rolling import Changes, Rollout
from allhands.lifecycle.instructions import NOTHING_TO_DO, Create, Delete, Instruction, Outcome
from allhands.lifecycle.ownership import MOST_NAMED, Manager, claim
from allhands.lifecycle.replica_set import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allhands.lifecycle.controller_revision import History, Revision
    from allhands.lifecycle.daemon_set.kinds import DaemonNode
    from allhands.lifecycle.replica_set import Refusal

BURST: Final = 250
"""So many pods are made or ended at a time; then others have their turn."""


def reconcile(
    daemon: DaemonSet,
    pods: Sequence[DaemonPod],
    nodes: Iterable[DaemonNode],
    revisions: Sequence[Revision],
    now_seconds: float,
    *,
    find_revision: Callable[[str], Revision | None] = lambda _name: None,
    patience: Patience = NO_PATIENCE,
    refusal: Refusal | None = None,
) -> tuple[Outcome, Patience]:
    """`pods` and `revisions` are those it controls and those in its namespace that nobody does; `find_revision` gives
    any by its name. `patience` is what the last look left, and what this one leaves is returned."""
    manager = Manager("DaemonSet", daemon.metadata)
    selector = daemon.selector
    if selector.nothing:
        text = "This daemon set is selecting all pods. A non-empty selector is required."
        return Outcome((manager.event("SelectingAll", text, warning=True),)), patience
    if daemon.metadata.is_going:
        return NOTHING_TO_DO, patience
    mine, taken = claim(manager, PODS, selector, pods)
    known, kept = claim(manager, REVISIONS, selector, revisions)
    collisions = daemon.count("collisionCount")
    history = history_of(
        manager, daemon.spec.template, known, find_revision, collisions=collisions, hash_label=HASH_LABEL
    )
    if history is None:
        told = {**daemon.status, "collisionCount": collisions + 1}
        return Outcome((*kept, *status.patch_of(daemon, told))), patience
    look = _Look(manager, daemon, mine, history, now_seconds, patience.for_generation(daemon.metadata.generation))
    look.take(nodes)
    return look.outcome([*taken, *kept, *history.steps], refusal), look.patience


class _Look:
    """One look at a DaemonSet: what was seen, and what is to be done in the end."""

    def __init__(
        self,
        manager: Manager,
        daemon: DaemonSet,
        pods: Sequence[DaemonPod],
        history: History,
        now_seconds: float,
        patience: Patience,
    ) -> None:
        self._manager = manager
        self._daemon = daemon
        self._pods = pods
        self._history = history
        self._now = now_seconds
        self._digest = history.present.metadata.label(HASH_LABEL) or history.present.name
        self._generation = daemon.template_generation
        self._by_node: dict[str, list[DaemonPod]] = {}
        for pod in pods:
            # What has ended and is going is not our business any more.
            if pod.target and not (pod.has_ended and pod.metadata.is_going):
                self._by_node.setdefault(pod.target, []).append(pod)
        self._wanted: dict[str, bool] = {}
        self._changes = Changes()
        self._events: list[Instruction] = []
        self._failed: list[str] = []
        self._wakes: list[float] = []
        self.patience = patience

    # -- deciding

    def take(self, nodes: Iterable[DaemonNode]) -> None:
        places = placing.Places(self._daemon.spec.template.spec)
        changes = self._changes
        for node in sorted(nodes, key=lambda it: it.name):
            should_run, may_stay = places.verdict(node)
            self._wanted[node.name] = should_run
            there = self._by_node.get(node.name)
            if should_run and there is None:
                changes.nodes.append(node.name)
            elif may_stay:
                self._keep(node.name, there or [], should_run=should_run)
            else:
                changes.ended += [pod for pod in there or () if not pod.metadata.is_going]
        changes.ended += [pod for pod in self._pods if self._waits_for_nobody(pod)]
        self.patience = self.patience.after_failures(self._failed, self._now)
        if not changes.ended and not changes.nodes and self._daemon.is_rolling:
            rollout = Rollout(self._daemon, self._wanted, self._by_node, self._is_updated, self._now)
            self._changes = rollout.changes()

    def _waits_for_nobody(self, pod: DaemonPod) -> bool:
        """Made for a node that is no more: it will never be bound."""
        bound_or_going = pod.spec.node_name or pod.metadata.is_going
        return bool(pod.target) and not bound_or_going and pod.target not in self._wanted

    def _is_updated(self, pod: DaemonPod) -> bool:
        by_generation = self._generation and pod.metadata.label(GENERATION_LABEL) == self._generation
        return bool(by_generation) or pod.metadata.label(HASH_LABEL) == self._digest

    def _keep(self, node: str, pods: Sequence[DaemonPod], *, should_run: bool) -> None:
        """What is to be done on a node where pods may stay."""
        alive = []
        for pod in pods:
            if pod.metadata.is_going:
                continue
            if pod.has_ended:
                self._replace_ended(node, pod)
            else:
                alive.append(pod)
        alive.sort(key=status.by_age)
        if not self._daemon.surges:
            self._changes.ended += alive[1:]
        elif not alive:
            if should_run:
                self._changes.nodes.append(node)
        else:
            self._keep_two(alive)

    def _keep_two(self, alive: Sequence[DaemonPod]) -> None:
        """The oldest of the new and the oldest of the old stay, as long as only the old one does any good."""
        new = [pod for pod in alive if pod.metadata.label(HASH_LABEL) == self._digest]
        old = [pod for pod in alive if pod.metadata.label(HASH_LABEL) != self._digest]
        self._changes.ended += [*new[1:], *old[1:]]
        if new and old and (old[0].ready is None or self._is_available(new[0])):
            self._changes.ended.append(old[0])

    def _is_available(self, pod: DaemonPod) -> bool:
        return status.is_available(pod, self._daemon.spec.min_ready_seconds, self._now)

    def _replace_ended(self, node: str, pod: DaemonPod) -> None:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if pod.status.phase == "Succeeded":
            text = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
            self._events.append(self._manager.event("SucceededDaemonPod", text))
        else:
            ends_at = self.patience.ends_at_seconds(node)
            if ends_at > self._now:
                self._wakes.append(ends_at)
                return
            self._failed.append(node)
            text = f"Found failed daemon pod {name} on node {node}, will try to kill it"
            self._events.append(self._manager.event("FailedDaemonPod", text, warning=True))
        self._changes.ended.append(pod)

    # -- doing

    def outcome(self, before: list[Instruction], refusal: Refusal | None) -> Outcome:
        told = status.counted(self._daemon, self._wanted, self._by_node, self._is_updated, self._now)
        status_patch = status.patch_of(self._daemon, told)
        steps = self._steps()
        after = [*self._forget(), *self._events]
        if refusal is None:
            instructions = [*before, *steps, *status_patch, *after]
        else:  # what is refused again must not keep the reason from being told
            reason = "FailedDelete" if steps and isinstance(steps[0], Delete) else "FailedCreate"
            verb = "deleting" if reason == "FailedDelete" else "creating"
            event = self._manager.event(reason, f"Error {verb}: {refusal.message}", warning=True)
            instructions = [*status_patch, event, *before, *steps, *after]
        return Outcome(tuple(instructions), self._wake())

    def _steps(self) -> list[Instruction]:
        nodes, ended = self._changes.nodes[:BURST], [it.metadata for it in self._changes.ended[:BURST]]
        namespace = self._daemon.metadata.namespace
        steps: list[Instruction] = [
            Create(PODS, namespace, placing.new_pod(self._manager, self._daemon, self._digest, node)) for node in nodes
        ]
        if nodes:
            text = f"Created {len(nodes)} pod{'s' if len(nodes) > 1 else ''}"
            self._events.append(self._manager.event("SuccessfulCreate", text))
        texts = [f"Deleted pod: {it.name}" for it in ended]
        if len(ended) > MOST_NAMED:
            texts = [f"Deleted {len(ended)} pods"]
        self._events += [self._manager.event("SuccessfulDelete", text) for text in texts]
        return [*steps, *(Delete(PODS, it.namespace, it.name, it.uid) for it in ended)]

    def _forget(self) -> list[Instruction]:
        """Revisions beyond the number to keep, oldest first; never one that a pod is of."""
        limit, others = self._daemon.spec.revision_history_limit, self._history.others
        if limit is None:
            return []
        live = {pod.metadata.label(HASH_LABEL) for pod in self._pods}
        past = [it.metadata for it in others if it.metadata.label(HASH_LABEL) not in live]
        surplus = past[: max(0, len(others) - max(0, limit))]
        return [Delete(REVISIONS, it.namespace, it.name, it.uid) for it in surplus]

    def _wake(self) -> float | None:
        """When the next pod becomes available, or a failed one may go."""
        times = [pod.available_at_seconds(self._daemon.spec.min_ready_seconds) for pod in self._pods]
        return min((it for it in (*times, *self._wakes) if it is not None and it > self._now), default=None)
