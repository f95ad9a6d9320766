"""The commands for people against a whole embedded cluster, as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from allhands.cli import root
from allhands.cli.submit import is_changed
from allhands.cli.table_text import MAX_WIDTH
from allhands.ports import Document
from tests.unit.cli.running_cluster import JOBS, RunningCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = Path(sys.executable).parent / "allhands"


def job(name: str, *, pods: int = 2, cpu: str = "4", **more: Any) -> dict[str, Any]:
    annotations = {"allhands.dev/min-available": "all"} if more.pop("gang", True) else {}
    simulated = more.pop("simulated", {})
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    template = {
        "metadata": {"annotations": simulated},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": pods, "completions": pods, "template": template, **more},
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[RunningCluster]:
    yield running
    running.clean()


def ask(cluster: RunningCluster, *arguments: object, text: str | None = None) -> Result:
    command, *rest = map(str, arguments)
    return CliRunner().invoke(root, [command, "--kubeconfig", str(cluster.kubeconfig), *rest], input=text)


def submit(cluster: RunningCluster, *manifests: dict[str, Any], options: tuple[str, ...] = ()) -> Result:
    return ask(cluster, "submit", "-f", "-", *options, text=yaml.safe_dump_all(manifests))


def is_bound(found: dict[str, Any]) -> bool:
    return bool(found["status"].get("ready"))


def waiting_gang(cluster: RunningCluster) -> None:
    """`blocker` has eight of the twelve cores for at most ten minutes; `train` wants eight more."""
    shown = submit(cluster, job("blocker", activeDeadlineSeconds=600), job("train"))
    assert shown.output == "job.batch/blocker created\njob.batch/train created\n"
    cluster.until(JOBS, "blocker", is_bound)
    cluster.until(JOBS, "train", lambda it: "allhands.dev/scheduling" in it["metadata"]["annotations"])


def test_jobs_tell_who_runs_who_waits_why_and_until_when(cluster: RunningCluster) -> None:
    waiting_gang(cluster)
    shown = ask(cluster, "jobs")
    assert shown.exit_code == 0, shown.output
    heading, blocker, train = shown.output.splitlines()
    assert heading.split() == ["NAME", "QUEUE", "PODS", "STATE", "START", "AGE", "WHY"]
    assert blocker.split()[:4] == ["job/blocker", "default", "2/2", "Running"]
    assert train.split()[:5] == ["job/train", "default", "0/2", "Waiting", "in"]
    assert "1 of the 2 pods fit now; cpu is short by 4." in train
    assert all(len(line) <= MAX_WIDTH for line in shown.output.splitlines())
    wide = ask(cluster, "jobs", "-o", "wide").output
    assert 'It can start once "default/job:blocker" has ended' in wide
    assert "…" not in wide


def test_jobs_come_as_json_yaml_and_names_and_can_be_narrowed(cluster: RunningCluster) -> None:
    waiting_gang(cluster)
    items = json.loads(ask(cluster, "jobs", "-o", "json").output)["items"]
    assert [(it["name"], it["state"]) for it in items] == [("blocker", "Running"), ("train", "Waiting")]
    assert items[1]["reason"] == "InsufficientResources"
    assert items[1]["numbers"]["short"] == "4"
    same = yaml.safe_load(ask(cluster, "jobs", "-o", "yaml").output)["items"]
    assert [it["name"] for it in same] == ["blocker", "train"]
    assert ask(cluster, "jobs", "-o", "name", "--state", "waiting").output == "job.batch/train\n"
    everywhere = ask(cluster, "jobs", "-A").output
    assert everywhere.split()[:2] == ["NAMESPACE", "NAME"]
    nothing = ask(cluster, "jobs", "--queue", "nowhere")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == 'No jobs in namespace "default" that match.\n'
    assert ask(cluster, "jobs", "-A", "-n", "default").exit_code == 2


def test_explain_tells_the_whole_story_of_a_waiting_job(cluster: RunningCluster) -> None:
    waiting_gang(cluster)
    told = ask(cluster, "explain", "job/train").output
    assert told.startswith('job/train in namespace "default": Waiting\n')
    for part in (
        "0 of 2 ready; all 2 must start together",
        "2 × (cpu 4, memory 1Gi)",
        "Reason: InsufficientResources",
        "It is expected to start in ",
        "job/blocker in default: Running since",
        "3 of 3 nodes allow its pods; looked at one by one, they have room for 1 of them.",
        "FailedScheduling: 1 of the 2 pods fit now",
    ):
        assert part in told
    assert all(len(line) <= MAX_WIDTH for line in told.splitlines())
    story = json.loads(ask(cluster, "explain", "job/train", "-o", "json").output)
    assert story["state"] == "Waiting"
    assert "Why it waits" in [it["heading"] for it in story["sections"]]


def test_explain_tells_where_a_running_job_is_and_pods_their_own_story(cluster: RunningCluster) -> None:
    submit(cluster, job("ring"))
    cluster.until(JOBS, "ring", is_bound)
    told = ask(cluster, "explain", "jobs/ring").output
    assert 'job/ring in namespace "default": Running' in told
    assert "Where its pods are\n  node-" in told
    assert "Scheduled: Bound 2 pods to 2 nodes." in told
    pod = json.loads(ask(cluster, "jobs", "-o", "json").output)["items"][0]["nodes"]
    assert len(pod) == 2
    name = next(line.split()[1] for line in told.splitlines() if line.startswith("  node-"))
    assert "Belongs to  job/ring (Running)" in ask(cluster, "explain", f"pod/{name}").output


def test_what_is_not_found_is_told_with_what_may_have_been_meant(cluster: RunningCluster) -> None:
    submit(cluster, job("train", pods=1))
    for command in ("explain", "wait", "logs"):
        shown = ask(cluster, command, "job/trian")
        assert shown.exit_code == 1
        assert shown.stderr == 'Error: job/trian was not found in namespace "default". Did you mean job/train?\n'
    shown = ask(cluster, "explain", "job/train", "-n", "elsewhere")
    assert "There is one in 'default': add -n default." in shown.stderr
    for wrong in ("/train", "job/", "node/x", "job/a/b"):
        shown = ask(cluster, "explain", wrong)
        assert shown.exit_code == 2
        assert "Traceback" not in shown.output


def test_submit_creates_then_finds_unchanged_then_configures(cluster: RunningCluster) -> None:
    first = job("train", pods=1)
    assert submit(cluster, first).output == "job.batch/train created\n"
    assert submit(cluster, first).output == "job.batch/train unchanged\n"
    first["spec"]["backoffLimit"] = 2
    assert submit(cluster, first).output == "job.batch/train configured\n"
    assert cluster.get(JOBS, "train")["spec"]["backoffLimit"] == 2
    first["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    refused = submit(cluster, first)
    assert refused.exit_code == 1
    assert "field is immutable" in refused.stderr


def test_a_status_written_meanwhile_is_no_change_of_what_was_submitted() -> None:
    def seen(version: str, **more: Any) -> Document:
        metadata = {"name": "train", "resourceVersion": version, "managedFields": [{"time": version}]}
        return Document(json.dumps({"metadata": metadata | more.pop("metadata", {}), **more}).encode())

    before = seen("1", spec={"parallelism": 1})
    assert not is_changed(before, seen("2", spec={"parallelism": 1}, status={"active": 1}))
    assert is_changed(before, seen("2", spec={"parallelism": 2}))
    assert is_changed(before, seen("2", spec={"parallelism": 1}, metadata={"labels": {"team": "a"}}))


def test_submit_writes_the_queue_and_the_gang(cluster: RunningCluster) -> None:
    submit(cluster, job("train", pods=1, gang=False), options=("--queue", "team-a", "--min-available", "all"))
    annotations = cluster.get(JOBS, "train")["metadata"]["annotations"]
    assert annotations["allhands.dev/queue"] == "team-a"
    assert annotations["allhands.dev/min-available"] == "all"


def test_a_dry_run_changes_nothing(cluster: RunningCluster) -> None:
    assert submit(cluster, job("ghost"), options=("--dry-run",)).output == "job.batch/ghost created (dry run)\n"
    assert ask(cluster, "explain", "job/ghost").exit_code == 1


def test_refused_fields_are_named_and_the_rest_is_still_created(cluster: RunningCluster) -> None:
    bad = job("Bad_Name", pods=-1)
    shown = submit(cluster, bad, job("good", pods=1))
    assert shown.exit_code == 1
    assert shown.stdout == "job.batch/good created\n"
    lines = shown.stderr.splitlines()
    assert lines[0].startswith("Error: stdin: document 1: Job.batch ")
    assert any(line.startswith("  metadata.name: Invalid value") for line in lines)
    assert any(line.startswith("  spec.parallelism: Invalid value: -1") for line in lines)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no objects in it"),
        ("- a\n- b\n", "must be an object with apiVersion, kind and metadata"),
        ("a: [", "yaml: line 1"),
        ("kind: Job\n", "apiVersion: must be a text, such as batch/v1"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {}\n", "metadata.name: must be set"),
        ("apiVersion: batch/v1\nkind: Job\nkind: Job\nmetadata: {name: a}\n", "kind"),
        ("apiVersion: batch/v1\nkind: Jbo\nmetadata: {name: a}\n", 'has no kind "Jbo"; did you mean Job?'),
        ("apiVersion: nope/v1\nkind: Job\nmetadata: {name: a}\n", 'the server does not know "nope/v1"'),
        ("apiVersion: v1\nkind: List\nitems: [{}]\n", "items[0]: apiVersion: must be a text"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspc: {}\n", "unknown field"),
        ("a: &a [*a]\n", "stdin"),
        ("\x00", "stdin"),
    ],
)
def test_files_that_make_no_sense_are_told_so(cluster: RunningCluster, text: str, complaint: str) -> None:
    shown = ask(cluster, "submit", "-f", "-", text=text)
    assert shown.exit_code == 1
    assert complaint in shown.stderr
    assert shown.exception is None or isinstance(shown.exception, SystemExit)


def test_files_and_options_that_cannot_be_used_are_told(cluster: RunningCluster, tmp_path: Path) -> None:
    assert "No such file or directory" in ask(cluster, "submit", "-f", tmp_path / "none.yaml").stderr
    assert "Is a directory" in ask(cluster, "submit", "-f", tmp_path).stderr
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    assert submit(cluster, settings, options=("--queue", "a")).exit_code == 2
    assert submit(cluster, settings, options=("--min-available", "2")).exit_code == 2
    assert "is neither a number of pods" in submit(cluster, job("a"), options=("--min-available", "most")).stderr
    elsewhere = job("a")
    elsewhere["metadata"]["namespace"] = "other"
    shown = submit(cluster, elsewhere, options=("-n", "default"))
    assert 'metadata.namespace: is "other", but -n says "default"' in shown.stderr


def test_wait_ends_when_it_is_so_and_fails_when_it_cannot_be(cluster: RunningCluster) -> None:
    quick = job("quick", pods=1, simulated={"sim.allhands.dev/run-seconds": "0.2"})
    broken = job("broken", pods=1, simulated={"sim.allhands.dev/exit-code": "3", "sim.allhands.dev/run-seconds": "0"})
    broken["spec"]["backoffLimit"] = 0
    submit(cluster, quick, broken)
    waited = ask(cluster, "wait", "job/quick", "--for", "complete", "--timeout", "20s")
    assert waited.output == "job.batch/quick succeeded\n"
    failed = ask(cluster, "wait", "job/broken", "--timeout", "20s")
    assert failed.exit_code == 1
    assert failed.stderr.startswith("Error: job/broken failed: BackoffLimitExceeded")
    assert ask(cluster, "wait", "job/broken", "--for", "failed").exit_code == 0
    assert ask(cluster, "wait", "job/nothing", "--for", "deleted").output == "job.batch/nothing deleted\n"


def test_wait_gives_up_with_the_reason(cluster: RunningCluster) -> None:
    waiting_gang(cluster)
    assert ask(cluster, "wait", "job/blocker", "--for=running").output == "job.batch/blocker is running\n"
    shown = ask(cluster, "wait", "job/train", "--for=running", "--timeout=0")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("Error: timed out: job/train is waiting: 1 of the 2 pods fit now")
    assert ask(cluster, "wait", "job/train", "--timeout", "soon").exit_code == 2


def test_submit_can_wait_for_the_end(cluster: RunningCluster) -> None:
    quick = job("quick", pods=2, cpu="1", simulated={"sim.allhands.dev/run-seconds": "0.1"})
    shown = submit(cluster, quick, options=("--wait", "--timeout", "20s"))
    assert (shown.exit_code, shown.output) == (0, "job.batch/quick created\njob.batch/quick succeeded\n")


def test_top_shows_nodes_and_the_busiest_jobs(cluster: RunningCluster) -> None:
    waiting_gang(cluster)
    shown = ask(cluster, "top")
    assert shown.exit_code == 0, shown.output
    assert "all 3   -      2     ██████░░ 8/12" in shown.output
    assert "default/job/blocker" in shown.output
    assert "job/train" not in shown.output
    assert all(len(line) <= MAX_WIDTH for line in shown.output.splitlines())
    top = json.loads(ask(cluster, "top", "--nodes", "1", "-o", "json").output)
    assert (top["node_count"], len(top["nodes"]), top["jobs"][0]["share_percent"]) == (3, 1, 66)


def test_a_watch_into_a_pipe_tells_what_changes_and_ends_with_ctrl_c(cluster: RunningCluster) -> None:
    submit(cluster, job("first", pods=1))
    cluster.until(JOBS, "first", is_bound)
    process = subprocess.Popen(
        [COMMAND, "jobs", "--kubeconfig", cluster.kubeconfig, "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("NAME")
    assert process.stdout.readline().startswith("job/first")
    submit(cluster, job("second", pods=1))
    lines = ""
    while "Running" not in (line := process.stdout.readline()):
        assert line, "it ended by itself"
        lines += line
    assert line.startswith("job/second")
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (130, "")


def test_queues_come_with_shares_and_counts(cluster: RunningCluster) -> None:
    spec = {"deserved": {"cpu": "4"}, "capability": {"cpu": "8"}}
    manifest = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team-a"}}
    assert submit(cluster, manifest | {"spec": spec}).output == "queue.scheduling.volcano.sh/team-a created\n"
    submit(cluster, job("blocker", activeDeadlineSeconds=600), options=("--queue", "team-a"))
    cluster.until(JOBS, "blocker", is_bound)
    shown = ask(cluster, "queues").output.splitlines()
    assert shown[0].split() == ["NAME", "STATE", "WEIGHT", "SHARE", "CPU", "MEMORY", "RUNNING", "WAITING"]
    rows = {line.split()[0]: line.split()[1:] for line in shown[1:]}
    assert rows["team-a"] == ["Open", "1", "200%", "8/4/8", "2Gi/-/-", "1", "0"]
    assert "default" in rows
    assert "queue.scheduling.volcano.sh/team-a" in ask(cluster, "queues", "-o", "name").output.splitlines()
    told = ask(cluster, "explain", "queue/team-a").output
    assert "cpu: 8 used, deserved 4, at most 8, 4 borrowed" in told
    assert "default/job/blocker: 2 of 2 pods ready" in told
    assert "Did you mean queue/team-a" in ask(cluster, "explain", "queue/team-x").stderr
