"""`allhands bench core` as a user meets it: rows, ratios with their goals, progress, and an end by Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from allhands.cli import root
from allhands.cli.bench import table_below, table_line
from allhands.measure.comparison import Comparison

if TYPE_CHECKING:
    from allhands.measure.core_bench import Row

COMMAND = Path(sys.executable).parent / "allhands"
FIELDS = ("case", "nodes", "groups", "pods_per_group", "shapes", "seconds", "rss_mib")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["bench", "core", *arguments])


def row(**changes: object) -> Row:
    values: dict[str, object] = {
        "case": "gangs", "nodes": 1_000, "groups": 500, "pods_per_group": 20, "shapes": 1, "seconds": 0.25,
        "rss_mib": 80.0, "goal_seconds": None, "goal_mib": None, "comparison": None, **changes,
    }  # fmt: skip
    return values  # type: ignore[return-value]


def test_programs_get_a_list_of_rows_and_progress_goes_elsewhere() -> None:
    shown = run("topology", "--quick", "--rounds", "1", "-o", "json")
    assert shown.exit_code == 0
    rows = json.loads(shown.stdout)
    assert [found["case"] for found in rows] == ["topology", "topology"]
    assert all(field in found for found in rows for field in FIELDS)
    assert all(isinstance(found["seconds"], float) and found["seconds"] > 0 for found in rows)
    assert shown.stderr.splitlines()[0] == "… 1 of 2: topology, 20 nodes, 12 × 5 pods"


def test_people_get_a_table_with_the_ratios_below() -> None:
    shown = run("queues", "--quick", "--rounds", "1")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["CASE", "NODES", "GROUPS", "PODS/GR", "SHAPES", "SECONDS", "GOAL", "MIB"]
    assert [line.split()[0] for line in lines[1:3]] == ["queues", "queues"]
    assert lines[4].split()[0] == "RATIO"
    assert [line.startswith("20 queues ÷ one queue") for line in lines[5:]] == [True, True]


def test_every_goal_has_a_verdict() -> None:
    assert table_line(row(goal_seconds=0.3)).split()[-5:] == ["≤", "0.3", "s", "80", "met"]
    assert table_line(row(goal_seconds=0.2)).split()[-1] == "MISSED"
    assert table_line(row(goal_mib=64)).split()[-5:] == ["≤", "64", "MiB", "80", "MISSED"]
    assert table_line(row()).split()[-1] == "80"
    assert "<0.0001" in table_line(row(seconds=0.00001))


def test_every_ratio_has_its_goal_and_a_verdict() -> None:
    slow = Comparison(name="a ÷ b", unit="×", value=2.5, goal=2.0, base_seconds=0.1)
    fine = Comparison(name="each further shape", unit="ms", value=0.4, goal=0.5, base_seconds=0.1)
    lines = list(table_below([row(comparison=slow), row(), row(comparison=fine)]))
    assert lines[2].split() == ["a", "÷", "b", "1000", "500", "×", "20", "2.50", "×", "≤", "2", "×", "MISSED"]
    assert lines[3].split()[-6:] == ["0.40", "ms", "≤", "0.5", "ms", "met"]
    assert all(len(line) <= 100 for line in lines)


def test_an_unknown_case_is_wrong_usage_and_the_known_ones_are_listed() -> None:
    shown = run("nonsense")
    assert shown.exit_code == 2
    assert "no case named nonsense; there are gangs, shapes, topology" in shown.stderr


def test_ctrl_c_ends_it_with_a_sentence() -> None:
    with subprocess.Popen(
        [COMMAND, "bench", "core", "gangs", "--rounds", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("… 1 of 8: gangs")
        process.send_signal(signal.SIGINT)
        shown, complaints = process.communicate(timeout=30)
    assert process.returncode == 1
    assert complaints == "Stopped after 0 of 8 cases.\n"
    assert shown == ""
