"""How much of our processor it takes to know all pods of a large cluster at the start, and to hear of as many changes.

A small server that only sends what was prepared stands in for the API server, behind TLS; every round is a fresh
process that asks it, so that only the client's work is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import msgspec

from allhands.compose.machine import SystemClock
from allhands.server.tls import server_tls
from bench.figures import Figure, Goal, Report, command_line
from bench.pods import bodies
from bench.synced import MODES, Synced

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = 100_000
NODES = 1_000
GOAL_SECONDS = 10.0
BEGAN = "2026-01-01T00:00:00Z"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def report(*, quick: bool) -> Report:
    count, rounds = (PODS // 10, 1) if quick else (PODS, 5)
    with tempfile.TemporaryDirectory(prefix="allhands-bench-") as folder:
        measured = asyncio.run(_measure(Path(folder), count, rounds))
    scale = count / PODS

    def of(mode: str, name: str, goal: Goal | None = None) -> list[Figure]:
        them = measured[mode]
        return [
            Figure(name=name, unit="CPU s", rounds=tuple(it.cpu_seconds for it in them), goal=goal),
            Figure(name=f"{name}, peak", unit="MiB", rounds=tuple(it.peak_mebibytes for it in them)),
        ]

    return Report(
        name="syncing",
        title=f"{count:,} pods from an API server",
        command=command_line("syncing", quick=quick),
        settings=(
            f"pods of 4.9 KB on {NODES:,} nodes, over TLS on loopback; {rounds} rounds, each a fresh process",
            "list: split into pages of 500; watch: cut into events; neither decodes an object",
            "synced: the scheduler's informer of pods, typed and indexed, in pages",
        ),
        figures=(
            *of("list", "list"),
            *of("watch", "watch"),
            *of("synced", "synced", Goal("at most", GOAL_SECONDS * scale)),
        ),
    )


async def _measure(folder: Path, count: int, rounds: int) -> dict[str, list[Synced]]:
    tls = server_tls(folder, SystemClock())
    stand_in = StandIn(list(_stored(count)))
    server = await asyncio.start_server(stand_in.answer, "127.0.0.1", 0, ssl=tls.context())
    address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        return {mode: [await _ask(mode, address, tls.authority) for _ in range(rounds)] for mode in MODES}


async def _ask(mode: str, address: str, authority: Path) -> Synced:
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.synced", mode, address, authority,
        cwd=Path(__file__).parent.parent, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    found, _ = await client.communicate()
    if client.returncode:
        raise RuntimeError(f"bench.synced {mode} failed with exit code {client.returncode}")
    return msgspec.json.decode(found, type=Synced)


def _stored(count: int) -> Iterator[bytes]:
    """As an API server shows pods that run: with what it and the kubelet have added."""
    ready = [{"type": it, "status": "True", "lastTransitionTime": BEGAN} for it in ("Ready", "PodScheduled")]
    for number, raw in enumerate(bodies("large", "equal", count, nodes=NODES)):
        pod = msgspec.json.decode(raw)
        del pod["apiVersion"], pod["kind"]
        pod["metadata"] |= {
            "namespace": f"team-{number % 7}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": BEGAN,
        }
        pod["status"] = {"phase": "Running", "startTime": BEGAN, "podIP": "10.0.0.1", "conditions": ready}
        yield msgspec.json.encode(pod)


class StandIn:
    """Sends lists and watches of pods that never change."""

    def __init__(self, pods: list[bytes]) -> None:
        self._pods = pods

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                query = dict(parse_qsl(urlsplit(head.split(b" ", 2)[1].decode()).query))
                if "watch" in query:
                    await self._stream(writer, self._pods if "sendInitialEvents" in query else [])
                    await reader.read()
                    break
                raw = self._page(int(query.get("continue", "0")), int(query["limit"]))
                writer.write(_HEAD + b"Content-Length: %d\r\n\r\n" % len(raw) + raw)
                await writer.drain()
        writer.close()

    def _page(self, first: int, limit: int) -> bytes:
        last = first + limit
        meta = {"resourceVersion": str(len(self._pods)), "continue": str(last) if last < len(self._pods) else ""}
        items = b",".join(self._pods[first:last])
        return b'{"kind":"PodList","metadata":%b,"items":[%b]}' % (msgspec.json.encode(meta), items)

    async def _stream(self, writer: asyncio.StreamWriter, pods: list[bytes]) -> None:
        """Who has listed them hears of no change."""
        writer.write(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for pod in pods:
            await _send(writer, b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",%b}\n' % pod[1:])
        meta = {"resourceVersion": str(len(self._pods)), "annotations": {"k8s.io/initial-events-end": "true"}}
        await _send(writer, msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": meta}}) + b"\n")


async def _send(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(line), line))
    await writer.drain()
