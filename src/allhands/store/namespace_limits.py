"""What a namespace may use: its LimitRanges and ResourceQuotas, asked before an object is stored.

A verb runs to its end without waiting, so nobody can take the last room twice. Namespaces that have neither pay for one
look into a dictionary. Where the store keeps quotas, it counts every object of the namespaces that have one, and
housekeeping writes what was given back; else their status is what somebody writes, as on a bare API server.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.builtin.limit_ranges import aggregated, claim_refusals, pod_refusals, set_defaults
from allhands.api.errors import not_allowed
from allhands.api.kinds import Resource
from allhands.lifecycle.quota_admission import QuotaError, admit, count_name, is_charged_on_update
from allhands.lifecycle.quota_charges import claim_charge, object_charge, pod_charge, service_charge
from allhands.lifecycle.resource_quota import QUOTAS, Ledger, Quota, status_of
from allhands.store.collection import LIMIT_RANGES
from allhands.store.writing import change

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.lifecycle.quota_admission import Charging
    from allhands.lifecycle.quota_charges import Charged
    from allhands.store.collection import Collection
    from allhands.store.record import Record
    from allhands.store.store import Store

_NEVER_CHARGED: Final = frozenset({"events"})
_BY_AMOUNT: Final[dict[Resource, Callable[[bytes], Charged]]] = {
    Resource("", "v1", "pods"): pod_charge,
    Resource("", "v1", "persistentvolumeclaims"): claim_charge,
    Resource("", "v1", "services"): service_charge,
}
_REFUSALS: Final[dict[Resource, Callable[[Manifest, Manifest], list[str]]]] = {
    Resource("", "v1", "pods"): pod_refusals,
    Resource("", "v1", "persistentvolumeclaims"): claim_refusals,
}


class NamespaceLimits:
    """`keeps_quotas`: their status is the store's own work."""

    def __init__(self, store: Store, *, keeps_quotas: bool) -> None:
        self._store = store
        self._keeps = keeps_quotas
        self.limited: dict[str, int] = {}
        """The namespaces that have any, and how many; others need not ask."""
        self._ledgers: dict[str, Ledger] = {}
        """Of the namespaces whose objects have been counted."""

    @functools.cached_property
    def _ranges(self) -> Collection:
        return self._store.collection(self._store.kind(LIMIT_RANGES))

    @functools.cached_property
    def _quotas(self) -> Collection:
        return self._store.collection(self._store.kind(QUOTAS))

    def complete(self, kind: Kind, document: Manifest) -> None:
        """Fills in what a new pod leaves to its namespace."""
        if (kind.group, kind.kind) == ("", "Pod"):
            for limit_range in self._every(self._ranges, document):
                set_defaults(document, limit_range.manifest())

    def check_ranges(self, kind: Kind, document: Manifest) -> None:
        refusals = _REFUSALS.get(kind.resource)
        if refusals is None:
            return
        for limit_range in self._every(self._ranges, document):
            if faults := refusals(document, limit_range.manifest()):
                raise _refused(kind, document, aggregated(faults))

    def charge_change(self, kind: Kind, new: Manifest, old: Manifest) -> list[Charging]:
        """The same for an object that is there. Pods cannot change what they ask for, claims can."""
        if (kind.group, kind.kind) == ("", "PersistentVolumeClaim") and "deletionTimestamp" not in old["metadata"]:
            self.check_ranges(kind, new)
        return self.charge(kind, new, old)

    def charge(
        self, kind: Kind, new: Manifest, old: Manifest | None = None, *, resized: bool = False
    ) -> list[Charging]:
        """What the quotas of its namespace say once this object, or this change of it, is stored; or a refusal. To be
        given to `note_charged` then. `resized` is a pod that asks for more or less."""
        namespace = new["metadata"].get("namespace", "")
        if not self._quotas.count_in(namespace) or kind.resource.plural in _NEVER_CHARGED:
            return []
        if old is not None and not resized and not is_charged_on_update(kind.resource, new, old):
            return []
        quotas = [_quota(record) for record in self._quotas.in_namespace(namespace)]
        try:
            return admit(quotas, kind.resource, new, old)
        except QuotaError as refusal:
            raise _refused(kind, new, str(refusal)) from None

    def note_charged(self, charged: list[Charging]) -> None:
        for it in charged:
            self._tell(it.quota, {"hard": it.quota.status["hard"], "used": dict(it.used)}, "kube-apiserver")

    def note(self, collection: Collection, old: Record | None, new: Record | None) -> bool:
        """Called for every change in a namespace that is limited, and of what limits. Whether it can be one of what
        quotas have to say."""
        record = new or old
        assert record is not None
        namespace = record.key[0]
        if collection.limits_others and (old is None or new is None):
            number = self.limited.get(namespace, 0) + (1 if old is None else -1)
            self.limited[namespace] = number
            if not number:
                del self.limited[namespace]
        ledger = self._ledgers.get(namespace)
        if ledger is not None:
            ledger.change(_charged(collection, old), _charged(collection, new))
        return self._keeps and (ledger is not None or collection.home == QUOTAS)

    def settle(self, namespace: str) -> None:
        """Writes what the quotas of a namespace limit and what is used of it, where they say otherwise."""
        records = self._quotas.in_namespace(namespace)
        if not records:
            self._ledgers.pop(namespace, None)
            return
        ledger = self._ledgers.get(namespace)
        if ledger is None:
            ledger = self._ledgers[namespace] = self._counted(namespace)
        for record in records:
            quota = _quota(record)
            status = status_of(quota, ledger, self._is_counted)
            if status is not None and not record.is_marked:
                self._tell(quota, status, "kube-controller-manager")

    def _tell(self, quota: Quota, status: Manifest, manager: str) -> None:
        record = self._quotas.get((quota.metadata.namespace, quota.metadata.name))
        assert record is not None
        change(
            self._store,
            self._quotas,
            record,
            lambda it: it.update({"status": status}),
            manager=manager,
            subresource="status",
        )

    def _counted(self, namespace: str) -> Ledger:
        ledger = Ledger()
        for collection in self._store.collections():
            if collection.kind.namespaced:
                for record in collection.in_namespace(namespace):
                    ledger.change(None, _charged(collection, record))
        return ledger

    def _is_counted(self, name: str) -> bool:
        kinds = self._store.kinds.all()
        return any(kind.namespaced and count_name(kind.resource) == name for kind in kinds)

    def _every(self, collection: Collection, document: Manifest) -> list[Record]:
        namespace = document["metadata"].get("namespace", "")
        return collection.in_namespace(namespace) if collection.count_in(namespace) else []


def _quota(record: Record) -> Quota:
    return msgspec.json.decode(record.raw, type=Quota)


def _charged(collection: Collection, record: Record | None) -> Charged | None:
    resource = collection.home
    if record is None or resource.plural in _NEVER_CHARGED:
        return None
    by_amount = _BY_AMOUNT.get(resource)
    if by_amount is not None:
        return by_amount(record.raw)
    names = (count_name(resource),) if resource.group else (count_name(resource), resource.plural)
    return object_charge(record.key[0], names)


def _refused(kind: Kind, document: Manifest, why: str) -> Exception:
    return not_allowed(kind.group, kind.resource.plural, document["metadata"].get("name", ""), why)
