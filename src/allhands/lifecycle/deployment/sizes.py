"""How large each ReplicaSet of a Deployment should be next: one careful step of a rollout, or a proportional scaling.

At no moment are there more pods than replicas and surge, nor fewer available ones than replicas less the unavailable,
as far as the ReplicaSets' own statuses tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from allhands.lifecycle.deployment.kinds import DESIRED_REPLICAS, MAX_REPLICAS, Deployment
from allhands.lifecycle.deployment.revisions import by_age

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.lifecycle.replica_set import ReplicaSet

Sizes: TypeAlias = dict[str, int]
"""uid of a ReplicaSet -> its new size, for those whose size changes."""


def total(sets: Iterable[ReplicaSet]) -> int:
    return sum(it.spec.replicas for it in sets)


def is_scaled(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Whether somebody changed the number of replicas since the ReplicaSets were last told about it."""
    for each in sets:
        told = each.metadata.annotation(DESIRED_REPLICAS)
        if each.spec.replicas > 0 and told.isdecimal() and told != str(deployment.spec.replicas):
            return True
    return False


def first_size(deployment: Deployment, old: Sequence[ReplicaSet]) -> int:
    """With how many pods a new ReplicaSet starts."""
    wanted = deployment.spec.replicas
    if not deployment.is_rolling:
        return wanted
    return max(0, min(wanted, wanted + deployment.max_surge - sum(map(_present, old))))


def _present(replica_set: ReplicaSet) -> int:
    """Pods that it may have now: one that was made smaller may not have ended any yet."""
    return max(replica_set.spec.replicas, replica_set.count("replicas"))


def recreated(old: Sequence[ReplicaSet]) -> Sizes:
    return {it.metadata.uid: 0 for it in old if it.spec.replicas}


def may_still_run(old: Iterable[ReplicaSet]) -> bool:
    """Whether an old ReplicaSet has, or for all we know may have, pods that are not over."""
    return any(
        it.spec.replicas
        or it.count("replicas")
        or it.count("terminatingReplicas")
        or it.metadata.generation > it.count("observedGeneration")
        for it in old
    )


def rolled(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    """One step: up if there is room for more pods, else down as far as availability allows."""
    return _up(deployment, new, old) or _down(deployment, new, old)


def _available(replica_set: ReplicaSet) -> int:
    """Pods that will still be available once the ReplicaSet has its present size: its status may be behind."""
    return min(replica_set.count("availableReplicas"), replica_set.spec.replicas)


def _up(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    size, wanted = new.spec.replicas, deployment.spec.replicas
    if size >= wanted:
        return {new.metadata.uid: wanted} if size > wanted else {}
    room = wanted + deployment.max_surge - sum(map(_present, (*old, new)))
    step = min(room, wanted - size)
    return {new.metadata.uid: size + step} if step > 0 else {}


def _down(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    """Broken old pods go first, since they help nobody; then old ones that the available new ones replace."""
    least = deployment.spec.replicas - deployment.max_unavailable
    coming = new.spec.replicas - _available(new)
    budget = total((*old, new)) - least - coming
    if budget <= 0:
        return {}
    sizes = {it.metadata.uid: it.spec.replicas for it in old}
    running = sorted((it for it in old if it.spec.replicas), key=by_age)
    for each in running:
        broken = min(budget, each.spec.replicas - _available(each))
        sizes[each.metadata.uid] -= broken
        budget -= broken
    spare = sum(map(_available, (*running, new))) - least
    for each in running:
        step = max(0, min(spare, sizes[each.metadata.uid]))
        sizes[each.metadata.uid] -= step
        spare -= step
    return {it.metadata.uid: sizes[it.metadata.uid] for it in old if sizes[it.metadata.uid] != it.spec.replicas}


def proportional(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> tuple[Sizes, bool]:
    """Sizes after the number of replicas changed, in the middle of a rollout in proportion to what they are.

    Also whether every active ReplicaSet should be told the new number even if its own size stays.
    """
    everyone = [*old, *([new] if new else [])]
    active = [it for it in everyone if it.spec.replicas > 0]
    if len(active) < 2:
        target = active[0] if active else new or max(old, key=by_age, default=None)
        changes = target is not None and target.spec.replicas != deployment.spec.replicas
        return ({target.metadata.uid: deployment.spec.replicas} if changes and target else {}), False
    if new is not None and _is_saturated(deployment, new):
        return recreated(old), False
    if not deployment.is_rolling:
        return {}, False
    return _shares(deployment, active), True


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    wanted = deployment.spec.replicas
    told = new.metadata.annotation(DESIRED_REPLICAS)
    return new.spec.replicas == wanted and told == str(wanted) and new.count("availableReplicas") == wanted


def _shares(deployment: Deployment, active: Sequence[ReplicaSet]) -> Sizes:
    wanted = deployment.spec.replicas
    to_add = (wanted + deployment.max_surge if wanted > 0 else 0) - total(active)
    if to_add > 0:
        ordered = sorted(sorted(active, key=by_age, reverse=True), key=lambda it: -it.spec.replicas)
    else:
        ordered = sorted(sorted(active, key=by_age), key=lambda it: -it.spec.replicas)
    sizes, added = {}, 0
    for each in ordered:
        share = _share(deployment, each, to_add, added) if to_add else 0
        sizes[each.metadata.uid] = each.spec.replicas + share
        added += share
    largest = ordered[0].metadata.uid
    sizes[largest] = max(0, sizes[largest] + to_add - added)
    return {it.metadata.uid: sizes[it.metadata.uid] for it in ordered if sizes[it.metadata.uid] != it.spec.replicas}


def _share(deployment: Deployment, replica_set: ReplicaSet, to_add: int, added: int) -> int:
    size = replica_set.spec.replicas
    told = replica_set.metadata.annotation(MAX_REPLICAS)
    before = int(told) if told.isdecimal() and len(told) < 11 else 0
    before = before or deployment.count("replicas")
    if deployment.spec.replicas == 0:
        share = -size
    elif before == 0:
        share = 0
    else:
        largest = deployment.spec.replicas + deployment.max_surge
        share = (2 * size * largest + before) // (2 * before) - size
    rest = to_add - added
    return min(share, rest) if to_add > 0 else max(share, rest)
