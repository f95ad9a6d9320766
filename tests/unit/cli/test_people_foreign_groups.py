"""PodGroups of Volcano and of coscheduling, as their users ask about them with the commands for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from allhands.cli import root
from allhands.cli.table_text import MAX_WIDTH
from allhands.ports import Query
from tests.foreign_kinds import COSCHEDULING, VOLCANO, define_all, group
from tests.scheduler_world import POD_GROUPS
from tests.unit.cli.running_cluster import JOBS, PODS, QUEUES, RunningCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.kinds import Resource


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.call(define_all(cluster.cluster.objects))
        cluster.create(QUEUES, {"metadata": {"name": "blue"}, "spec": {"weight": 1}})
        yield cluster


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[RunningCluster]:
    yield running
    for resource in (COSCHEDULING, VOLCANO, POD_GROUPS):
        running.call(running.cluster.objects.delete_all(resource, Query(namespace="default")))
    running.clean()


def ask(cluster: RunningCluster, *arguments: str) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(root, [command, "--kubeconfig", str(cluster.kubeconfig), *rest])


def make(cluster: RunningCluster, resource: Resource, name: str, pods: int, cpu: str = "4", **spec: Any) -> None:
    cluster.create(resource, group(resource, name, minMember=pods, **spec), "default")
    metadata: dict[str, Any] = (
        {"annotations": {"scheduling.k8s.io/group-name": name}}
        if resource == VOLCANO
        else {"labels": {"scheduling.x-k8s.io/pod-group": name}}
    )
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    pod = {"schedulerName": "allhands", "restartPolicy": "Never", "containers": [container]}
    for number in range(pods):
        body = {"metadata": {"name": f"{name}-{number}", **metadata}, "spec": pod}
        cluster.create(PODS, body, "default")


def is_told(found: dict[str, Any]) -> bool:
    return "allhands.dev/scheduling" in (found["metadata"].get("annotations") or {})


def is_running(found: dict[str, Any]) -> bool:
    return bool((found.get("status") or {}).get("phase") == "Running")


def test_a_volcano_gang_that_waits_is_listed_and_explained(cluster: RunningCluster) -> None:
    make(cluster, VOLCANO, "first", 2, queue="blue")
    cluster.until(VOLCANO, "first", is_running)
    make(cluster, VOLCANO, "train", 2, queue="blue")
    cluster.until(VOLCANO, "train", is_told)
    shown = ask(cluster, "jobs")
    assert shown.exit_code == 0, shown.output
    heading, first, train = shown.output.splitlines()
    assert heading.split() == ["NAME", "QUEUE", "PODS", "STATE", "START", "AGE", "WHY"]
    assert first.split()[:4] == ["podgroup/first", "blue", "2/2", "Running"]
    assert train.split()[:5] == ["podgroup/train", "blue", "0/2", "Waiting", "unknown"]
    assert "1 of the 2 pods fit now; cpu is short by 4." in train
    assert max(map(len, shown.output.splitlines())) <= MAX_WIDTH
    (row,) = json.loads(ask(cluster, "jobs", "--state", "waiting", "-o", "json").output)["items"]
    assert (row["kind"], row["api_group"], row["label"]) == ("podgroup", "scheduling.volcano.sh", "podgroup/train")
    assert ask(cluster, "jobs", "-o", "name").output.splitlines() == [
        "podgroup.scheduling.volcano.sh/first",
        "podgroup.scheduling.volcano.sh/train",
    ]
    names = ("train", "podgroup/train", "pg/train", "podgroup.scheduling.volcano.sh/train")
    for name in (*names, "podgroups.v1beta1.scheduling.volcano.sh/train"):
        story = ask(cluster, "explain", name)
        assert story.output.startswith('podgroup/train in namespace "default": Waiting'), story.output
        assert "Kind           PodGroup of scheduling.volcano.sh" in story.output
        assert "1 of the 2 pods fit now; cpu is short by 4." in story.output
        assert 'nobody knows when "default/volcano:first" ends' in " ".join(story.output.split())
        assert "podgroup/first in default: Running" in story.output
        assert "FailedScheduling" in story.output
        assert max(map(len, story.output.splitlines())) <= MAX_WIDTH
    blue = json.loads(ask(cluster, "queues", "-o", "json").output)["items"][0]
    assert (blue["name"], blue["running"], blue["waiting"]) == ("blue", 1, 1)
    assert "default/podgroup/train" in ask(cluster, "explain", "blue").output


def test_a_coscheduling_gang_is_listed_waited_for_and_its_pods_say_whose_they_are(cluster: RunningCluster) -> None:
    make(cluster, COSCHEDULING, "serve", 2, cpu="1")
    shown = ask(cluster, "wait", "podgroup/serve", "--for", "running", "--timeout", "60s")
    assert shown.output == "podgroup.scheduling.x-k8s.io/serve is running\n"
    assert "podgroup/serve (Running)" in ask(cluster, "explain", "serve-0").output


def test_a_name_that_may_mean_several_things_is_refused_with_the_choices(cluster: RunningCluster) -> None:
    for resource in (VOLCANO, COSCHEDULING):
        cluster.create(resource, group(resource, "x", minMember=1), "default")
    cluster.create(POD_GROUPS, group(POD_GROUPS, "x", schedulingPolicy={"gang": {"minCount": 1}}), "default")
    container = {"name": "main", "image": "busybox"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    cluster.create(JOBS, {"metadata": {"name": "x"}, "spec": {"suspend": True, "template": template}}, "default")
    systems = ["podgroup.scheduling.k8s.io/x", "podgroup.scheduling.volcano.sh/x", "podgroup.scheduling.x-k8s.io/x"]
    assert [line.split()[0] for line in ask(cluster, "jobs").output.splitlines()] == ["NAME", "job/x", *systems]
    for name, choices in (("x", ["job/x", *systems]), ("podgroup/x", systems)):
        shown = ask(cluster, "explain", name)
        assert shown.exit_code == 1
        assert shown.stderr == f"Error: {name} may be any of {', '.join(choices)}: say which, such as {choices[0]}\n"
    for command in ("wait", "logs"):
        shown = ask(cluster, command, "podgroup/x")
        assert (shown.exit_code, "say which" in shown.stderr) == (1, True)
    for name in ("job/x", *systems):
        assert ask(cluster, "explain", name).exit_code == 0
    shown = ask(cluster, "explain", "podgroup.example.com/x")
    assert (shown.exit_code, "is not one of the kinds" in shown.stderr) == (2, True)


def test_a_plain_name_that_nothing_has_is_told_what_is_near(cluster: RunningCluster) -> None:
    cluster.create(VOLCANO, group(VOLCANO, "train", minMember=1), "default")
    shown = ask(cluster, "explain", "trian")
    assert shown.stderr == 'Error: trian was not found in namespace "default". Did you mean train?\n'
