"""Laws of quotas: caps hold, guarantees are kept, a roll-back loses nothing, and the order of input does not matter."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from allhands.core.quota.apportion import water_fill
from allhands.core.quota.book import QuotaBook
from allhands.core.quota.decay import decay_factor
from allhands.core.quota.order import POLICIES, QueueRanking
from allhands.core.quota.reclaim import may_take_from, owed, surplus
from allhands.core.quota.shares import proportion
from allhands.core.quota.tenants import Tenants
from allhands.core.quota.usage import EMPTY_LEDGER, UsageKey, UsageLedger, decode, encode, fold, fold_all
from allhands.model.queue import Account, Queue, Quota
from allhands.model.resources import ResourceVector
from tests.depth import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from allhands.core.quota.bill import Bill

FLAVORS = ("*", "a100", "h100")
RESOURCES = ("cpu", "gpu")
Charge = tuple[tuple[str, ...], tuple[tuple[str, str, int], ...]]

small = st.integers(0, 12)
maybe = st.none() | small


def every_quota() -> list[Quota]:
    """All kinds of quota, with few numbers, made once: drawing each number of each quota would be most of a run."""
    found = []
    for numbers in itertools.product((None, 0, 3), (None, 0, 5), (None, 0, 8), (None, 0, 4), (None, 0, 2)):
        for flavor, resource in itertools.product(FLAVORS, RESOURCES):
            with contextlib.suppress(ValueError):
                found.append(Quota(resource, flavor, *numbers))
    return found


quotas = st.lists(
    st.sampled_from(every_quota()), max_size=3, unique_by=lambda quota: (quota.flavor, quota.resource)
).map(tuple)


@st.composite
def forests(draw: st.DrawFn) -> list[Account | Queue]:
    """Up to eight accounts in any number of trees of any shape."""
    accounts: list[Account | Queue] = []
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from([Queue, Queue, Account]))
        parent = draw(st.none() | st.sampled_from([it.name for it in accounts])) if accounts else None
        weight = draw(st.sampled_from([0, 500, 1000, 3000]))
        accounts.append(kind(f"n{number}", parent, draw(quotas), weight, draw(st.integers(0, 1))))
    return accounts


@st.composite
def capacities(draw: st.DrawFn) -> dict[str, ResourceVector]:
    flavors = draw(st.sampled_from([(), ("*",), ("*", "a100"), ("a100", "h100")]))
    return {flavor: ResourceVector.of({name: draw(st.integers(0, 40)) for name in RESOURCES}) for flavor in flavors}


@st.composite
def charges(draw: st.DrawFn, accounts: list[Account | Queue], most_accounts: int = 2) -> Charge:
    names = [account.name for account in accounts]
    charged = draw(st.lists(st.sampled_from(names), min_size=1, max_size=most_accounts, unique=True))
    demand = draw(st.lists(st.tuples(st.sampled_from(FLAVORS), st.sampled_from(RESOURCES), small), max_size=3))
    return tuple(charged), tuple(demand)


class Scene(NamedTuple):
    accounts: list[Account | Queue]
    capacity: dict[str, ResourceVector]
    charges: list[Charge]

    def book(self) -> QuotaBook:
        return QuotaBook.build(self.accounts, self.capacity)


@st.composite
def scenes(draw: st.DrawFn, most_accounts: int = 2) -> Scene:
    accounts = draw(forests())
    return Scene(accounts, draw(capacities()), draw(st.lists(charges(accounts, most_accounts), max_size=14)))


def start_what_is_allowed(scene: Scene, also: Callable[[QuotaBook], bool] = lambda _: True) -> QuotaBook:
    """Starts each group that its quotas allow, and that passes a further test once it has started."""
    book = scene.book()
    for names, demand in scene.charges:
        bill = book.bill(names, demand)
        if book.refusal(bill) is None:
            book.take(bill)
            if not also(book):
                book.give_back(bill)
    return book


@given(scenes())
@settings(max_examples=examples(60))
def test_no_sequence_of_allowed_starts_exceeds_a_capability_at_any_level(scene: Scene) -> None:
    book = start_what_is_allowed(scene)
    for account in scene.accounts:
        for limit in account.quotas:
            if limit.capability is not None:
                assert book.use(account.name, limit.resource, limit.flavor) <= limit.capability


@given(scenes(), st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_giving_back_in_any_order_restores_the_book_bit_for_bit(scene: Scene, chance: Random) -> None:
    book = scene.book()
    half = len(scene.charges) // 2
    bills = [book.bill(*charge) for charge in scene.charges]
    for bill in bills[:half]:
        book.take(bill)
    before, shares = book.state(), [book.share(account.name) for account in scene.accounts]
    for bill in bills[half:]:
        book.take(bill)
    later = bills[half:]
    chance.shuffle(later)
    for bill in later:
        book.give_back(bill)
    assert book.state() == before
    assert [book.share(account.name) for account in scene.accounts] == shares


@given(scenes(), st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_equal_inputs_give_equal_books_whatever_order_they_come_in(scene: Scene, chance: Random) -> None:
    accounts, charged = list(scene.accounts), list(scene.charges)
    chance.shuffle(accounts)
    chance.shuffle(charged)
    one, other = scene.book(), QuotaBook.build(accounts, dict(reversed(scene.capacity.items())))
    for book, order in ((one, scene.charges), (other, charged)):
        for charge in order:
            book.take(book.bill(*charge))
    for names, demand in scene.charges:
        assert one.refusal(one.bill(names, demand)) == other.refusal(other.bill(names, demand))
    assert one.warnings == other.warnings
    assert proportion(one) == proportion(other)
    for account in scene.accounts:
        assert one.share(account.name) == other.share(account.name)
        assert surplus(one, account.name) == surplus(other, account.name)


def kept_for(book: QuotaBook, account: str, flavor: str, resource: str) -> int:
    """What of its guarantee (as it can be kept) an account does not use."""
    dimension = book.layout.dimensions[flavor, resource]
    guarantee = book.layout.limits[dimension].guarantee[book.layout.row_by_name[account]]
    return max(guarantee - book.use(account, resource, flavor), 0)


def unused_guarantees(book: QuotaBook, above: str | None, flavor: str, resource: str) -> int:
    """What the accounts directly below must find free: their own unused guarantee or those below them."""
    return sum(
        max(kept_for(book, account.name, flavor, resource), unused_guarantees(book, account.name, flavor, resource))
        for account in book.layout.accounts
        if account.parent == above
    )


@given(scenes(most_accounts=1))
@settings(max_examples=examples(60))
def test_an_unused_guarantee_is_kept_free_at_every_level_and_in_the_cluster(scene: Scene) -> None:
    totals = scene.book().layout.totals

    def fits_the_cluster(book: QuotaBook) -> bool:
        return all(book.use("", resource, flavor) <= total for (flavor, resource), total in totals.items())

    book = start_what_is_allowed(scene, fits_the_cluster)
    for limit in {(it.flavor, it.resource) for account in scene.accounts for it in account.quotas}:
        flavor, resource = limit
        for account in scene.accounts:
            own = account.quota(resource, flavor)
            if own is not None and own.capability is not None:
                free = own.capability - book.use(account.name, resource, flavor)
                assert free >= unused_guarantees(book, account.name, flavor, resource)
        if limit in totals:
            assert totals[limit] - book.use("", resource, flavor) >= unused_guarantees(book, None, flavor, resource)


@given(scenes(most_accounts=1))
@settings(max_examples=examples(60))
def test_who_asks_for_no_more_than_is_left_of_its_guarantee_is_not_refused(scene: Scene) -> None:
    """Of accounts with none below: the guarantee of others is for what is below them too."""
    totals = scene.book().layout.totals
    book = start_what_is_allowed(
        scene, lambda it: all(it.use("", name, flavor) <= total for (flavor, name), total in totals.items())
    )
    parents = {account.parent for account in scene.accounts}
    for account in scene.accounts:
        for limit in account.quotas if account.name not in parents else ():
            asked = kept_for(book, account.name, limit.flavor, limit.resource)
            if limit.flavor == "*" and asked:
                keep = book.layout.limits[book.layout.dimensions["*", limit.resource]].keep
                # A level whose lenders keep more than its cap has room for cannot keep every guarantee whole.
                assume(keep[book.layout.row_by_name[account.name]] - book.use(account.name, limit.resource) >= asked)
                refusal = book.refusal(book.bill((account.name,), (("*", limit.resource, asked),)))
                assert refusal is None


class Pool(NamedTuple):
    """A cohort in the terms of its own documentation: what is lent and borrowed between a node and the one above."""

    nominal: int
    borrowing: int | None
    lending: int | None
    parent: int | None


@st.composite
def cohorts(draw: st.DrawFn) -> list[Pool]:
    pools: list[Pool] = []
    for number in range(draw(st.integers(2, 7))):
        nominal = draw(small)
        parent = None if number == 0 else draw(st.integers(0, number - 1))
        lending = None if number == 0 else draw(st.none() | st.integers(0, nominal))
        borrowing = None if number == 0 else draw(maybe)
        pools.append(Pool(nominal, borrowing, lending, parent))
    return pools


def available(pools: list[Pool], use: list[int], node: int) -> int:
    """What a node may still use: what it keeps for itself, and what the node above has, within its borrowing limit."""
    count = len(pools)
    subtree, local, charged = [0] * count, [0] * count, list(use)
    for at in range(count - 1, -1, -1):
        pool = pools[at]
        subtree[at] += pool.nominal
        local[at] = 0 if pool.lending is None else max(subtree[at] - pool.lending, 0)
        if pool.parent is not None:
            subtree[pool.parent] += subtree[at] - local[at]
            charged[pool.parent] += max(charged[at] - local[at], 0)

    def room(at: int) -> int:
        pool = pools[at]
        if pool.parent is None:
            return subtree[at] - charged[at]
        above = room(pool.parent)
        if pool.borrowing is not None:
            lent, used_above = subtree[at] - local[at], max(charged[at] - local[at], 0)
            above = min(above, lent - used_above + pool.borrowing)
        return max(local[at] - charged[at], 0) + above

    return room(node)


@given(cohorts(), st.data())
@settings(max_examples=examples(100))
def test_cohorts_lend_and_borrow_exactly_as_their_own_definition_says(pools: list[Pool], data: st.DataObject) -> None:
    accounts = [
        Account(
            f"n{number}",
            None if pool.parent is None else f"n{pool.parent}",
            (Quota("gpu", deserved=pool.nominal, borrowing_limit=pool.borrowing, lending_limit=pool.lending),),
        )
        for number, pool in enumerate(pools)
    ]
    leaves = [number for number in range(len(pools)) if all(pool.parent != number for pool in pools)]
    book = QuotaBook.build(accounts, {})
    use = [0] * len(pools)
    for number, units in data.draw(st.lists(st.tuples(st.sampled_from(leaves), small), max_size=6)):
        bill = book.bill((f"n{number}",), (("*", "gpu", units),))
        allowed = units <= available(pools, use, number) or units == 0
        assert (book.refusal(bill) is None) == allowed
        if allowed:
            book.take(bill)
            use[number] += units


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30), st.none() | st.integers(0, 60)), min_size=1, max_size=8),
)
@settings(max_examples=examples(100))
def test_water_is_filled_to_one_level_between_floors_and_caps(
    total: int, parties: list[tuple[int, int, int | None]]
) -> None:
    weights, floors = [it[0] for it in parties], [it[1] for it in parties]
    given_units = water_fill(total, weights, floors, [it[2] for it in parties])
    assert sum(given_units) <= total
    assume(sum(floors) <= total)
    caps = [None if cap is None else max(cap, floor) for _, floor, cap in parties]
    for units, floor, cap in zip(given_units, floors, caps, strict=True):
        assert floor <= units
        assert cap is None or units <= cap
    hungry = [it for it, cap in enumerate(caps) if weights[it] and (cap is None or given_units[it] < cap)]
    if hungry:
        assert sum(given_units) == total
    for one in hungry:
        for other, units in enumerate(given_units):
            if units > floors[other]:
                assert (units - 1) * weights[one] < (given_units[one] + 1) * weights[other]


@given(scenes(), st.booleans())
@settings(max_examples=examples(60))
def test_what_accounts_deserve_adds_up_to_no_more_than_there_is(scene: Scene, by_request: bool) -> None:
    book = scene.book()
    requests = {names[0]: demand for names, demand in scene.charges} if by_request else None
    deserved = proportion(book, requests)
    dimensions = {(flavor, resource) for _, flavor, resource in deserved}
    for flavor, resource in dimensions:
        for above in (None, *scene.accounts):
            below = [it for it in scene.accounts if it.parent == (above and above.name)]
            parts = [deserved.get((it.name, flavor, resource), 0) for it in below]
            whole = (
                book.layout.totals.get((flavor, resource), sum(parts))
                if above is None
                else deserved.get((above.name, flavor, resource), 0)
            )
            assert sum(parts) <= whole


@given(scenes())
@settings(max_examples=examples(100))
def test_a_share_never_falls_when_more_is_used(scene: Scene) -> None:
    book = scene.book()
    for charge in scene.charges:
        before = {account.name: book.share(account.name) for account in scene.accounts}
        book.take(book.bill(*charge))
        assert all(book.share(name) >= share for name, share in before.items())


@given(scenes(), st.sampled_from(sorted(POLICIES)), st.lists(st.integers(0, 3), max_size=30), st.data())
@settings(max_examples=examples(60))
def test_a_ranking_always_names_the_queue_with_the_least_key(
    scene: Scene, policy: str, moves: list[int], data: st.DataObject
) -> None:
    book = scene.book()
    queues = [account.name for account in scene.accounts if isinstance(account, Queue)]
    ranking = QueueRanking(book, policy)
    waiting, taken = set(queues), []
    for move in moves:
        if move == 0 and scene.charges:
            taken.append(book.bill(*data.draw(st.sampled_from(scene.charges))))
            book.take(taken[-1])
        elif move == 1 and taken:
            book.give_back(taken.pop(data.draw(st.integers(0, len(taken) - 1))))
        elif move == 2 and queues:
            name = data.draw(st.sampled_from(queues))
            waiting.discard(name)
            ranking.remove(name)
        elif move == 3 and queues:
            name = data.draw(st.sampled_from(queues))
            waiting.add(name)
            ranking.add(name)
        assert ranking.next() == min(waiting, key=ranking.key, default=None)


@st.composite
def contended(draw: st.DrawFn) -> Scene:
    """Few queues with parts of a small cluster, of which the first ones use more than theirs."""
    accounts: list[Account | Queue] = []
    for number in range(draw(st.integers(2, 5))):
        parent = draw(st.sampled_from([None, None, *(it.name for it in accounts)]))
        parts = tuple(
            Quota(name, guarantee=draw(st.sampled_from([None, 1])), deserved=draw(st.integers(1, 6)))
            for name in draw(st.sampled_from([("gpu",), ("gpu",), ("cpu", "gpu"), ()]))
        )
        accounts.append(Queue(f"n{number}", parent, parts, draw(st.sampled_from([1000, 1000, 0]))))
    capacity = {"*": ResourceVector.of({name: draw(st.integers(12, 24)) for name in RESOURCES})}
    demands = st.tuples(st.tuples(st.just("*"), st.just("gpu"), st.integers(1, 4))) | st.tuples(
        *(st.tuples(st.just("*"), st.just(name), st.integers(1, 4)) for name in RESOURCES)
    )
    names = [(account.name,) for account in accounts]
    running = st.tuples(st.sampled_from(names[: len(names) // 2]), demands)
    waiting = st.tuples(st.sampled_from(names), demands)
    size = draw(st.integers(2, 6))
    charged = [*(draw(running) for _ in range(size)), *(draw(waiting) for _ in range(size))]
    return Scene(accounts, capacity, charged)


@given(contended())
@settings(max_examples=examples(100))
def test_nobody_loses_to_another_what_it_could_take_back(scene: Scene) -> None:
    book = scene.book()
    bills = [book.bill(*charge) for charge in scene.charges]
    half = len(bills) // 2
    running, waiting = bills[:half], bills[half:]
    for bill in running:
        book.take(bill)
    for taker in waiting:
        for victim in running:
            if may_take_from(book, taker.names, victim.names, taker, victim):
                assert not reverse_is_allowed(book, taker, victim, bills)
                # And once it is done, the one who lost can never take the newcomer's place.
                book.give_back(victim)
                book.take(taker)
                for other in bills:
                    back = book.bill(victim.names, scene.charges[bills.index(other)][1])
                    assert not may_take_from(book, victim.names, taker.names, back, taker)
                book.give_back(taker)
                book.take(victim)


def reverse_is_allowed(book: QuotaBook, taker: Bill, victim: Bill, bills: list[Bill]) -> bool:
    """On the same state and for the same resources, whether the victim's queue could take from the taker's."""
    asked = {dimension for dimension, _ in taker.amounts}
    return any(
        may_take_from(book, victim.names, taker.names, back, held)
        for back in bills
        if back.names == victim.names and {dimension for dimension, _ in back.amounts} <= asked
        for held in bills
        if held.names == taker.names
    )


@given(contended())
@settings(max_examples=examples(100))
def test_reclaim_comes_to_rest(scene: Scene) -> None:
    """Everybody reclaims as long as it can, and each victim wants its place back: it ends, within what is owed."""
    book = scene.book()
    running: list[Bill] = []
    waiting: list[Bill] = []
    for charge in scene.charges:
        bill = book.bill(*charge)
        (running if len(running) < len(scene.charges) // 2 else waiting).append(bill)
    for bill in running:
        book.take(bill)
    for _ in range(8 * len(scene.charges) + 1):
        pair = next(
            (
                (taker, victim)
                for taker in waiting
                for victim in running
                if may_take_from(book, taker.names, victim.names, taker, victim)
            ),
            None,
        )
        if pair is None:
            return
        taker, victim = pair
        book.give_back(victim)
        book.take(taker)
        running[running.index(victim)] = taker
        waiting[waiting.index(taker)] = victim
    raise AssertionError("reclaim goes round in circles")


@given(scenes(most_accounts=1))
@settings(max_examples=examples(100))
def test_what_is_owed_is_no_surplus_once_it_is_taken(scene: Scene) -> None:
    book = scene.book()
    for names, demand in scene.charges:
        bill = book.bill(names, demand)
        if owed(book, bill):
            book.take(bill)
            asked = {book.layout.dimension_names[dimension] for dimension, _ in bill.amounts}
            assert not asked & {(flavor, resource) for flavor, resource, _ in surplus(book, names[0])}


seconds = st.integers(0, 10**7)
half_lives = st.none() | st.integers(1, 10**7)
KEY = UsageKey("q")


def used(first: int, units: int, at: int, until: int, half_life: int | None) -> UsageLedger:
    """So much use until a moment, then so many units from there."""
    started = fold(fold(EMPTY_LEDGER, KEY, 0, 0, half_life), KEY, first, at, half_life)
    return fold(started, KEY, units, until, half_life)


@given(st.integers(0, 10**9), st.integers(0, 10**9), seconds, seconds, seconds, half_lives)
@settings(max_examples=examples(100))
def test_folding_in_one_step_or_in_two_is_the_same(
    first: int, units: int, at: int, middle: int, end: int, half_life: int | None
) -> None:
    at, middle, end = sorted((at, middle, end))
    once = used(first, units, at, end, half_life)
    twice = fold(used(first, units, at, middle, half_life), KEY, units, end, half_life)
    one, two = once.entries[0].amount, twice.entries[0].amount
    assert abs(one - two) <= 4 + (max(one, two) >> 30)
    assert once.entries[0].folded_at_seconds == twice.entries[0].folded_at_seconds


@given(st.integers(0, 2**70), st.integers(0, 2**70), seconds, seconds, half_lives)
@settings(max_examples=examples(100))
def test_more_use_never_counts_less_and_idle_time_never_counts_more(
    fewer: int, more: int, at: int, later: int, half_life: int | None
) -> None:
    fewer, more = sorted((fewer, more))
    at, later = sorted((at, later))
    little, much = used(fewer, 0, at, at, half_life), used(more, 0, at, at, half_life)
    assert 0 <= little.entries[0].amount <= much.entries[0].amount < 2**63
    assert fold(much, KEY, 0, later, half_life).entries[0].amount <= much.entries[0].amount
    assert decode(encode(much)) == much


@given(seconds, seconds, st.integers(1, 10**7))
@settings(max_examples=examples(100))
def test_the_longer_ago_the_less_is_left(one: int, other: int, half_life: int) -> None:
    sooner, later = sorted((one, other))
    assert decay_factor(sooner, half_life) >= decay_factor(later, half_life)


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 100), max_size=5), st.integers(1, 10**6))
@settings(max_examples=examples(100))
def test_a_ledger_does_not_depend_on_the_order_of_its_events(in_use: dict[str, int], until: int) -> None:
    keys = {UsageKey(name): units for name, units in in_use.items()}
    started = fold_all(EMPTY_LEDGER, dict.fromkeys(keys, 0), 0, 600)
    together = fold_all(started, keys, until, 600)
    apart = started
    for key, units in reversed(list(keys.items())):
        apart = fold(apart, key, units, until, 600)
    assert together == apart


@given(scenes(most_accounts=1))
@settings(max_examples=examples(50))
def test_tenants_give_back_exactly_what_they_took(scene: Scene) -> None:
    tenants = Tenants(scene.book())
    tickets = [tenants.ticket(names[0], names[-1], "default", demand) for names, demand in scene.charges]
    half = len(tickets) // 2
    for ticket in tickets[:half]:
        tenants.take(ticket)
    before = tenants.state()
    for ticket in tickets[half:]:
        tenants.take(ticket)
    for ticket in tickets[half:]:
        tenants.give_back(ticket)
    assert tenants.state() == before
