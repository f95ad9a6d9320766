"""What domains have in all, used or not: whether a group whose pods do not exist yet could ever be in one of them.

All that is known of such a group is how many pods it starts with and what they ask for together. So this rules out only
what no domain has the sum of; whether the pods find their places on its nodes is seen once they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.topology.columns import TopologyColumns
from allhands.core.topology.rules import close_enough
from allhands.core.topology.search import outermost, why_not
from allhands.model.podgroup import TopologyMode
from allhands.model.reason import Explanation, Reason
from allhands.model.resources import PODS, text_of_units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.columns import NodeColumns
    from allhands.model.domain import Domain
    from allhands.model.podgroup import SubGroup, TopologyRule
    from allhands.model.resources import ResourceVector

MORE_THAN_A_DOMAIN: Final = (
    "{whose} for {together} {scarce} together and must be in one domain of tier {in_tier}; "
    'the largest of {choices}, "{largest_domain}", has {everything} in all: it can never start on these nodes.'
)


_Question = tuple["TopologyRule", str, tuple[tuple[str, int], ...]]
"""A rule, whose it is, and what must be in one domain."""


class DomainTotals:
    """Of one topology and one set of nodes."""

    def __init__(self, domains: tuple[Domain, ...], nodes: NodeColumns) -> None:
        self._domains = domains
        self._names = nodes.names
        self._column_by_resource = nodes.column_by_resource
        self._allocatable = nodes.allocatable
        self._topology: TopologyColumns | None = None
        self._known: dict[_Question, Explanation | None] = {}

    def is_of(self, domains: tuple[Domain, ...], nodes: NodeColumns) -> bool:
        """Whether these are the same; what nodes have is replaced and never written."""
        return domains is self._domains and nodes.allocatable is self._allocatable and nodes.names is self._names

    def why_never(self, members: SubGroup, asks: ResourceVector | None) -> Explanation | None:
        """Why a group could never start, by what it must have in one domain; None if it could, as far as that goes."""
        for part in members.walk():
            rule = part.topology
            if rule is None or rule.mode is not TopologyMode.HARD:
                continue
            amounts = {PODS: max(1, part.min_count)}
            if part is members and asks is not None:
                amounts |= {name: units for name, units in asks.entries if units > 0 and name != PODS}
            key = (rule, part.name, tuple(sorted(amounts.items())))
            if key not in self._known:
                self._known[key] = self._why(rule, part, amounts)
            if (why := self._known[key]) is not None:
                return why
        return None

    def _why(self, rule: TopologyRule, part: SubGroup, amounts: Mapping[str, int]) -> Explanation | None:
        if self._topology is None:
            self._topology = TopologyColumns.build(self._domains, self._names)
        topology = self._topology
        widest = outermost(topology, close_enough(topology, rule) & topology.usable).nonzero()[0]
        if not len(widest):
            return why_not(topology, rule, topology.tier * 0, amounts[PODS], subgroup=part.name)
        for name, units in sorted(amounts.items()):
            column = self._column_by_resource.get(name)
            if column is None:
                continue  # nobody has it, inside a domain or not: that is told in other words
            totals = topology.sums(self._allocatable[column])[widest]
            if units > (most := int(totals.max())):
                numbers: dict[str, int | str] = {
                    "whose": _whose(part, amounts[PODS]),
                    "together": text_of_units(name, units),
                    "scarce": name,
                    "in_tier": tier_text(topology, rule),
                    "choices": len(widest),
                    "largest_domain": topology.domains[int(widest[totals.argmax()])].name,
                    "everything": text_of_units(name, most),
                }
                return Explanation(Reason.GROUP_NEVER_FITS, MORE_THAN_A_DOMAIN, tuple(sorted(numbers.items())))
        return None


def _whose(part: SubGroup, pods: int) -> str:
    if pods == 1:
        return f'Sub-group "{part.name}" asks' if part.name else "It asks"
    return f'The {pods} pods of sub-group "{part.name}" ask' if part.name else f"Its {pods} pods ask"


def tier_text(topology: TopologyColumns, rule: TopologyRule) -> str:
    """The tier that a rule allows, by number and name."""
    if rule.tier_name is not None:
        return rule.tier_name
    if rule.highest_tier is None:
        return "any"
    numbers = (topology.tier == rule.highest_tier).nonzero()[0].tolist()
    of_tier = (topology.domains[number] for number in numbers)
    names = sorted({it.tier_name for it in of_tier if it.tier_name and rule.tree in (None, it.tree)})
    return f"{rule.highest_tier} ({', '.join(names)})" if names else str(rule.highest_tier)
