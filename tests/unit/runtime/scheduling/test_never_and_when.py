"""Who can never start is not told that somebody's end is waited for."""

from __future__ import annotations

from allhands.core.plan import Wait
from allhands.model.reason import NEVER_ALLOWED, Reason, explain
from allhands.runtime.scheduling.explainer import sentence

SHORT = explain(Reason.QUEUE_OVER_CAPABILITY, queue="q", used="2", limit="4", resource="cpu", request="8")


def test_who_can_never_start_is_told_no_time_and_nobody_to_wait_for() -> None:
    never = SHORT.with_more(NEVER_ALLOWED, never=1)
    assert sentence(Wait("a/b", never, unknown_because_of="a/other")) == str(never)
    assert sentence(Wait("a/b", never, 100)) == str(never)


def test_others_are_told_whose_end_nobody_knows() -> None:
    assert sentence(Wait("a/b", SHORT, unknown_because_of="a/other")).endswith('nobody knows when "a/other" ends.')
