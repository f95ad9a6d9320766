"""The labels of all nodes as columns of small integers, one column a key, made when the key is first asked for.

With them a condition on labels is one or two numpy operations, however many nodes there are. The numbers are private
to a column and say nothing about order; nobody may compare numbers of different columns.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.model.affinity import NAME_FIELD
from allhands.model.selector import Operator, parse_int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from allhands.core.columns import Mask, NodeColumns, Rows
    from allhands.model.affinity import NodeSelectorTerm
    from allhands.model.node import Node
    from allhands.model.selector import Requirement

ALL: Final = slice(None)
ABSENT: Final = 0
"""The number of nodes that do not have the label."""
_FEW_VALUES: Final = 3
_FEWEST_KEYS: Final = 16
_MAX_BYTES: Final = 64 << 20
"""Of all columns together; those not asked for longest go first."""


class LabelColumn:
    """One label over all nodes: `ids` has a number for each node's value, `ABSENT` if it has none."""

    __slots__ = ("_id_by_value", "_numbers", "ids", "key", "values")

    def __init__(self, key: str, nodes: Sequence[Node]) -> None:
        self.key = key
        self.values: list[str | None] = [None]
        """By number."""
        self._id_by_value: dict[str | None, int] = {None: ABSENT}
        self._numbers: tuple[NDArray[np.int64], Mask] | None = None
        self.ids: NDArray[np.int32] = np.fromiter(
            (self._number(node.labels.get(key)) for node in nodes), dtype=np.int32, count=len(nodes)
        )

    @property
    def size(self) -> int:
        """One more than the largest number."""
        return len(self.values)

    def set_row(self, row: int, node: Node) -> bool:
        """Whether the node's value is another one now."""
        found, known = self._number(node.labels.get(self.key)), int(self.ids[row])
        self.ids[row] = found
        return found != known

    def equal_to(self, value: str, rows: Rows | slice = ALL) -> Mask:
        found = self._id_by_value.get(value, -1)
        equal: Mask = self.ids[rows] == found
        return equal

    def matches(self, requirement: Requirement, rows: Rows | slice = ALL) -> Mask:
        """Which nodes meet a condition on this label. It is asked only of valid conditions."""
        ids = self.ids[rows]
        mask: Mask
        match requirement.operator:
            case Operator.IN:
                mask = self._among(requirement.values, ids)
            case Operator.NOT_IN:
                mask = ~self._among(requirement.values, ids)
            case Operator.EXISTS:
                mask = ids != ABSENT
            case Operator.DOES_NOT_EXIST:
                mask = ids == ABSENT
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                mask = self._compared(requirement).take(ids)
            case _:
                mask = np.zeros(ids.shape, dtype=np.bool_)
        return mask

    def _number(self, value: str | None) -> int:
        found = self._id_by_value.get(value)
        if found is None:
            found = self._id_by_value[value] = len(self.values)
            self.values.append(value)
        return found

    def _among(self, values: tuple[str, ...], ids: NDArray[np.int32]) -> Mask:
        known = [found for value in values if (found := self._id_by_value.get(value)) is not None]
        if len(known) > _FEW_VALUES:
            table = np.zeros(self.size, dtype=np.bool_)
            table[known] = True
            return table.take(ids)
        mask = np.zeros(ids.shape, dtype=np.bool_)
        for found in known:
            mask |= ids == found
        return mask

    def _compared(self, requirement: Requirement) -> Mask:
        """For each number of a value, whether it compares."""
        bound = parse_int64(requirement.values[0]) if len(requirement.values) == 1 else None
        if bound is None:
            return np.zeros(self.size, dtype=np.bool_)
        if self._numbers is None or len(self._numbers[0]) != self.size:
            parsed = [None if value is None else parse_int64(value) for value in self.values]
            self._numbers = (
                np.array([number or 0 for number in parsed], dtype=np.int64),
                np.array([number is not None for number in parsed], dtype=np.bool_),
            )
        numbers, is_number = self._numbers
        larger = requirement.operator == Operator.GREATER_THAN
        compared: Mask = is_number & (numbers > bound if larger else numbers < bound)
        return compared


class NodeLabels:
    """The label columns of one set of nodes, and what selectors of nodes say about them."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._by_key: OrderedDict[str, LabelColumn] = OrderedDict()
        self._dropped = False
        self._max_keys = max(_FEWEST_KEYS, _MAX_BYTES // (4 * max(1, len(columns))))

    def column(self, key: str) -> LabelColumn:
        found = self._by_key.get(key)
        if found is not None:
            self._by_key.move_to_end(key)
            return found
        found = self._by_key[key] = LabelColumn(key, self._columns.nodes)
        if len(self._by_key) > self._max_keys:
            self._by_key.popitem(last=False)
            self._dropped = True
        return found

    def update(self, columns: NodeColumns, rows: Rows) -> bool:
        """These nodes changed; rows are the same as before. Whether any label that was asked for did."""
        self._columns = columns
        # Of a column that is gone nobody knows whether it changed.
        changed = self._dropped
        for key, column in list(self._by_key.items()):
            for row in rows.tolist():
                changed |= column.set_row(row, columns.nodes[row])
            # Values that come and go must not pile up.
            if column.size > 2 * len(columns) + 64:
                self._by_key[key] = LabelColumn(key, columns.nodes)
        return changed

    def term_mask(self, term: NodeSelectorTerm, rows: Rows | slice = ALL) -> Mask:
        """Which nodes one node selector term matches, as `NodeSelectorTerm.matches` says it of one."""
        if term.is_empty or not term.is_valid:
            return self._nowhere(rows)
        mask: Mask | None = None
        for requirement in term.match_expressions:
            found = self.column(requirement.key).matches(requirement, rows)
            mask = found if mask is None else mask & found
        for field in term.match_fields:
            found = self._field_mask(field, rows)
            mask = found if mask is None else mask & found
        assert mask is not None, "a term that is not empty has a condition"
        return mask

    def terms_mask(self, terms: tuple[NodeSelectorTerm, ...], rows: Rows | slice = ALL) -> Mask:
        """Which nodes any of these terms matches."""
        mask = self._nowhere(rows)
        for term in terms:
            mask |= self.term_mask(term, rows)
        return mask

    def pairs_mask(self, pairs: tuple[tuple[str, str], ...], rows: Rows | slice = ALL) -> Mask:
        """Which nodes have all of these labels."""
        mask = ~self._nowhere(rows)
        for key, value in pairs:
            mask &= self.column(key).equal_to(value, rows)
        return mask

    def name_mask(self, name: str) -> Mask:
        mask = np.zeros(len(self._columns), dtype=np.bool_)
        row = self._columns.row_by_name.get(name)
        if row is not None:
            mask[row] = True
        return mask

    def _field_mask(self, field: Requirement, rows: Rows | slice) -> Mask:
        # Only the name is known; any other field reads as an empty text.
        (value,) = field.values
        mask = self.name_mask(value) if field.key == NAME_FIELD else np.full(len(self._columns), value == "")
        return (mask if field.operator == Operator.IN else ~mask)[rows]

    def _nowhere(self, rows: Rows | slice) -> Mask:
        count = len(self._columns) if isinstance(rows, slice) else len(rows)
        return np.zeros(count, dtype=np.bool_)
