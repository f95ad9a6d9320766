"""`allhands replay` as a user meets it: the plan, whether it is the same, and clear words for files that are none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from allhands.api.policy import API_VERSION, KIND, Backfill, SchedulingPolicy
from allhands.cli import root
from allhands.cli.plan_text import MAX_DIFFERENCES, apart, grid, printable
from allhands.cli.replay import decide
from allhands.cli.table_text import MAX_WIDTH
from allhands.core.configuration.building import build_policy
from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.plan import NOTHING
from allhands.core.plan_difference import Difference
from allhands.core.policy import DEFAULT
from allhands.core.recording import decode, encode, record
from allhands.measure.busy_cluster import NOW_SECONDS, busy_cluster
from allhands.measure.dump import dump_of
from allhands.measure.dump import main as dump_main
from allhands.views.moments import span_text

COMMAND = Path(sys.executable).parent / "allhands"
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "dumps" / "busy-cluster.dump.gz"


def run(*arguments: object) -> Result:
    """In this process: a new one would spend most of its time on imports."""
    return CliRunner().invoke(root, ["replay", *map(str, arguments)])


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("dumps") / "busy.dump.gz"
    file.write_bytes(dump_of("busy-cluster"))
    return file


def test_the_example_in_the_repository_gives_the_recorded_plan() -> None:
    shown = subprocess.run([COMMAND, "replay", EXAMPLE], capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "The plan is the same as the recorded one." in shown.stdout


def test_the_tables_show_starts_evictions_and_waits_within_a_terminal(busy: Path) -> None:
    shown = run(busy)
    assert shown.exit_code == 0
    assert shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert all(len(line) <= MAX_WIDTH for line in lines)
    assert {"Starts", "Evictions", "Waiting"} <= set(lines)
    assert any(line.startswith("ml/train-8") and "…" in line for line in lines)


def test_wide_tables_cut_nothing(busy: Path) -> None:
    assert "…" not in run(busy, "-o", "wide").stdout


def test_programs_get_the_whole_plan(busy: Path) -> None:
    shown = json.loads(run(busy, "-o", "json").stdout)
    plan = cycle(busy_cluster(), DEFAULT, Memo(), NOW_SECONDS)[0]
    binds = [(bind["pod"], bind["node"]) for start in shown["starts"] for bind in start["binds"]]
    assert binds == [(bind.pod, bind.node) for bind in plan.binds]
    assert [evict["pod"] for evict in shown["evictions"]] == [evict.pod for evict in plan.evictions]
    waits = [(it["group"], it["explanation"]["sentence"], it["expected_start_seconds"]) for it in shown["waits"]]
    assert waits == [(it.group, str(it.explanation), it.expected_start_seconds) for it in plan.waits]
    assert shown["comparison"] == {"recorded": True, "same": True, "differences": []}


def test_a_plan_that_differs_is_shown_and_fails(tmp_path: Path) -> None:
    file = tmp_path / "other.dump.gz"
    plan = cycle(busy_cluster(), DEFAULT, Memo(), NOW_SECONDS)[0]
    file.write_bytes(encode(record(busy_cluster(), DEFAULT, NOW_SECONDS, 0, msgspec.structs.replace(plan, waits=()))))
    shown = run(file)
    assert shown.exit_code == 1
    assert f"differs from the recorded one in {len(plan.waits)} places" in shown.stdout
    assert "wait ml/train-8" in shown.stdout
    as_json = run(file, "-o", "json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["comparison"]["same"] is False


def test_without_a_recorded_plan_nothing_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "inputs.dump.gz"
    file.write_bytes(encode(record(busy_cluster(), DEFAULT, NOW_SECONDS)))
    shown = run(file)
    assert shown.exit_code == 0
    assert "No plan was recorded" in shown.stdout


def test_another_policy_is_asked_what_it_would_do_and_differing_is_no_failure(busy: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        f"apiVersion: {API_VERSION}\nkind: {KIND}\nbackfill: everyone\npreempts: false\nreclaims: false\n"
    )
    shown = run(busy, "--policy", policy, "-o", "json")
    assert shown.exit_code == 0, shown.stderr
    configuration = SchedulingPolicy(
        api_version=API_VERSION, kind=KIND, backfill=Backfill.OFF, preempts=False, reclaims=False
    )
    plan = cycle(busy_cluster(), build_policy(configuration), Memo(), NOW_SECONDS)[0]
    answer = json.loads(shown.stdout)
    assert [start["group"] for start in answer["starts"]] == [start.group for start in plan.starts]
    assert not answer["evictions"]
    assert answer["comparison"]["same"] is False


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the file is empty"),
        (b"\x00\x01\x02", "not a recording"),
        (dump_of("busy-cluster")[:-20], "ends too early"),
    ],
    ids=["empty", "garbage", "truncated"],
)
def test_a_file_that_is_no_recording_is_told_in_one_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "some file"
    file.write_bytes(content)
    shown = run(file)
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("Error: cannot replay ")
    assert complaint in shown.stderr
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("kind: SchedulingPolicy\n", "apiVersion"),
        (f"apiVersion: {API_VERSION}\nkind: {KIND}\nscores: [{{name: astrology}}]\n", "astrology"),
        ("a: [\n", "line"),
    ],
    ids=["incomplete", "an unknown plugin", "no YAML"],
)
def test_a_policy_that_cannot_be_used_is_told(busy: Path, tmp_path: Path, policy: str, complaint: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(policy)
    shown = run(busy, "--policy", file)
    assert shown.exit_code == 1
    assert complaint in shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_missing_file_and_a_folder_are_wrong_usage(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        shown = run(path)
        assert shown.exit_code == 2
        assert "Traceback" not in shown.stderr


class Stumbling:
    """An order that fails, as a plugin with a mistake does."""

    name = "stumbling"

    def rank(self, *_: object) -> int:
        raise ZeroDivisionError("one by none")


def test_a_core_that_fails_on_a_recording_is_told_in_a_line_with_its_place() -> None:
    recording = decode(dump_of("busy-cluster"))
    with pytest.raises(click.ClickException, match=r"ZeroDivisionError: one by none \(test_replay.py:\d+\)"):
        decide(recording, msgspec.structs.replace(DEFAULT, orders=(Stumbling(),)))


def test_a_dump_is_made_as_the_documentation_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "made.dump.gz"
    made = subprocess.run([sys.executable, "-m", "allhands.measure.dump", "reclaim", file], timeout=60, check=False)
    assert made.returncode == 0
    assert run(file).exit_code == 0
    assert dump_main(["nonsense", str(file)]) == 2
    assert "busy-cluster, gangs" in capsys.readouterr().err
    file.unlink()
    assert dump_main(["--again", str(tmp_path / "reclaim.dump.gz")]) == 0
    assert run(tmp_path / "reclaim.dump.gz").exit_code == 0
    assert dump_main(["--again", str(file)]) == 2
    assert dump_main(["reclaim", str(tmp_path)]) == 1
    assert "cannot write" in capsys.readouterr().err


# -- how it is printed


def test_a_grid_narrows_its_widest_columns_first() -> None:
    text = grid("Title", ("A", "B"), [("x" * 90, "short"), ("y", "")], width=40)
    assert text.splitlines()[0] == "Title"
    assert all(len(line) <= 40 for line in text.splitlines())
    assert "short" in text
    assert text.splitlines()[-1].split() == ["y", "-"]


def test_a_grid_without_rows_is_nothing() -> None:
    assert grid("Title", ("A",), []) == ""


def test_long_texts_that_differ_late_are_shown_from_where_they_part() -> None:
    beginning = "a sentence that is the same for a long while, "
    shown = apart(Difference("wait x", f"{beginning}then one end", f"{beginning}then another end"))
    assert shown == ("wait x", "…ile, then one end", "…ile, then another end")
    assert apart(Difference("bind x", "a", "b")) == ("bind x", "a", "b")
    assert apart(Difference("bind x", "", "b")) == ("bind x", "", "b")


def test_names_cannot_control_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc") == "a�[31mb�c"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (61, "1m 1s"), (4200, "1h 10m"), (90_000, "1d 1h"), (86_401, "1d")]
)
def test_spans_are_told_in_their_two_largest_units(seconds: int, text: str) -> None:
    assert span_text(seconds, " ") == text


def test_many_differences_are_counted_and_the_first_shown(tmp_path: Path) -> None:
    file = tmp_path / "gangs.dump.gz"
    known = decode(dump_of("gangs"))
    file.write_bytes(encode(record(known.snapshot, DEFAULT, known.now, known.rng, NOTHING)))
    shown = run(file)
    assert shown.exit_code == 1
    assert f"of which the first {MAX_DIFFERENCES}" in shown.stdout
    assert sum(line.startswith("bind ") for line in shown.stdout.splitlines()) == MAX_DIFFERENCES
