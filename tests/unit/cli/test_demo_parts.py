"""Parts of the demo: what it remembers of jobs, what it paints, its table, and that it fails if a promise is broken."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec
import pytest

from allhands.cli.demo import conclude, played
from allhands.cli.demo_cast import GPU, RESNET, node_names
from allhands.cli.demo_history import History
from allhands.cli.demo_picture import painted
from allhands.cli.demo_screen import Screen
from allhands.cli.demo_stage import Stage
from allhands.cli.demo_summary import next_steps, table
from allhands.cli.grid_text import Cell
from allhands.compose.embedded import embedded
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.runtime.installing import install_kinds
from allhands.views.picture import Picture, see_event, see_job, see_pod

if TYPE_CHECKING:
    from pathlib import Path

    from allhands.views.picture import EventSeen, JobSeen, PodSeen

BORN = "2026-01-01T00:00:00Z"
RACKS = {"n1": "rack-a", "n2": "rack-a", "n3": "rack-b"}


def job(name: str = "train", size: int = 2, end: str = "", **status: Any) -> JobSeen:
    conditions = [{"type": end, "status": "True", "reason": "Why", "lastTransitionTime": BORN}] if end else []
    manifest = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": BORN,
            "annotations": {"allhands.dev/min-available": "all", "allhands.dev/queue": "vision"},
        },
        "spec": {"parallelism": size, "completions": size, "template": {"spec": {}}},
        "status": {"conditions": conditions, **status},
    }
    return see_job(msgspec.json.encode(manifest))


def pod(number: int, node: str = "", phase: str = "Pending", owner: str = "train", told: str = "") -> PodSeen:
    said = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": told}] if told else []
    manifest = {
        "metadata": {
            "name": f"{owner}-{number}",
            "namespace": "default",
            "uid": f"{owner}-{number}-{node}",
            "creationTimestamp": BORN,
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
            ],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {GPU: "2"}, "limits": {GPU: "2"}}}],
        },
        "status": {"phase": phase, "conditions": said},
    }
    return see_pod(msgspec.json.encode(manifest))


def preempted(name: str) -> EventSeen:
    manifest = {
        "metadata": {"name": "event", "resourceVersion": "7", "creationTimestamp": BORN},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": name, "uid": "x"},
        "type": "Normal",
        "reason": "Preempted",
        "message": 'Gang "default/job:train" must leave for "default/job:urgent".',
    }
    return see_event(msgspec.json.encode(manifest))


def running(*nodes: str) -> Picture:
    return Picture(jobs=[job()], pods=[pod(number, node, "Running") for number, node in enumerate(nodes)])


def history() -> History:
    kept = History(RACKS)
    kept.submit("train", 0.0)
    return kept


def test_time_is_counted_as_waiting_and_as_running() -> None:
    kept = history()
    assert kept.see(Picture(jobs=[job()], pods=[pod(0), pod(1)]), 1.0) == []
    assert kept.see(running("n1", "n3"), 3.0) == ["train runs: 2 workers in rack-a, rack-b"]
    assert kept.see(Picture(jobs=[job(end="Complete", succeeded=2)]), 8.0) == ["train is done"]
    told = kept.jobs["train"]
    assert (told.waited_seconds(99), told.ran_seconds(99)) == (3.0, 5.0)
    assert kept.racks_of("train") == {"rack-a", "rack-b"}


def test_who_has_to_leave_waits_again_and_both_runs_count() -> None:
    kept = history()
    kept.see(running("n1", "n2"), 1.0)
    left = Picture(jobs=[job()], events=[preempted("train-0"), preempted("train-1")])
    assert kept.see(left, 2.0) == ['Gang "default/job:train" must leave for "default/job:urgent".']
    assert kept.see(running("n3", "n3"), 12.0) == ["train runs again: 2 workers in rack-b"]
    told = kept.jobs["train"]
    assert (told.starts, told.waited_seconds(12), told.ran_seconds(13)) == (2, 11.0, 2.0)
    assert "must leave" in told.why()
    assert kept.where("train") == "rack-b"


def test_why_it_had_to_leave_is_said_once_if_it_is_also_why_it_waits() -> None:
    kept = history()
    kept.see(Picture(jobs=[job()], events=[preempted("train-0")]), 2.0)
    told = kept.jobs["train"]
    told.reasons["Reclaimed"] = told.eviction
    assert told.why() == told.eviction


def test_what_the_scheduler_says_is_told_once_in_its_words() -> None:
    kept = history()
    said = "No room."
    waiting = Picture(jobs=[job()], pods=[pod(0, told=said), pod(1, told=said)])
    kept.see(waiting, 1.0)
    assert kept.jobs["train"].why() == ""  # words without a reason are not taken for one
    assert not kept.has_started("train")


def test_pods_that_are_done_before_their_job_is_called_complete_do_not_wait() -> None:
    kept = history()
    kept.see(running("n1", "n2"), 1.0)
    done = [pod(number, "n1", "Succeeded") for number in range(2)]
    assert kept.see(Picture(jobs=[job()], pods=done), 2.0) == []
    assert kept.is_running("train")


def test_a_failed_job_is_told_and_known() -> None:
    kept = history()
    assert kept.see(Picture(jobs=[job(end="Failed")]), 1.0) == ["train failed: Why"]
    assert kept.failed() == ["train"]
    assert kept.is_over("train")


def test_jobs_of_others_are_left_alone() -> None:
    assert history().see(Picture(jobs=[job("stranger")], events=[preempted("stranger-0")]), 1.0) == []


def test_every_gpu_is_painted_with_its_job() -> None:
    kept = history()
    rows = painted(running("n1", "n1"), kept, 0)
    texts = ["".join(cell.text for cell in row) for row in rows]
    assert texts[:2] == ["  rack-a   n1 [tttt] n2 [····]", "  rack-b   n3 [····]"]
    assert texts[2].split() == ["train", "Running", "0", "of", "2", "workers"]


def test_the_table_wraps_its_last_column_and_makes_words_harmless() -> None:
    kept = history()
    kept.see(running("n1", "n3"), 1.0)
    kept.jobs["train"].reasons["Why"] = "words " * 30 + "\033[2J"
    lines = table(kept, 2.0, 80)
    assert lines[0].split() == ["JOB", "QUEUE", "WAITED", "RAN", "WHERE", "WHY", "IT", "WAITED"]
    assert lines[1].startswith("train  vision  1.0 s   1.0 s  all racks")
    assert all(len(line) <= 80 for line in lines)
    assert "\033" not in "".join(lines)


def test_the_next_steps_name_the_command_as_it_was_called() -> None:
    lines = next_steps("./bin/allhands")
    assert lines[0].startswith("  ./bin/allhands up --local")
    assert lines[1] == "and in another terminal:"


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_stay_above_what_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "20", "LINES": "5"}.items():
        monkeypatch.setenv(name, value)
    with Screen() as screen:
        screen.paint([[Cell("x" * 30)], [Cell("two")], [Cell("three")]])
        screen.lines(["said"])
    shown = terminal.getvalue()
    assert shown == (
        "\033[?25l"
        f"\n{'x' * 19}\ntwo\n"  # cut to the width, and no more rows than there is room for
        f"\033[3A\r\033[Jsaid\n\n{'x' * 19}\ntwo\n"
        "\033[3A\r\033[J\033[?25h"
    )


def test_without_a_terminal_nothing_is_painted(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen() as screen:
        screen.paint([[Cell("painted")]])
        screen.news(1.25, "something happened")
    assert capsys.readouterr().out == "    1.2 s  something happened\n"


async def test_a_promise_that_is_not_kept_ends_the_story_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with embedded(tmp_path) as cluster:  # the API alone: nothing will ever run
        await install_kinds(cluster.objects)
        access = kubeconfig.load(cluster.kubeconfig)
        async with KubeObjects(access) as client:
            with Screen() as screen:
                missing = await played(Stage(client, access, screen, node_names(), patience_seconds=0.5))
    assert missing == "resnet, whisper, sweep run, within 0.5 s"
    shown = capsys.readouterr().out
    assert "What happened" in shown
    assert "no place" in shown
    with pytest.raises(
        click.ClickException, match=r"did not do what it promises: resnet, whisper, sweep run"
    ) as broken:
        conclude(missing)
    assert broken.value.exit_code == 1


async def test_a_cluster_without_queues_is_named_too(tmp_path: Path) -> None:
    async with embedded(tmp_path) as cluster:
        access = kubeconfig.load(cluster.kubeconfig)
        async with KubeObjects(access) as client:
            with Screen() as screen:
                missing = await played(Stage(client, access, screen, node_names(), patience_seconds=0.2))
    assert missing == "the cluster knows queues within 0.2 s"


def test_nothing_missing_is_a_success() -> None:
    conclude("")


def test_a_role_says_all_that_the_scheduler_must_know() -> None:
    manifest = RESNET.manifest()
    assert manifest["metadata"]["annotations"] == {
        "allhands.dev/queue": "vision",
        "allhands.dev/min-available": "all",
        "allhands.dev/expected-duration": "11s",
        "allhands.dev/topology": "soft:rack",
    }
    assert manifest["spec"]["template"]["metadata"]["annotations"] == {"sim.allhands.dev/run-seconds": "10"}
