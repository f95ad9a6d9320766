"""Who may pass whom in time: over random clusters, nobody delays the first group that waits, and all others may go.

The reference is written the slow way, node by node, and shares nothing with the core but the model.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.facts import Facts, PastRuns, Reservation
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Backfill
from allhands.core.world import World
from allhands.model.group_status import GroupStatus, Said
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.queue import Queue
from allhands.model.reason import Reason
from allhands.model.resources import ResourceVector
from tests.depth import examples

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.policy import Policy

NOW = 1000
GPU = "example.com/gpu"
NEVER = 1 << 60
SEEDS = st.integers(0, 1 << 32)


class Gang(NamedTuple):
    """Where it runs (none: it waits), of what pods, since when, for how long by its own account."""

    name: str
    nodes: tuple[str, ...]
    number: int
    requests: dict[str, int]
    started: int
    seconds: int | None
    created: int = 0

    @property
    def end(self) -> int:
        """As the core must expect it."""
        if self.seconds is None:
            return NEVER
        length = max(self.seconds, 1)
        while self.started + length <= NOW:
            length *= 2
        return self.started + length


class Small(NamedTuple):
    """A cluster of one queue."""

    nodes: dict[str, dict[str, int]]
    gangs: tuple[Gang, ...]
    facts: Facts


def small(seed: int, *, all_known: bool = False) -> Small:
    chance = random.Random(seed)
    nodes = {f"n{number}": _amounts(chance) for number in range(chance.randint(1, 6))}
    free = {name: dict(amounts) for name, amounts in nodes.items()}
    gangs = []
    for number in range(chance.randint(0, 10)):
        requests = _requests(chance)
        places = []
        for _ in range(chance.randint(1, 3)):
            fitting = [name for name in sorted(free) if _holds(free[name], requests)]
            if fitting:
                places.append(chance.choice(fitting))
                _take(free[places[-1]], requests)
        if places:
            seconds = _seconds(chance, all_known=all_known)
            started = NOW - chance.randint(0, 80)
            gangs.append(Gang(f"r{number}", tuple(places), len(places), requests, started, seconds))
    for number in range(chance.randint(1, 8)):
        seconds = _seconds(chance, all_known=all_known)
        gangs.append(
            Gang(f"w{number}", (), chance.randint(1, 4), _requests(chance), NOW, seconds, chance.randint(0, NOW))
        )
    return Small(nodes, tuple(gangs), Facts(accounts=(Queue("q"),)))


def _amounts(chance: random.Random) -> dict[str, int]:
    amounts = {
        "cpu": chance.choice((2000, 4000, 8000)),
        "memory": chance.choice((4, 8, 16)),
        "pods": chance.choice((3, 9)),
    }
    if chance.random() < 0.5:
        amounts[GPU] = chance.choice((1, 2, 4))
    return amounts


def _requests(chance: random.Random) -> dict[str, int]:
    requests = {"cpu": chance.choice((500, 1000, 2000, 3000)), "memory": chance.choice((1, 2, 4))}
    if chance.random() < 0.3:
        requests[GPU] = chance.choice((1, 2))
    return requests


def _seconds(chance: random.Random, *, all_known: bool) -> int | None:
    return None if not all_known and chance.random() < 0.2 else chance.choice((0, 1, 5, 10, 20, 30, 60, 100))


def _holds(free: dict[str, int], requests: dict[str, int]) -> bool:
    return free["pods"] >= 1 and all(free.get(name, 0) >= units for name, units in requests.items())


def _take(free: dict[str, int], requests: dict[str, int], sign: int = 1) -> None:
    free["pods"] -= sign
    for name, units in requests.items():
        free[name] = free.get(name, 0) - sign * units


def world_of(parts: Small, said: dict[str, Said] | None = None) -> World:
    world = World()
    for name, amounts in parts.nodes.items():
        world.set_node(Node(name, ready=True, allocatable=ResourceVector.of(amounts)))
    world.set_facts(parts.facts)
    for gang in parts.gangs:
        put(world, gang, (said or {}).get(f"ns/{gang.name}"))
    return world


def put(world: World, gang: Gang, said: Said | None = None) -> None:
    group = PodGroup(
        "ns",
        gang.name,
        "q",
        members=SubGroup(min_count=gang.number),
        created_at_seconds=gang.created,
        expected_duration_seconds=gang.seconds,
    )
    world.set_group(group, GroupStatus(said=said))
    for number in range(gang.number):
        node = gang.nodes[number] if gang.nodes else ""
        world.set_pod(
            Pod(
                "ns",
                f"{gang.name}-{number}",
                uid=f"{gang.name}-{number}",
                node_name=node,
                phase=PodPhase.RUNNING if node else PodPhase.PENDING,
                started_at_seconds=gang.started if node else None,
                requests=ResourceVector.of(gang.requests),
                owner="Job/it",
            ),
            group=group.key,
        )


def placed(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {start.group.partition("/")[2]: tuple(bind.node for bind in start.binds) for start in plan.starts}


def policy_of(backfill: Backfill, **changes: int) -> Policy:
    return msgspec.structs.replace(DEFAULT, backfill=backfill, preempts=False, reclaims=False, **changes)


EASY = policy_of(Backfill.EASY)
CONSERVATIVE = policy_of(Backfill.CONSERVATIVE)


@settings(max_examples=examples(200))
@given(SEEDS)
def test_the_first_that_waits_starts_when_it_was_promised_to(seed: int) -> None:
    parts = small(seed, all_known=True)
    plan, _ = cycle(world_of(parts).snapshot(), EASY, Memo(), NOW)
    for hold in plan.holds:
        assert hold.start_seconds is not None
        then = hold.start_seconds
        where = placed(plan)
        gangs = []
        for gang in parts.gangs:
            if gang.name in where:
                gang = gang._replace(nodes=where[gang.name])  # noqa: PLW2901
            if not gang.nodes or gang.end > then:
                gangs.append(gang)
        later = world_of(parts._replace(gangs=tuple(gangs))).snapshot()
        started = {start.group for start in cycle(later, EASY, Memo(), then)[0].starts}
        assert hold.group in started, f"{hold.group} was promised {hold.nodes} at {then}"


class Use(NamedTuple):
    """Somebody has this much of these nodes, from a time to a time."""

    start: int
    end: int
    nodes: tuple[str, ...]
    requests: dict[str, int]
    counts_from: int = 0
    begins_now: bool = False
    """It may take longer than it says: beside a promise it counts unless it ends before `counts_from` of that."""


class Ledger:
    """The slow reference: all that anybody has or will have."""

    def __init__(self, parts: Small) -> None:
        self.nodes = parts.nodes
        self.uses = [Use(NOW, gang.end, gang.nodes, gang.requests) for gang in parts.gangs if gang.nodes]

    def free_at(self, time: int, done_by: int | None = None) -> dict[str, dict[str, int]]:
        """`done_by`: by when those who begin now must be done if they are not to count."""
        free = {name: dict(amounts) for name, amounts in self.nodes.items()}
        for use in self.uses:
            last = time if done_by is None or not use.begins_now else min(time, done_by)
            if use.start <= time and use.end > last:
                for node in use.nodes:
                    _take(free[node], use.requests)
        return free

    def fitting(self, start: int, end: int, requests: dict[str, int], *, now: bool = False) -> int:
        """How many pods fit on all nodes together, and stay for so long. `now` is for those who start now."""
        later = [use for use in self.uses if use.start > start]
        if now:
            moments = [(start, None), *((use.start, use.counts_from) for use in later if use.counts_from < end)]
        else:
            moments = [(start, None), *((use.start, None) for use in later if use.start < end)]
        return _fitting([self.free_at(*moment) for moment in moments], requests)

    def add(self, use: Use) -> None:
        self.uses.append(use)
        for time in sorted({it.start for it in self.uses if use.start <= it.start < use.end}):
            free = self.free_at(time)
            short = [node for node in use.nodes if min(free[node].get(name, 0) for name in (*use.requests, "pods")) < 0]
            assert not short, f"{use} and others have more of {short} at {time} than there is"

    def earliest(self, gang: Gang) -> int | None:
        """When enough of its pods fit for as long as it runs."""
        for time in sorted({use.end for use in self.uses if NOW < use.end < NEVER}):
            end = NEVER if gang.seconds is None else time + max(gang.seconds, 1)
            if self.fitting(time, end, gang.requests) >= gang.number:
                return time
        return None


def follow(parts: Small, plan: Plan, patience: int = 3600) -> dict[str, tuple[int | None, int | None]]:
    """Goes through a plan as it was made. For those that were promised room: when, and the earliest that was possible.

    For every `patience` seconds that a group has waited, others must be done that much earlier.
    """
    ledger = Ledger(parts)
    where = placed(plan)
    holds = {hold.group.partition("/")[2]: hold for hold in plan.holds}
    promised = {}
    for gang in sorted((it for it in parts.gangs if not it.nodes), key=lambda it: (it.created, it.name)):
        if gang.name in where:
            ledger.add(Use(NOW, gang.end, where[gang.name], gang.requests, begins_now=True))
            continue
        assert ledger.fitting(NOW, gang.end, gang.requests, now=True) < gang.number, f"{gang.name} could have started"
        if gang.name not in holds:
            continue
        start = holds[gang.name].start_seconds
        promised[gang.name] = (start, ledger.earliest(gang))
        assert len(holds[gang.name].nodes) == gang.number
        if start is not None:
            end = NEVER if gang.seconds is None else start + max(gang.seconds, 1)
            counts_from = NOW + (start - NOW) // (1 + (NOW - gang.created) // patience)
            ledger.add(Use(start, end, holds[gang.name].nodes, gang.requests, counts_from))
        else:
            # What is drained is not free yet; only nobody else may have it.
            ledger.uses.append(Use(NOW, NEVER, holds[gang.name].nodes, gang.requests))
    return promised


@settings(max_examples=examples(300))
@given(SEEDS)
def test_others_pass_exactly_if_they_fit_beside_what_is_promised(seed: int) -> None:
    parts = small(seed)
    promised = follow(parts, cycle(world_of(parts).snapshot(), EASY, Memo(), NOW)[0])
    assert len(promised) <= 1
    for start, earliest in promised.values():
        assert start == earliest


@settings(max_examples=examples(200))
@example(134354)
@given(SEEDS)
def test_with_every_group_promised_room_nobody_delays_anybody_before_it(seed: int) -> None:
    parts = small(seed)
    promised = follow(parts, cycle(world_of(parts).snapshot(), CONSERVATIVE, Memo(), NOW)[0])
    for start, earliest in promised.values():
        assert start == earliest


@settings(max_examples=examples(100))
@given(SEEDS)
def test_without_backfill_rules_all_that_fit_start(seed: int) -> None:
    parts = small(seed)
    plan, _ = cycle(world_of(parts).snapshot(), policy_of(Backfill.OFF), Memo(), NOW)
    assert plan.holds == ()
    follow(parts, plan)


@settings(max_examples=examples(150))
@given(SEEDS)
@example(3779)
def test_nodes_are_emptied_for_a_group_that_has_waited_long_and_others_keep_off(seed: int) -> None:
    parts = small(seed)
    policy = policy_of(Backfill.EASY, drain_after_seconds=500)
    plan, _ = cycle(world_of(parts).snapshot(), policy, Memo(), NOW)
    follow(parts, plan, patience=500)
    created = {f"ns/{gang.name}": gang.created for gang in parts.gangs}
    for hold in plan.holds:
        assert hold.start_seconds is not None or NOW - created[hold.group] >= 500


@settings(max_examples=examples(200))
@given(SEEDS, st.sampled_from(list(Backfill)), st.lists(st.integers(0, 150), min_size=1, max_size=6))
def test_a_memo_changes_nothing_at_any_later_time(seed: int, backfill: Backfill, later: list[int]) -> None:
    chance = random.Random(seed)
    policy = policy_of(backfill, drain_after_seconds=chance.choice((100, 900, 1020, 5000)))
    parts = small(seed)
    facts = Facts(
        accounts=(Queue("q", default_duration_seconds=chance.choice((None, 30))),),
        reservations=windows(chance, parts),
        past_runs=chance.choice(({}, {"q": PastRuns(25, 3)})),
    )
    parts = parts._replace(facts=facts)
    said = {
        wait.group: Said(wait.explanation, None if it is None else it + chance.randint(-20, 20))
        for wait in cycle(world_of(parts).snapshot(), policy, Memo(), NOW)[0].waits
        if (it := wait.expected_start_seconds) is not None or chance.random() < 0.5
    }
    snapshot = world_of(parts, said).snapshot()
    memo = Memo()
    for now in sorted(NOW + seconds for seconds in (0, *later)):
        plan, memo = cycle(snapshot, policy, memo, now)
        assert plan == cycle(snapshot, policy, Memo(), now)[0]


def windows(chance: random.Random, parts: Small) -> tuple[Reservation, ...]:
    found = []
    for number in range(chance.choice((0, 0, 1, 2))):
        start = NOW + chance.randint(-50, 120)
        nodes: tuple[str, ...] = tuple(name for name in sorted(parts.nodes) if chance.random() < 0.4)
        amount = ResourceVector.of({"cpu": chance.choice((500, 3000, 90000))})
        found.append(
            Reservation(
                f"window-{number}",
                start,
                start + chance.choice((1, 20, 200)),
                nodes=(*nodes, "unknown") if chance.random() < 0.6 else (),
                resources=amount,
                groups=tuple(f"ns/{gang.name}" for gang in parts.gangs if chance.random() < 0.1),
                queues=("q",) if chance.random() < 0.1 else (),
            )
        )
    return tuple(found)


@settings(max_examples=examples(200))
@given(SEEDS, st.sampled_from(list(Backfill)))
def test_nobody_gets_into_a_window_that_is_kept_for_others(seed: int, backfill: Backfill) -> None:
    parts = small(seed)
    parts = parts._replace(facts=Facts(accounts=(Queue("q"),), reservations=windows(random.Random(seed), parts)))
    plan, _ = cycle(world_of(parts).snapshot(), policy_of(backfill), Memo(), NOW)
    gangs = {f"ns/{gang.name}": gang for gang in parts.gangs}
    runs = [(start.group, NOW, gangs[start.group].end, {bind.node for bind in start.binds}) for start in plan.starts]
    for hold in plan.holds:
        start = NOW if hold.start_seconds is None else hold.start_seconds
        seconds = gangs[hold.group].seconds
        runs.append((hold.group, start, NEVER if seconds is None else start + max(seconds, 1), set(hold.nodes)))
    for window in parts.facts.reservations:
        for group, start, end, nodes in runs:
            if group in window.groups or window.queues:
                continue
            if start < window.end_seconds and window.start_seconds < end:
                assert not nodes & set(window.nodes), f"{group} is in {window.name}"


@settings(max_examples=examples(100))
@given(SEEDS)
def test_everyone_who_waits_for_room_is_told_when_or_because_of_whom(seed: int) -> None:
    parts = small(seed)
    plan, _ = cycle(world_of(parts).snapshot(), EASY, Memo(), NOW)
    unknown = {f"ns/{gang.name}" for gang in parts.gangs if gang.seconds is None}
    for wait in plan.waits:
        if wait.explanation.reason in (Reason.NEVER_FITS, Reason.GROUP_NEVER_FITS):
            assert wait.expected_start_seconds is None
        elif wait.expected_start_seconds is None:
            assert wait.unknown_because_of in unknown
        else:
            assert wait.expected_start_seconds > NOW


def _fitting(limits: list[dict[str, dict[str, int]]], requests: dict[str, int]) -> int:
    total = 0
    for node in limits[0]:
        least = {name: min(free[node].get(name, 0) for free in limits) for name in (*requests, "pods")}
        total += max(0, min([least["pods"], *(least[name] // units for name, units in requests.items())]))
    return total
