"""What was found for groups of one kind: whoever runs longer fits no earlier, and has no hope where others had none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.calendar.estimates import FOREVER
from allhands.core.calendar.found_before import FoundBefore
from allhands.core.calendar.search import Found

NONE = np.zeros(0, dtype=np.int64)
TIMES = st.one_of(st.integers(1, 50), st.none(), st.just(FOREVER))


@given(st.lists(st.tuples(st.integers(1, 20), TIMES), max_size=12), st.integers(1, 22))
def test_it_remembers_what_a_list_of_all_would(asked: list[tuple[int, int | None]], length: int) -> None:
    known = FoundBefore()
    told = [(other, None if time is None else Found(time, NONE, NONE, "", None)) for other, time in asked]
    for other, found in told:
        known.add(other, found)
    timed = [(other, found.time) for other, found in told if found is not None and found.is_known]
    assert known.latest == max((time for _, time in timed), default=0)
    assert known.not_before(length) == max((time for other, time in timed if other <= length), default=0)
    hopeless = [found for other, found in told if other <= length and (found is None or not found.is_known)]
    first = known.hopeless(length)
    assert (first is None) == (not hopeless)
    assert first is None or first[0] is hopeless[0]
