"""Scenario files on the whole simulated system: what is promised comes out, and what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from allhands.cli.simulate import command
from allhands.compose.scenarios import run_scenario
from allhands.sim.job_log import JobRun, PodRun, ideal_makespan_seconds
from allhands.sim.metrics import Summary
from allhands.sim.scenario import FaultRates, Scenario, ScenarioError, Workload, read_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "kwok-1000x10.yaml"
POLICY = {"apiVersion": "allhands.dev/v1alpha1", "kind": "SchedulingPolicy"}


def small(**changes: Any) -> dict[str, Any]:
    """The KWOK test, a fiftieth of its size."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    document["nodes"][0]["count"] = 2
    document["workloads"][0]["jobs"] = 20
    return document | changes


def test_the_kwok_test_in_small_ends_as_soon_as_ideal_list_scheduling() -> None:
    result = run_scenario(read_scenario(small())).result
    assert (result.jobs_succeeded, result.jobs_failed, result.jobs_unfinished) == (20, 0, 0)
    assert result.makespan_seconds <= 1.03 * result.ideal_seconds
    assert result.lower_bound_seconds <= result.ideal_seconds
    assert result.pods == 200


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    scenario = read_scenario(small())
    assert run_scenario(scenario, seed=3) == run_scenario(scenario, seed=3)
    assert run_scenario(scenario, seed=3).result != run_scenario(scenario, seed=4).result


def test_faults_and_an_outage_delay_but_lose_nothing() -> None:
    document = small(
        faults={"lost": 0.02, "refused": 0.02, "crash": 0.002, "watchEnds": 0.01},
        outages=[{"node": "node-1", "atSeconds": 100, "forSeconds": 60}],
    )
    del document["workloads"][0]["deadlineSeconds"]
    document["workloads"][0]["backoffLimit"] = 1000
    result = run_scenario(read_scenario(document)).result
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
    result = run_scenario(read_scenario(document)).result
    assert (result.jobs_succeeded, result.jobs_failed) == (7, 1)


def test_every_field_that_is_documented_is_carried_out() -> None:
    """The scenario of docs/simulation.md, with fewer jobs and in less time; its fields are all there are."""
    text = (EXAMPLES.parent / "docs" / "simulation.md").read_text()
    document = yaml.safe_load(text.split("```yaml")[1].split("```")[0])
    assert document.keys() == {field.encode_name for field in msgspec.structs.fields(Scenario)}
    said = [document["workloads"][0] | document["workloads"][1]]
    assert set(said[0]) == {field.encode_name for field in msgspec.structs.fields(Workload)}
    assert set(document["faults"]) == {field.encode_name for field in msgspec.structs.fields(FaultRates)}
    result = run_scenario(read_scenario(document)).result
    assert result.jobs_unfinished == 0
    assert result.jobs_succeeded + result.jobs_failed == sum(it["jobs"] for it in document["workloads"])
    assert result.jobs_succeeded > 0


def test_a_job_waits_for_all_jobs_of_the_workload_that_it_names() -> None:
    workloads = [
        {"name": "fetch", "jobs": 3, "everySeconds": 30, "runSeconds": 20},
        {"name": "train", "after": "fetch", "runSeconds": 10},
        {"name": "publish", "after": "train, fetch-1", "runSeconds": 10},
    ]
    run = run_scenario(read_scenario(small(nodes=[{"count": 2}], workloads=workloads)))
    starts = sorted(it.start_seconds for it in run.history.ran)
    assert [round(it, -1) for it in starts] == [0, 30, 60, 80, 90]


def test_run_times_may_be_log_normal_as_in_real_clusters() -> None:
    workload = {"jobs": 40, "runSeconds": {"median": 100, "sigma": 1.5, "most": 2000}}
    scenario = read_scenario(small(nodes=[{"count": 10}], workloads=[workload]))
    runs = sorted(it.job.run_seconds for it in run_scenario(scenario).history.ran)
    assert runs[0] < 30 < 60 < runs[20] < 170 < 500 < runs[-1] <= 2001


