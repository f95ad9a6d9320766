"""Keeps what is neither node, pod nor group: queues, domains, namespaces, volumes, budgets. Made anew when it changed.

`Facts` are compared by identity, so they are handed out again as long as nothing in them is different.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from allhands.core.facts import NO_FACTS, DisruptionBudget, Facts
from allhands.dialects.hyper_nodes import HyperNodeRecord, hyper_tree, read_hyper_node
from allhands.dialects.queue_hierarchy import with_hierarchy
from allhands.dialects.queues import QueueRecord, read_queue
from allhands.dialects.topology_labels import domains_of
from allhands.lifecycle.namespace_room import QuotaLeft, quota_left
from allhands.lifecycle.resource_quota import Quota
from allhands.model.selector import LabelSelectorDocument  # noqa: TC001 (msgspec reads the annotation)
from allhands.model.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeFacts,
)
from allhands.model.volume_document import (
    CSIDriverDocument,
    CSINodeDocument,
    PersistentVolumeClaimDocument,
    PersistentVolumeDocument,
    StorageCapacityDocument,
    StorageClassDocument,
    VolumeAttachmentDocument,
)
from allhands.runtime.informer import Informer
from allhands.runtime.scheduling import resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allhands.api.kinds import Resource
    from allhands.core.facts import PastRuns
    from allhands.core.quota.usage import UsageLedger
    from allhands.model.domain import Domain
    from allhands.model.node import Node
    from allhands.model.queue import Account, Queue
    from allhands.ports import Objects

T = TypeVar("T")
D = TypeVar("D")

HYPER_NODE: Final = "hypernode:"
"""Precedes the name of a domain that is a HyperNode: no value of a label has a colon."""


class _BudgetMeta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = "default"


class _BudgetSpec(msgspec.Struct, frozen=True):
    selector: LabelSelectorDocument | None = None


class _BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0


class _Budget(msgspec.Struct, frozen=True):
    metadata: _BudgetMeta = _BudgetMeta()
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


class _NamespaceMeta(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None


class _Namespace(msgspec.Struct, frozen=True):
    metadata: _NamespaceMeta = _NamespaceMeta()


class PriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    value: int = 0
    global_default: bool = False


def reading(document: type[D], convert: Callable[[D], T]) -> Callable[[bytes], T]:
    decoder = msgspec.json.Decoder(document)
    return lambda raw: convert(decoder.decode(raw))


def _budget(document: _Budget) -> DisruptionBudget | None:
    if document.spec.selector is None:
        return None  # matches nothing
    selector = document.spec.selector.selector()
    allowed = document.status.disruptions_allowed
    return DisruptionBudget(document.metadata.namespace, document.metadata.name, selector, allowed)


class WatchedFacts:
    """`ledger` is what was used in the past, `past_runs` how long groups ran; who counts them replaces them here."""

    def __init__(self, objects: Objects, topology_labels: tuple[str, ...], *, hierarchical: bool = False) -> None:
        """`hierarchical`: whether queues are where their annotations put them."""
        self.topology_labels = topology_labels
        self._is_hierarchical = hierarchical
        self._objects = objects
        self._facts: Facts = NO_FACTS
        self._stale = True
        self._domains: tuple[Domain, ...] | None = None
        """None when nodes, or what is said of how close they are, have changed."""
        self._ledger: UsageLedger = NO_FACTS.past_usage
        self._past_runs: Mapping[str, PastRuns] = {}
        self._is_history_stale = False
        self.informers: list[Informer[Any]] = []
        self.queues = self._informer(resources.QUEUES, read_queue)
        self.hyper_nodes = self._informer(resources.HYPER_NODES, read_hyper_node)
        self.hyper_nodes.on_change(lambda _key, before, after: self._hyper_node_changed(before, after))
        self.hyper_tiers: tuple[str, ...] | None = None
        """The names of the tiers of HyperNodes, the closest first; None while there is none that makes sense."""
        self.looks_at_all_labels = False
        """Whether any label of a node may say where it is."""
        self.priorities = self._informer(resources.PRIORITY_CLASSES, reading(PriorityClass, lambda it: it))
        self._namespaces = self._informer(
            resources.NAMESPACES, reading(_Namespace, lambda it: it.metadata.labels or {})
        )
        self._budgets = self._informer(resources.BUDGETS, reading(_Budget, _budget))
        self.namespace_quotas: Informer[QuotaLeft | None] = Informer(
            objects, resources.QUOTAS, reading(Quota, quota_left), optional=True
        )
        """No matter of where pods go: when it changes no fact is stale."""
        self.informers.append(self.namespace_quotas)
        self._volumes = self._informer(
            resources.VOLUMES, reading(PersistentVolumeDocument, PersistentVolume.from_document)
        )
        self.claims = self._informer(
            resources.CLAIMS, reading(PersistentVolumeClaimDocument, PersistentVolumeClaim.from_document)
        )
        self._classes = self._informer(
            resources.STORAGE_CLASSES, reading(StorageClassDocument, StorageClass.from_document)
        )
        self._csi_nodes = self._informer(resources.CSI_NODES, reading(CSINodeDocument, CSINode.from_document))
        self._drivers = self._informer(resources.CSI_DRIVERS, reading(CSIDriverDocument, CSIDriver.from_document))
        self._capacities = self._informer(
            resources.STORAGE_CAPACITIES, reading(StorageCapacityDocument, StorageCapacity.from_document)
        )
        self._attachments = self._informer(
            resources.ATTACHMENTS, reading(VolumeAttachmentDocument, VolumeAttachment.from_document)
        )

    def _informer(self, resource: Resource, decode: Callable[[bytes], T]) -> Informer[T]:
        """All are optional: who may not see budgets or volumes can still place pods that need none."""
        informer = Informer(self._objects, resource, decode, optional=True)
        informer.on_change(self._note)
        self.informers.append(informer)
        return informer

    def _note(self, key: str, before: object, after: object) -> None:
        del key
        if before != after:
            self._stale = True

    def topology_changed(self) -> None:
        """The set of nodes, one of the labels that say how close they are, or a HyperNode is different."""
        self._stale = True
        self._domains = None

    def _hyper_node_changed(self, before: HyperNodeRecord | None, after: HyperNodeRecord | None) -> None:
        if before == after:
            return
        sound = sorted((it.tier, it.name, it) for it in self.hyper_nodes.all() if not it.problem)
        self.hyper_tiers = tuple(dict.fromkeys(it.tier_name for *_, it in sound if it.tier_name)) if sound else None
        self.looks_at_all_labels = any(it.looks_at_labels for *_, it in sound)
        self.topology_changed()

    def _located(self, nodes: Iterable[Node]) -> tuple[Domain, ...]:
        """By labels, and as a tree of its own by HyperNodes."""
        known = list(nodes)
        hyper = [
            msgspec.structs.replace(
                it, name=f"{HYPER_NODE}{it.name}", parent=None if it.parent is None else f"{HYPER_NODE}{it.parent}"
            )
            for it in hyper_tree(self.hyper_nodes.all(), known).domains
        ]
        return (*domains_of(known, self.topology_labels), *hyper)

    @property
    def ledger(self) -> UsageLedger:
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: UsageLedger) -> None:
        self._ledger = ledger
        self._is_history_stale = True

    @property
    def past_runs(self) -> Mapping[str, PastRuns]:
        return self._past_runs

    @past_runs.setter
    def past_runs(self, past_runs: Mapping[str, PastRuns]) -> None:
        self._past_runs = past_runs
        self._is_history_stale = True

    def queue(self, name: str) -> QueueRecord | None:
        return self.queues.get(name)

    def priority(self, name: str) -> int:
        """Of a class; without a name, of the one that is everybody's, as admission chooses it for pods."""
        if name:
            found = self.priorities.get(name)
            return found.value if found is not None else 0
        return min((it.value for it in self.priorities.all() if it.global_default), default=0)

    @property
    def is_stale(self) -> bool:
        return self._stale or self._is_history_stale

    def renewed(self, nodes: Iterable[Node]) -> Facts:
        """The facts of now."""
        if self._stale:
            self._facts = self._made(nodes)
        elif self._is_history_stale:
            self._facts = msgspec.structs.replace(self._facts, past_usage=self._ledger, past_runs=self._past_runs)
        self._stale = self._is_history_stale = False
        return self._facts

    def _made(self, nodes: Iterable[Node]) -> Facts:
        if self._domains is None:
            self._domains = self._located(nodes)
        return Facts(
            accounts=self._accounts(),
            domains=self._domains,
            namespaces={key: self._namespaces.get(key) or {} for key in sorted(self._namespaces.keys())},
            volumes=VolumeFacts(
                volumes=_sorted(self._volumes),
                claims=_sorted(self.claims),
                classes=_sorted(self._classes),
                nodes=_sorted(self._csi_nodes),
                drivers=_sorted(self._drivers),
                capacities=tuple(_sorted(self._capacities).values()),
                attachments=tuple(_sorted(self._attachments).values()),
            ),
            budgets=tuple(budget for budget in _sorted(self._budgets).values() if budget is not None),
            past_usage=self._ledger,
            past_runs=self._past_runs,
        )

    def _accounts(self) -> tuple[Account | Queue, ...]:
        queues = tuple(self._queue(name) for name in sorted(self.queues.keys()))
        if not self._is_hierarchical:
            return queues
        branches = {it.queue.name: it.branch for it in self.queues.all() if it.branch is not None}
        return with_hierarchy(queues, branches) if branches else queues

    def _queue(self, name: str) -> Queue:
        record = self.queues.get(name)
        assert record is not None
        queue = record.queue
        if queue.parent is not None and queue.parent not in self.queues and queue.parent == "root":
            return msgspec.structs.replace(queue, parent=None)  # Volcano's root is there even if nobody made it
        return queue


def _sorted(informer: Informer[T]) -> dict[str, T]:
    found: dict[str, T] = {}
    for key in sorted(informer.keys()):
        record = informer.get(key)
        assert record is not None or key in informer
        found[key] = record  # type: ignore[assignment]
    return found
