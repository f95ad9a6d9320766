"""What it costs to keep everything on disk: acknowledged writes, their delay at a steady pace, and the next start.

Over HTTPS both sides sync to the same disk before they answer: ours as `allhands up` runs it, the real kube-apiserver
with an etcd that syncs. The same client asks both, over as many connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from allhands.compose.admission import WEBHOOKS
from allhands.compose.embedded_data import stored
from allhands.compose.machine import RandomIds, SystemClock
from allhands.kube import kubeconfig
from allhands.kube.objects import path_to
from bench.figures import Figure, Goal, Report, command_line, in_fresh_process
from bench.pods import PODS, bodies
from bench.real import RealServer, Request, cpu_seconds
from bench.reloading import Reloaded
from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.real import Run

CONNECTIONS = 64
WRITES_PER_SECOND = 500
_COMMAND = str(Path(sys.executable).with_name("allhands"))


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int
    pods: int
    paced: int
    stored: int


FULL = Plan(rounds=5, pods=1_000, paced=5_000, stored=100_000)
QUICK = Plan(rounds=2, pods=300, paced=1_500, stored=10_000)


def report(*, quick: bool) -> Report:
    plan = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="allhands-bench-") as name:
        folder = Path(name)
        ours, real = _over_https(folder, plan)
        for sub in (*(f"paced-{number}" for number in range(plan.rounds)), "stored"):
            (folder / sub).mkdir()
        delays = [asyncio.run(_paced(folder / f"paced-{number}", plan.paced)) for number in range(plan.rounds)]
        syncs = [_bare_syncs(folder / "synced", plan.paced // 10) for _ in range(plan.rounds)]
        asyncio.run(_fill(folder / "stored", plan.stored))
        starts = [in_fresh_process("bench.reloading", folder / "stored", answers=Reloaded) for _ in range(plan.rounds)]
    pairs = list(zip(ours, real, strict=True))
    size = len(bodies("large", "ranked", 1)[0])
    return Report(
        name="durable",
        title="acknowledged writes with a disk that is synced",
        command=command_line("durable", quick=quick),
        settings=(
            f"creates of pods of {size} bytes, no two specs are equal; over {CONNECTIONS} connections; etcd syncs",
            f"{plan.rounds} interleaved rounds of {plan.pods}",
            f"paced: {plan.paced} writes at {WRITES_PER_SECOND} a second in process, from the moment each was due",
            f"start: {starts[0].objects} objects, in a fresh process",
        ),
        figures=(
            Figure(name="HTTPS, ours ÷ real", unit="×", rounds=_ratios(ours, real), goal=Goal("at least", 1)),
            Figure(
                name="processor time of a write, ours ÷ real",
                unit="×",
                rounds=tuple(o.server_cpu_seconds / r.server_cpu_seconds for o, r in pairs),
            ),
            Figure(name="HTTPS, ours", unit="/s", rounds=tuple(run.rate for run in ours)),
            Figure(name="HTTPS, real", unit="/s", rounds=tuple(run.rate for run in real)),
            Figure(name="paced, half within", unit="ms", rounds=tuple(_part(it, 50) for it in delays)),
            Figure(
                name="paced, 99 of 100 within", unit="ms", rounds=tuple(_part(it, 99) for it in delays),
                goal=Goal("at most", 20),
            ),
            Figure(name="a bare sync, 99 of 100 within", unit="ms", rounds=tuple(_part(it, 99) for it in syncs)),
            Figure(name="start", unit="s", rounds=tuple(it.seconds for it in starts), goal=Goal("at most", 5)),
            Figure(name="start, processor time", unit="s", rounds=tuple(it.cpu_seconds for it in starts)),
        ),
    )  # fmt: skip


def _ratios(ours: list[Run], real: list[Run]) -> tuple[float, ...]:
    return tuple(one.rate / other.rate for one, other in zip(ours, real, strict=True))


def _part(seconds: list[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000


class _Ours(RealServer):
    """Our server, asked by the same client."""

    def __init__(self, folder: Path, process: int, connections: int) -> None:
        access = kubeconfig.load(folder / "kubeconfig")
        super().__init__(_Address(folder, access.server), connections)  # type: ignore[arg-type]
        self._process = process

    def _server_cpu_seconds(self) -> float:
        return cpu_seconds(self._process)


class _Address:
    def __init__(self, folder: Path, url: str) -> None:
        self.url, self.ca_file = url, folder / "pki" / "ca.crt"
        self.token = (folder / "token").read_text(encoding="ascii").strip()


@contextlib.contextmanager
def _up(folder: Path) -> Iterator[int]:
    command = [_COMMAND, "up", "--nodes", "0", "--data", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            if "is ready at" not in child.stdout.readline():
                raise RuntimeError("`allhands up` did not start")
            yield child.pid
        finally:
            child.send_signal(signal.SIGINT)


def _over_https(folder: Path, plan: Plan) -> tuple[list[Run], list[Run]]:
    with ControlPlane(etcd_flags=("--unsafe-no-fsync=false",)) as plane, _up(folder / "up") as process:

        async def measure() -> tuple[list[Run], list[Run]]:
            ours, real = [], []
            async with (
                _Ours(folder / "up", process, CONNECTIONS) as our_client,
                RealServer(plane, CONNECTIONS) as real_client,
            ):
                for number in range(plan.rounds):
                    requests = [
                        Request("POST", path_to(PODS, "default"), body)
                        for body in bodies("large", "ranked", plan.pods, first=number * plan.pods)
                    ]
                    ours.append(await our_client.run(requests))
                    real.append(await real_client.run(requests))
            return ours, real

        return asyncio.run(measure())


async def _paced(folder: Path, count: int) -> list[float]:
    """From when each write was due to when it was acknowledged."""
    async with stored(folder, SystemClock(), RandomIds(), WEBHOOKS, durable=True) as kept:
        loop = asyncio.get_running_loop()
        begin, took = loop.time() + 0.1, [0.0] * count

        async def write(number: int, body: bytes) -> None:
            due = begin + number / WRITES_PER_SECOND
            await asyncio.sleep(due - loop.time())
            await kept.objects.create(PODS, body, "default")
            took[number] = loop.time() - due

        await asyncio.gather(*(write(number, body) for number, body in enumerate(bodies("large", "ranked", count))))
        return took


def _bare_syncs(path: Path, count: int) -> list[float]:
    """What the disk itself takes, for comparison: as much as a small batch, appended and synced."""
    took = []
    with path.open("ab", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 16_384)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return took


async def _fill(folder: Path, count: int) -> None:
    async with stored(folder, SystemClock(), RandomIds(), WEBHOOKS, durable=True) as kept:
        for number, body in enumerate(bodies("large", "ranked", count)):
            await kept.at_once.create(PODS, body, "default")
            if number % 2_000 == 0:
                await kept.settled()
        await kept.settled()
