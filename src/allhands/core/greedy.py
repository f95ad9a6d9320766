"""Places for k equal pods, exactly as if the best node were chosen k times, each time with the pods before in place.

It relies on one thing: what a pod changes for its shape's score and fit is on its own node only. Then a node outside
the first k can never be chosen, and each choice is the best head among as many lists as there are nodes. Lists that
fall (spreading) are merged by one sort; others (packing) by a heap that works out a list only when its node is chosen.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from allhands.core.columns import Column, Rows
    from allhands.core.room import Room
    from allhands.core.shapes import ShapeState

_FIRST_STEPS: Final = 4
_NOTHING: Final = -1
_MANY: Final = 1024
_FEW_NODES: Final = 4
"""Of so many nodes, few are looked for one by one."""


def greedy_picks(state: ShapeState, room: Room, count: int, within: Rows | None) -> list[int]:
    """At most `count` rows, in the order of choice; a row comes as often as it is chosen."""
    if count == 1 and within is None:
        first = state.best_row(room)
        return [first] if first >= 0 else []
    if within is None and len(state.key) >= _MANY and not state.takes_first:
        picks = on_few_nodes(state, room, count)
        if picks is not None:
            return picks
    state.refresh(room)
    if state.takes_first and within is None:
        candidates = (state.key >= 0).nonzero()[0][:count]
    else:
        candidates = _best_rows(state.key, count, within)
    if count == 1 or not candidates.size:
        return _numbers(candidates)
    fit = room.fit(state.request, candidates, count)
    most = int(fit.max())
    if most == 1:
        return _numbers(candidates)
    if not state.changes_scores:
        # The best stays the best until it is full.
        return _numbers(np.repeat(candidates, fit)[:count])
    best = _numbers(state.keys_of_row_after(room, int(candidates[0]), int(fit[0])))
    if len(best) > 1 and best[1] > best[0]:
        # It becomes better still with a pod on it: others most likely do too, and few of them will be looked at.
        return _merge_by_heap(state, room, candidates, fit, count, {0: best})
    steps = max(_FIRST_STEPS, _FIRST_STEPS * count // len(candidates))
    while True:
        steps = min(steps, most)
        keys = state.keys_after(room, candidates, steps)
        keys[np.arange(steps)[None, :] >= fit[:, None]] = _NOTHING
        if not bool((keys[:, 1:] <= keys[:, :-1]).all()):
            return _merge_by_heap(state, room, candidates, fit, count, {0: best})
        picks, is_final = _merge_by_sort(candidates, fit, keys, count)
        if is_final:
            return picks
        steps *= 4


def on_few_nodes(state: ShapeState, room: Room, count: int) -> list[int] | None:
    """The same where one node after the other is filled, as packing does; None if it takes more than a few of them, or
    one of them is left before it is full."""
    if state.position != len(room.log) and (best := state.best_key_by_classes(room)) is not None:
        return _on_few_nodes_by_classes(state, room, count, best)
    state.refresh(room)
    row = state.best_row(room)
    key, taken = state.key, list[tuple[int, int]]()
    picks: list[int] | None = []
    for _ in range(_FEW_NODES):
        if row < 0 or picks is None or len(picks) == count:
            break
        taken.append((row, int(key[row])))
        key[row] = _NOTHING
        rival = int(key.argmax())
        more = _while_best(state, room, row, count - len(picks), int(key[rival]))
        picks = None if more is None else picks + more
        row = rival if key[rival] >= 0 else _NOTHING
    for row_before, key_before in taken:
        key[row_before] = key_before
    return picks if picks is not None and (len(picks) == count or row < 0) else None


def _on_few_nodes_by_classes(state: ShapeState, room: Room, count: int, best: int) -> list[int] | None:
    """The same where nodes are known by their classes; `best` is the best key of all."""
    picks: list[int] = []
    taken: list[int] = []
    for _ in range(_FEW_NODES):
        if best < 0 or len(picks) == count:
            break
        row = state.row_of(best)
        taken.append(row)
        rival = state.best_key_by_classes(room, taken)
        more = None if rival is None else _while_best(state, room, row, count - len(picks), rival)
        if rival is None or more is None:
            return None
        picks += more
        best = rival
    return picks if len(picks) == count or best < 0 else None


def _while_best(state: ShapeState, room: Room, row: int, count: int, rival: int) -> list[int] | None:
    """The node as often as it is chosen until it is full; None if another is better before that."""
    number = room.fit_of_row(state.request, row, count)
    if number > 1 and state.worst_key_after(room, row, number) < rival:
        return None
    return [row] * number


def _numbers(rows: Rows) -> list[int]:
    numbers: list[int] = rows.tolist()
    return numbers


def _best_rows(key: Column, count: int, within: Rows | None) -> Rows:
    """The `count` best feasible rows, best first."""
    keys = key if within is None else key[within]
    if count == 1:
        best = int(keys.argmax()) if keys.size else 0
        chosen = np.array([best] if keys.size and keys[best] >= 0 else [], dtype=np.int64)
        return chosen if within is None else within[chosen]
    size = keys.size
    chosen = np.argpartition(keys, size - count)[size - count :] if count < size else np.arange(size)
    of_chosen = keys[chosen]
    feasible = of_chosen >= 0
    chosen, of_chosen = chosen[feasible], of_chosen[feasible]
    # No two keys are equal, so any sort will do.
    ordered = chosen[np.argsort(of_chosen)[::-1]]
    return ordered if within is None else within[ordered]


def _merge_by_sort(candidates: Rows, fit: Column, keys: Column, count: int) -> tuple[list[int], bool]:
    """For lists that never rise. Not final if a list was read to its end although the node could hold more."""
    rows, steps = keys.shape
    flat = keys.ravel()
    chosen = np.arange(flat.size)
    if count < flat.size:
        # Within a row keys may be equal; then any of them may have come out, but they all mean the same row.
        chosen = np.argpartition(flat, flat.size - count)[flat.size - count :]
    chosen = chosen[flat[chosen] >= 0]
    of_row = chosen // steps
    read = np.bincount(of_row, minlength=rows)
    if bool(((read == steps) & (fit > steps)).any()):
        return [], False
    ordered = of_row[np.argsort(-flat[chosen], kind="stable")]
    return _numbers(candidates[ordered]), True


def _merge_by_heap(
    state: ShapeState, room: Room, candidates: Rows, fit: Column, count: int, lists: dict[int, list[int]]
) -> list[int]:
    """`lists` are the keys of candidates that are known already, whole."""
    rows = _numbers(candidates)
    heads = _numbers(state.key[candidates])
    room_left = _numbers(fit)
    taken = [0] * len(rows)
    # Candidates come best first, so this is a heap already.
    heap = [(-head, index) for index, head in enumerate(heads)]
    picks: list[int] = []
    while heap and len(picks) < count:
        index = heap[0][1]
        row = rows[index]
        used = taken[index]
        left = room_left[index]
        keys = lists.get(index)
        if keys is None:
            longest = min(left, used + count - len(picks))
            keys = lists[index] = _numbers(state.keys_of_row_after(room, row, longest))
        rival = -heap[1][0] if len(heap) == 2 else -min(heap[1][0], heap[2][0]) if len(heap) > 2 else _NOTHING
        # As long as the node stays the best, nobody else need be looked at.
        while True:
            picks.append(row)
            used += 1
            if used >= left or len(picks) == count or keys[used] < rival:
                break
        taken[index] = used
        if used >= left:
            heapq.heappop(heap)
        elif used < len(keys):
            heapq.heapreplace(heap, (-keys[used], index))
    return picks
