"""Scenario files on the whole simulated system: what is promised comes out, and what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from allhands.cli.simulate import command
from allhands.compose.scenarios import run_scenario
from allhands.sim.job_log import JobRun, PodRun, ideal_makespan_seconds
from allhands.sim.scenario import ScenarioError, read_scenario

EXAMPLE = Path(__file__).parents[2] / "examples" / "kwok-1000x10.yaml"


def small(**changes: Any) -> dict[str, Any]:
    """The KWOK test, a fiftieth of its size."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    document["nodes"][0]["count"] = 2
    document["workloads"][0]["jobs"] = 20
    return document | changes


def test_the_kwok_test_in_small_ends_as_soon_as_ideal_list_scheduling() -> None:
    result = run_scenario(read_scenario(small()))
    assert (result.jobs_succeeded, result.jobs_failed, result.jobs_unfinished) == (20, 0, 0)
    assert result.makespan_seconds <= 1.03 * result.ideal_seconds
    assert result.lower_bound_seconds <= result.ideal_seconds
    assert result.pods == 200


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    scenario = read_scenario(small())
    assert run_scenario(scenario, seed=3) == run_scenario(scenario, seed=3)
    assert run_scenario(scenario, seed=3) != run_scenario(scenario, seed=4)


def test_faults_and_an_outage_delay_but_lose_nothing() -> None:
    document = small(
        faults={"lost": 0.02, "refused": 0.02, "crash": 0.002, "watch_ends": 0.01},
        outages=[{"node": "node-1", "atSeconds": 100, "forSeconds": 60}],
    )
    del document["workloads"][0]["deadlineSeconds"]
    document["workloads"][0]["backoffLimit"] = 1000
    result = run_scenario(read_scenario(document))
    assert result.jobs_succeeded == 20


def test_queues_priorities_arrivals_and_failures_are_carried_out() -> None:
    document = {
        "apiVersion": "allhands.dev/v1alpha1",
        "kind": "Scenario",
        "nodes": [{"name": "gpu", "count": 4, "gpus": 2, "racks": 2}],
        "queues": [{"name": "team", "spec": {"weight": 1, "capability": {"nvidia.com/gpu": 4}}}],
        "priorityClasses": [{"name": "high", "value": 10}],
        "workloads": [
            {"name": "a", "jobs": 4, "pods": 2, "gpus": 1, "queue": "team", "everySeconds": 5, "topology": "hard:rack"},
            {"name": "b", "meanSeconds": 3, "jobs": 3, "priorityClass": "high", "minAvailable": None},
            {"name": "c", "exitCode": 3, "backoffLimit": 0},
        ],
    }
    result = run_scenario(read_scenario(document))
    assert (result.jobs_succeeded, result.jobs_failed) == (7, 1)


def test_a_limit_of_time_ends_it_and_says_who_was_not_done() -> None:
    result = run_scenario(read_scenario(small(limitSeconds=200)))
    assert result.jobs_unfinished == 20 - result.jobs_succeeded > 0


def test_ideal_list_scheduling_starts_each_job_the_instant_it_fits() -> None:
    def job(name: str, submitted: float, *runs: float) -> JobRun:
        pods = {f"{name}{number}": PodRun(0.0, run) for number, run in enumerate(runs)}
        return JobRun(name, submitted, pods=pods)

    assert ideal_makespan_seconds([job("a", 0, 5, 7), job("b", 0, 4, 4)], 2) == 11
    assert ideal_makespan_seconds([job("a", 0, 5, 7), job("b", 0, 4)], 2) == 9
    assert ideal_makespan_seconds([job("a", 3, 5)], 2) == 5
    assert ideal_makespan_seconds([], 2) == 0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"nodes": []}, "nodes"),
        ({"nodes": [{"count": 0}]}, "nodes[0].count"),
        ({"nodes": [{"count": 1, "cpu": "3x"}]}, "nodes[0]: cpu: '3x' is not a quantity"),
        ({"nodes": [{"count": 1, "memory": "-1"}]}, "memory: '-1' must be more than zero"),
        ({"nodes": [{"count": 1}, {"count": 1}]}, "nodes: node is there twice"),
        ({"workloads": [{"runSecond": 5}]}, "unknown field `runSecond`"),
        ({"workloads": [{"pods": 2, "minAvailable": 3}]}, "minAvailable (3) must not exceed pods (2)"),
        ({"workloads": [{"runSeconds": {"least": 5, "most": 1}}]}, "least (5) must not exceed most (1)"),
        ({"workloads": [{"everySeconds": 1, "meanSeconds": 1}]}, "cannot both be given"),
        ({"workloads": [{"name": "Bad Name"}]}, "workloads[0].name"),
        ({"kind": "Scenery"}, "kind"),
        ({"policy": {"apiVersion": "allhands.dev/v1alpha1", "kind": "SchedulingPolicy", "bakfill": 1}}, "bakfill"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        read_scenario(small(**changes))
    assert complaint in str(refusal.value)


def test_the_command_prints_the_promised_numbers(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(small()))
    shown = CliRunner().invoke(command, [str(file), "-o", "json"])
    assert shown.exit_code == 0, shown.output
    numbers = json.loads(shown.stdout)
    promised = {"jobs_succeeded", "jobs_failed", "makespan_seconds", "ideal_seconds", "lower_bound_seconds"}
    assert promised | {"jct_mean_seconds", "wait_p99_seconds", "utilisation"} <= numbers.keys()
    table = CliRunner().invoke(command, [str(file)])
    assert "20 succeeded, 0 failed" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "is not YAML"),
        ("[]", "Expected `object`"),
        ("apiVersion: allhands.dev/v1alpha1\nkind: Scenario\n", "missing required field"),
    ],
)
def test_a_broken_file_is_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    shown = CliRunner().invoke(command, [str(file)])
    assert shown.exit_code == 1
    assert complaint in shown.output
    assert "Traceback" not in shown.output


def test_a_refusal_of_the_api_is_a_sentence_too(tmp_path: Path) -> None:
    file = tmp_path / "refused.yaml"
    file.write_text(yaml.safe_dump(small(queues=[{"name": "q", "spec": {"weight": -5}}])))
    shown = CliRunner().invoke(command, [str(file)])
    assert shown.exit_code == 1
    assert "spec.weight" in shown.output
