"""What containers have written, for people: the port behind `kubectl logs`, and its router over the nodes' agents.

A request that cannot be served is refused before the first byte, with the API's own words for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from allhands.agents.agent import NODES, PODS, is_simulated
from allhands.api.errors import StatusError, bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from allhands.ports import Objects


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to show. Without a container, the pod must have only one."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    """The run before the last restart."""
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: float | None = None
    since_time: str = ""
    """Only what was written at or after this moment, in RFC 3339 and UTC."""
    limit_bytes: int | None = None


EVERYTHING_WRITTEN: Final = LogOptions()


class Logs(Protocol):
    async def logs(
        self, namespace: str, pod: str, options: LogOptions = EVERYTHING_WRITTEN
    ) -> AsyncIterator[bytes] | None:
        """The text in pieces, or None if the pod is nowhere yet. Refusals are `StatusError`s of this call, never of the
        iteration."""


class _Container(msgspec.Struct, frozen=True):
    name: str


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...]
    node_name: str = msgspec.field(default="", name="nodeName")
    init_containers: tuple[_Container, ...] = msgspec.field(default=(), name="initContainers")


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec


class _NodeMetadata(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: _NodeMetadata


class LogsOfNodes:
    """Finds a pod's node and asks its agent. Pods on other nodes run nothing that could write."""

    def __init__(self, objects: Objects, agents: Mapping[str, Logs]) -> None:
        self._objects = objects
        self._agents = agents

    async def logs(
        self, namespace: str, pod: str, options: LogOptions = EVERYTHING_WRITTEN
    ) -> AsyncIterator[bytes] | None:
        found = (await self._objects.get(PODS, pod, namespace)).decode(_Pod)
        container = _chosen(found, options)
        if not found.spec.node_name:
            return None
        agent = self._agents.get(found.spec.node_name)
        if agent is None:
            await self._check_simulated(found.spec.node_name, pod)
            return _one_line(
                f"{pod} is on the simulated node {found.spec.node_name}: it runs nothing, so nothing is written"
            )
        return await agent.logs(namespace, pod, msgspec.structs.replace(options, container=container))

    async def _check_simulated(self, node: str, pod: str) -> None:
        """What really ran is not said to have run nothing, only because nobody here knows what it wrote."""
        try:
            labels = (await self._objects.get(NODES, node)).decode(_Node).metadata.labels or {}
        except StatusError:
            return
        if not is_simulated(node, labels):
            raise bad_request(f"the logs of pod {pod} cannot be read: its node {node} is not served now")


def _chosen(pod: _Pod, options: LogOptions) -> str:
    """The container that is meant."""
    check_options(options)
    names = [it.name for it in pod.spec.containers]
    inits = [it.name for it in pod.spec.init_containers]
    if options.container:
        if options.container not in names + inits:
            raise bad_request(f"container {options.container} is not valid for pod {pod.metadata.name}")
        return options.container
    preferred = pod.metadata.annotations.get("kubectl.kubernetes.io/default-container")
    if preferred in names:
        return preferred
    if len(names) == 1:
        return names[0]
    choices = f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{' '.join(names)}]"
    if inits:
        choices += f" or one of the init containers: [{' '.join(inits)}]"
    raise bad_request(choices)


def check_options(options: LogOptions) -> None:
    """Refuses numbers without sense."""
    for name, value, least in (
        ("tailLines", options.tail_lines, 0),
        ("sinceSeconds", options.since_seconds, 1),
        ("limitBytes", options.limit_bytes, 1),
    ):
        if value is not None and value < least:
            wrong = f"{name}: Invalid value: {value:g}: must be greater than or equal to {least}"
            raise StatusError(422, "Invalid", f'PodLogOptions "" is invalid: {wrong}')


async def _one_line(text: str) -> AsyncIterator[bytes]:
    yield text.encode() + b"\n"
