"""Random clusters with everything at once: queues of all kinds and states, flavors, users, budgets, reservations,
groups that were admitted or have failed before, and pods that look at each other. All from one seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.core.facts import DisruptionBudget, Reservation
from allhands.model.affinity import PodAffinity, PodTerm, SpreadConstraint
from allhands.model.flavor import Flavor
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.identity import Identity
from allhands.model.pod import HostPort
from allhands.model.queue import Queue, QueueOrder, QueueState, Quota, ShareBy
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelector
from tests.random_worlds import objects
from tests.scenarios.cluster import Cluster, Member

if TYPE_CHECKING:
    from allhands.model.pod import Pod
    from allhands.model.podgroup import PodGroup
    from allhands.model.queue import Account

FLAVORS = (Flavor("x", (("kind", "x"),)), Flavor("y", (("kind", "y"),)))
MOSTLY_OPEN = (*(QueueState.OPEN,) * 6, QueueState.HOLD, QueueState.DRAIN, QueueState.CLOSED)


def rich_cluster(seed: int) -> Cluster:
    chance = random.Random(seed)
    parts = objects(seed)
    it = Cluster(leave_after=chance.choice((0, 1, 2)))
    for node in parts.nodes:
        it.world.set_node(msgspec.structs.replace(node, labels={**node.labels, "kind": chance.choice("xy")}))
    accounts = [_queue(chance, account) for account in parts.facts.accounts]
    # Who was admitted is not asked for quota again, which the checker of laws does not know.
    is_unlimited = not any(account.quotas for account in accounts)
    it.know(*accounts, domains=parts.facts.domains, flavors=FLAVORS, **_facts(chance, it.now))
    for given in parts.groups:
        group = _group(chance, given)
        it.groups[group.key] = group
        it.status[group.key] = _status(chance, group, it.now, may_be_admitted=is_unlimited)
        it.set_status(group.key)
    for pod, group_key, slot in parts.pods:
        it.put(Member(_pod(chance, pod), group_key, slot))
    return it


def _queue(chance: random.Random, account: Account | Queue) -> Account | Queue:
    if not isinstance(account, Queue):
        return account
    quotas = account.quotas
    if chance.random() < 0.3:
        new = Quota("cpu", "x", capability=chance.choice((None, 2000)), deserved=chance.choice((None, 1000)))
        quotas = (new, Quota("cpu", "y", capability=chance.choice((None, 3000))))
    elif chance.random() < 0.4:
        guarantee, deserved = chance.choice((None, 1000)), chance.choice((None, 1000, 4000))
        most = chance.choice((None, None, 0, 1000))
        quotas = (Quota("cpu", guarantee=guarantee, deserved=deserved, borrowing_limit=most),)
    return msgspec.structs.replace(
        account,
        quotas=quotas,
        state=chance.choice(MOSTLY_OPEN),
        order=chance.choice(list(QueueOrder)),
        share_by=chance.choice(list(ShareBy)),
        max_running_groups=chance.choice((None, None, None, 2)),
        max_running_groups_per_user=chance.choice((None, None, 1)),
        per_user=chance.choice(((), (), (Quota("cpu", capability=2000),))),
        reclaimable=chance.random() < 0.8,
        preempt_within=chance.random() < 0.8,
        backfill=chance.random() < 0.8,
        default_duration_seconds=chance.choice((None, 30, 1000)),
    )


def _facts(chance: random.Random, now: int) -> dict[str, Any]:
    budget = DisruptionBudget("default", "b", LabelSelector((("app", "group-1"),)), chance.choice((0, 1)))
    kept = ResourceVector.of({"cpu": 2000})
    outage = Reservation("outage", now + 20, now + 200, nodes=("node-0",))
    window = Reservation("window", now - 20, now + 90, resources=kept, queues=("queue-0",))
    return {
        "budgets": chance.choice(((), (), (budget,))),
        "reservations": chance.choice(((), (), (outage, window))),
    }


def _group(chance: random.Random, group: PodGroup) -> PodGroup:
    members = group.members
    if chance.random() < 0.2 and not members.children and not members.task_minimums:
        members = msgspec.structs.replace(members, max_count=max(members.required_count, chance.randint(1, 4)))
    return msgspec.structs.replace(
        group,
        members=members,
        identity=Identity(chance.choice("ab")),
        preemptible=chance.random() < 0.9,
        min_run_seconds=chance.choice((0, 0, 100)),
        priority=chance.choice((0, 0, 5, 10)),
        expected_duration_seconds=chance.choice((None, None, 20, 500)),
        accounts=chance.choice(((), (), (group.queue, "root"))),
    )


def _status(chance: random.Random, group: PodGroup, now: int, *, may_be_admitted: bool) -> GroupStatus:
    if may_be_admitted and chance.random() < 0.2 and group.queue != "nowhere":
        return GroupStatus(admitted_at_seconds=now - 5)
    if chance.random() < 0.1:
        return GroupStatus(failed_starts=1, retry_at_seconds=now + 30, avoid_nodes=("node-0", "node-1"))
    return NO_STATUS


def _pod(chance: random.Random, pod: Pod) -> Pod:
    alike = LabelSelector((("app", pod.labels["app"]),))
    term = PodTerm(alike, chance.choice(("zone", "kubernetes.io/hostname")), (pod.namespace,))
    wishes: tuple[dict[str, Any], ...] = (
        {"pod_affinity": PodAffinity(required_apart=(term,))},
        {"pod_affinity": PodAffinity(required_together=(term,))},
        {"spread": (SpreadConstraint(1, "zone", hard=True, selector=alike),)},
        {"host_ports": (HostPort(port=80),)},
        *({},) * 16,
    )
    return msgspec.structs.replace(pod, **chance.choice(wishes))
