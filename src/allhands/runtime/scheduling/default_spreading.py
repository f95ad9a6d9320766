"""Gives pods that stand alone and ask for no spreading the one that kube-scheduler gives them: by who manages them.

It watches the services and controllers by whose selectors that is decided. A namespace without services pays for none,
and neither does a pod whose owner is no such controller. Members of gangs are left as they are: they belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from allhands.api.volcano.workloads import least_of
from allhands.core.default_spread import with_default_spread
from allhands.model.selector import LabelSelector, LabelSelectorDocument
from allhands.runtime.informer import Informer, key_of, split_key
from allhands.runtime.scheduling import resources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.kinds import Resource
    from allhands.model.affinity import SpreadConstraint
    from allhands.model.pod import Pod
    from allhands.ports import Objects

T = TypeVar("T")
MOST_ALIKE: Final = 4_096


class _MapSpec(msgspec.Struct, frozen=True):
    selector: dict[str, str] | None = None


class _MapDocument(msgspec.Struct, frozen=True):
    """A Service or a ReplicationController."""

    spec: _MapSpec = _MapSpec()


class _Spec(msgspec.Struct, frozen=True):
    selector: LabelSelectorDocument | None = None


class _Metadata(msgspec.Struct, frozen=True):
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Document(msgspec.Struct, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class Manager(msgspec.Struct, frozen=True):
    """Who keeps pods. `min_member`: how many of them are to start together."""

    selector: LabelSelector
    uid: str = ""
    min_member: int = 1


_maps = msgspec.json.Decoder(_MapDocument)
_selectors = msgspec.json.Decoder(_Document)


def _read_service(raw: bytes) -> dict[str, str]:
    return _maps.decode(raw).spec.selector or {}


def _read_replication_controller(raw: bytes) -> Manager:
    return Manager(LabelSelector.of(_maps.decode(raw).spec.selector, ()))


def _read_set(raw: bytes) -> Manager:
    document = _selectors.decode(raw)
    selector, metadata = document.spec.selector, document.metadata
    found = LabelSelector() if selector is None else selector.selector()
    return Manager(found, metadata.uid, least_of(metadata.annotations))


class DefaultSpreading:
    """`changed` is told the keys of pods that may have to be completed anew."""

    def __init__(self, objects: Objects, changed: Callable[[list[str]], None]) -> None:
        self._objects = objects
        self._changed = changed
        self.informers: list[Informer[Any]] = []
        self._services = self._informer(resources.SERVICES, _read_service)
        self.managers: dict[str, Informer[Manager]] = {
            "ReplicaSet": self._informer(resources.REPLICA_SETS, _read_set),
            "StatefulSet": self._informer(resources.STATEFUL_SETS, _read_set),
            "ReplicationController": self._informer(resources.REPLICATION_CONTROLLERS, _read_replication_controller),
        }
        self._by_namespace: dict[str, dict[str, Mapping[str, str]]] = {}
        """Services with a selector."""
        self._waiting: dict[str, dict[str, str]] = {}
        """Namespace -> pods that were asked about and have no node yet, with their owner."""
        self._alike: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[SpreadConstraint, ...]] = {}

    def _informer(self, resource: Resource, decode: Callable[[bytes], T]) -> Informer[T]:
        informer = Informer(self._objects, resource, decode, optional=True)
        informer.on_change(lambda key, before, after: self._note(resource, key, before, after))
        self.informers.append(informer)
        return informer

    def completed(self, pod: Pod) -> Pod:
        """The pod as it is to be decided about."""
        if pod.node_name or pod.spread:
            self.forget(pod.namespace, pod.key)
            return pod
        self._waiting.setdefault(pod.namespace, {})[pod.key] = pod.owner
        services = self._by_namespace.get(pod.namespace)
        kind, _, name = pod.owner.partition("/")
        owners = self.managers.get(kind)
        owner = None if owners is None else owners.get(key_of(pod.namespace, name))
        if not services and owner is None:
            return pod
        alike = (pod.namespace, pod.owner, tuple(sorted(pod.labels.items())))
        spread = self._alike.get(alike)
        if spread is None:
            spread = with_default_spread(
                pod, services.values() if services else (), None if owner is None else owner.selector
            ).spread
            if len(self._alike) >= MOST_ALIKE:
                self._alike.clear()
            self._alike[alike] = spread
        return msgspec.structs.replace(pod, spread=spread) if spread else pod

    def forget(self, namespace: str, key: str) -> None:
        """The pod is gone, or has a node."""
        waiting = self._waiting.get(namespace)
        if waiting is not None and waiting.pop(key, None) is not None and not waiting:
            del self._waiting[namespace]

    def _note(self, resource: Resource, key: str, before: object, after: object) -> None:
        if before == after:
            return
        namespace, name = split_key(key)
        waiting = self._waiting.get(namespace, {})
        self._alike.clear()
        if resource != resources.SERVICES:
            kind = next(it for it, informer in self.managers.items() if informer.resource == resource)
            touched = [pod for pod, owner in waiting.items() if owner == f"{kind}/{name}"]
        else:
            self._count_service(namespace, key)
            touched = list(waiting)
        if touched:
            self._changed(touched)

    def _count_service(self, namespace: str, key: str) -> None:
        """In the order of their names, whatever the order in which they were seen."""
        known = self._by_namespace.pop(namespace, {})
        known.pop(key, None)
        if selector := self._services.get(key):
            known[key] = selector
        if known:
            self._by_namespace[namespace] = dict(sorted(known.items()))
