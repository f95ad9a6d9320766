"""Which nodes a volume, a class or a capacity reaches, by the labels of the nodes alone, each distinct question once.

Answers are ascending rows, not masks: a local volume reaches one node of ten thousand. Nothing here knows of pods or
claims, and nobody may write to an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.feasibility.labels import ABSENT, LabelColumn
from allhands.model.selector import Operator, Requirement
from allhands.model.volume import ZONE_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.columns import Mask, Rows
    from allhands.model.affinity import NodeSelectorTerm
    from allhands.model.node import Node
    from allhands.model.selector import LabelSelector

NOWHERE: Final[Rows] = np.zeros(0, dtype=np.int64)

_TODAYS_NAME: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}

Zones = tuple[tuple[str, frozenset[str]], ...]


class NodeReach:
    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._nodes = nodes
        self.everywhere: Rows = np.arange(len(nodes), dtype=np.int64)
        self._by_key: dict[str, _RowsOfLabel] = {}
        self._by_requirement: dict[Requirement, Rows] = {}
        self._by_terms: dict[tuple[NodeSelectorTerm, ...], Rows] = {}
        self._by_zones: dict[Zones, Rows] = {}

    def holds_for(self, nodes: tuple[Node, ...]) -> bool:
        """Whether the answers are the same for these nodes: rows, names and labels did not change."""
        if nodes is self._nodes:
            return True
        same = len(nodes) == len(self._nodes) and all(
            new is old or (new.name == old.name and new.labels == old.labels)
            for new, old in zip(nodes, self._nodes, strict=True)
        )
        if same:
            self._nodes = nodes
        return same

    def of_affinity(self, terms: tuple[NodeSelectorTerm, ...] | None) -> Rows:
        """None asks for nothing. One term is enough; what it says about fields is passed over, as in kube-scheduler."""
        if terms is None:
            return self.everywhere
        found = self._by_terms.get(terms)
        if found is None:
            usable = [term for term in terms if not term.is_empty and term.is_valid]
            found = self._by_terms[terms] = _union([self._all_of(term.match_expressions) for term in usable])
        return found

    def of_topologies(self, terms: tuple[tuple[Requirement, ...], ...]) -> Rows:
        """No terms allow every node, an empty term or one that cannot be parsed allows none."""
        if not terms:
            return self.everywhere
        return _union([self._all_of(term) for term in terms if term and all(it.is_valid for it in term)])

    def of_selector(self, selector: LabelSelector | None) -> Rows:
        """An absent selector selects nothing."""
        if selector is None or not selector.is_valid:
            return NOWHERE
        pairs = (Requirement(key, Operator.IN.value, (value,)) for key, value in selector.match_labels)
        return self._all_of((*pairs, *selector.match_expressions))

    def of_zones(self, zones: Zones) -> Rows:
        """Nodes without any zone label are in every zone; all others must have each label with one of its values."""
        if not zones:
            return self.everywhere
        found = self._by_zones.get(zones)
        if found is None:
            in_all: Mask = np.ones(len(self._nodes), dtype=np.bool_)
            for key, values in zones:
                in_all &= self._in_zone(key, values)
            labelled: Mask = np.zeros(len(self._nodes), dtype=np.bool_)
            for key in ZONE_LABELS:
                labelled |= self._label(key).column.ids != ABSENT
            found = self._by_zones[zones] = np.flatnonzero(in_all | ~labelled)
        return found

    def _in_zone(self, key: str, values: frozenset[str]) -> Mask:
        # The values come from a label and may be none that a requirement could be made of.
        mask: Mask = np.zeros(len(self._nodes), dtype=np.bool_)
        mask[self._label(key).rows_of(values)] = True
        if (today := _TODAYS_NAME.get(key)) is not None:
            unlabelled = self._label(key).column.ids == ABSENT
            rows = self._label(today).rows_of(values)
            mask[rows] |= unlabelled[rows]
        return mask

    def _all_of(self, requirements: Iterable[Requirement]) -> Rows:
        found = self.everywhere
        for rows in sorted((self._rows(it) for it in requirements), key=len):
            found = rows if found is self.everywhere else _common(found, rows)
        return found

    def _rows(self, requirement: Requirement) -> Rows:
        found = self._by_requirement.get(requirement)
        if found is None:
            label = self._label(requirement.key)
            if requirement.operator == Operator.IN:
                found = label.rows_of(requirement.values)
            else:
                found = np.flatnonzero(label.column.matches(requirement))
            self._by_requirement[requirement] = found
        return found

    def _label(self, key: str) -> _RowsOfLabel:
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = _RowsOfLabel(LabelColumn(key, self._nodes))
        return found


class _RowsOfLabel:
    """The rows of each value of a label, found without looking at all nodes again."""

    def __init__(self, column: LabelColumn) -> None:
        self.column = column
        self._rows = np.argsort(column.ids, kind="stable").astype(np.int64)
        self._ends = np.searchsorted(column.ids[self._rows], np.arange(column.size), side="right").tolist()
        self._id_by_value = {value: number for number, value in enumerate(column.values) if value is not None}

    def rows_of(self, values: Iterable[str]) -> Rows:
        known = (self._id_by_value.get(value) for value in sorted(set(values)))
        return _union([self._rows[self._ends[it - 1] : self._ends[it]] for it in known if it is not None])


def _union(parts: list[Rows]) -> Rows:
    if not parts:
        return NOWHERE
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def _common(few: Rows, many: Rows) -> Rows:
    """What is in both; ascending, as they are."""
    if not few.size or not many.size:
        return NOWHERE
    at = np.minimum(np.searchsorted(many, few), many.size - 1)
    found: Rows = few[many[at] == few]
    return found