def test_a_limit_of_time_ends_it_and_says_who_was_not_done() -> None:
    result = run_scenario(read_scenario(small(limitSeconds=200))).result
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
        ({"nodes": []}, "nodes: Invalid value: Expected `array` of length >= 1"),
        ({"nodes": [{"count": 0}]}, "nodes[0].count: Invalid value: 0: must be at least 1"),
        ({"nodes": [{"count": 1, "cpu": "3x"}]}, "nodes[0].cpu: '3x' is not a quantity such as 8, 500m or 32Gi"),
        ({"nodes": [{"count": 1, "memory": "-1"}]}, "nodes[0].memory: '-1' must be more than zero"),
        ({"nodes": [{"count": 1}, {"count": 1}]}, "nodes: node is there twice"),
        ({"nodes": [{"count": "many"}]}, 'nodes[0].count: Invalid value: "many": expected a whole number'),
        (
            {"queues": [{"name": "a", "weight": 2}]},
            "queues[0].weight: Forbidden: there is no such field; there are annotations, name, spec",
        ),
        (
            {"workloads": [{"runSecond": 5}]},
            "workloads[0].runSecond: Forbidden: there is no such field; there are after",
        ),
        ({"workloads": [{"pods": 2, "minAvailable": 3}]}, "minAvailable (3) must not exceed pods (2)"),
        ({"workloads": [{"minAvailable": "most"}]}, 'workloads[0].minAvailable: Unsupported value: "most"'),
        ({"workloads": [{"minAvailable": 0}]}, "workloads[0].minAvailable: Invalid value: 0: must be at least 1"),
        ({"workloads": [{"runSeconds": {"least": 5, "most": 1}}]}, "least (5) must not exceed most (1)"),
        ({"workloads": [{"runSeconds": {"least": 5}}]}, "workloads[0].runSeconds.most: must be given with least"),
        (
            {"workloads": [{"runSeconds": {"mean": 5}}]},
            "workloads[0].runSeconds.mean: Forbidden: there is no such field",
        ),
        ({"workloads": [{"runSeconds": {}}]}, "workloads[0].runSeconds: Invalid value: either least and most"),
        ({"workloads": [{"everySeconds": 1, "meanSeconds": 1}]}, "cannot both be given"),
        ({"workloads": [{"name": "Bad Name"}]}, "workloads[0].name: 'Bad Name' must be lower-case letters"),
        ({"workloads": [{"name": "a", "jobs": 2}, {"name": "a-1"}]}, "workloads: a-1 is there twice"),
        ({"workloads": [{"queue": "team"}]}, "workloads[0].queue: there is no 'team'; there are default"),
        ({"workloads": [{"priorityClass": "high"}]}, "workloads[0].priorityClass: there is no 'high'; there are none"),
        ({"workloads": [{"after": "prepare"}]}, "workloads[0].after: there is no 'prepare'; there are none"),
        ({"outages": [{"atSeconds": 1, "forSeconds": 1}]}, "outages[0]: Invalid value: either node or rack"),
        (
            {"outages": [{"node": "nod-1", "atSeconds": 1, "forSeconds": 1}]},
            "outages[0].node: there is no 'nod-1'; there are node-0, node-1",
        ),
        (
            {"outages": [{"rack": "rack-0", "atSeconds": 1, "forSeconds": 1}]},
            "outages[0].rack: there is no 'rack-0'; there are none",
        ),
        ({"faults": {"lots": 1}}, "faults.lots: Forbidden: there is no such field; there are crash, lost"),
        ({"faults": {"lost": 2}}, "faults.lost: Invalid value: 2: must be at most 1"),
        ({"kind": "Scenery"}, 'kind: Unsupported value: "Scenery"'),
        (
            {"policy": POLICY | {"bakfill": 1}},
            "policy.bakfill: Forbidden: there is no such field; there are apiVersion",
        ),
        ({"policy": POLICY | {"orders": [{"name": "nobody"}]}}, 'policy.orders[0].name: Unsupported value: "nobody"'),
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
    assert {field.name for field in msgspec.structs.fields(Summary)} - {"cycles"} <= numbers.keys()
    table = CliRunner().invoke(command, [str(file)])
    assert "20 succeeded, 0 failed" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "is not YAML"),
        ("[]", 'document: Invalid value: "a list": expected a mapping'),
        ("apiVersion: allhands.dev/v1alpha1\nkind: Scenario\n", "broken.yaml: workloads: Required value"),
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


def test_queues_may_be_written_before_their_parents() -> None:
    scenario = read_scenario(
        small(
            queues=[
                {"name": "inner", "spec": {"parent": "middle"}},
                {"name": "middle", "spec": {"parent": "outer"}},
                {"name": "outer", "spec": {"weight": 2}},
            ]
        )
    )
    assert run_scenario(scenario).result.jobs_succeeded
