"""The growing table behind `PodTable`: rows are taken and freed in place, copied only if a snapshot still reads them.

Whether one does is told by who holds the columns. A copy of them all touches every name that is in them; of many pods
that costs more than a cycle in which little happens.

It knows nothing of meaning: what a row says is decided by `World`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.snapshot import PodFlag, PodTable
from allhands.core.sole_holder import holds_alone

if TYPE_CHECKING:
    from allhands.model.shape import PodShape

_NOMINATED = int(PodFlag.NOMINATED)
_COLUMNS: Final = ("_keys", "_uids", "_node", "_shape", "_priority", "_since", "_flags")
_FIRST_CAPACITY = 64
_SPARE_SHAPES = 1024
"""So many shapes that no pod has any more are kept before they are dropped."""


class PodRows:
    def __init__(self) -> None:
        self._keys: list[str] = []
        self._uids: list[str] = []
        self._node = np.full(_FIRST_CAPACITY, -1, dtype=np.int32)
        self._shape = np.zeros(_FIRST_CAPACITY, dtype=np.int32)
        self._priority = np.zeros(_FIRST_CAPACITY, dtype=np.int32)
        self._since = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._flags = np.zeros(_FIRST_CAPACITY, dtype=np.uint8)
        self._free: list[int] = []
        self._shared = False
        self._shapes: list[PodShape] = []
        self._shape_index: dict[str, int] = {}
        self._all_shapes: tuple[PodShape, ...] | None = ()
        """`_shapes`, as the last table has them; None if there are more by now."""
        self._looking: list[int] = []
        self._nominated: set[int] = set()

    def put(self, row: int, *, key: str, uid: str, shape: PodShape, priority: int, since: int, flags: int) -> int:
        """Writes a row and returns its number; -1 asks for a new one. The node is set by `place`."""
        self._own()
        if row < 0:
            row = self._free.pop() if self._free else len(self._keys)
            if row == len(self._keys):
                self._grow()
                self._keys.append(key)
                self._uids.append(uid)
        self._keys[row] = key
        self._uids[row] = uid
        self._shape[row] = self._index_of(shape)
        self._priority[row] = priority
        self._since[row] = since
        self._flags[row] = flags
        if flags & _NOMINATED:
            self._nominated.add(row)
        return row

    def rewrite(self, row: int, *, priority: int, since: int, flags: int) -> None:
        self._own()
        self._priority[row] = priority
        self._since[row] = since
        self._flags[row] = flags
        if flags & _NOMINATED:
            self._nominated.add(row)
        elif self._nominated:
            self._nominated.discard(row)

    def reshape(self, row: int, shape: PodShape) -> None:
        self._own()
        self._shape[row] = self._index_of(shape)

    def place(self, row: int, node_row: int) -> None:
        self._own()
        self._node[row] = node_row

    def remove(self, row: int) -> None:
        self._own()
        self._node[row] = -1
        self._keys[row] = self._uids[row] = ""
        self._free.append(row)
        if self._nominated:
            self._nominated.discard(row)

    def table(self, *, lasting: bool = True) -> PodTable:
        """A view that later changes do not reach, or, if it is not `lasting`, one that is read before any come."""
        if len(self._shapes) > 2 * len(self._keys) + _SPARE_SHAPES:
            self._drop_unused_shapes()
        self._shared = self._shared or lasting
        count = len(self._keys)
        if self._all_shapes is None:
            self._all_shapes = tuple(self._shapes)
        return PodTable(
            keys=self._keys,
            uids=self._uids,
            node=self._node[:count],
            shape=self._shape[:count],
            priority=self._priority[:count],
            since=self._since[:count],
            flags=self._flags[:count],
            shapes=self._all_shapes,
            looking=tuple(self._looking),
            nominated=tuple(sorted(self._nominated)) if self._nominated else (),
        )

    def _drop_unused_shapes(self) -> None:
        self._own()
        count = len(self._keys)
        old = [self._shapes[number] for number in self._shape[:count].tolist()]
        self._shapes, self._shape_index, self._looking, self._all_shapes = [], {}, [], None
        self._shape[:count] = [self._index_of(shape) for shape in old]

    def _index_of(self, shape: PodShape) -> int:
        index = self._shape_index.get(shape.digest)
        if index is None:
            index = self._shape_index[shape.digest] = len(self._shapes)
            self._shapes.append(shape)
            self._all_shapes = None
            # A shape that looks at pods has its namespace, others mostly have not.
            if shape.namespace and not shape.pod_affinity.is_empty:
                self._looking.append(index)
        return index

    def _own(self) -> None:
        if not self._shared:
            return
        self._shared = False
        for name in _COLUMNS:
            if not holds_alone(self, name):
                setattr(self, name, getattr(self, name).copy())

    def _grow(self) -> None:
        size = len(self._node)
        if len(self._keys) < size:
            return
        for name in ("_node", "_shape", "_priority", "_since", "_flags"):
            old = getattr(self, name)
            new = np.full(2 * size, -1, dtype=old.dtype) if name == "_node" else np.zeros(2 * size, dtype=old.dtype)
            new[:size] = old
            setattr(self, name, new)
