"""Probes over the network: connections, or short requests, to the pods of one task of one Job, and to nobody else.

A user chooses port, path and one header, never the host: that is the address that the pod's node has reported, and only
if the Job itself manages the pod. Addresses of this machine, of links and of no single host are never asked on a
cluster. Nothing of an answer is kept but whether its status was good, and no redirection is followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import urllib.parse
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.lifecycle.observed import Metadata
from allhands.ports import Query

if TYPE_CHECKING:
    from allhands.lifecycle.job_flow.probing import Question
    from allhands.ports import Objects

PODS: Final = Resource("", "v1", "pods")
JOB_LABEL: Final = "volcano.sh/job-name"
TASK_MARK: Final = "volcano.sh/task-spec"
POD_SECONDS: Final = 3.0
"""So long a pod has to answer."""
MOST_CONNECTIONS: Final = 32
LONGEST_STATUS_LINE: Final = 1024
GOOD: Final = range(200, 400)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: |\r|$)")


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class _Pod(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    status: _Status = _Status()

    def is_meant(self, question: Question) -> bool:
        controller = self.metadata.controller
        task = self.metadata.label(TASK_MARK) or self.metadata.annotation(TASK_MARK)
        return (
            controller is not None
            and controller.uid == question.job_uid
            and task == question.task
            and self.status.phase != "Succeeded"
        )


_pods: Final = msgspec.json.Decoder(_Pod)


class PodProbes:
    """`is_local`: pods that run on this machine are asked at its own addresses, those of simulated nodes not at all."""

    def __init__(self, objects: Objects, *, is_local: bool = False, pod_seconds: float = POD_SECONDS) -> None:
        self._objects = objects
        self._is_local = is_local
        self._pod_seconds = pod_seconds
        self._free = asyncio.Semaphore(MOST_CONNECTIONS)

    async def is_up(self, question: Question) -> bool:
        page = await self._objects.list(PODS, Query(namespace=question.namespace, labels=f"{JOB_LABEL}={question.job}"))
        pods = [it for it in map(_pods.decode, page.items) if it.is_meant(question)]
        if any(it.status.phase != "Running" or it.metadata.is_going for it in pods):
            return False
        answers = await asyncio.gather(*(self._is_up(it.status.pod_ip, question) for it in pods))
        return all(answers)

    async def _is_up(self, address: str, question: Question) -> bool:
        try:
            host = ipaddress.ip_address(address)
        except ValueError:
            return False
        if self._is_local and not host.is_loopback:
            return True
        is_nobody = host.is_multicast or host.is_unspecified or host.is_reserved or host.is_link_local
        if is_nobody or (host.is_loopback and not self._is_local):
            return False
        async with self._free:
            try:
                async with asyncio.timeout(self._pod_seconds):
                    return await _answers(host, question)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                return False


async def _answers(host: ipaddress.IPv4Address | ipaddress.IPv6Address, question: Question) -> bool:
    request = request_text(host, question) if question.path else None
    if question.path and request is None:
        return False
    reader, writer = await asyncio.open_connection(str(host), question.port, limit=LONGEST_STATUS_LINE)
    try:
        if request is None:
            return True
        writer.write(request)
        await writer.drain()
        found = _STATUS_LINE.match(await reader.readuntil(b"\n"))
        return found is not None and int(found[1]) in GOOD
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def request_text(host: ipaddress.IPv4Address | ipaddress.IPv6Address, question: Question) -> bytes | None:
    """None if the header cannot be sent as it is written."""
    shown = f"[{host}]" if host.version == 6 else str(host)
    headers = {"Host": f"{shown}:{question.port}", "User-Agent": "allhands-flow", "Accept": "*/*"}
    if question.header is not None:
        name, value = question.header
        if not _TOKEN.fullmatch(name) or not value.isascii() or not value.isprintable():
            return None
        headers = {key: text for key, text in headers.items() if key.lower() != name.lower()} | {name: value}
    headers["Connection"] = "close"
    path = urllib.parse.quote(question.path, safe="/?&=%:@!$'()*+,;~-._")
    lines = [f"GET {path} HTTP/1.1", *(f"{key}: {text}" for key, text in headers.items()), "", ""]
    return "\r\n".join(lines).encode()
