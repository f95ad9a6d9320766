"""Volcano's Jobs and queues, as their users run, watch, stop and restart them: by our commands and by vcctl's words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from allhands.api.kinds import Resource
from allhands.api.volcano.job import JOB
from allhands.cli import root
from allhands.cli.vcctl import command as vcctl
from tests.unit.cli.running_cluster import QUEUES, RunningCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allhands.api.document import Manifest

JOBS = JOB.resource
COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as running:
        running.create(QUEUES, {"metadata": {"name": "blue"}, "spec": {"weight": 1}})
        yield running


def ask(cluster: RunningCluster, *arguments: str, text: str | None = None) -> Result:
    *words, last = arguments
    at = 2 if words[:1] == ["queue"] else 1
    whole = [*words, last]
    whole[at:at] = ["--kubeconfig", str(cluster.kubeconfig)]
    return CliRunner().invoke(root, whole, input=text)


def ask_vcctl(cluster: RunningCluster, *arguments: str) -> Result:
    return CliRunner().invoke(vcctl, [*arguments, "-k", str(cluster.kubeconfig)])


def vcjob(name: str, *, run_seconds: int = 600, queue: str = "default", replicas: int = 2) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": {"sim.allhands.dev/run-seconds": str(run_seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
        },
    }


def submit(cluster: RunningCluster, manifest: dict[str, Any], *more: str) -> Result:
    return ask(cluster, "submit", "-f", "-", *more, text=yaml.safe_dump(manifest))


def is_in(phase: str) -> Callable[[Manifest], bool]:
    return lambda found: bool(((found.get("status") or {}).get("state") or {}).get("phase") == phase)


def test_one_is_run_listed_explained_and_waited_for(cluster: RunningCluster) -> None:
    done = submit(cluster, vcjob("quick", run_seconds=0), "--wait", "--timeout", "30s")
    assert (done.exit_code, done.stdout) == (
        0,
        "job.batch.volcano.sh/quick created\njob.batch.volcano.sh/quick succeeded\n",
    )
    (row,) = [it for it in json.loads(ask(cluster, "jobs", "-o", "json").output)["items"] if it["name"] == "quick"]
    assert (row["kind"], row["state"], row["succeeded"], row["completions"]) == ("vcjob", "Succeeded", 2, 2)
    assert "job.batch.volcano.sh/quick" in ask(cluster, "jobs", "-o", "name").output.splitlines()
    for name in ("vcjob/quick", "vj/quick", "jobs.batch.volcano.sh/quick", "quick"):
        assert ask(cluster, "explain", name).output.startswith('vcjob/quick in namespace "default": Succeeded')


def test_one_is_put_by_brought_back_and_begun_anew(cluster: RunningCluster) -> None:
    submit(cluster, vcjob("train"))
    cluster.until(JOBS, "train", is_in("Running"))
    assert ask(cluster, "suspend", "vcjob/train").output == "job.batch.volcano.sh/train is being suspended\n"
    cluster.until(JOBS, "train", is_in("Aborted"))
    assert ask(cluster, "abort", "vcjob/train").output == "job.batch.volcano.sh/train is Aborted already\n"
    assert "It is suspended: Command train-abortjob-" in ask(cluster, "jobs", "-o", "wide").output
    assert ask(cluster, "resume", "vcjob/train").output == "job.batch.volcano.sh/train is being resumed\n"
    cluster.until(JOBS, "train", is_in("Running"))
    assert ask(cluster, "resume", "vcjob/train").output == "job.batch.volcano.sh/train is not suspended\n"
    dry = ask(cluster, "restart", "vcjob/train", "--dry-run")
    assert dry.output == "job.batch.volcano.sh/train is being restarted (dry run)\n"
    assert ask(cluster, "restart", "vcjob/train").exit_code == 0
    cluster.until(JOBS, "train", lambda it: (it["status"].get("retryCount"), is_in("Running")(it)) == (1, True))
    assert ask(cluster, "abort", "vcjob/train", "--for-good").exit_code == 0
    cluster.until(JOBS, "train", is_in("Terminated"))
    late = ask(cluster, "restart", "vcjob/train")
    assert (late.exit_code, late.output) == (
        1,
        "Error: job.batch.volcano.sh/train was ended for good: there is nothing to restart\n",
    )
    assert "TerminateJob" in ask(cluster, "explain", "vcjob/train").output


def test_one_that_is_not_there_is_named_with_those_that_are(cluster: RunningCluster) -> None:
    submit(cluster, vcjob("present"))
    missing = ask(cluster, "restart", "vcjob/presents")
    assert missing.exit_code == 1
    assert missing.output == (
        'Error: vcjob/presents was not found in namespace "default". Did you mean vcjob/present?\n'
    )


def test_a_queue_is_closed_and_opened(cluster: RunningCluster) -> None:
    full = "queue.scheduling.volcano.sh/blue"
    assert ask(cluster, "queue", "close", "blue").output == f"{full} is being closed\n"
    cluster.until(QUEUES, "blue", lambda it: it["status"]["state"] == "Closed", "")
    refused = submit(cluster, vcjob("late", queue="blue"))
    assert refused.exit_code == 1
    assert 'spec.queue: Invalid value: "blue": the queue is Closed' in refused.output
    assert ask(cluster, "queue", "close", "blue").output == f"{full} is Closed already\n"
    assert ask(cluster, "queue", "open", "blue").output == f"{full} is being opened\n"
    cluster.until(QUEUES, "blue", lambda it: it["status"]["state"] == "Open", "")
    assert cluster.call(cluster.cluster.objects.list(COMMANDS)).items == []


def test_a_queue_below_a_closed_one_is_not_opened_and_it_is_said(cluster: RunningCluster) -> None:
    above, below = "queue.scheduling.volcano.sh/upper", "queue.scheduling.volcano.sh/lower"
    for name, spec in (("upper", {}), ("lower", {"parent": "upper"})):
        cluster.create(QUEUES, {"metadata": {"name": name}, "spec": spec})
    assert ask(cluster, "queue", "close", "upper").output == f"{above} is being closed\n"
    for name in ("upper", "lower"):
        cluster.until(QUEUES, name, lambda it: it["status"]["state"] == "Closed", "")
    said = f"Error: {below} cannot be opened: the queue upper above it is Closed; open that one first\n"
    for refused in (
        ask(cluster, "queue", "open", "lower"),
        ask_vcctl(cluster, "queue", "operate", "-n", "lower", "-a", "open"),
    ):
        assert (refused.exit_code, refused.output) == (1, said)
    assert ask(cluster, "queue", "open", "upper").output == f"{above} is being opened\n"
    cluster.until(QUEUES, "lower", lambda it: it["status"]["state"] == "Open", "")


def test_options_of_submit_are_fields_of_a_volcano_job(cluster: RunningCluster) -> None:
    submit(cluster, vcjob("fields", replicas=3), "--queue", "blue", "--min-available", "2")
    spec = cluster.get(JOBS, "fields")["spec"]
    assert (spec["queue"], spec["minAvailable"]) == ("blue", 2)


def test_vcctl_runs_lists_and_deletes_jobs_in_its_own_words(cluster: RunningCluster) -> None:
    assert (
        ask_vcctl(cluster, "job", "run", "-N", "plain", "-r", "2", "-m", "1").output == "run job plain successfully\n"
    )
    cluster.until(JOBS, "plain", is_in("Running"))
    heading, row = ask_vcctl(cluster, "job", "list", "--selector", "plain").output.splitlines()
    assert " ".join(heading.split()) == (
        "Name Creation Phase JobType Replicas Min Pending Running Succeeded Failed Unknown RetryCount"
    )
    assert (row.split()[0], row.split()[2:6]) == ("plain", ["Running", "Batch", "2", "1"])
    assert ask_vcctl(cluster, "job", "view", "-N", "plain").output.startswith("vcjob/plain in namespace")
    assert ask_vcctl(cluster, "job", "delete", "-N", "plain").output == "delete job plain successfully\n"
    assert ask_vcctl(cluster, "job", "list", "--selector", "nobody").output == "No resources found\n"
    assert ask_vcctl(cluster, "job", "run").exit_code == 2
    wrong = ask_vcctl(cluster, "job", "run", "-N", "x", "-R", "cpu")
    assert "'cpu' is not RESOURCE=AMOUNT, such as cpu=500m" in wrong.output


def test_vcctl_makes_operates_and_deletes_queues(cluster: RunningCluster) -> None:
    assert ask_vcctl(cluster, "queue", "create", "-n", "red", "-w", "3").exit_code == 0
    assert ask_vcctl(cluster, "queue", "operate", "-n", "red", "-a", "update", "-w", "4").exit_code == 0
    heading, row = ask_vcctl(cluster, "queue", "get", "-n", "red").output.splitlines()
    assert (heading.split()[:3], row.split()[:2]) == (["Name", "Weight", "State"], ["red", "4"])
    assert ask_vcctl(cluster, "queue", "operate", "-n", "red", "-a", "update").exit_code == 2
    assert ask_vcctl(cluster, "queue", "delete", "-n", "red").exit_code == 0
    assert "red" not in ask_vcctl(cluster, "queue", "list").output
