"""Queues and accounts: who may use how much of what, in trees whose every level is charged.

An account holds quotas; a queue is an account that groups are submitted to. A quota is over a flavor of nodes and a
resource; a plain queue uses the flavor `*`. An absent number means "not said" and is never the same as 0.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from allhands.model.tree import TreeError, parents_by_name, path_to_root, roots_first

ANY_FLAVOR: Final = "*"


class Quota(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one account may have of one resource in one flavor, in the resource's base units.

    guarantee: kept free for it even while unused. deserved: its fair part; above it, use is borrowed and reclaimable.
    capability: never more than this. borrowing_limit: at most so much above deserved. lending_limit: at most so much
    of deserved is lent to others.
    """

    resource: str
    flavor: str = ANY_FLAVOR
    guarantee: int | None = None
    deserved: int | None = None
    capability: int | None = None
    borrowing_limit: int | None = None
    lending_limit: int | None = None

    def __post_init__(self) -> None:
        where = f'quota for "{self.resource}" in flavor "{self.flavor}"'
        if not self.resource or not self.flavor:
            raise ValueError(f"{where}: flavor and resource must be named")
        for name in ("guarantee", "deserved", "capability", "borrowing_limit", "lending_limit"):
            amount = getattr(self, name)
            if amount is not None and amount < 0:
                raise ValueError(f"{where}: {name} must not be negative, got {amount}")
        for lower, upper in (
            ("guarantee", "deserved"),
            ("guarantee", "capability"),
            ("deserved", "capability"),
            ("lending_limit", "deserved"),
        ):
            low, high = getattr(self, lower), getattr(self, upper)
            if low is not None and high is not None and low > high:
                raise ValueError(f"{where}: {lower} ({low}) must not exceed {upper} ({high})")


class Account(msgspec.Struct, frozen=True, omit_defaults=True, tag="account"):
    """A node of a quota tree. `weight_millis` is its part, among its siblings, of what nobody deserves."""

    name: str
    parent: str | None = None
    quotas: tuple[Quota, ...] = ()
    weight_millis: int = 1000
    priority: int = 0
    reclaimable: bool = True

    def __post_init__(self) -> None:
        if self.weight_millis < 0:
            raise ValueError(
                f'account "{self.name}": weight must not be negative, got {self.weight_millis} thousandths'
            )
        _check_distinct(f'account "{self.name}"', self.quotas)

    def quota(self, resource: str, flavor: str = ANY_FLAVOR) -> Quota | None:
        """The quota over exactly this flavor and resource, or None if nothing is said about it."""
        for quota in self.quotas:
            if quota.resource == resource and quota.flavor == flavor:
                return quota
        return None


class QueueState(enum.StrEnum):
    """What a queue does with new, waiting and running groups."""

    OPEN = "Open"
    CLOSED = "Closed"
    HOLD = "Hold"
    DRAIN = "Drain"

    @property
    def accepts_groups(self) -> bool:
        """Whether new groups may be submitted."""
        return self is not QueueState.CLOSED

    @property
    def starts_groups(self) -> bool:
        """Whether waiting groups may start."""
        return self is QueueState.OPEN

    @property
    def empties(self) -> bool:
        """Whether running groups are asked to leave."""
        return self is QueueState.DRAIN


class QueueOrder(enum.StrEnum):
    """Who is next. Strict: nobody passes the first. Best effort: those who fit may pass. Fair: the least served."""

    FIFO_STRICT = "StrictFIFO"
    FIFO_BEST_EFFORT = "BestEffortFIFO"
    FAIR = "Fair"


class ShareBy(enum.StrEnum):
    """Between whom a queue is shared evenly."""

    NONE = "None"
    USER = "User"
    NAMESPACE = "Namespace"


class Queue(Account, frozen=True, omit_defaults=True, tag="queue"):
    """An account that groups are submitted to.

    `per_user` limits each user to the `capability` of these quotas. `preempt_within` lets its groups preempt each
    other by priority, `can_reclaim` lets it take back what others borrow, `backfill` lets small groups pass in time.
    """

    state: QueueState = QueueState.OPEN
    order: QueueOrder = QueueOrder.FIFO_BEST_EFFORT
    max_running_groups: int | None = None
    per_user: tuple[Quota, ...] = ()
    max_running_groups_per_user: int | None = None
    default_duration_seconds: int | None = None
    preempt_within: bool = True
    can_reclaim: bool = True
    backfill: bool = True
    share_by: ShareBy = ShareBy.NONE

    def __post_init__(self) -> None:
        Account.__post_init__(self)
        for name in ("max_running_groups", "max_running_groups_per_user", "default_duration_seconds"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise ValueError(f'queue "{self.name}": {name} must not be negative, got {number}')
        _check_distinct(f'queue "{self.name}": for each user', self.per_user)


class AccountForest(msgspec.Struct, frozen=True):
    """All accounts of a cluster, parents before children, in one or more trees."""

    accounts: Mapping[str, Account | Queue]

    @staticmethod
    def build(accounts: Iterable[Account | Queue]) -> "AccountForest":
        """Refuses duplicates, unknown parents and cycles with a TreeError."""
        rows = tuple(accounts)
        parents = parents_by_name("account", ((account.name, account.parent) for account in rows))
        by_name = {account.name: account for account in rows}
        return AccountForest({name: by_name[name] for name in roots_first("account", parents)})

    def path(self, name: str) -> tuple[str, ...]:
        """The account and all above it, root last."""
        if name not in self.accounts:
            raise TreeError(f'account "{name}" does not exist')
        return path_to_root(lambda below: self.accounts[below].parent, name)

    def charged(self, names: Iterable[str]) -> tuple[str, ...]:
        """Every account that use by these is charged to: each one's path, none twice."""
        return tuple(dict.fromkeys(above for name in names for above in self.path(name)))


def _check_distinct(where: str, quotas: Iterable[Quota]) -> None:
    seen = set()
    for quota in quotas:
        if (over := (quota.flavor, quota.resource)) in seen:
            raise ValueError(f'{where}: two quotas for "{over[1]}" in flavor "{over[0]}"')
        seen.add(over)
