"""The places where a policy may be extended, as Protocols. A plugin is one file that fits one of them.

A plugin is a pure function of what it is given. It may reorder or score what is feasible and allowed; it can never make
an infeasible node feasible, exceed a quota, or split a gang. Larger is better for scores, smaller is sooner for orders.
What it keeps between two questions may only save work: asked anew, it would answer the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from allhands.core.columns import Column, Mask, NodeColumns
    from allhands.core.feasibility.neighbours import Neighbours
    from allhands.core.learned import Budget, GroupFeatures, NodeFeatures
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.core.view import Asks, NodeView
    from allhands.model.reason import Explanation
    from allhands.model.shape import PodShape

SCORE_SCALE: Final = 1_000_000
"""The best score that a plugin may give. Scores are whole numbers, so that they are the same on every machine."""


class Score(Protocol):
    """How good nodes are for a shape, by what they would have left: each node for itself, from 0 to SCORE_SCALE.

    It may also have `score_of_one`, as ScoreOfOne has it; where few nodes are looked at, that is faster. And
    `looks_at`, as KeyedScore has it: what it looks at beside amounts; then pods of several shapes are scored at once.
    """

    name: str

    def score(self, view: NodeView) -> Column: ...


class ScoreOfOne(Protocol):
    """A Score that can say the same about one node in plain numbers, to the bit."""

    def score_of_one(self, asks: Asks) -> Callable[[Sequence[float]], int]:
        """A function from the share of each resource that would be left on a node, by column, to the node's score."""


class StaticScore(Protocol):
    """The same for what does not change with usage: labels, taints, images. Asked once per shape and node.

    It may also have `looks_at`, as KeyedScore has it.
    """

    name: str

    def static_score(self, shape: PodShape, columns: NodeColumns) -> Column: ...


class KeyedScore(Protocol):
    """A Score or StaticScore that says what of a shape it looks at, so that it is asked once for all that are alike in
    that."""

    def looks_at(self, shape: PodShape) -> Hashable: ...


class NeighbourScore(Protocol):
    """The same for where other pods are. These are always asked, together, with the policy's one weight for them.

    `among` are the nodes that are compared. None if there is nothing to say about the shape.
    """

    name: str

    def neighbour_score(self, shape: PodShape, neighbours: Neighbours, among: Mask | None = None) -> Column | None: ...


class StaticFilter(Protocol):
    """Which nodes a shape may use at all, beyond what Kubernetes itself asks."""

    name: str

    def mask(self, shape: PodShape, columns: NodeColumns) -> Mask: ...


class GroupOrder(Protocol):
    """One criterion of the order among the waiting groups of a queue: smaller goes first, equals ask the next one.

    One whose rank changes with time alone has `next_change` too (`orders.timing`); one may have `is_settled`.
    """

    name: str

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int: ...


class SettledOrder(Protocol):
    """A GroupOrder that says of which groups the rank is fixed, so that it is not asked in every cycle."""

    def is_settled(self, entry: GroupEntry) -> bool:
        """Whether the rank depends on the group alone: not on time, nodes or other groups.

        It may depend on the facts (queues, past runs) if the order says `looks_at_facts = True`.
        """


class StartGate(Protocol):
    """Whether a group may start at all now; the reason if not. By the snapshot alone: for a count of what starts in
    this cycle too, there is StartLimit. A group that has begun or was admitted must not be refused."""

    name: str

    def refusal(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> Explanation | None: ...


class StartTally(Protocol):
    """The count of one StartLimit during one cycle."""

    def refusal(self, entry: GroupEntry) -> Explanation | None:
        """Why the group must not start beside all that runs and all that was started in this cycle."""

    def started(self, entry: GroupEntry) -> None:
        """It starts."""


class StartLimit(Protocol):
    """How much may run at a time. Asked for a new tally in every cycle, which is asked for each waiting group."""

    name: str

    def tally(self, snapshot: Snapshot, now: int) -> StartTally: ...


class VictimGuard(Protocol):
    """Whether pods of a group may be evicted for another."""

    name: str

    def may_evict(self, victim: GroupEntry, preemptor: GroupEntry, snapshot: Snapshot, now: int) -> bool: ...


class LearnedScore(Protocol):
    """A score that was learned: features of nodes in, one whole number a node out, better is larger.

    It becomes a Score through `learned.GuardedScore`, which bounds its numbers and its work. Like any score it looks at
    each node for itself. Features are whole numbers; a model that works in whole numbers too is the same everywhere.
    """

    name: str
    features: tuple[str, ...]
    """Which features it reads, of those that `NodeFeatures` knows."""

    def judge_nodes(self, features: NodeFeatures, budget: Budget) -> Column: ...


class LearnedOrder(Protocol):
    """An order that was learned: features of waiting groups in, one whole number a group out, sooner is smaller.

    It becomes a GroupOrder through `learned.GuardedOrder`. It can only reorder: what may start, and where, it is not
    asked.
    """

    name: str
    features: tuple[str, ...]
    """Which features it reads: those that `GroupFeatures` knows, and any that groups have of their own."""

    def judge_groups(self, features: GroupFeatures, budget: Budget) -> Column: ...
