"""What the scheduler remembers of a group survives being written down; what somebody made up is no record."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.dialects.annotations import SCHEDULING
from allhands.dialects.scheduling_record import MOST_BYTES, read_record, record_text
from allhands.model.group_status import NO_STATUS, GroupStatus, Said
from allhands.model.reason import Reason, explain
from tests.depth import examples

SECONDS = st.none() | st.integers(0, 2**40)
NAMES = st.lists(st.text(min_size=1, max_size=10), max_size=3).map(tuple)
STATUSES = st.builds(
    GroupStatus,
    admitted_at_seconds=SECONDS,
    started_at_seconds=SECONDS,
    failed_starts=st.integers(0, 1000),
    retry_at_seconds=st.integers(0, 2**40),
    avoid_nodes=NAMES,
    preempting_since_seconds=SECONDS,
    nominated_nodes=NAMES,
    said=st.none() | st.builds(Said, st.just(explain(Reason.QUEUE_CLOSED, queue="q")), SECONDS),
)


@given(STATUSES)
@settings(max_examples=examples(100))
def test_what_is_written_is_read_again(status: GroupStatus) -> None:
    assert read_record({SCHEDULING: record_text(status)}) == status


def test_a_new_group_has_no_record() -> None:
    assert read_record(None) == read_record({}) == read_record({SCHEDULING: "{}"}) == NO_STATUS
    assert record_text(NO_STATUS) == "{}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "5",
        "yes",
        '{"admitted_at_seconds":"now"}',
        '{"failed_starts":-1}',
        '{"retry_at_seconds":-5}',
        '{"retry_at_seconds":1e30}',
        f'{{"retry_at_seconds":{10**40}}}',
        f'{{"admitted_at_seconds":{2**53}}}',
        '{"avoid_nodes":"n1"}',
        '{"said":{"explanation":{"reason":"Because","message":""}}}',
        '{"said":{"explanation":{"reason":"QueueClosed","message":"{queue}"}}}',
        '{"said":{"explanation":{"reason":"QueueClosed","message":"{queue!r:>9}","numbers":[["queue","q"]]}}}',
        '{"unknown":' + "[" * 20_000 + "]" * 20_000 + "}",
        '{"unknown":' + "[" * 60_000,
        '{"avoid_nodes":["' + "n" * MOST_BYTES + '"]}',
    ],
)
def test_what_somebody_made_up_is_no_record(text: str) -> None:
    assert read_record({SCHEDULING: text}) == NO_STATUS


@given(st.text(max_size=50))
@settings(max_examples=examples(100))
def test_any_text_is_read_or_is_no_record(text: str) -> None:
    assert isinstance(read_record({SCHEDULING: text}), GroupStatus)
