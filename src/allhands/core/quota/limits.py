"""What the accounts say about one resource in one flavor, worked out once: caps, pools, and what is kept for whom.

| what is said | what it means |
|---|---|
| no quota, or none of its numbers | nothing is limited here; the levels above still count |
| capability n | use, of itself and all below it together, never exceeds n; 0 means none; absent means no cap |
| deserved n, of a queue | its part; with accounts below, these share it: n contains what they deserve |
| deserved n, of a plain account | a pool that nobody owns, added to what those below deserve (a cohort's own quota) |
| deserved absent | its guarantee, or what those below deserve; for fairness, by weight, what its siblings leave |
| borrowing_limit n | at most n above what it and those below deserve; 0 means no borrowing |
| borrowing_limit absent | any amount that the levels above have; a queue at the top borrows from the cluster |
| the same, of a plain account at the top that states `deserved` | it borrows from nobody: its pool is closed |
| resource `*`, flavor `*`, capability n | at most n of each resource that the account does not name at all |
| guarantee n | n stay free for it even while unused, in every level above and in the cluster |
| lending_limit n | of what it and those below deserve, all but n stay free for it within its tree |
| lending_limit absent | all of it is lent while unused |

Guarantees that add up to more than a level or the cluster has are cut in proportion, and the account has a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.quota.apportion import scale_down
from allhands.core.quota.forest import NO_PARENT
from allhands.model.queue import Queue
from allhands.model.resources import text_of_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.model.queue import Account, Quota

ANY_RESOURCE: Final = "*"
"""In a quota: every resource that its account does not name. Only its capability counts."""

NO_LIMIT: Final = 1 << 200
"""Above every amount, so that a bound that is not there needs no test of its own."""


class Limits:
    """The static numbers of one dimension (a resource in a flavor); every list has one entry for each account.

    `kept_tops` are the trees, by their top, in which anything is kept for anybody; in all others the pools are the
    same as the use. In `split_tops`, more is kept from siblings than from the cluster. `guarded` says whether
    anything is kept from the cluster.
    """

    __slots__ = (
        "borrowing",
        "capability",
        "ceiling",
        "deserved",
        "guarantee",
        "guarded",
        "keep",
        "kept_tops",
        "split_tops",
        "stated",
        "states_below",
        "total",
        "warnings",
    )

    def __init__(
        self,
        accounts: Sequence[Account | Queue],
        parents: Sequence[int],
        tops: Sequence[int],
        dimension: tuple[str, str],
        total: int | None,
    ) -> None:
        flavor, resource = dimension
        quotas = [account.quota(resource, flavor) for account in accounts]
        self.total = total
        self.capability = [quota.capability if quota else None for quota in quotas]
        self.stated = [quota.deserved if quota else None for quota in quotas]
        self.states_below = _any_below(parents, [amount is not None for amount in self.stated])
        wanted = [(quota.guarantee or 0) if quota else 0 for quota in quotas]
        self.deserved = _deserved(accounts, parents, self.stated, wanted)
        self.borrowing = [
            _borrowing(account, quota, parent) for account, quota, parent in zip(accounts, quotas, parents, strict=True)
        ]
        self.ceiling = [
            min(_or_none(cap), NO_LIMIT if borrowing is None else deserved + borrowing)
            for cap, borrowing, deserved in zip(self.capability, self.borrowing, self.deserved, strict=True)
        ]
        self.guarantee = _affordable(wanted, parents, self.capability, total)
        kept = [
            max(guarantee, _not_lent(quota, deserved))
            for guarantee, quota, deserved in zip(self.guarantee, quotas, self.deserved, strict=True)
        ]
        self.keep = _affordable(kept, parents, self.capability, None)
        self.guarded = total is not None and any(self.guarantee)
        both = list(zip(tops, self.keep, self.guarantee, strict=True))
        self.kept_tops = frozenset(top for top, keep, _ in both if keep > 0)
        self.split_tops = frozenset(top for top, keep, guarantee in both if keep != guarantee)
        self.warnings = {
            row: f"of the guarantee of {text_of_units(resource, wanted[row])} {resource}, only "
            f"{text_of_units(resource, self.guarantee[row])} can be kept: the guarantees are more than there is"
            for row in range(len(accounts))
            if self.guarantee[row] < wanted[row]
        }


def _or_none(limit: int | None) -> int:
    return NO_LIMIT if limit is None else limit


def _borrowing(account: Account | Queue, quota: Quota | None, parent: int) -> int | None:
    if quota is None:
        return None
    if quota.borrowing_limit is not None:
        return quota.borrowing_limit
    closed = parent == NO_PARENT and quota.deserved is not None and not isinstance(account, Queue)
    return 0 if closed else None


def _not_lent(quota: Quota | None, deserved: int) -> int:
    return 0 if quota is None or quota.lending_limit is None else max(deserved - quota.lending_limit, 0)


def _any_below(parents: Sequence[int], own: Sequence[bool]) -> list[bool]:
    found = list(own)
    for row in range(len(parents) - 1, -1, -1):
        if found[row] and parents[row] != NO_PARENT:
            found[parents[row]] = True
    return found


def _deserved(
    accounts: Sequence[Account | Queue],
    parents: Sequence[int],
    stated: Sequence[int | None],
    guarantees: Sequence[int],
) -> list[int]:
    below = [0] * len(accounts)
    deserved = [0] * len(accounts)
    for row in range(len(accounts) - 1, -1, -1):
        own = stated[row]
        if own is None:
            deserved[row] = max(below[row], guarantees[row])
        else:
            deserved[row] = own if isinstance(accounts[row], Queue) else own + below[row]
        if parents[row] != NO_PARENT:
            below[parents[row]] += deserved[row]
    return deserved


def _affordable(
    wanted: Sequence[int], parents: Sequence[int], caps: Sequence[int | None], total: int | None
) -> list[int]:
    """What of the wanted amounts can be kept at once at every level, cut in proportion where it is too much."""
    if not any(wanted):
        return list(wanted)
    needs = list(wanted)
    below = [0] * len(wanted)
    children: dict[int, list[int]] = {}
    for row in range(len(wanted) - 1, -1, -1):
        needs[row] = min(max(wanted[row], below[row]), _or_none(caps[row]))
        if parents[row] != NO_PARENT:
            below[parents[row]] += needs[row]
        children.setdefault(parents[row], []).append(row)
    granted = list(needs)
    for parent in sorted(children):
        rows = children[parent][::-1]
        room = total if parent == NO_PARENT else granted[parent]
        if room is not None:
            for row, amount in zip(rows, scale_down(room, [needs[row] for row in rows]), strict=True):
                granted[row] = amount
    return [min(own, grant) for own, grant in zip(wanted, granted, strict=True)]
