"""The state of a cluster: its kinds, their collections, and the one counter of versions that orders every change.

This class only keeps and indexes. What a verb means is in `reading`, `writing`, `deleting` and `pods`; what happens by
itself afterwards (garbage collection, namespaces that end, custom kinds that appear) is in `housekeeping`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.catalog import builtin_kinds
from allhands.api.errors import StatusError
from allhands.api.kinds import Kind, KindRegistry, Resource
from allhands.api.schema import timestamps
from allhands.store.admission import NO_WEBHOOKS, Lookup
from allhands.store.bootstrap import first_objects
from allhands.store.collection import Collection
from allhands.store.housekeeping import Housekeeper
from allhands.store.journal import DEFAULT_WINDOW, Change
from allhands.store.memo import SpecMemo
from allhands.store.record import Record, make_record
from allhands.store.writing import create

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allhands.api.document import Manifest
    from allhands.api.volcano.admission import Admission
    from allhands.ports import Clock, Ids
    from allhands.store.record import Fields, Key


_LOOKED_UP_VERSIONS = {"workloads": "v1alpha2", "queues": "v1beta1"}
"""The versions of the kinds that admission asks for, where they are not v1."""


class Store:
    """Everything a cluster knows, in memory, owned by one thread. `webhooks` admit objects of custom kinds; without
    them it is a bare API server."""

    def __init__(
        self,
        clock: Clock,
        ids: Ids,
        *,
        window: int = DEFAULT_WINDOW,
        webhooks: Mapping[tuple[str, str], Admission] = NO_WEBHOOKS,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.window = window
        self.version = 1
        """The version of the last change of any object."""
        self.kinds = KindRegistry(builtin_kinds())
        self._collections: dict[Resource, Collection] = {}
        self._by_uid: dict[str, tuple[Collection, Key]] = {}
        self._by_owner: dict[str, dict[str, tuple[Collection, Key]]] = {}
        self._second: tuple[datetime.datetime | None, str] = (None, "")
        self.memo = SpecMemo(self)
        self.lookup = Lookup(self._find, self._every, self._version_of, self._records, webhooks)
        self.housekeeper = Housekeeper(self)
        for resource, document in first_objects():
            create(self, self.kind(resource), document, document["metadata"].get("namespace", ""))

    def now(self) -> str:
        """The present moment as the API writes it."""
        now = self.clock.now()
        if now.replace(microsecond=0) != self._second[0]:
            self._second = (now.replace(microsecond=0), timestamps.seconds(now))
        return self._second[1]

    def kind(self, resource: Resource) -> Kind:
        found = self.kinds.find(resource)
        if found is None:
            raise StatusError(404, "NotFound", "the server could not find the requested resource", {})
        return found

    def collection(self, kind: Kind) -> Collection:
        home = kind.storage or kind.resource
        found = self._collections.get(home)
        if found is None:
            found = self._collections[home] = Collection(self.kinds.find(home) or kind, self.version, self.window)
        return found

    def collections(self) -> Iterator[Collection]:
        return iter(list(self._collections.values()))

    def commit(
        self,
        collection: Collection,
        old: Record | None,
        document: Manifest | None,
        fields: Fields | None = None,
        *,
        finished: bool = True,
    ) -> Record:
        """Stores, replaces or removes (`document` is None) one object, at the next version. For `fields` and
        `finished` see `make_record`."""
        self.version += 1
        if document is not None:
            document["apiVersion"] = collection.stored_version
        new = (
            None
            if document is None
            else make_record(collection.kind, document, self.version, fields, finished=finished)
        )
        return self._take_in(collection, old, new)

    def commit_text(self, collection: Collection, old: Record, text: Callable[[int], bytes], fields: Fields) -> Record:
        """The same, of an object whose name, labels and owners stay, and which nobody has asked to be deleted; `text`
        is what is stored, given the version."""
        self.version += 1
        new = Record(
            old.key, old.uid, self.version, text(self.version), old.labels, fields, old.owners, is_marked=False
        )
        return self._take_in(collection, old, new)

    def _take_in(self, collection: Collection, old: Record | None, new: Record | None) -> Record:
        record = new or old
        assert record is not None
        self._index(collection, old, new)
        change = Change(self.version, old, new)
        collection.apply(change)
        self.housekeeper.note(collection, change)
        return record

    def _index(self, collection: Collection, old: Record | None, new: Record | None) -> None:
        if new is None:
            assert old is not None
            self._by_uid.pop(old.uid, None)
        elif old is None:
            self._by_uid[new.uid] = (collection, new.key)
        before = old.owners if old else ()
        after = new.owners if new else ()
        if before == after:
            return
        uid = (new or old).uid  # type: ignore[union-attr]
        for owner in before:
            if owner not in after and owner in self._by_owner:
                self._by_owner[owner].pop(uid, None)
                if not self._by_owner[owner]:
                    del self._by_owner[owner]
        for owner in after:
            self._by_owner.setdefault(owner, {})[uid] = (collection, new.key)  # type: ignore[union-attr]

    def adopt(self, kind: Kind) -> None:
        """Lets an existing collection follow its kind's new definition."""
        if kind.resource in self._collections:
            self._collections[kind.resource].kind = kind

    def drop_collection(self, resource: Resource) -> None:
        """Forgets a kind's objects' home after they are gone; its watchers end."""
        collection = self._collections.pop(resource, None)
        if collection is not None:
            collection.closed = True
            collection.journal.wake()

    def dependents(self, owner_uid: str) -> list[tuple[Collection, Record]]:
        """The objects that name this owner."""
        found = self._by_owner.get(owner_uid, {})
        records = ((collection, collection.get(key)) for collection, key in list(found.values()))
        return [(collection, record) for collection, record in records if record is not None]

    def by_uid(self, uid: str) -> tuple[Collection, Record] | None:
        found = self._by_uid.get(uid)
        if found is None:
            return None
        record = found[0].get(found[1])
        return None if record is None else (found[0], record)

    def _find(self, group: str, plural: str, namespace: str, name: str) -> Record | None:
        collection = self._collections.get(Resource(group, _LOOKED_UP_VERSIONS.get(plural, "v1"), plural))
        return None if collection is None else collection.get((namespace, name))

    def _version_of(self, group: str, plural: str) -> int:
        collection = self._collections.get(Resource(group, "v1", plural))
        return 0 if collection is None else collection.version

    def _every(self, group: str, plural: str) -> list[Manifest]:
        return [record.manifest() for record in self._records(group, plural)]

    def _records(self, group: str, plural: str) -> Iterable[Record]:
        return self._collections.get(Resource(group, _LOOKED_UP_VERSIONS.get(plural, "v1"), plural)) or ()
