"""The benchmarks `api`, `jobs`, `kwok` and `latency` on the real control plane, as small as can be, and stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from allhands.measure.processes import wait_until

COMMAND = Path(sys.executable).parent / "allhands"
PATIENCE_SECONDS = 600


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "bench", *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )


def children_of(pid: int) -> list[str]:
    """Ids of the processes that a process has started and not yet ended."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.timeout(PATIENCE_SECONDS)
def test_gangs_are_bound_judged_and_reported(real_tools: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = bench(
        "api", "--shapes", "2x3", "--nodes", "2", "--rounds", "1", "--flight", "4", "--gangs", "on",
        "--schedulers", "allhands", "-o", "json", "--html", str(page),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["scheduler"] for row in found["rows"]] == ["null", "allhands"]
    for row in found["rows"]:
        (run,) = row["runs"]
        assert (run["bound"], run["half_gangs"], run["overfull_nodes"]) == (6, 0, 0)
        assert run["calls"]["binds"] == run["calls"]["by_what"]["create pods/binding"] == 6
        assert run["curve"][-1] == [run["seconds"], 6]
        assert run["cpu_seconds"] > 0
        assert run["peak_mib"] > 10
    assert found["rows"][0]["ratio"] == 1.0
    assert page.read_text().count("<svg") == 1
    assert "round 1 of 1, 2x3 gangs on, allhands" in done.stderr


@pytest.mark.timeout(PATIENCE_SECONDS)
def test_volcano_jobs_come_to_bound_pods_with_webhooks_on(real_tools: Path) -> None:
    done = bench("jobs", "--shapes", "3x2", "--nodes", "2", "--flight", "4", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["system"] for row in found["rows"]] == ["null", "allhands"]
    for row in found["rows"]:
        (run,) = row["runs"]
        assert (run["bound"], run["half_gangs"], run["overfull_nodes"]) == (6, 0, 0)
        assert run["calls"]["by_what"]["create pods"] == run["calls"]["binds"] == 6
        assert row["cpu_seconds"] > 0
    floor, ours = found["rows"]
    assert floor["calls_per_pod"] == 1.0
    assert ours["runs"][0]["calls"]["by_what"]["create podgroups"] == 3
    assert set(ours["runs"][0]["parts"]) == {"webhooks", "controllers", "scheduler"}
    assert "round 1 of 1, 3x2, allhands" in done.stderr


@pytest.mark.timeout(PATIENCE_SECONDS)
def test_the_kwok_test_runs_jobs_to_their_end(real_tools: Path) -> None:
    done = bench("kwok", "--jobs", "2", "--nodes", "1", "--scale", "20", "--schedulers", "allhands", "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["scheduler"], row["done"], row["failed"], row["unfinished"]) == ("allhands", 2, 0, 0)
    assert row["ideal_seconds"] <= row["makespan_seconds"]
    assert 0 < row["useful_utilisation"] <= 1


@pytest.mark.timeout(PATIENCE_SECONDS)
def test_pods_that_come_one_at_a_time_are_bound_and_their_waits_reported(real_tools: Path) -> None:
    done = bench("latency", "--nodes", "2", "--pods", "6", "--rate", "50", "--schedulers", "allhands", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["scheduler"] for row in found["rows"]] == ["null", "allhands"]
    for row in found["rows"]:
        assert (row["pods"], row["bound"]) == (6, 6)
        waits = row["runs"][0]["waits"]
        assert row["latency"]["max"] == pytest.approx(max(asking + binding for _, asking, binding in waits), abs=0.1)
        assert 0 < row["latency"]["p50"] <= row["latency"]["p99"]
    assert "round 1 of 1, allhands" in done.stderr


@pytest.mark.timeout(PATIENCE_SECONDS)
def test_a_scheduler_that_ends_is_named_with_the_end_of_its_log(real_tools: Path, tmp_path: Path) -> None:
    broken = "{name: broken, command: [$python, -c, \"raise SystemExit('no such flag')\"]}"
    (tmp_path / "broken.yaml").write_text(broken)
    done = bench(
        "api", "--shapes", "1x1", "--nodes", "1", "--rounds", "1", "--flight", "1", "--gangs", "off",
        "--schedulers", "broken", "--schedulers-from", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 1
    assert "Error: broken: run-broken ended with code 1" in done.stderr
    assert "no such flag" in done.stderr
    assert done.stdout.splitlines()[-1].split()[:3] == ["1x1", "off", "null"]


@pytest.mark.timeout(PATIENCE_SECONDS)
def test_ctrl_c_leaves_nothing_running(real_tools: Path) -> None:
    with subprocess.Popen(
        # A test run in the background of a shell ignores Ctrl-C, and so would its children.
        ["env", "--default-signal=INT", COMMAND, "bench", "api", "--nodes", "1", "--shapes", "1x1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("… creating 1 node"):
            assert process.poll() is None
        started = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert complaints.endswith("Stopped after 0 of 30 runs; nothing is left running.\n")
    assert len(started) == 3  # etcd, kube-apiserver, and who ends them if we cannot
    wait_until(lambda: not any(Path("/proc", pid).exists() for pid in started), 30, "the end of them")
