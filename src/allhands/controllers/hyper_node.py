"""The shell of HyperNodes: when nodes or HyperNodes change the whole tree is read anew, once in a while, and those are
looked at of whom something else is true than before.

Whether one makes sense depends on all: two may claim a third, and a circle is nobody's own fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.controllers.watching import decoder
from allhands.core.topology.soundness import sound_domains
from allhands.dialects.hyper_nodes import HyperNodeRecord, hyper_tree, read_hyper_node
from allhands.lifecycle.hyper_node import PAUSE_SECONDS, HyperNodeDocument, HyperNodeFacts, reconcile
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.model.node import Node, NodeMetadata
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allhands.api.errors import StatusError
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

NODES: Final = Resource("", "v1", "nodes")
TREE: Final = "*"
"""The key of all HyperNodes together; no object is called so."""


class _Seen(msgspec.Struct, frozen=True):
    document: HyperNodeDocument
    record: HyperNodeRecord


class _NodeDocument(msgspec.Struct, frozen=True):
    metadata: NodeMetadata


class HyperNodeController:
    name: Final = "hyper-node"

    def __init__(self, objects: Objects, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._pause_seconds = pause_seconds
        self._queue: WorkQueue | None = None
        self._facts: dict[str, HyperNodeFacts] = {}
        self._read_at: float | None = None
        self._written: dict[str, float] = {}
        self._attempts: dict[str, float] = {}
        self._hyper_nodes: Informer[_Seen] = Informer(objects, HYPER_NODE.resource, _reader(), optional=True)
        self._nodes: Informer[Node] = Informer(objects, NODES, _node_reader())

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._hyper_nodes, self._nodes)

    def wire(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._hyper_nodes.on_change(lambda key, old, new: self._see(queue, key, old, new))
        self._nodes.on_change(lambda _key, old, new: self._see_node(queue, old, new))

    def _see(self, queue: WorkQueue, key: str, old: _Seen | None, new: _Seen | None) -> None:
        if old is None or new is None or old.record != new.record:
            queue.add(TREE)
        queue.add(key)

    def _see_node(self, queue: WorkQueue, old: Node | None, new: Node | None) -> None:
        if len(self._hyper_nodes) and (old is None or new is None or old.labels != new.labels):
            queue.add(TREE)

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        attempted = self._attempts.pop(key, None)
        if refusal is None and attempted is not None:
            self._written[key] = attempted

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        if key == TREE:
            return self._read_tree(now_seconds)
        seen, facts = self._hyper_nodes.get(key), self._facts.get(key)
        if seen is None:
            self._written.pop(key, None)
        if seen is None or facts is None:
            return NOTHING_TO_DO
        outcome = reconcile(
            seen.document,
            facts,
            now_seconds,
            written_at_seconds=self._written.get(key),
            pause_seconds=self._pause_seconds,
        )
        if outcome.instructions:
            self._attempts[key] = now_seconds
        return outcome

    def _read_tree(self, now_seconds: float) -> Outcome:
        since = None if self._read_at is None else now_seconds - self._read_at
        if since is not None and 0 <= since < self._pause_seconds:
            return Outcome(wake_at_seconds=now_seconds + self._pause_seconds - since)
        self._read_at = now_seconds
        before, self._facts = self._facts, facts_of((it.record for it in self._hyper_nodes.all()), self._nodes.all())
        for name, facts in self._facts.items():
            if before.get(name) != facts and self._queue is not None:
                self._queue.add(name)
        return NOTHING_TO_DO


def facts_of(records: Iterable[HyperNodeRecord], nodes: Iterable[Node]) -> dict[str, HyperNodeFacts]:
    """Of each HyperNode how many nodes are in it, with those of the ones below, and why it is set aside if it is."""
    tree = hyper_tree(records, nodes)
    sound = sound_domains(tree.domains)
    inside = {it.name: set(it.nodes) for it in tree.domains}
    for domain in reversed(sound.ordered):  # those inside come before what they lie in
        if domain.parent is not None:
            inside[domain.parent] |= inside[domain.name]
    facts = {name: HyperNodeFacts(0, problem) for name, problem in tree.problems.items()}
    for name, held in inside.items():
        fault = sound.set_aside.get(name)
        facts[name] = HyperNodeFacts(len(held), "" if fault is None else str(fault))
    return dict(sorted(facts.items()))


def _reader() -> Callable[[bytes], _Seen]:
    documents = decoder(HyperNodeDocument)
    return lambda raw: _Seen(documents(raw), read_hyper_node(raw))


def _node_reader() -> Callable[[bytes], Node]:
    documents = decoder(_NodeDocument)

    def read(raw: bytes) -> Node:
        metadata = documents(raw).metadata
        return Node(name=metadata.name, labels=metadata.labels or {})

    return read
