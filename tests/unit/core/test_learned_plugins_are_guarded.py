"""A learned plugin sees features, spends a budget, and can only score or reorder what is feasible and allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.extension import SCORE_SCALE
from allhands.core.learned import MAX_RANK, Budget, BudgetSpentError, GuardedOrder, GuardedScore
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Policy
from allhands.core.room import Room
from allhands.core.view import NodeView
from tests.core_laws import violations
from tests.depth import examples
from tests.random_worlds import GPU, build, objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.core.columns import Column
    from allhands.core.learned import GroupFeatures, NodeFeatures
    from allhands.core.snapshot import Snapshot

NOW = 100
seeds = st.integers(0, 2**32 - 1)


class NodeModel:
    """A double of a learned score: whatever is given to it."""

    name = "model"

    def __init__(
        self, judge: Callable[[NodeFeatures, Budget], object], features: tuple[str, ...] = ("free:cpu", f"has:{GPU}")
    ) -> None:
        self._judge = judge
        self.features = features

    def judge_nodes(self, features: NodeFeatures, budget: Budget) -> Column:
        return self._judge(features, budget)  # type: ignore[return-value]


class GroupModel:
    name = "model"

    def __init__(
        self, judge: Callable[[GroupFeatures, Budget], object], features: tuple[str, ...] = ("age", "pods", "share")
    ) -> None:
        self._judge = judge
        self.features = features
        self.asked: list[int] = []

    def judge_groups(self, features: GroupFeatures, budget: Budget) -> Column:
        self.asked.append(features.size)
        return self._judge(features, budget)  # type: ignore[return-value]


def view_of(snapshot: Snapshot) -> NodeView:
    entry = next(entry for entry in snapshot.groups.values() if entry.pending)
    shape = entry.pending[0].shape
    request = snapshot.columns.request(shape.requests)
    assert request is not None
    return NodeView(shape, request, Room(snapshot.columns), slice(None))


SNAPSHOT = build(objects(7)).snapshot()


def test_features_are_whole_numbers_one_row_a_feature() -> None:
    view = view_of(SNAPSHOT)
    seen: list[Column] = []

    def judge(features: NodeFeatures, _: Budget) -> Column:
        seen.append(features.matrix())
        return features.column("free:cpu")

    score = GuardedScore(NodeModel(judge, ("free:cpu", "asks:cpu", f"has:{GPU}", "free:no/such"))).score(view)
    (matrix,) = seen
    assert matrix.dtype == np.int64
    assert matrix.shape == (4, len(SNAPSHOT.columns))
    assert set(matrix[2].tolist()) <= {0, 1}
    assert not matrix[3].any()
    assert (score == matrix[0]).all()


def test_each_row_that_is_read_is_counted() -> None:
    view = view_of(SNAPSHOT)
    left: list[int] = []

    def judge(features: NodeFeatures, budget: Budget) -> Column:
        features.matrix()
        left.append(budget.left)
        return features.column("free:cpu")

    GuardedScore(NodeModel(judge), units_per_row=5).score(view)
    assert left == [3 * view.size]


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param(lambda features, _: sum(features.matrix()[0] for _ in range(9)), id="reads too much"),
        pytest.param(lambda _, budget: budget.spend(10**9), id="works too much"),
        pytest.param(lambda _, budget: budget.spend(-1), id="cheats"),
        pytest.param(lambda *_: 1 // 0, id="fails"),
        pytest.param(lambda *_: None, id="says nothing"),
        pytest.param(lambda features, _: np.zeros(features.size + 1, dtype=np.int64), id="too many rows"),
        pytest.param(lambda features, _: np.zeros(features.size), id="says floats"),
    ],
)
def test_a_model_that_fails_or_overdraws_has_said_nothing(judge: Callable[..., object]) -> None:
    score = GuardedScore(NodeModel(judge), units_per_row=4)
    assert not score.score(view_of(SNAPSHOT)).any()
    assert score.failures == 1
    order = GuardedOrder(GroupModel(judge), units_per_group=4)
    assert {order.rank(entry, SNAPSHOT, NOW) for entry in SNAPSHOT.groups.values()} == {MAX_RANK}
    assert order.failures == 1


def test_scores_are_cut_to_their_scale() -> None:
    wild = GuardedScore(NodeModel(lambda features, _: np.arange(features.size) * 10**15 - 10**15))
    score = wild.score(view_of(SNAPSHOT))
    assert (int(score.min()), int(score.max())) == (0, SCORE_SCALE)


def test_an_order_judges_the_oldest_groups_once_a_cycle_and_the_others_come_after() -> None:
    model = GroupModel(lambda features, _: np.arange(features.size)[::-1].copy())
    order = GuardedOrder(model, max_groups=2)
    ranks = {key: order.rank(entry, SNAPSHOT, NOW) for key, entry in SNAPSHOT.groups.items()}
    waiting = sorted(
        (entry for entry in SNAPSHOT.groups.values() if entry.pending),
        key=lambda entry: (entry.group.created_at_seconds, entry.key),
    )
    assert model.asked == [2]
    assert [ranks[entry.key] for entry in waiting[:2]] == [1, 0]
    assert {ranks[entry.key] for entry in waiting[2:]} == {MAX_RANK}


def test_a_group_brings_features_of_its_own() -> None:
    world = build(objects(7))
    group = next(entry.group for entry in world.snapshot().groups.values() if entry.pending and entry.group.queue)
    world.set_group(msgspec.structs.replace(group, features=(("epochs", 9),)))
    order = GuardedOrder(GroupModel(lambda features, _: features.column("own:epochs") + 1, ("own:epochs",)))
    snapshot = world.snapshot()
    assert order.rank(snapshot.groups[group.key], snapshot, NOW) == 10


def test_features_that_do_not_exist_are_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="no such features: colour; there are free:<resource>"):
        GuardedScore(NodeModel(lambda *_: None, ("colour",)))
    with pytest.raises(ValueError, match="no such features: colour; there are age"):
        GuardedOrder(GroupModel(lambda *_: None, ("colour",)))


def test_a_budget_is_spent_and_then_refuses() -> None:
    budget = Budget(5)
    budget.spend(3)
    with pytest.raises(BudgetSpentError):
        budget.spend(3)
    with pytest.raises(BudgetSpentError):
        budget.spend(1)


def policy() -> Policy:
    """Both kinds, with a model of whole numbers, beside and before the default plugins."""
    score = GuardedScore(NodeModel(lambda features, _: features.matrix()[0] * 7 % SCORE_SCALE))
    order = GuardedOrder(GroupModel(lambda features, _: features.matrix()[1] * -3), max_groups=3)
    return msgspec.structs.replace(DEFAULT, scores=((score, 5), *DEFAULT.scores), orders=(order, *DEFAULT.orders))


@settings(max_examples=examples(60))
@given(seed=seeds)
def test_with_learned_plugins_a_plan_breaks_no_law_and_any_memo_gives_the_same(seed: int) -> None:
    world = build(objects(seed))
    snapshot = world.snapshot()
    learned = policy()
    plan, memo = cycle(snapshot, learned, Memo(), NOW)
    assert violations(snapshot, plan) == []
    for bind in plan.binds[::2]:
        world.assume_bound(bind.uid, bind.node, NOW)
    after = world.snapshot()
    assert cycle(after, learned, memo, NOW + 1)[0] == cycle(after, policy(), Memo(), NOW + 1)[0]


@settings(max_examples=examples(60))
@given(seed=seeds, wrong=st.sampled_from(["raise", "floats", "greedy"]))
def test_a_bad_model_changes_nothing_but_its_own_word(seed: int, wrong: str) -> None:
    def judge(features: NodeFeatures, budget: Budget) -> object:
        if wrong == "raise":
            raise RuntimeError("a model is broken")
        if wrong == "greedy":
            budget.spend(10**12)
        return np.ones(features.size)

    snapshot = build(objects(seed)).snapshot()
    silent = ((GuardedScore(NodeModel(judge)), 9), *DEFAULT.scores)
    plan = cycle(snapshot, msgspec.structs.replace(DEFAULT, scores=silent), Memo(), NOW)[0]
    assert plan == cycle(snapshot, DEFAULT, Memo(), NOW)[0]
