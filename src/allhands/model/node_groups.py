"""Which nodes the pods of a queue may use, by the groups that nodes are in (a label), said as node affinity.

A queue's wish becomes a part of what its pods ask of nodes, so whoever places pods need not know queues. Pods of queues
that say nothing, where nobody else is kept apart, are left exactly as they are.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.model.affinity import NodeAffinity, NodeSelectorTerm, PreferredNodeTerm
from allhands.model.selector import Operator, Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL: Final = "volcano.sh/nodegroup-name"
"""Of a node: the group that it is in."""
MUST_WEIGHT: Final = 66
SHOULD_WEIGHT: Final = 33
"""How much a node of such a group is preferred; of at most 100, as in Kubernetes, and in Volcano's proportion."""


class NodeGroupUse(enum.StrEnum):
    """What queues may use that name no node groups."""

    FREE = "free"
    """Every node."""
    APART = "apart"
    """Nodes that are in no group."""
    STRICT = "strict"
    """No node at all."""


class NodeGroups(msgspec.Struct, frozen=True):
    """What a queue says: groups that it must or may use and prefers, and those that it must not or should not use."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()

    @property
    def says_nothing(self) -> bool:
        return not (self.required or self.preferred or self.forbidden or self.avoided)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The groups that it names and may use, as in Volcano: what it should not use it may."""
        named = [it for it in (*self.required, *self.preferred) if it not in self.forbidden]
        return tuple(dict.fromkeys((*named, *self.avoided)))


class NodeGroupRule(msgspec.Struct, frozen=True):
    """What all pods of a queue ask of nodes, beside what each asks for itself."""

    required: tuple[Requirement, ...]
    preferred: tuple[PreferredNodeTerm, ...] = ()

    def applied_to(self, affinity: NodeAffinity) -> NodeAffinity:
        required = affinity.required
        if self.required and required is None:
            required = (NodeSelectorTerm(self.required),)
        elif self.required and required is not None:
            # A term without any condition matches no node, and would match some with one.
            required = tuple(it if it.is_empty else self._added_to(it) for it in required)
        return NodeAffinity(required, affinity.preferred + self.preferred)

    def _added_to(self, term: NodeSelectorTerm) -> NodeSelectorTerm:
        return NodeSelectorTerm(term.match_expressions + self.required, term.match_fields)


def rule_of(groups: NodeGroups | None, use: NodeGroupUse, *, ordered: bool = False) -> NodeGroupRule | None:
    """None if every node may be used. `ordered`: preferred groups that are named earlier count more."""
    if groups is None or groups.says_nothing:
        return _of_nothing(use)
    if groups.required or groups.preferred:
        allowed = groups.allowed
        if not allowed:
            return NOWHERE
        weights = {it: _weight(groups, it, ordered=ordered) for it in allowed}
        return NodeGroupRule((_requirement(Operator.IN, allowed),), tuple(_preferences(weights)))
    required = [_requirement(Operator.EXISTS)] if use is NodeGroupUse.STRICT else []
    if groups.forbidden:
        required.append(_requirement(Operator.NOT_IN, groups.forbidden))
    elsewhere = NodeSelectorTerm((_requirement(Operator.NOT_IN, groups.avoided),))
    preferred = (PreferredNodeTerm(SHOULD_WEIGHT, elsewhere),) if groups.avoided else ()
    return NodeGroupRule(tuple(required), preferred)


def _of_nothing(use: NodeGroupUse) -> NodeGroupRule | None:
    if use is NodeGroupUse.FREE:
        return None
    return NOWHERE if use is NodeGroupUse.STRICT else NodeGroupRule((_requirement(Operator.DOES_NOT_EXIST),))


def _weight(groups: NodeGroups, name: str, *, ordered: bool) -> int:
    if name in groups.avoided:
        return 0
    weight = MUST_WEIGHT if name in groups.required else 0
    if name in groups.preferred:
        count = len(groups.preferred)
        place = groups.preferred.index(name) if ordered else 0
        weight += SHOULD_WEIGHT * (count - place) // count
    return weight


def _preferences(weights: dict[str, int]) -> Iterator[PreferredNodeTerm]:
    if len(set(weights.values())) < 2:
        return  # all alike: nothing to prefer
    for name, weight in weights.items():
        if weight:
            yield PreferredNodeTerm(weight, NodeSelectorTerm((_requirement(Operator.IN, (name,)),)))


def _requirement(operator: Operator, values: tuple[str, ...] = ()) -> Requirement:
    return Requirement(LABEL, operator.value, values)


NOWHERE: Final = NodeGroupRule((_requirement(Operator.EXISTS), _requirement(Operator.DOES_NOT_EXIST)))
"""It matches no node, and can be told from what a pod asks for by itself."""


def said_by(affinity: NodeAffinity) -> str:
    """Which nodes a pod is bound to by their groups, in words; "" if it is not. All of its terms say the same."""
    asked = [it for term in affinity.required or () for it in term.match_expressions if it.key == LABEL]
    operators = {it.operator for it in asked}
    if {Operator.EXISTS.value, Operator.DOES_NOT_EXIST.value} <= operators:
        return "of no group at all"
    if Operator.DOES_NOT_EXIST.value in operators:
        return "that are in no group"
    values = dict.fromkeys(value for it in asked for value in it.values if value)
    if Operator.IN.value in operators:
        return f"of {', '.join(values)}"
    if values:
        return f"of all groups but {', '.join(values)}"
    return "that are in a group" if asked else ""
