"""Lengths of time in Go's words."""

from __future__ import annotations

import pytest

from allhands.lifecycle.volcano_job.durations import duration_seconds, duration_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90s", 90), ("1h30m", 5400), ("1m0.5s", 60.5), ("500ms", 0.5), ("0", 0), ("0s", 0), (".5h", 1800)),
        *(
            (None, None),
            ("", None),
            ("5", None),
            ("-5m", None),
            ("1d", None),
            ("10 m", None),
            ("m", None),
            ("9" * 50, None),
        ),
    ],
)
def test_texts_are_read_and_nonsense_is_no_length(text: str | None, seconds: float | None) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (45.9, "45s"), (180, "3m0s"), (7205, "2h0m5s"), (90_000, "25h0m0s"), (-3, "0s")]
)
def test_lengths_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
