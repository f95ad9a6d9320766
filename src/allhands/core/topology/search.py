"""Where a gang could go: domains that hold it by count, the closest first, and in words why there is none.

Counting is necessary, not sufficient: the caller places the gang in the domain, and takes the next if that fails. The
order keeps large holes whole: among equally close domains the fullest that holds the gang, in the fullest around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.topology.columns import NOWHERE
from allhands.core.topology.rules import close_enough, in_tree, rule_fault
from allhands.model.podgroup import TopologyMode
from allhands.model.reason import Explanation, Number, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.core.columns import Column, Mask, Rows
    from allhands.core.topology.columns import TopologyColumns
    from allhands.model.podgroup import TopologyRule

LARGEST_COUNT: Final = 2**62
IN_PART: Final = (
    'Sub-group "{subgroup}" waits for a domain of tier {tier} with room for its {need} pods; '
    "the best of {domains} holds {fits}."
)
NO_DOMAIN: Final = "{who} must be in one domain{tier_words}, and there is none: {lacking}."
"""Where it is not for want of room."""
LEVELS_AROUND: Final = 3
"""How far around a domain one looks for the fuller neighbourhood, where domains are equal in themselves."""


def candidates(
    columns: TopologyColumns,
    rule: TopologyRule,
    sums: Column,
    need: int | Sequence[int],
    *,
    bound: Sequence[int] | Rows = (),
) -> Iterator[int | None]:
    """Domains for `need` more members, best first. None means anywhere, and comes last, for soft rules alone.

    `sums` has one entry a domain; or a row a shape, and `need` a number a shape. `bound` are the nodes of members that
    have their place: a hard rule wants all in one domain with them, a soft one would like it.
    """
    return in_order(columns, rule, left_over(sums, need), bound)


def in_order(
    columns: TopologyColumns, rule: TopologyRule, left: Column, bound: Sequence[int] | Rows = ()
) -> Iterator[int | None]:
    """The same, for what would be left over in each domain: below 0 where the gang does not fit."""
    holding = (left >= 0) & columns.usable
    close = close_enough(columns, rule)
    if rule.mode is TopologyMode.HARD:
        holding &= close
        if len(bound):
            holding &= columns.around_all(bound)
        yield from _closest_first(columns, holding, left)
        return
    if rule.tree is not None:
        holding &= in_tree(columns, rule.tree)
    together = columns.around_all(bound)
    for bound_part in (holding & together, holding & ~together):
        yield from _closest_first(columns, bound_part & close, left)
        yield from _closest_first(columns, bound_part & ~close, left)
    yield None


def left_over(sums: Column, need: int | Sequence[int]) -> Column:
    """What every domain has beyond the need; below 0 where it has less. Shapes are added up, as a measure only."""
    if isinstance(need, int):
        return sums - min(max(need, 0), LARGEST_COUNT)
    needs = _counts(need)
    asked = needs > 0
    each = sums[asked] - needs[asked, np.newaxis]
    left: Column = np.add.reduce(np.minimum(each, LARGEST_COUNT // max(len(each), 1)), axis=0)
    left[(each < 0).any(axis=0)] = -1
    return left


def why_not(
    columns: TopologyColumns,
    rule: TopologyRule,
    sums: Column,
    need: int | Sequence[int],
    *,
    bound: Sequence[int] | Rows = (),
    **more: Number,
) -> Explanation:
    """Which domain would hold most of the members, of how many; or what is wrong with the rule."""
    needs = _counts([need] if isinstance(need, int) else need)
    limits = np.minimum(needs, LARGEST_COUNT // max(len(needs), 1))
    held = np.add.reduce(np.minimum(sums.reshape(len(needs), len(columns)), limits[:, np.newaxis]), axis=0)
    return unsatisfied(columns, rule, held, sum(needs.tolist()), bound, **more)


def unsatisfied(
    columns: TopologyColumns,
    rule: TopologyRule,
    held: Column,
    need: int,
    bound: Sequence[int] | Rows = (),
    **more: Number,
) -> Explanation:
    """The same, for how many of the members that are needed each domain holds."""
    if (fault := rule_fault(columns, rule)) is not None:
        return fault
    close = close_enough(columns, rule)
    around = close & columns.around_all(bound) if len(bound) else close
    widest = outermost(columns, around & columns.usable).nonzero()[0]
    best = int(widest[held[widest].argmax()]) if len(widest) else None
    why = explain(
        Reason.TOPOLOGY,
        tier=_tier_of(columns, rule, widest),
        tier_name=rule.tier_name or _name_of_tier(columns, rule),
        need=need,
        fits=0 if best is None else int(held[best]),
        domains=len(widest),
        best_domain="" if best is None else columns.domains[best].name,
        unhealthy=int(np.count_nonzero(around & ~columns.usable)),
        set_aside=len(columns.set_aside),
        bound=len(bound),
        **more,
    )
    if best is None:
        return _no_domain(columns, rule, why, close)
    return Explanation(why.reason, IN_PART, why.numbers) if more.get("subgroup") else why


def _no_domain(columns: TopologyColumns, rule: TopologyRule, why: Explanation, close: Mask) -> Explanation:
    """The same, where no domain would do however empty it were: what there is instead, and what would help."""
    numbers = dict(why.numbers)
    name = numbers.get("subgroup")
    words = "" if numbers["tier"] == "any" else f" of tier {numbers['tier']}"
    if rule.highest_tier is not None and rule.tier_name is None and rule.highest_tier > 1:
        words += " or closer"
    if numbers["unhealthy"]:
        lacking = f"the {numbers['unhealthy']} that there are cannot be used, since they are unhealthy"
    elif numbers["bound"] and close.any():
        lacking = f"none holds the {numbers['bound']} of its pods that have their place already"
    else:
        lacking = _what_there_is(columns, rule)
    numbers |= {
        "who": f'The pods of sub-group "{name}"' if name else "Its pods",
        "tier_words": words,
        "lacking": lacking,
    }
    return Explanation(why.reason, NO_DOMAIN, tuple(sorted(numbers.items())))


def _what_there_is(columns: TopologyColumns, rule: TopologyRule) -> str:
    """The tiers of the domains that there are, and how there come to be others."""
    known = in_tree(columns, rule.tree).nonzero()[0].tolist()
    broken = f"; {len(columns.set_aside)} broken domains are set aside" if columns.set_aside else ""
    if not known:
        return f"no node is in any domain{broken} (nodes come into domains by their labels, or by HyperNodes)"
    names: dict[int, str] = {}
    for number in known:
        names.setdefault(columns.domains[number].tier, columns.domains[number].tier_name)
    tiers = [f"{tier} ({names[tier]})" if names[tier] else str(tier) for tier in sorted(names)]
    where = f' of tree "{rule.tree}"' if rule.tree else ""
    return (
        f"the closest domains{where} are of tier {', '.join(tiers)}{broken} (make closer ones, or allow a wider tier)"
    )


def outermost(columns: TopologyColumns, mask: Mask) -> Mask:
    """Those of the domains that do not lie in another of them (the mask must hold all that lies in what it holds)."""
    inner: Mask = (columns.parent != NOWHERE) & mask[columns.parent]
    return mask & ~inner


def _closest_first(columns: TopologyColumns, mask: Mask, left: Column) -> Iterator[int]:
    numbers = mask.nonzero()[0]
    if len(numbers) == 0:
        return
    best = _best(columns, numbers, left)
    yield best
    numbers = numbers[numbers != best]
    keys = [left[numbers], columns.tier[numbers]]
    around = numbers
    for _ in range(LEVELS_AROUND):
        around = columns.wider[around]
        keys.insert(0, left[around])
    yield from numbers[np.lexsort(keys)].tolist()


def _best(columns: TopologyColumns, numbers: Rows, left: Column) -> int:
    """The first in the order above; most callers need no other, so it is found without sorting."""
    numbers = _least(numbers, columns.tier[numbers])
    numbers = _least(numbers, left[numbers])
    around = numbers
    for _ in range(LEVELS_AROUND):
        if len(numbers) == 1:
            break
        around = columns.wider[around]
        room = left[around]
        keep = room == np.minimum.reduce(room)
        numbers, around = numbers[keep], around[keep]
    return int(numbers[0])


def _least(numbers: Rows, key: Column) -> Rows:
    least: Rows = numbers[key == np.minimum.reduce(key)]
    return least


def _counts(need: Sequence[int]) -> Column:
    return np.array([min(max(count, 0), LARGEST_COUNT) for count in need], dtype=np.int64)


def _tier_of(columns: TopologyColumns, rule: TopologyRule, widest: Rows) -> int | str:
    if rule.tier_name is not None:
        return rule.tier_name
    if rule.highest_tier is not None:
        return rule.highest_tier
    return int(columns.tier[widest].max()) if len(widest) else "any"


def _name_of_tier(columns: TopologyColumns, rule: TopologyRule) -> str:
    if rule.highest_tier is None:
        return ""
    names = (name for name, numbers in columns.by_tier_name.items() if columns.tier[numbers[0]] == rule.highest_tier)
    return min(names, default="")
