"""`allhands suspend` and `resume` on an API: one, several, by labels; already so, over, not there, not possible."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from allhands.api.kinds import Resource
from allhands.cli import root
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOBS = Resource("batch", "v1", "jobs")
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}


def job(name: str, team: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"team": team} if team else {}},
        "spec": {"template": TEMPLATE, **spec},
    }


CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "nightly"},
    "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
}
DONE = {
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:00:01Z",
    "succeeded": 1,
    "conditions": [
        {"type": it, "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
        for it in ("SuccessCriteriaMet", "Complete")
    ],
}


async def finish(path: Path, name: str) -> None:
    """As its controller would."""
    async with KubeObjects(kubeconfig.load(path, "")) as objects:
        await objects.patch(JOBS, name, "merge", {"status": DONE}, "default", subresource="status")


class Api:
    """The API alone: nothing runs, so that only these commands change anything."""

    def __init__(self, path: Path) -> None:
        self._kubeconfig = path

    def ask(self, command: str, *arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(root, [command, "--kubeconfig", str(self._kubeconfig), *arguments], input=text)

    def submit(self, *manifests: dict[str, Any]) -> None:
        shown = self.ask("submit", "-f", "-", text=yaml.safe_dump_all(manifests))
        assert shown.exit_code == 0, shown.output

    def is_suspended(self, name: str) -> bool:
        shown = self.ask("jobs", "-o", "json").stdout
        rows = {it["name"]: it for it in yaml.safe_load(shown)["items"]}
        return bool(rows[name]["reason"] == "Suspended")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with EmbeddedInThread(tmp_path_factory.mktemp("api")) as cluster:
        api = Api(cluster.kubeconfig)
        api.submit(job("a", "vision"), job("b", "vision"), job("c"), CRON_JOB, job("over", "vision"))
        asyncio.run(finish(cluster.kubeconfig, "over"))
        yield api


def test_one_is_suspended_and_resumed_and_told_if_it_is_so_already(api: Api) -> None:
    assert api.ask("suspend", "job/c").output == "job.batch/c suspended\n"
    assert api.is_suspended("c")
    again = api.ask("suspend", "jobs/c")
    assert (again.exit_code, again.output) == (0, "job.batch/c is suspended already\n")
    assert api.ask("resume", "job.batch/c").output == "job.batch/c resumed\n"
    assert not api.is_suspended("c")
    assert api.ask("resume", "job/c").output == "job.batch/c is not suspended\n"


def test_one_that_is_not_there_does_not_stop_the_others(api: Api) -> None:
    shown = api.ask("suspend", "job/bb", "cronjob/nightly", "job/a")
    assert shown.exit_code == 1
    assert shown.stdout == "cronjob.batch/nightly suspended\njob.batch/a suspended\n"
    assert shown.stderr == 'Error: job/bb was not found in namespace "default". Did you mean job/b?\n'
    assert api.ask("resume", "cj/nightly", "job/a").exit_code == 0


def test_a_dry_run_changes_nothing(api: Api) -> None:
    assert api.ask("suspend", "job/a", "--dry-run").output == "job.batch/a suspended (dry run)\n"
    assert not api.is_suspended("a")


def test_labels_choose_jobs_that_are_not_over(api: Api) -> None:
    shown = api.ask("suspend", "-l", "team=vision")
    assert (shown.exit_code, shown.output) == (0, "job.batch/a suspended\njob.batch/b suspended\n")
    shown = api.ask("resume", "-l", "team in (vision)", "-A")
    assert shown.output == "default/job.batch/a resumed\ndefault/job.batch/b resumed\n"
    nobody = api.ask("suspend", "-l", "team=none")
    assert (nobody.exit_code, nobody.output) == (0, 'No Jobs with team=none in namespace "default".\n')


def test_what_is_over_cannot_be_suspended(api: Api) -> None:
    shown = api.ask("suspend", "job/over")
    assert (shown.exit_code, shown.output) == (1, "Error: job/over has succeeded: there is nothing to suspend\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["pod/x"],
            "'pod' has nothing that could be suspended; job, cronjob, vcjob and cronvcjob have; suspend the Job",
        ),
        (["svc/x"], "'svc' has nothing that could be suspended; job, cronjob, vcjob and cronvcjob have"),
        (["c"], "'c' is not KIND/NAME, such as job/hello"),
        ([], "say which: KIND/NAME, or all Jobs with some labels by -l"),
        (["job/c", "-l", "a=b"], "say which"),
        (["job/c", "-A"], "-A is for -l"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(api: Api, arguments: list[str], complaint: str) -> None:
    shown = api.ask("suspend", *arguments)
    assert shown.exit_code == 2
    assert complaint in shown.output


def test_labels_that_make_no_sense_are_a_sentence(api: Api) -> None:
    shown = api.ask("suspend", "-l", "team in (")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("Error: unable to parse requirement")
