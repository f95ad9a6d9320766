"""How much is logged, and how, is chosen on the command line."""

from __future__ import annotations

import json
import logging

import click
import pytest
from click.testing import CliRunner

from allhands.cli.log_options import log_options


@click.command()
@log_options
@click.option("--size", default=1)
def speak(size: int) -> None:
    """Says something at every level."""
    log = logging.getLogger("allhands.cli.speak")
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        log.log(level, "size %d", size)


@pytest.mark.parametrize(
    ("options", "lines"),
    [((), 1), (("-v",), 2), (("-vv",), 3), (("-vvv",), 3), (("--log-level", "error"), 0), (("--log-level", "info"), 2)],
)
def test_more_is_said_the_more_is_asked_for(options: tuple[str, ...], lines: int) -> None:
    result = CliRunner().invoke(speak, [*options, "--size", "4"])
    assert result.exit_code == 0
    said = result.stderr.splitlines()
    assert len(said) == lines
    assert all(line.endswith("size 4") for line in said)


def test_lines_can_be_json() -> None:
    result = CliRunner().invoke(speak, ["--log-format", "json"])
    assert json.loads(result.stderr)["msg"] == "size 1"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-v", "--log-level", "info"), "-v and --log-level say the same"),
        (("--log-level", "loud"), "'loud' is not one of"),
        (("--log-format", "xml"), "'xml' is not one of"),
    ],
)
def test_what_cannot_be_meant_is_told(options: tuple[str, ...], problem: str) -> None:
    result = CliRunner().invoke(speak, options)
    assert result.exit_code == 2
    assert problem in result.stderr
