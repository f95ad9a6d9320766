"""A log line is one line, for people or for machines, whatever is in the message."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.runtime.logs import FORMATS, JsonFormatter, LogFormat, TextFormatter, set_up_logs
from tests.depth import examples

LOG = logging.getLogger("allhands.runtime.some")


def logged(format: LogFormat, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    set_up_logs(level, format, stream)
    return stream


def test_a_line_for_people_has_time_level_place_message_and_fields() -> None:
    stream = logged("text")
    LOG.warning("pod %s waits", "a", extra={"queue": "blue"})
    line = stream.getvalue()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} warning runtime\.some: pod a waits queue=blue\n", line)
    assert "\x1b" not in line, "no colours where nobody sees them"


def test_a_line_for_machines_is_one_json_object() -> None:
    stream = logged("json")
    LOG.info("bound %d pods", 3, extra={"group": "default/ring", "msg2": object})
    line = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
    assert (line["level"], line["logger"], line["msg"]) == ("info", "allhands.runtime.some", "bound 3 pods")
    assert line["group"] == "default/ring"


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_traceback_is_there_and_stays_with_its_line(format: LogFormat) -> None:
    stream = logged(format)
    try:
        raise RuntimeError("no\nroom")
    except RuntimeError:
        LOG.exception("failed at %s", "default/ring")
    lines = stream.getvalue().splitlines()
    if format == "json":
        assert len(lines) == 1
        assert "RuntimeError: no\nroom" in json.loads(lines[0])["err"]
    else:
        assert all(line.startswith("    ") for line in lines[1:])
        assert any("RuntimeError" in line for line in lines)


WHOLE = st.characters(exclude_categories=["Cs"])
"""Halves of characters are tried apart: what collects the logs of tests cannot pass them on."""


@settings(max_examples=examples(100))
@given(st.text(WHOLE), st.text(WHOLE))
def test_whatever_a_user_named_something_it_is_one_line(message: str, field: str) -> None:
    for written_as in FORMATS:
        stream = logged(written_as)
        LOG.info("%s", message, extra={"named": field})
        text = stream.getvalue()
        assert text.endswith("\n")
        assert not any(ord(character) < 32 for character in text[:-1])
        if written_as == "json":
            assert set(json.loads(text)) == {"ts", "level", "logger", "msg", "named"}
        else:
            assert len(text.splitlines()) == 1


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_half_a_character_is_written_as_something_that_a_file_takes(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("allhands.x", logging.INFO, "", 0, "named \ud800", None, None)
    assert formatter.format(record).encode()


def test_what_is_below_the_level_is_not_written_and_libraries_only_warn() -> None:
    stream = logged("text", "warning")
    LOG.info("detail")
    assert stream.getvalue() == ""
    stream = logged("text", "debug")
    LOG.debug("detail")
    logging.getLogger("asyncio").debug("chatter")
    logging.getLogger("asyncio").error("a task failed")
    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()] == [
        "debug runtime.some: detail",
        "error asyncio: a task failed",
    ]


def test_setting_it_up_again_replaces_it() -> None:
    first, second = logged("text"), logged("json")
    LOG.info("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_what_cannot_be_meant_is_told() -> None:
    with pytest.raises(ValueError, match="log level 'loud': it is one of debug"):
        set_up_logs("loud")
    with pytest.raises(ValueError, match="log format 'xml': it is one of text, json"):
        set_up_logs("info", "xml")  # type: ignore[arg-type]
