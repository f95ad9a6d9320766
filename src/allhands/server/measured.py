"""GET on metrics.k8s.io: what nodes and pods use, measured for this request.

Which objects there are, and which of them a selector means, is the port's to say; what they use is the agents'. Those
of which nothing is known are left out of lists, and not found by name, as with metrics-server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.agents.agent import NODES, PODS
from allhands.api.measured import POD_METRICS, no_metrics_of, usage_document
from allhands.api.schema import timestamps
from allhands.model.go_duration import millis_text
from allhands.ports import Page
from allhands.server import options, resources
from allhands.server.answers import unknown_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.agents.usage import NodeUsage, PodUsage
    from allhands.api.document import Manifest
    from allhands.server.resources import Call, Reply


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Measured(msgspec.Struct, frozen=True):
    """An object, as far as its usage repeats it."""

    metadata: _Metadata


async def answer(call: Call) -> Reply:
    target = call.target
    if target.subresource:
        raise unknown_path()
    if call.request.method != "GET" or target.old_watch or (not target.name and options.is_watch(call.request)):
        raise resources.refused_method(call)
    source = PODS if target.resource == POD_METRICS else NODES
    writer = call.face.writer(call.kind, call.form(), call.request)
    if target.name:
        found = (await call.face.objects.get(source, target.name, target.namespace)).decode(_Measured)
        documents = await _documents(call, [found.metadata])
        if not documents:
            raise no_metrics_of(target.resource, target.name, target.namespace)
        return await writer.of_object(msgspec.json.encode(documents[0]))
    # The whole of it, whatever was asked: pages of what changes with every look would not fit together.
    asked = msgspec.structs.replace(options.selection(call.request, target.namespace), limit=0, continue_token="")
    listed = await call.face.objects.list(source, asked)
    documents = await _documents(call, [msgspec.json.decode(raw, type=_Measured).metadata for raw in listed.items])
    return await writer.of_page(Page([msgspec.json.encode(it) for it in documents], ""))


async def _documents(call: Call, asked: Sequence[_Metadata]) -> list[Manifest]:
    """Of those that somebody knows something of, in their order."""
    usages = call.face.usages
    if usages is None:
        return []
    keys = [it.key for it in asked]
    if call.target.resource == POD_METRICS:
        pods = await usages.of_pods(keys)
        return [_head(call, it, pods[it.key]) | _of_pod(pods[it.key]) for it in asked if it.key in pods]
    nodes = await usages.of_nodes(keys)
    return [_head(call, it, nodes[it.key]) | _of_node(nodes[it.key]) for it in asked if it.key in nodes]


def _head(call: Call, of: _Metadata, measured: NodeUsage | PodUsage) -> Manifest:
    metadata: Manifest = {"name": of.name}
    if of.namespace:
        metadata["namespace"] = of.namespace
    metadata["creationTimestamp"] = timestamps.seconds(call.face.clock.now())
    if of.labels:
        metadata["labels"] = of.labels
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": metadata,
        "timestamp": timestamps.seconds(measured.measured_at),
        "window": millis_text(round(measured.window_seconds * 1000)),
    }


def _of_pod(measured: PodUsage) -> Manifest:
    return {
        "containers": [
            {"name": name, "usage": usage_document(it.cpu_nanos, it.memory_bytes)}
            for name, it in measured.containers.items()
        ]
    }


def _of_node(measured: NodeUsage) -> Manifest:
    return {"usage": usage_document(measured.usage.cpu_nanos, measured.usage.memory_bytes)}
