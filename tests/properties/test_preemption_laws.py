"""Laws of preemption and reclaim over random clusters: who goes, that it helps, that it is needed, and that it ends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.actions.allocate import Refusal
from allhands.core.facts import DisruptionBudget
from allhands.model.affinity import SpreadConstraint
from allhands.model.domain import Domain
from allhands.model.pod import HostPort
from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue, Quota
from allhands.model.selector import LabelSelector
from tests.core_harness import POLICY, Cluster, decide
from tests.depth import examples

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.snapshot import GroupEntry, Snapshot

SEEDS = st.integers(0, 2**32)
NEVER = msgspec.structs.replace(POLICY, preempts=False, reclaims=False)
ME = "default/me"
PORT: dict[str, object] = {"host_ports": (HostPort(port=80),)}
BUDGET = LabelSelector.of({"app": "x"})


class Town(NamedTuple):
    cluster: Cluster
    budget: int


def town(seed: int, *, evicted: frozenset[str] = frozenset(), gone: frozenset[str] = frozenset()) -> Town:
    """One gang that waits, beside gangs of two queues that run. `gone` groups and `evicted` pods are left out."""
    chance = random.Random(seed)
    count, size = chance.randint(2, 6), chance.choice([4, 8])
    budget = chance.choice([0, 1, 2, 9, 9, 9])
    deserved = chance.randint(0, count * size)
    cluster = Cluster().nodes(count, gpu=size)
    names = [f"n{number:03d}" for number in range(count)]
    cut = chance.randint(1, count - 1)
    cluster.facts(
        Queue("q", quotas=(Quota("gpu", deserved=deserved, capability=chance.choice([None, None, size * count])),)),
        Queue("other", quotas=(Quota("gpu", deserved=count * size - deserved),), reclaimable=chance.random() < 0.8),
        domains=[
            Domain("hall", tier=2),
            Domain("left", tier=1, parent="hall", nodes=tuple(names[:cut])),
            Domain("right", tier=1, parent="hall", nodes=tuple(names[cut:])),
        ],
        budgets=(DisruptionBudget("default", "b", BUDGET, budget),),
    )
    # So that the labels that the budget looks at are known.
    watch = {"spread": (SpreadConstraint(1, "zone", hard=False, selector=BUDGET),)}
    cluster.gang("watcher", 1, queue="other", shape=watch, gpu=1000)
    free, ported = dict.fromkeys(names, size), set[str]()
    for number in range(chance.randint(1, 9)):
        _runs(cluster, chance, f"g{number}", free, ported, evicted, gone)
    members = SubGroup(min_count=chance.randint(1, 4))
    if chance.random() < 0.4:
        rule = TopologyRule(TopologyMode.HARD, highest_tier=chance.choice([1, 2]))
        members = msgspec.structs.replace(members, topology=rule)
    asked = chance.choice([1, 2, 3, size])
    others = [{"gpu": 1}] if chance.random() < 0.25 else []
    shape = PORT if chance.random() < 0.2 else None
    group = {"members": members, "priority": 5}
    cluster.gang("me", members.min_count, gpu=asked, others=others, shape=shape, group=group)
    return Town(cluster, budget)


def _runs(
    cluster: Cluster,
    chance: random.Random,
    name: str,
    free: dict[str, int],
    ported: set[str],
    evicted: frozenset[str],
    gone: frozenset[str],
) -> None:
    units, wanted = chance.choice([1, 1, 2, 3, 4]), chance.randint(1, 4)
    nodes: list[str] = []
    for _ in range(wanted):
        fitting = [node for node in sorted(free) if free[node] >= units]
        if fitting:
            nodes.append(chance.choice(fitting))
            free[nodes[-1]] -= units
    if not nodes:
        return
    least = len(nodes) if chance.random() < 0.6 else chance.randint(1, len(nodes))
    group = {
        "priority": chance.choice([1, 1, 3, 5, 7]),
        "preemptible": chance.random() < 0.9,
        "min_run_seconds": chance.choice([0, 0, 0, 10_000]),
    }
    queue, ran, owner = (
        chance.choice(["q", "q", "other"]),
        chance.randint(0, 20_000),
        chance.choice(["Job/it"] * 4 + [""]),
    )
    shape: dict[str, object] = {"labels": {"app": "x"}} if chance.random() < 0.4 else {}
    if chance.random() < 0.3 and len(set(nodes)) == len(nodes) and all(node not in ported for node in nodes):
        shape |= PORT
        ported.update(nodes)
    if name in gone:
        return
    cluster.gang(
        name,
        len(nodes),
        minimum=least,
        queue=queue,
        on=nodes,
        ran=ran,
        owner=owner,
        shape=shape,
        group=group,
        gpu=units,
    )
    for number in range(len(nodes)):
        if f"{name}-{number}" in evicted:
            cluster.world.delete_pod(f"{name}-{number}")


def starts(cluster: Cluster) -> bool:
    """Whether the gang that waits starts by itself."""
    plan = decide(cluster.snapshot(), NEVER, cluster.now)
    return any(start.group == ME for start in plan.starts)


def pods_of(plan: Plan) -> frozenset[str]:
    return frozenset(evict.pod.partition("/")[2] for evict in plan.evictions)


def bound_pods(snapshot: Snapshot, entry: GroupEntry) -> list[str]:
    return [snapshot.pods.keys[row].partition("/")[2] for row in entry.bound]


@settings(max_examples=examples(100))
@given(SEEDS)
def test_every_eviction_leads_to_a_start(seed: int) -> None:
    plan = town(seed).cluster.decide()
    if plan.evictions:
        assert [hold.group for hold in plan.holds] == [ME]
        assert starts(town(seed, evicted=pods_of(plan)).cluster)


@settings(max_examples=examples(100))
@given(SEEDS)
def test_nobody_is_evicted_who_could_stay(seed: int) -> None:
    """Of the units that go, none can be kept: neither a whole gang nor one surplus member.

    But own members that go so that others owe the rest are needed for that, not for their room.
    """
    cluster = town(seed).cluster
    snapshot, plan = cluster.snapshot(), cluster.decide()
    going = pods_of(plan)
    victims = sorted({evict.group for evict in plan.evictions})
    reclaims = any(snapshot.groups[key].group.queue == "other" for key in victims)
    for key in victims:
        entry = snapshot.groups[key]
        if reclaims and entry.group.queue == "q":
            continue
        members = [pod for pod in bound_pods(snapshot, entry) if pod in going]
        is_whole_gang = len(members) == len(entry.bound)
        for kept in [members] if is_whole_gang else [[pod] for pod in members]:
            assert not starts(town(seed, evicted=going - frozenset(kept)).cluster), f"{kept} could stay"


@settings(max_examples=examples(100))
@given(SEEDS)
def test_a_gang_goes_whole_or_stays_whole(seed: int) -> None:
    cluster = town(seed).cluster
    snapshot, going = cluster.snapshot(), pods_of(cluster.decide())
    for entry in snapshot.groups.values():
        left = [pod for pod in bound_pods(snapshot, entry) if pod not in going]
        assert not left or len(left) >= entry.group.required_count or len(left) == len(entry.bound)


@settings(max_examples=examples(100))
@given(SEEDS)
def test_only_those_go_whom_priority_or_share_and_all_guards_give_up(seed: int) -> None:
    world = town(seed)
    snapshot, plan = world.cluster.snapshot(), world.cluster.decide()
    rows = {key: row for row, key in enumerate(snapshot.pods.keys) if key}
    watched = 0
    for evict in plan.evictions:
        victim = snapshot.groups[evict.group].group
        assert victim.preemptible
        begun = min(int(snapshot.pods.since[row]) for row in snapshot.groups[evict.group].bound)
        assert world.cluster.now - begun >= victim.min_run_seconds
        if victim.queue == "q":
            assert victim.priority < 5
        shape = snapshot.pods.shapes[int(snapshot.pods.shape[rows[evict.pod]])]
        watched += ("app", "x") in shape.labels
    assert watched <= world.budget
    _check_shares(snapshot, plan)


def _check_shares(snapshot: Snapshot, plan: Plan) -> None:
    """Who takes from another queue stays within its own part, and takes only from one above its part."""
    accounts = {account.name: account for account in snapshot.facts.accounts}
    used = {"q": 0, "other": 0}
    for entry in snapshot.groups.values():
        used[entry.group.queue] += dict(entry.holding).get("gpu", 0)
    taken = {"q": 0, "other": 0}
    rows = {key: row for row, key in enumerate(snapshot.pods.keys) if key}
    largest = 0
    for evict in plan.evictions:
        queue = snapshot.groups[evict.group].group.queue
        units = snapshot.pods.shapes[int(snapshot.pods.shape[rows[evict.pod]])].requests.get("gpu")
        taken[queue] += units
        if queue == "other":
            whole = sum(1 for it in plan.evictions if it.group == evict.group) * units
            largest = max(largest, whole)
    if taken["other"]:
        assert accounts["other"].reclaimable
        asked = sum(it.shape.requests.get("gpu") * len(it.pods) for it in snapshot.groups[ME].pending)
        mine, theirs = accounts["q"].quota("gpu"), accounts["other"].quota("gpu")
        assert mine is not None
        assert theirs is not None
        assert used["q"] - taken["q"] + asked <= (mine.deserved or 0)
        # At most one gang may reach below the part of its queue, since gangs are not cut.
        assert used["other"] - taken["other"] + largest > (theirs.deserved or 0) or largest == 0


@settings(max_examples=examples(80))
@given(SEEDS)
def test_if_all_who_may_go_would_be_enough_somebody_is_found(seed: int) -> None:
    cluster = town(seed).cluster
    snapshot = cluster.snapshot()
    if cluster.decide().evictions or starts(cluster):
        return
    lower = frozenset(
        entry.group.name
        for entry in snapshot.groups.values()
        if entry.bound
        and entry.group.queue == "q"
        and entry.group.priority < 5
        and all(guard.may_evict(entry, snapshot.groups[ME], snapshot, cluster.now) for guard in POLICY.guards)
        and not any(("app", "x") in snapshot.pods.shapes[int(snapshot.pods.shape[row])].labels for row in entry.bound)
    )
    assert not lower or not starts(town(seed, gone=lower).cluster)


@settings(max_examples=examples(80))
@given(SEEDS)
def test_what_leads_nowhere_leaves_no_trace(seed: int) -> None:
    cluster = town(seed).cluster
    work, charges, allocate, preempt = cluster.desk()
    book = charges.book
    entry = work.snapshot.groups[ME]
    outcome = allocate.start(entry)
    if not isinstance(outcome, Refusal):
        return
    free, charged = work.room.free.copy(), book.state()
    made = preempt.make_room(entry, outcome)
    if isinstance(made, Refusal):
        assert np.array_equal(work.room.free, free)
        assert book.state() == charged
        return
    # What is held is taken, and nothing else has changed.
    for bind in made.start.binds:
        members = next(it for it in entry.pending if any(ref.key == bind.pod for ref in it.pods))
        for column, units in work.state(members.shape).request:
            free[column, work.snapshot.columns.row_by_name[bind.node]] -= units
    assert np.array_equal(work.room.free, free)


@settings(max_examples=examples(100))
@given(SEEDS, SEEDS)
def test_the_same_cluster_gives_the_same_victims_however_it_was_seen(seed: int, order: int) -> None:
    cluster = town(seed).cluster
    before = cluster.decide()
    pods = list(cluster.bound())
    random.Random(order).shuffle(pods)
    for it in pods:
        cluster.world.delete_pod(it.pod.uid)
    random.Random(order + 1).shuffle(pods)
    for it in pods:
        cluster.world.set_pod(it.pod, group=it.group, slot=it.slot)
    assert cluster.decide() == before


@settings(max_examples=examples(30))
@given(SEEDS)
def test_clusters_with_too_much_to_do_come_to_rest(seed: int) -> None:
    chance = random.Random(seed)
    cluster = Cluster(leave_after=chance.randint(0, 3), stagger=chance.random() < 0.5).nodes(
        chance.randint(2, 5), gpu=4
    )
    names = [f"q{number}" for number in range(chance.randint(1, 4))]
    cluster.facts(*(Queue(name, weight_millis=chance.choice([0, 1000, 2000])) for name in names))
    for number in range(chance.randint(3, 9)):
        size = chance.randint(1, 4)
        cluster.gang(
            f"g{number}",
            size,
            minimum=chance.randint(1, size),
            queue=chance.choice(names),
            gpu=chance.choice([1, 2, 4]),
            group={"priority": chance.choice([0, 0, 1, 5])},
        )
    cluster.run(50)
    before = len(cluster.evicted)
    cluster.run(20)
    assert len(cluster.evicted) == before
