"""JobFlows as their users list and explain them: how far, which steps run, what the others wait for, why it stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.cli import root
from tests.unit.cli.running_cluster import RunningCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

FLOWS = JOB_FLOW.resource


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as running:
        for name, seconds, code in (("quick", 0, 0), ("slow", 600, 0), ("broken", 0, 3)):
            assert submit(running, template(name, seconds, code)).exit_code == 0
        yield running


def ask(cluster: RunningCluster, command: str, *arguments: str, text: str | None = None) -> Result:
    words = [command, "--kubeconfig", str(cluster.kubeconfig), *arguments]
    return CliRunner().invoke(root, words, input=text)


def submit(cluster: RunningCluster, manifest: dict[str, Any]) -> Result:
    return ask(cluster, "submit", "-f", "-", text=yaml.safe_dump(manifest))


def template(name: str, run_seconds: int, exit_code: int) -> dict[str, Any]:
    notes = {"sim.allhands.dev/run-seconds": str(run_seconds), "sim.allhands.dev/exit-code": str(exit_code)}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    task = {"name": "t", "replicas": 1, "template": {"metadata": {"annotations": notes}, "spec": pod}}
    spec = {"schedulerName": "volcano", "tasks": [task]}
    return {
        "apiVersion": JOB_TEMPLATE.api_version,
        "kind": JOB_TEMPLATE.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def flow(name: str, *steps: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": JOB_FLOW.api_version,
        "kind": JOB_FLOW.kind,
        "metadata": {"name": name},
        "spec": {"flows": list(steps), **spec},
    }


def step(name: str, *targets: str) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(targets)}} if targets else {"name": name}


def until(cluster: RunningCluster, name: str, phase: str, reason: str = "") -> None:
    cluster.until(FLOWS, name, lambda it: _said(it) == (phase, reason))


def _said(flow: dict[str, Any]) -> tuple[str, str]:
    state = (flow.get("status") or {}).get("state") or {}
    return state.get("phase", ""), state.get("reason", "")


def listed(cluster: RunningCluster, name: str) -> dict[str, Any]:
    (row,) = [it for it in json.loads(ask(cluster, "flows", "-o", "json").output)["items"] if it["name"] == name]
    found: dict[str, Any] = row
    return found


def test_one_that_runs_shows_its_steps_and_what_they_wait_for(cluster: RunningCluster) -> None:
    submit(cluster, flow("onwards", step("quick"), step("slow", "quick"), step("broken", "slow", "job.batch/other")))
    cluster.until(FLOWS, "onwards", lambda it: (it.get("status") or {}).get("runningJobs") == ["onwards-slow"])
    row = listed(cluster, "onwards")
    assert (row["state"], row["phase"], row["done"]) == ("Running", "Running", 1)
    assert [(it["name"], it["state"], it["waits_for"]) for it in row["steps"]] == [
        ("quick", "Succeeded", []),
        ("slow", "Running", []),
        ("broken", None, ["slow", "job.batch/other"]),
    ]
    (line,) = [it.split() for it in ask(cluster, "flows").output.splitlines() if it.startswith("onwards ")]
    assert line[1:4] == ["Running", "1/3", "slow"]
    told = ask(cluster, "explain", "flow/onwards").output
    assert told.startswith('flow/onwards in namespace "default": Running')
    assert "  broken: waits for slow, job.batch/other\n" in told
    assert "slow: Running since" in told
    assert "Created: Created Job onwards-slow." in told


def test_one_whose_jobs_are_removed_is_still_told_whole(cluster: RunningCluster) -> None:
    submit(cluster, flow("done", step("quick"), jobRetainPolicy="delete"))
    until(cluster, "done", "Succeed")
    row = listed(cluster, "done")
    assert (row["state"], row["done"], [it["state"] for it in row["steps"]]) == ("Succeeded", 1, ["Succeeded"])
    for word in ("flow/done", "jobflow/done", "jf/done", "jobflows.flow.volcano.sh/done", "done"):
        told = ask(cluster, "explain", word).output
        assert told.startswith('flow/done in namespace "default": Succeeded'), word
        assert "quick: Succeeded, took" in told


@pytest.mark.parametrize(
    ("name", "second", "phase", "reason", "why"),
    [
        ("lost", step("broken"), "Failed", "StepFailed", "Job lost-broken has failed"),
        ("lacking", step("missing"), "Running", "MissingTemplate", 'step missing: there is no JobTemplate "missing"'),
    ],
)
def test_why_one_does_not_go_on_is_in_the_list_and_in_the_story(
    cluster: RunningCluster, name: str, second: dict[str, Any], phase: str, reason: str, why: str
) -> None:
    submit(cluster, flow(name, step("quick"), second))
    until(cluster, name, phase, reason)
    row = listed(cluster, name)
    assert (row["phase"], row["reason"], row["why"]) == (phase, reason, why)
    told = ask(cluster, "explain", f"flow/{name}").output
    heading = "Why it failed" if phase == "Failed" else "Why it does not go on"
    assert f"{heading}\n  {why}\n" in told


def test_names_that_are_not_there_are_met_with_those_that_are(cluster: RunningCluster) -> None:
    submit(cluster, flow("nightly", step("quick")))
    missing = ask(cluster, "explain", "flow/nightl")
    assert missing.output == 'Error: flow/nightl was not found in namespace "default". Did you mean flow/nightly?\n'
    assert ask(cluster, "flows", "-n", "empty").output == 'No flows in namespace "empty".\n'
    assert "default/jobflow.flow.volcano.sh/nightly" in ask(cluster, "flows", "-A", "-o", "name").output
