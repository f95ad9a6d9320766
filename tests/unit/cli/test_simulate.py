"""`allhands simulate`: a trace in, a table, a document or a page out; whatever is wrong is said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from allhands.cli import root

SAMPLES = Path(__file__).parents[3] / "examples" / "traces"
SWF = str(SAMPLES / "sample.swf")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["simulate", *arguments])


def test_policies_are_compared_in_one_table() -> None:
    result = run(SWF, "--jobs", "40", "-p", "fcfs-strict", "-p", "sjf-easy")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["POLICY", "fcfs-strict", "sjf-easy"]
    assert "No scheduler can have a mean completion time below" in result.stdout
    assert "jobs a second" in result.stderr


def test_json_has_one_result_for_each_policy_and_says_what_it_is_about() -> None:
    result = run(SWF, "--skip", "10", "--jobs", "30", "-o", "json")
    assert result.exit_code == 0, result.output
    read = json.loads(result.stdout)
    (row,) = read["results"]
    assert (row["policy"], row["jobs_succeeded"], row["jobs_failed"]) == ("fcfs-easy", 30, 0)
    assert read["machine"]["units"] == 64


@pytest.mark.parametrize("name", ["sample-philly.csv", "sample-muri.csv"])
def test_gpu_traces_need_to_be_told_how_many_gpus_there_are(name: str) -> None:
    file = str(SAMPLES / name)
    assert "give --processors" in run(file, "--jobs", "20").stderr
    result = run(file, "--jobs", "20", "--processors", "32", "--nodes", "4", "-o", "json")
    assert json.loads(result.stdout)["machine"] == {"units": 32, "nodes": 4, "resource": "nvidia.com/gpu"}


def test_a_page_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    result = run(SWF, "--jobs", "20", "--html", str(file))
    assert result.exit_code == 0, result.output
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "cannot write" in run(SWF, "--jobs", "5", "--html", str(tmp_path / "no" / "such" / "x.html")).stderr


def test_a_policy_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("apiVersion: allhands.dev/v1alpha1\nkind: SchedulingPolicy\norders: [{name: shortest}]\n")
    result = run(SWF, "--jobs", "20", "-p", str(file), "--queue-order", "strict", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["results"][0]["policy"] == "mine"
    file.write_text("apiVersion: allhands.dev/v1alpha1\nkind: SchedulingPolicy\norders: [{name: quickest}]\n")
    result = run(SWF, "-p", str(file))
    assert result.exit_code == 1
    assert "orders[0].name" in result.stderr
    assert "cannot use the policy" in run(SWF, "-p", "absent.yaml").stderr


def test_all_named_policies_are_listed() -> None:
    listed = run("--list-policies").stdout.split()
    assert {"fcfs-strict", "saf-easy", "sjf-preempt", "f1-commit-backfill"} <= set(listed)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([SWF, "-p", "sjf"], 2, "no policy named sjf: it is one of fcfs, sjf"),
        ([SWF, "--nodes", "3"], 2, "64 processors or GPUs cannot be spread evenly over 3 nodes"),
        ([SWF, "--format", "cvs"], 1, "no such format: cvs; there are swf, philly, muri"),
        ([SWF, "--skip", "1000000"], 1, "no jobs are left to simulate"),
        (["no-such-file.swf"], 2, "does not exist"),
        ([str(SAMPLES.parent / "gang.yaml")], 1, "gang.yaml is not YAML"),
    ],
)
def test_wrong_usage_is_said_in_one_line(arguments: list[str], code: int, said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_truncated_trace_says_which_line_and_nothing_is_simulated(tmp_path: Path) -> None:
    file = tmp_path / "cut.swf"
    file.write_text(Path(SWF).read_text(encoding="utf-8")[:5000])
    result = run(str(file))
    assert result.exit_code == 1
    assert "18 numbers expected" in result.stderr
    assert f"{file}, line " in result.stderr
    assert result.stdout == ""


def test_jobs_that_never_fit_are_counted_and_the_others_run() -> None:
    result = run(SWF, "--jobs", "40", "--processors", "16", "-o", "json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["results"]
    assert row["jobs_failed"] > 0
    assert row["jobs_succeeded"] + row["jobs_failed"] == 40
    assert "are wider (up to" in result.stderr
