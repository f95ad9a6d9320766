"""`allhands up` as a process that is killed: what it acknowledged is there the next time, and whoever waits goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allhands.agents.behaviour import RUN_SECONDS
from allhands.api.errors import StatusError
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.ports import Query, WriteOptions
from tests.depth import ten_times_in_soak
from tests.manifests import CONFIG_MAPS, JOBS, NODES, PODS, config_map

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = Path(sys.executable).parent / "allhands"
WRITERS = 12
WAIT_SECONDS = 120.0


@contextlib.contextmanager
def up(data: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The cluster in a process of its own, ready; killed at the end if nobody did."""
    process = subprocess.Popen(
        [COMMAND, "up", "--data", data, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        while "Ctrl-C" not in (line := process.stdout.readline()):
            assert line, f"it ended before it was ready: {process.communicate()[1]}"
        yield process
    finally:
        process.kill()
        process.communicate()


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def client(data: Path) -> KubeObjects:
    return KubeObjects(kubeconfig.load(data / "kubeconfig"))


class Writer:
    """Writes to names of its own, one after the other, and notes what it was told."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.acknowledged: dict[str, str | None] = {}
        """By name its value, None for what is gone."""
        self.uncertain: dict[str, str | None] = {}
        """What was asked for and not answered."""
        self.versions: list[int] = []
        self._random = random.Random(f"{seed} {number}")
        self._count = 0

    async def write(self, objects: KubeObjects) -> None:
        """Until the server is gone."""
        while True:
            self._count += 1
            name = f"w{self.number}-{self._random.randrange(8)}"
            value, known = str(self._count), self.acknowledged.get(name)
            wanted = None if known is not None and self._random.random() < 0.2 else value
            self.uncertain = {name: wanted}
            try:
                await self._ask(objects, name, wanted, is_there=known is not None)
            except (StatusError, OSError, asyncio.IncompleteReadError) as error:
                assert not isinstance(error, StatusError) or error.code >= 500 or error.may_have_happened, error
                return
            self.acknowledged[name] = wanted
            self.uncertain = {}

    async def _ask(self, objects: KubeObjects, name: str, value: str | None, *, is_there: bool) -> None:
        if value is None:
            await objects.delete(CONFIG_MAPS, name, "default")
            return
        if is_there:
            answer = await objects.patch(CONFIG_MAPS, name, "merge", {"data": {"value": value}}, "default")
        else:
            answer = await objects.create(CONFIG_MAPS, config_map(name, value=value), "default")
        self.versions.append(int(answer.manifest()["metadata"]["resourceVersion"]))

    def check(self, found: dict[str, str]) -> None:
        for name, value in self.acknowledged.items():
            allowed = {value, self.uncertain.get(name, value)}
            assert found.get(name) in allowed, f"{name}: {value} was acknowledged, {found.get(name)} is there"
        for name, value in self.uncertain.items():
            if name not in self.acknowledged:
                assert found.get(name) in (None, value)
            self.acknowledged[name] = found.get(name)
        self.uncertain = {}


async def values_in(objects: KubeObjects) -> tuple[dict[str, str], int]:
    page = await objects.list(CONFIG_MAPS, Query(namespace="default"))
    items = [json.loads(item) for item in page.items]
    return {it["metadata"]["name"]: it["data"]["value"] for it in items if "data" in it}, int(page.version)


@ten_times_in_soak
async def test_killed_under_load_it_has_lost_nothing_that_it_acknowledged(tmp_path: Path, round_: int) -> None:
    writers = [Writer(number, round_) for number in range(WRITERS)]
    chance = random.Random(round_)
    highest = 0
    for _ in range(3):
        with up(tmp_path, "--nodes", "0") as process:
            async with asyncio.timeout(WAIT_SECONDS), client(tmp_path) as objects:
                found, version = await values_in(objects)
                assert version >= highest, "versions went backward"
                for writer in writers:
                    writer.check(found)
                tasks = [asyncio.create_task(writer.write(objects)) for writer in writers]
                enough = sum(len(writer.versions) for writer in writers) + chance.randrange(50, 400)
                while sum(len(writer.versions) for writer in writers) < enough:
                    assert not any(task.done() and task.exception() for task in tasks)
                    await asyncio.sleep(0)
                process.send_signal(signal.SIGKILL)
                await asyncio.gather(*tasks)
            highest = max(max(writer.versions, default=0) for writer in writers)
    with up(tmp_path, "--nodes", "0"):
        async with client(tmp_path) as objects:
            found, _ = await values_in(objects)
            for writer in writers:
                writer.check(found)
            every = [version for writer in writers for version in writer.versions]
            assert len(every) == len(set(every)), "a version was given twice"


async def test_it_comes_back_at_the_same_address_and_a_watch_goes_on(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "0"):
        before = (tmp_path / "kubeconfig").read_text()
        async with client(tmp_path) as objects:
            await objects.create(CONFIG_MAPS, config_map("a", value="1"), "default")
            version = (await objects.list(CONFIG_MAPS, Query(namespace="default"))).version
    with up(tmp_path, "--nodes", "0"):
        assert (tmp_path / "kubeconfig").read_text() == before
        async with asyncio.timeout(WAIT_SECONDS), client(tmp_path) as objects:
            watch = await objects.watch(CONFIG_MAPS, Query(namespace="default", resource_version=version))
            await objects.create(CONFIG_MAPS, config_map("b", value="2"), "default")
            event = await anext(watch)
            assert (event.type, event.manifest()["metadata"]["name"]) == ("ADDED", "b")
            await watch.close()


def job(name: str, command: list[str]) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": command}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": template}}


def is_running(process: int) -> bool:
    """Whether it is there and still the one that we mean."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return b"sleep" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


async def pods_where(objects: KubeObjects, phase: str) -> list[dict[str, Any]]:
    """The pods once one of them is in this phase."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            page = await objects.list(PODS, Query(namespace="default"))
            found = [json.loads(item) for item in page.items]
            if any(pod.get("status", {}).get("phase") == phase for pod in found):
                return found
            await asyncio.sleep(0.05)


async def test_processes_that_a_killed_cluster_left_are_ended_and_reported_lost(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with up(tmp_path / "data", "--local"):
        async with client(tmp_path / "data") as objects:
            command = ["sh", "-c", f"echo $$$$ > {mark}; exec sleep 1000"]
            await objects.create(JOBS, job("long", command), "default")
            await pods_where(objects, "Running")
    async with asyncio.timeout(WAIT_SECONDS):
        while not mark.exists() or not mark.read_text().strip():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    running = int(mark.read_text())
    assert is_running(running)
    with up(tmp_path / "data", "--local"):
        async with client(tmp_path / "data") as objects:
            (pod,) = await pods_where(objects, "Failed")
            state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            assert state["reason"] == "ContainerStatusUnknown"
            assert state["exitCode"] == 137
    assert not is_running(running)


async def test_simulated_pods_go_on_after_a_kill(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "1"):
        async with client(tmp_path) as objects:
            long = job("long", ["work"])
            long["spec"]["template"]["metadata"] = {"annotations": {RUN_SECONDS: "100000"}}
            await objects.create(JOBS, long, "default")
            (before,) = await pods_where(objects, "Running")
    with up(tmp_path):
        async with client(tmp_path) as objects:
            (after,) = await pods_where(objects, "Running")
            assert after["metadata"]["uid"] == before["metadata"]["uid"]
            started = [pod["status"]["containerStatuses"][0]["state"]["running"] for pod in (before, after)]
            assert started[0] == started[1]
            nodes = await objects.list(NODES)
            assert len(nodes.items) == 1


def test_a_second_one_on_the_same_data_says_so_and_breaks_nothing(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "0"):
        for command in (("up",), ("restore", str(tmp_path / "state.db"))):
            shown = run(*command, "--data", tmp_path)
            assert shown.returncode == 1
            assert "another cluster is running with this folder" in shown.stderr
        assert run("backup", "--data", tmp_path, tmp_path / "copy.db").returncode == 0


async def test_backup_of_a_running_cluster_is_restored_and_what_was_there_is_kept(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "monday.db"
    with up(data, "--nodes", "0"):
        async with client(data) as objects:
            await objects.create(CONFIG_MAPS, config_map("old", value="1"), "default")
            shown = run("backup", "--data", data, copy)
            assert shown.returncode == 0, shown.stderr
            await objects.create(CONFIG_MAPS, config_map("new", value="2"), "default")
            watched = (await objects.list(CONFIG_MAPS, Query(namespace="default"))).version
    assert "is there already" in run("backup", "--data", data, copy).stderr
    shown = run("restore", "--data", data, copy)
    assert shown.returncode == 0, shown.stderr
    assert "What was there before is kept as" in shown.stdout
    with up(data, "--nodes", "0"):
        async with client(data) as objects:
            assert (await values_in(objects))[0] == {"old": "1"}
            watch = await objects.watch(CONFIG_MAPS, Query(namespace="default", resource_version=watched))
            with contextlib.suppress(StatusError):
                event = await anext(watch)
                assert event.type == "ERROR"
                assert event.manifest()["code"] == 410
            await watch.close()


@pytest.mark.parametrize("command", ["up", "backup"])
def test_damaged_data_are_told_of_and_left_as_they_are(tmp_path: Path, command: str) -> None:
    content = b"SQLite format 3\0" + b"\xff" * 5000
    (tmp_path / "state.db").write_bytes(content)
    shown = run(command, "--data", tmp_path, *([tmp_path / "copy.db"] if command == "backup" else []))
    assert shown.returncode == 1
    assert f"{tmp_path / 'state.db'} is damaged" in shown.stderr
    assert "allhands restore" in shown.stderr
    assert "Traceback" not in shown.stderr
    assert (tmp_path / "state.db").read_bytes() == content


async def test_ephemeral_keeps_nothing_and_touches_nothing(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "0"):
        async with client(tmp_path) as objects:
            await objects.create(CONFIG_MAPS, config_map("kept", value="1"), "default")
    with up(tmp_path, "--nodes", "0", "--ephemeral"):
        async with client(tmp_path) as objects:
            assert (await values_in(objects))[0] == {}
            await objects.create(CONFIG_MAPS, config_map("forgotten", value="1"), "default")
    with up(tmp_path, "--nodes", "0"):
        async with client(tmp_path) as objects:
            assert (await values_in(objects))[0] == {"kept": "1"}


async def test_log_whose_file_was_lost_is_not_taken_for_a_new_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--nodes", "0"):
        async with client(data) as objects:
            await objects.create(CONFIG_MAPS, config_map("precious", value="1"), "default")
        assert run("backup", "--data", data, tmp_path / "copy.db").returncode == 0
    (data / "state.db").unlink()
    log = (data / "state.db-wal").read_bytes()
    for _ in range(2):
        shown = run("up", "--data", data)
        assert shown.returncode == 1
        assert "state.db is missing, but its log" in shown.stderr
        assert "Traceback" not in shown.stderr
        assert not (data / "state.db").exists()
        assert (data / "state.db-wal").read_bytes() == log
    shown = run("restore", "--data", data, tmp_path / "copy.db")
    assert "What was there before is kept as" in shown.stdout
    with up(data, "--nodes", "0"):
        async with client(data) as objects:
            assert (await values_in(objects))[0] == {"precious": "1"}


def test_damaged_backup_is_rescued_as_the_refusal_advises(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--nodes", "2"):
        assert run("backup", "--data", tmp_path / "data", tmp_path / "copy.db").returncode == 0
    content = (tmp_path / "copy.db").read_bytes()
    (tmp_path / "copy.db").write_bytes(content.replace(b'"kind":"Node"', b'"kind":"Nope"', 1))
    shown = run("restore", "--data", tmp_path / "other", tmp_path / "copy.db")
    assert shown.returncode == 1
    assert f"allhands backup --rescue --from {tmp_path / 'copy.db'} FILE" in shown.stderr
    shown = run("backup", "--rescue", "--from", tmp_path / "copy.db", tmp_path / "saved.db")
    assert shown.returncode == 0, shown.stderr
    assert "1 could not be read" in shown.stderr
    assert run("restore", "--data", tmp_path / "other", tmp_path / "saved.db").returncode == 0
    shown = run("backup", "--from", tmp_path / "copy.db", tmp_path / "more.db")
    assert shown.returncode == 2
    assert "--rescue" in shown.stderr


def test_backup_beside_an_ephemeral_cluster_says_that_it_is_not_in_it(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "0"):
        assert run("backup", "--data", tmp_path, tmp_path / "first.db").stderr == ""
    with up(tmp_path, "--nodes", "0", "--ephemeral"):
        shown = run("backup", "--data", tmp_path, tmp_path / "second.db")
        assert shown.returncode == 0
        assert "running with --ephemeral: nothing of it is in second.db" in shown.stderr.replace(f"{tmp_path}/", "")
    assert run("backup", "--data", tmp_path, tmp_path / "third.db").stderr == "", "it was killed"
    with up(tmp_path / "new", "--nodes", "0", "--ephemeral"):
        shown = run("backup", "--data", tmp_path / "new", tmp_path / "fourth.db")
        assert shown.returncode == 1
        assert "is running with --ephemeral" in shown.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_it_starts_ends_it_quietly(tmp_path: Path, sent: signal.Signals) -> None:
    process = subprocess.Popen(
        [COMMAND, "up", "--data", tmp_path, "--nodes", "20000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "state.db").exists():
        assert process.poll() is None
    process.send_signal(sent)
    out, error = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out, error) == (128 + sent, "", "Stopped before it was ready.\n")
    assert run("backup", "--data", tmp_path, tmp_path / "copy.db").returncode == 0


def test_taken_port_is_told_of(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "0"):
        pass
    text = (tmp_path / "kubeconfig").read_text()
    port = int(text.split("https://127.0.0.1:")[1].split()[0])
    with socket.create_server(("127.0.0.1", port)), up(tmp_path, "--nodes", "0") as process:
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=WAIT_SECONDS)
    assert f"Port {port}, that of the last time, is taken" in error
    assert "copied" in error


async def test_killed_it_still_knows_who_owns_which_fields(tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    mine, other = WriteOptions(field_manager="me"), WriteOptions(field_manager="other")
    with up(tmp_path, "--nodes", "0") as process:
        async with asyncio.timeout(WAIT_SECONDS), client(tmp_path) as objects:
            await objects.patch(CONFIG_MAPS, "a", "apply", body, "default", mine)
            kept = await objects.patch(CONFIG_MAPS, "a", "merge", {"data": {"l": "w"}}, "default", other)
            process.send_signal(signal.SIGKILL)
    with up(tmp_path, "--nodes", "0"):
        async with asyncio.timeout(WAIT_SECONDS), client(tmp_path) as objects:
            found = await objects.get(CONFIG_MAPS, "a", "default")
            assert found.manifest() == kept.manifest()
            assert [it["manager"] for it in found.manifest()["metadata"]["managedFields"]] == ["me", "other"]
            with pytest.raises(StatusError, match=r'conflict with "me": \.data\.k'):
                await objects.patch(CONFIG_MAPS, "a", "apply", {**body, "data": {"k": "x"}}, "default", other)
