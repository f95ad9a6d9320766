"""The HTTP face under requests that no sane client sends: no 5xx but where the real server says so, no fault of its
own, an answer in time, and nothing that stays behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.client import Server
from tests.depth import examples
from tests.embedded import EmbeddedInThread
from tests.fuzz.judging import PATIENCE_SECONDS, Faults, Judge, Request
from tests.fuzz.requests import from_openapi, mutants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.compose.embedded import EmbeddedCluster

SEED = 20261118
FROM_OPENAPI = examples(300, soak_factor=20)
MUTANTS = examples(400, soak_factor=20)
MOST_TASKS = 20
MOST_GROWTH_KIB = 400 << 10


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedInThread]:
    thread = EmbeddedInThread(tmp_path_factory.mktemp("fuzzed"), keeps_quotas=True)
    with thread:
        yield thread


@pytest.fixture(scope="module")
def cluster(running: EmbeddedInThread) -> EmbeddedCluster:
    assert running.cluster is not None
    return running.cluster


@pytest.fixture(scope="module")
def judge(cluster: EmbeddedCluster) -> Iterator[Judge]:
    faults = Faults()
    log = logging.getLogger("allhands")
    log.addHandler(faults)
    judge = Judge(Server("embedded", cluster.url, cluster.token, str(cluster.ca_file)), faults)
    with contextlib.closing(judge):
        judge.send(Request("POST", "/api/v1/namespaces", b'{"metadata":{"name":"fuzz"}}'))
        yield judge
    log.removeHandler(faults)


def _documents(judge: Judge, cluster: EmbeddedCluster) -> list[Any]:
    def get(path: str) -> Any:
        headers = {"Authorization": f"Bearer {cluster.token}"}
        asked = urllib.request.Request(cluster.url + path, headers=headers)
        with urllib.request.urlopen(asked, context=judge.tls) as answer:
            return json.load(answer)

    return [get(group["serverRelativeURL"]) for group in get("/openapi/v3")["paths"].values()]


def _is_alive(judge: Judge) -> None:
    """It answers, and what was begun is over."""
    assert judge.send(Request("GET", "/readyz")) == 200
    assert judge.send(Request("GET", "/api/v1/namespaces/default/configmaps?limit=1")) == 200


def test_requests_from_its_own_openapi_are_answered(judge: Judge, cluster: EmbeddedCluster) -> None:
    from_openapi(_documents(judge, cluster), FROM_OPENAPI, SEED, judge.send)
    _is_alive(judge)
    assert sum(judge.statuses.values()) >= FROM_OPENAPI
    assert {200, 201, 400, 404, 422} <= judge.statuses.keys(), "the requests reach little"


def test_requests_that_are_nearly_right_are_answered_and_nothing_grows(judge: Judge) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for request in mutants(MUTANTS, SEED):
        judge.send(request)
    _is_alive(judge)
    for kind in ("pods", "configmaps", "secrets"):
        judge.send(Request("DELETE", f"/api/v1/namespaces/fuzz/{kind}"))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MOST_GROWTH_KIB, f"{grown} KiB more for {MUTANTS} requests"


DEEP = b'{"spec":' + b"[" * 490 + b"]" * 490 + b"}"
FOUND = (
    Request("POST", "/apis/node.k8s.io/v1/runtimeclasses", b'{"metadata":{"name":"a"},"handler":"h","overhead":{}}'),
    Request("PATCH", "/api/v1/namespaces/found/configmaps/found", DEEP, "application/merge-patch+json"),
    Request("PATCH", "/api/v1/namespaces/found/configmaps/found", DEEP, "application/strategic-merge-patch+json"),
)
"""What has broken the server once."""


@pytest.mark.parametrize("request_", FOUND, ids=lambda it: f"{it.method} {it.content_type} {it.target}")
def test_what_broke_it_once_is_answered(judge: Judge, request_: Request) -> None:
    named = b'{"metadata":{"name":"found"}}'
    judge.send(Request("POST", "/api/v1/namespaces", named))  # what was sent before may have ended others
    judge.send(Request("POST", "/api/v1/namespaces/found/configmaps", named))
    assert judge.send(request_) in (200, 201, 400)


GARBAGE = (
    b"\x16\x03\x01 not http at all\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET /api HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n{",
    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
)


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_no_request_ends_a_connection_and_nothing_else(judge: Judge, garbage: bytes) -> None:
    with (
        socket.create_connection(judge.address, timeout=20) as plain,
        judge.tls.wrap_socket(plain, server_hostname=judge.address[0]) as secure,
    ):
        secure.settimeout(20)
        secure.sendall(garbage)
        with contextlib.suppress(OSError):
            secure.shutdown(socket.SHUT_WR)
            secure.recv(1 << 16)
    _is_alive(judge)


def test_half_a_body_and_clients_that_neither_write_nor_read_keep_nobody_waiting(
    judge: Judge, cluster: EmbeddedCluster
) -> None:
    head = (
        f"POST /api/v1/namespaces/fuzz/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    ).encode()
    slow = []
    for number in range(30):
        plain = socket.create_connection(judge.address, timeout=20)
        secure = judge.tls.wrap_socket(plain, server_hostname=judge.address[0])
        secure.sendall(head[: 40 if number % 3 == 0 else None] + (b'{"metadata":' if number % 3 == 1 else b""))
        slow.append(secure)
    _is_alive(judge)
    for secure in slow:
        secure.close()
    _is_alive(judge)


def test_what_was_asked_for_leaves_no_task_behind(judge: Judge, running: EmbeddedInThread) -> None:
    _is_alive(judge)
    end = time.monotonic() + PATIENCE_SECONDS
    while len(tasks := asyncio.all_tasks(running.loop)) > MOST_TASKS:
        assert time.monotonic() < end, tasks
        _is_alive(judge)
