"""Questions about pods: asked until the answer is yes, so many at a time, never of a stranger."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from allhands.lifecycle.job_flow.probing import Question
from allhands.runtime.pod_probes import PODS, PodProbes, request_text
from allhands.runtime.probing import MOST_QUESTIONS, Prober
from allhands.runtime.workqueue import WorkQueue
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WITHIN_SECONDS = 60


def question(job: str = "f-a", port: int = 80, path: str = "", header: tuple[str, str] | None = None) -> Question:
    return Question("default", job, f"uid-{job}", "web", port, path, header)


class Answers:
    """Says what it was told to say; a question that is unknown is never answered."""

    def __init__(self, **answers: list[Any]) -> None:
        self._answers = answers
        self.asked: list[str] = []
        self.first = asyncio.Event()
        self.most = 0
        self._now = 0

    async def is_up(self, question: Question) -> bool:
        self.asked.append(question.job)
        self.first.set()
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            answers = self._answers.get(question.job)
            if answers is None:
                await asyncio.Event().wait()
            assert answers is not None
            await asyncio.sleep(0)
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return bool(answer)
        finally:
            self._now -= 1


@contextlib.asynccontextmanager
async def running(probes: Any, **more: float) -> AsyncIterator[tuple[Prober, WorkQueue]]:
    prober, queue = Prober(probes, **{"period_seconds": 0.001, **more}), WorkQueue()
    prober.wire(queue)
    task = asyncio.create_task(prober.run())
    try:
        yield prober, queue
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_question_is_asked_until_it_is_answered_well_and_then_its_flow_is_looked_at() -> None:
    probes = Answers(**{"f-a": [False, OSError("no route"), False, True]})
    async with running(probes) as (prober, queue), asyncio.timeout(WITHIN_SECONDS):
        prober.want("default/f", [question()])
        assert await queue.take() == "default/f"
        assert prober.holds(question())
        assert len(probes.asked) == 4
        prober.want("default/f", [])
        assert not prober.holds(question())


async def test_a_question_that_is_never_answered_holds_up_nobody() -> None:
    probes = Answers(quick=[True])
    async with running(probes, limit_seconds=0.01) as (prober, queue), asyncio.timeout(WITHIN_SECONDS):
        prober.want("default/f", [question(f"stuck-{number}") for number in range(3 * MOST_QUESTIONS)])
        prober.want("default/g", [question("quick")])
        assert await queue.take() == "default/g"
        assert probes.most <= MOST_QUESTIONS


async def test_what_nobody_wants_to_know_any_more_is_not_asked_again() -> None:
    probes = Answers(**{"f-a": [False], "f-b": [False, False, False, True]})
    async with running(probes) as (prober, queue), asyncio.timeout(WITHIN_SECONDS):
        prober.want("default/f", [question("f-a")])
        await probes.first.wait()
        prober.want("default/f", [question("f-b")])
        assert await queue.take() == "default/f"
        asked = probes.asked.count("f-a")
        assert asked <= 3
        assert not prober.holds(question("f-a"))


# -- over the network


@contextlib.asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answers every connection with this; b"" never."""
    requests: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            if not answer:
                await done.wait()
            writer.write(answer)
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1], requests
    finally:
        done.set()
        listening.close()
        await listening.wait_closed()


async def _with_pods(*pods: dict[str, Any]) -> InProcessObjects:
    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    for number, pod in enumerate(pods):
        spec = {"containers": [{"name": "c", "image": "x"}]}
        uid = pod.get("uid", "uid-f-a")
        owner = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "f-a",
            "uid": uid,
            "controller": True,
        }
        labels = {"volcano.sh/job-name": "f-a", "volcano.sh/task-spec": pod.get("task", "web")}
        metadata = {"name": f"p{number}", "labels": labels, "ownerReferences": [owner]}
        await objects.create(PODS, {"metadata": metadata, "spec": spec}, "default")
        status = {"phase": pod.get("phase", "Running"), "podIP": pod.get("ip", "127.0.0.1")}
        await objects.patch(PODS, f"p{number}", "merge", {"status": status}, "default", subresource="status")
    return objects


@pytest.mark.parametrize(
    ("answer", "is_up"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 204\r\n\r\n", True),
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (b"HTTP/1.1 500 Oops\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"x" * 5000, False),
        (b"\r\n", False),
        (b"", False),
    ],
)
async def test_a_request_is_good_if_its_status_is(answer: bytes, is_up: bool) -> None:
    async with server(answer) as (port, requests):
        probes = PodProbes(await _with_pods({}), is_local=True, pod_seconds=0.2 if not answer else 30)
        assert await probes.is_up(question(port=port, path="/up?x=1", header=("X-Who", "me"))) == is_up
        lines = requests[0].decode().split("\r\n")
        assert lines[0] == "GET /up?x=1 HTTP/1.1"
        assert {"Host: 127.0.0.1:" + str(port), "X-Who: me", "Connection: close"} <= set(lines)


async def test_every_running_pod_of_the_task_must_take_connections() -> None:
    async with server(b"x") as (port, _):
        whole = await _with_pods({}, {"phase": "Succeeded", "ip": "127.0.0.9"}, {"task": "db", "phase": "Pending"})
        assert await PodProbes(whole, is_local=True).is_up(question(port=port))
        waiting = await _with_pods({}, {"phase": "Pending"})
        assert not await PodProbes(waiting, is_local=True).is_up(question(port=port))
    assert not await PodProbes(whole, is_local=True).is_up(question(port=port))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "169.254.169.254", "0.0.0.0", "224.0.0.1", ""])
async def test_on_a_cluster_no_address_of_this_machine_or_of_a_link_is_asked(address: str) -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n") as (port, requests):
        probes = PodProbes(await _with_pods({"ip": address}), pod_seconds=1)
        assert not await probes.is_up(question(port=port, path="/"))
        assert requests == []


async def test_a_pod_that_only_bears_the_names_of_the_job_is_not_asked() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n") as (port, requests):
        await PodProbes(await _with_pods({"uid": "somebody"}), is_local=True).is_up(question(port=port, path="/"))
        assert requests == []


HOST = ipaddress.ip_address("10.0.0.1")


@pytest.mark.parametrize(
    "header", [("X Y", "1"), ("", "1"), ("X", "a\r\nEvil: 1"), ("X", "\x00"), ("X:", "1"), ("X", "ü")]
)
def test_a_header_that_could_become_two_is_not_sent(header: tuple[str, str]) -> None:
    assert request_text(HOST, question(path="/", header=header)) is None


def test_a_path_cannot_become_a_second_request() -> None:
    text = request_text(HOST, question(path="/a b\r\nGET /evil HTTP/1.1"))
    assert text is not None
    assert text.split(b"\r\n")[0] == b"GET /a%20b%0D%0AGET%20/evil%20HTTP/1.1 HTTP/1.1"


def test_the_host_may_be_named_for_servers_that_ask() -> None:
    text = request_text(HOST, question(path="/", header=("host", "example.test")))
    assert text is not None
    assert b"host: example.test\r\n" in text
    assert b"Host: 10.0.0.1" not in text
