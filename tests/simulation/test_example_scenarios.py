"""The scenarios of examples/ end as docs/simulation.md says, and their pages open without a network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner

from allhands.cli import root
from allhands.compose.scenarios import ScenarioRun, run_scenario
from allhands.sim.scenario import read_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
MINUTE = 60


def run(name: str) -> ScenarioRun:
    return run_scenario(read_scenario(yaml.safe_load((EXAMPLES / name).read_text())))


@pytest.fixture(scope="module")
def two_teams() -> ScenarioRun:
    return run("two-teams.yaml")


def test_every_example_scenario_can_be_read() -> None:
    found = [path.name for path in sorted(EXAMPLES.glob("*.yaml")) if "kind: Scenario" in path.read_text()]
    assert found == ["kwok-1000x10.yaml", "rack-failure.yaml", "two-teams.yaml"]
    for name in found:
        read_scenario(yaml.safe_load((EXAMPLES / name).read_text()))


def test_two_teams_get_their_share_back_and_nobody_fails_by_making_room(two_teams: ScenarioRun) -> None:
    result, history = two_teams
    assert (result.jobs_succeeded, result.jobs_failed, result.jobs_unfinished) == (13, 0, 0)
    assert result.preemptions == 6
    by_queue = {
        queue: sum(it.preemptions for it in history.ran if it.job.queue == queue) for queue in ("speech", "vision")
    }
    assert by_queue == {"speech": 4, "vision": 2}
    assert max(it.preemptions for it in history.ran) == 1


def test_two_teams_share_two_to_one_while_both_want_more(two_teams: ScenarioRun) -> None:
    """Once vision has asked for its part, and before it runs out of jobs."""
    used = {
        queue: {round(at / MINUTE): gpus for at, gpus in points}
        for queue, points in two_teams.history.used_by_queue.items()
    }
    begin = 14
    for queue, gpus in (("vision", 64), ("speech", 32)):
        last = [amount for minute, amount in used[queue].items() if minute <= begin][-1]
        later = [amount for minute, amount in used[queue].items() if begin < minute < 40]
        assert {last, *later} == {gpus}, queue


def test_the_urgent_gang_starts_at_once(two_teams: ScenarioRun) -> None:
    urgent = next(it for it in two_teams.history.ran if it.job.width == 32)
    assert urgent.wait_seconds < MINUTE


def test_a_gang_whose_rack_fails_begins_again_elsewhere_and_no_other_loses_a_pod() -> None:
    result, history = run("rack-failure.yaml")
    assert (result.jobs_succeeded, result.jobs_failed, result.jobs_unfinished) == (8, 0, 0)
    assert sorted(it.preemptions for it in history.ran) == [0] * 7 + [1]
    assert result.wasted == pytest.approx(
        32 * 20 * MINUTE / (history.machine.units * result.makespan_seconds), rel=0.01
    )
    assert result.pods == 9 * 16


def test_a_page_of_a_scenario_shows_the_queues_and_needs_no_network(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    arguments = ["simulate", str(EXAMPLES / "two-teams.yaml"), "--html", str(page), "-o", "json"]
    answer = CliRunner().invoke(root, arguments)
    assert answer.exit_code == 0, answer.output
    numbers = json.loads(answer.stdout)
    assert numbers["machine"] == {"units": 96.0, "nodes": 12, "resource": "nvidia.com/gpu"}
    assert numbers["jobs_succeeded"] == 13
    text = page.read_text()
    assert not re.search(r"https?://|src=|@import|url\(", text)
    assert "96 × nvidia.com/gpu on 12 nodes; the whole system, in virtual time." in text
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == ["Used over time", "Used by queues", "Waiting over time", "Completion times", "Waiting times"]
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert ElementTree.fromstring(drawing).findall("path")


def test_policies_from_files_are_compared_on_one_scenario(tmp_path: Path) -> None:
    scenario = tmp_path / "small.yaml"
    workload = {"jobs": 3, "pods": 2, "cpu": "3", "runSeconds": 30}
    head = {"apiVersion": "allhands.dev/v1alpha1", "kind": "Scenario"}
    scenario.write_text(yaml.safe_dump({**head, "nodes": [{"count": 2}], "workloads": [workload]}))
    policies = [EXAMPLES / "policies" / name for name in ("packing.yaml", "fair-shares.yaml")]
    arguments = ["simulate", str(scenario), "-o", "json", *(part for it in policies for part in ("-p", str(it)))]
    answer = CliRunner().invoke(root, arguments)
    assert answer.exit_code == 0, answer.output
    results = json.loads(answer.stdout)["results"]
    assert [(it["policy"], it["jobs_succeeded"]) for it in results] == [("packing", 3), ("fair-shares", 3)]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--processors", "5"], "--processors is for traces; a scenario says it in its file"),
        (["-p", "sjf-easy"], "sjf-easy: named policies are for traces; for a scenario, give a file with a policy"),
        (["-p", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_options_that_a_scenario_does_not_know_are_refused(options: list[str], complaint: str) -> None:
    answer = CliRunner().invoke(root, ["simulate", str(EXAMPLES / "two-teams.yaml"), *options])
    assert answer.exit_code != 0
    assert complaint in answer.output
