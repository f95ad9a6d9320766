"""The state of a cluster: its kinds, their collections, and the one counter of versions that orders every change.

This class only keeps and indexes. What a verb means is in `reading`, `writing`, `deleting` and `pods`; what happens by
itself afterwards (garbage collection, namespaces that end, custom kinds that appear) is in `housekeeping`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from allhands.api.catalog import builtin_kinds
from allhands.api.errors import StatusError
from allhands.api.kinds import Kind, KindRegistry, Resource
from allhands.api.schema import timestamps
from allhands.ports import WriteOptions
from allhands.store.admission import NO_WEBHOOKS, Lookup
from allhands.store.bootstrap import first_objects
from allhands.store.collection import Collection
from allhands.store.housekeeping import Housekeeper
from allhands.store.journal import DEFAULT_WINDOW, Change
from allhands.store.memo import SpecMemo
from allhands.store.namespace_limits import NamespaceLimits
from allhands.store.record import Record, make_record
from allhands.store.service_numbers import SERVICES, ServiceNumbers
from allhands.store.writing import create

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allhands.api.access.identity import User
    from allhands.api.document import Manifest
    from allhands.api.volcano.admission import Admission
    from allhands.ports import Clock, Ids
    from allhands.store.committing import Committer
    from allhands.store.record import Fields, Key


_FIRST_WRITE = WriteOptions(field_manager="kube-apiserver", tracked=True)
_LOOKED_UP_VERSIONS = {"workloads": "v1alpha2", "queues": "v1beta1"}
"""The versions of the kinds that admission asks for, where they are not v1."""


class SubmitterCheck(Protocol):
    """(kind, new, old, submitter): raises a `StatusError` for what they may not do. `by_update` means that they asked
    for a change, also where that makes a new object."""

    def __call__(self, kind: Kind, new: Manifest, old: Manifest | None, user: User, *, by_update: bool) -> None: ...


def _nobody_is_asked(kind: Kind, new: Manifest, old: Manifest | None, user: User, *, by_update: bool) -> None:
    del kind, new, old, user, by_update


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
        committer: Committer | None = None,
        keeps_quotas: bool = False,
    ) -> None:
        """With a `committer` the store begins with what is on its disk, and changes are hidden until they are there.
        `keeps_quotas`: what ResourceQuotas say is used is counted here, and not by a controller."""
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
        self._committer = committer
        self.check_submitter: SubmitterCheck = _nobody_is_asked
        """Refuses what the submitter of a valid object may not have; whoever looks at rights puts their own here."""
        self.memo = SpecMemo(self)
        self.lookup = Lookup(self._find, self._every, self._version_of, self._records, webhooks)
        self.limits = NamespaceLimits(self, keeps_quotas=keeps_quotas)
        self.limited = self.limits.limited
        self.service_numbers = ServiceNumbers()
        self.housekeeper = Housekeeper(self)
        if committer is not None:
            committer.begin(self)
        for resource, document in first_objects():
            kind, namespace = self.kind(resource), document["metadata"].get("namespace", "")
            if committer is None or self.collection(kind).get((namespace, document["metadata"]["name"])) is None:
                create(self, kind, document, namespace, _FIRST_WRITE)

    @property
    def seen_version(self) -> int:
        """The version of the last change that readers may see: all of them, unless they have to be on disk first."""
        return self.version if self._committer is None else self._committer.seen_version

    async def room(self) -> None:
        """Returns when the disk can take more; at once where there is none."""
        if self._committer is not None:
            await self._committer.room()

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
            kept = None if kind.custom else self._committer  # a custom kind begins with its definition
            known_since = self.seen_version if kept is None else kept.floor_version
            found = self._collections[home] = Collection(self.kinds.find(home) or kind, known_since, self.window)
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
        """The same, of an object whose name, labels and owners stay, and those of its fields, and which nobody has
        asked to be deleted; `text` is what is stored, given the version."""
        self.version += 1
        new = Record(
            old.key,
            old.uid,
            self.version,
            text(self.version),
            old.labels,
            fields,
            old.owners,
            is_marked=False,
            is_tracked=old.is_tracked,
        )
        return self._take_in(collection, old, new)

    def _take_in(self, collection: Collection, old: Record | None, new: Record | None) -> Record:
        record = new or old
        assert record is not None
        self._index(collection, old, new)
        change = Change(self.version, old, new)
        if self._committer is None:
            collection.apply(change)
        else:
            collection.apply_hidden(change)
            self._committer.take(collection, change)
        self.housekeeper.note(collection, change)
        return record

    def undo(self, collection: Collection, change: Change) -> None:
        """Takes back the last change of all, which nobody has seen. Its version is not used again."""
        self._index(collection, change.new, change.old)
        collection.undo(change)
        if self._collections.get(collection.home) is not collection:
            self.drop_collection(collection.home)
            self._collections[collection.home] = collection
            collection.closed = False

    def load(self, kind: Kind, records: list[Record], version: int) -> None:
        """The objects of a kind from an earlier life; `version` is that of its last change."""
        collection = self.collection(kind)
        collection.load(records, version)
        for record in records:
            self._index(collection, None, record)

    def _index(self, collection: Collection, old: Record | None, new: Record | None) -> None:
        namespace = (new or old).key[0]  # type: ignore[union-attr]
        if (namespace in self.limited or collection.limits_others) and self.limits.note(collection, old, new):
            self.housekeeper.note_use(namespace)
        if collection.home == SERVICES:
            self.service_numbers.note(old, new)
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

    def custom_collection(self, group: str, plural: str) -> Collection | None:
        """Of a custom kind, in whichever version it is stored."""
        wanted = (group, plural)
        return next((each for home, each in self._collections.items() if (home.group, home.plural) == wanted), None)

    def adopt(self, kinds: list[Kind]) -> None:
        """Lets an existing collection follow its custom kind's new definition, of which these are the versions."""
        collection = self.custom_collection(kinds[0].group, kinds[0].resource.plural) if kinds else None
        if collection is None:
            return
        home = kinds[0].storage or kinds[0].resource
        del self._collections[collection.home]
        self._collections[home] = collection
        collection.follow(next((kind for kind in kinds if kind.resource == home), kinds[0]))

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

    def missing_owners(self) -> list[str]:
        """The uids that objects name as their owners and that are of nothing here."""
        return [owner for owner in self._by_owner if owner not in self._by_uid]

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
