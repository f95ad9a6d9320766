"""Domains that are being filled with equal gangs: the next one goes where the last one went, as long as it fits.

That is no shortcut in what is decided: the domain that held a gang best holds the next one better still, since it has
become fuller and nobody else has changed. So nothing need be searched until it is full, or something else happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.topology.search import candidates
from allhands.core.topology.spread import closest_rows

if TYPE_CHECKING:
    from allhands.core.shapes import ShapeState
    from allhands.core.work import Work
    from allhands.model.podgroup import TopologyRule

GANGS_AHEAD = 8
"""For so many further gangs the nodes are worked out at once."""


class _Filling:
    __slots__ = ("cursor", "domain", "expected_log", "left", "sequence")

    def __init__(self, domain: str, left: int, sequence: list[int]) -> None:
        self.domain = domain
        self.left = left
        """How many more pods the domain holds."""
        self.sequence = sequence
        self.cursor = 0
        self.expected_log = -1


class Fillings:
    """Lives for one cycle, for gangs of one shape that have a rule and no member placed yet."""

    def __init__(self) -> None:
        self._fillings: dict[tuple[str, int, TopologyRule], _Filling] = {}

    def place(self, work: Work, state: ShapeState, need: int, rule: TopologyRule) -> tuple[list[int], str]:
        """The nodes and the name of the domain ("" for anywhere); no nodes, and nothing placed, if none holds it."""
        key = (state.shape.digest, need, rule)
        filling = self._fillings.get(key)
        fits = filling is not None and filling.left >= need and filling.cursor + need <= len(filling.sequence)
        if filling is None or not fits or filling.expected_log != len(work.room.log):
            filling = self._search(work, state, need, rule)
            if filling is None:
                return [], ""
            self._fillings[key] = filling
        picks = filling.sequence[filling.cursor : filling.cursor + need]
        work.statement.place(state, picks, noticed=state.is_noticed)
        filling.cursor += need
        filling.left -= need
        filling.expected_log = len(work.room.log)
        return picks, filling.domain

    def _search(self, work: Work, state: ShapeState, need: int, rule: TopologyRule) -> _Filling | None:
        topology = work.topology
        sums = topology.sums(state.fit(work.room))
        for domain in candidates(topology, rule, sums, need):
            rows = closest_rows(topology, domain, state.fit(work.room), need, tree=rule.tree)
            if domain is None or rows is not None:
                sequence = state.picks(work.room, need, rows)
                state.refuse_picks()
                name = "" if domain is None else topology.domains[domain].name
                return _Filling(name, 0, sequence) if len(sequence) == need else None
            left = int(sums[domain])
            sequence = state.picks(work.room, min(left, need * GANGS_AHEAD), topology.rows(domain))
            # By count it fits; every pod is for itself, so it does.
            return _Filling(topology.domains[domain].name, left, sequence)
        return None
