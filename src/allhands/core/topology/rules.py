"""What a topology rule means on a given topology: which domains are close enough.

A rule that cannot be understood (a tier or a tree that does not exist) allows nothing and says so; it is never taken
for "no constraint".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.topology.soundness import TIER_LIMIT, broken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.columns import Mask
    from allhands.core.topology.columns import TopologyColumns
    from allhands.model.podgroup import TopologyRule
    from allhands.model.reason import Explanation

NAMES_LISTED: Final = 8
RULES_REMEMBERED: Final = 256


def close_enough(columns: TopologyColumns, rule: TopologyRule) -> Mask:
    """The domains that are no wider than the rule says, healthy or not; none, if the rule has a fault. Read only."""
    if (mask := columns.close_by_rule.get(rule)) is None:
        mask = _close_enough(columns, rule)
        mask.setflags(write=False)
        if len(columns.close_by_rule) < RULES_REMEMBERED:
            columns.close_by_rule[rule] = mask
    return mask


def _close_enough(columns: TopologyColumns, rule: TopologyRule) -> Mask:
    if rule.tier_name is not None:
        mask = _called(columns, rule.tier_name)
    elif rule.highest_tier is not None:
        mask = columns.tier <= min(max(rule.highest_tier, -TIER_LIMIT), TIER_LIMIT - 1)
    else:
        mask = np.ones(len(columns), dtype=np.bool_)
    return mask if rule.tree is None else mask & in_tree(columns, rule.tree)


def in_tree(columns: TopologyColumns, tree: str | None) -> Mask:
    """The domains of the tree, or all if none is named."""
    if tree is None:
        return np.ones(len(columns), dtype=np.bool_)
    named = columns.trees_named(tree)
    return columns.tree == named[0] if named else np.zeros(len(columns), dtype=np.bool_)


def rule_fault(columns: TopologyColumns, rule: TopologyRule) -> Explanation | None:
    """Why nothing can ever satisfy this rule on this topology, if that is so."""
    if rule.tree is not None and rule.tree not in columns.trees:
        return _unknown(columns, f'tree "{rule.tree}", which does not exist', columns.trees)
    if rule.tier_name is not None:
        named = columns.by_tier_name.get(rule.tier_name)
        if named is None or not in_tree(columns, rule.tree)[named].any():
            where = "no domain has" if rule.tree is None else f'no domain of tree "{rule.tree}" has'
            return _unknown(columns, f'tier "{rule.tier_name}", which {where}', columns.by_tier_name)
    return None


def _called(columns: TopologyColumns, tier_name: str) -> Mask:
    """Domains of the tier of that name, those inside them, and those that are as close as the closest of them.

    The last are for trees of unequal depth: a switch that hangs directly on the block is closer than any rack.
    """
    named = columns.by_tier_name.get(tier_name)
    if named is None:
        return np.zeros(len(columns), dtype=np.bool_)
    steps = np.zeros(len(columns) + 1, dtype=np.int64)
    np.add.at(steps, named, 1)
    np.subtract.at(steps, columns.after[named], 1)
    inside = np.add.accumulate(steps[:-1]) > 0
    closest = np.full(len(columns.trees), TIER_LIMIT - 1, dtype=np.int64)
    np.minimum.at(closest, columns.tree[named], columns.tier[named])
    has_it = np.zeros(len(columns.trees), dtype=np.bool_)
    has_it[columns.tree[named]] = True
    mask: Mask = inside | (has_it[columns.tree] & (columns.tier <= closest[columns.tree]))
    return mask


def _unknown(columns: TopologyColumns, what: str, known: Iterable[str]) -> Explanation:
    names = sorted(known)
    listed = ", ".join(f'"{name}"' for name in names[:NAMES_LISTED]) or "none"
    more = f" and {len(names) - NAMES_LISTED} more" if len(names) > NAMES_LISTED else ""
    lost = f"; {len(columns.set_aside)} broken domains are set aside" if columns.set_aside else ""
    return broken(f"the topology rule asks for the {what}; known: {listed}{more}{lost}")
