"""What follows from a change by itself: dependents of deleted owners go, ended namespaces empty, custom kinds appear.

Changes are only noted when they happen; the work is done later by `run_pending`, one small step after the other, so no
verb ever cascades. On a real cluster the controller manager does this; the outcome is the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from allhands.api.builtin.definitions import established_status
from allhands.api.custom import kinds_of
from allhands.ports import DeleteOptions
from allhands.store.deleting import CLEANUP, DEFINITIONS, FOREGROUND, NAMESPACES, ORPHAN, delete_record
from allhands.store.protection import PODS, PROTECTED
from allhands.store.writing import change

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.store.collection import Collection
    from allhands.store.journal import Change
    from allhands.store.record import Key, Record
    from allhands.store.store import Store


_LOG = logging.getLogger(__name__)
_COLLECTOR = "kube-controller-manager"
_SERVER = "kube-apiserver"
"""In whose names fields are owned that change here: in a real cluster these two do it."""


class Housekeeper:
    """A queue of things to look at, each at most once at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: deque[tuple[str, str]] = deque()
        self._known: set[tuple[str, str]] = set()
        self._ending_namespaces: set[str] = set()
        self._kept: dict[str, None] = {}
        """Objects that are to go and were in use when last looked at."""
        self._served: dict[str, int] = {}
        """By name of a definition, the version of it that was made into kinds."""
        self._wake: asyncio.Event | None = None
        self._handlers: dict[str, Callable[[str], None]] = {
            "dependents": self._see_dependents,
            "dependent": self._see_dependent,
            "owner": self._see_owner,
            "namespace": self._see_namespace,
            "definition": self._see_definition,
            "use": store.limits.settle,
        }

    def note(self, collection: Collection, change: Change) -> None:
        """Called for every change; must stay cheap."""
        old, new = change.old, change.new
        record = new or old
        assert record is not None
        if new is None:
            self._enqueue("dependents", record.uid)
            if record.owners:
                for owner in record.owners:
                    self._enqueue("owner", owner)
            for uid in self._kept if collection.kind.resource == PODS else ():
                self._enqueue("owner", uid)
            if record.key[0] in self._ending_namespaces:
                self._enqueue("namespace", record.key[0])
        else:
            if new.owners and (old is None or old.owners != new.owners):
                self._enqueue("dependent", new.uid)
            if new.is_marked:
                self._enqueue("owner", new.uid)
        if collection.kind.resource == DEFINITIONS:
            self._enqueue("definition", record.key[1])
        elif collection.kind.resource == NAMESPACES and new is not None and new.is_marked:
            self._enqueue("namespace", record.key[1])

    def note_use(self, namespace: str) -> None:
        """What is used of its quotas may have changed."""
        self._enqueue("use", namespace)

    def look_again(self, collection: Collection, record: Record | None) -> None:
        """Whatever may be left to do about an object that was there before, or whose change was taken back."""
        assert record is not None
        if record.owners:
            self._enqueue("dependent", record.uid)
        self._enqueue("owner", record.uid)
        for owner in record.owners:
            self._enqueue("owner", owner)
        if collection.get(record.key) is None:
            self._enqueue("dependents", record.uid)
        if record.key[0]:
            self._enqueue("namespace", record.key[0])
        if collection.kind.resource == DEFINITIONS:
            self._enqueue("definition", record.key[1])
        elif collection.kind.resource == NAMESPACES:
            self._enqueue("namespace", record.key[1])

    def look_for_orphans(self) -> None:
        """Objects from before whose owners went while nobody could tidy up."""
        for owner in self._store.missing_owners():
            self._enqueue("dependents", owner)

    def _enqueue(self, what: str, subject: str) -> None:
        item = (what, subject)
        if item in self._known:
            return
        self._known.add(item)
        self._pending.append(item)
        if self._wake is not None:
            self._wake.set()

    def run_pending(self) -> None:
        """Works until nothing is left to do, follow-up work included."""
        while self._pending:
            self.step()

    def step(self) -> None:
        """One item of work."""
        item = self._pending.popleft()
        self._known.discard(item)
        what, subject = item
        self._handlers[what](subject)

    async def run(self, batch: int = 50) -> None:
        """Works in the background for ever, yielding to others after every `batch` items. What fails is left as it is:
        one object that cannot be worked on must not end the work on all others."""
        self._wake = asyncio.Event()
        while True:
            await self._store.room()
            for _ in range(batch):
                if self._pending:
                    what, subject = self._pending[0]
                    try:
                        self.step()
                    except Exception:
                        _LOG.exception("housekeeping failed at the %s %r", what, subject)
            if self._pending:
                await asyncio.sleep(0)
            else:
                self._wake.clear()
                await self._wake.wait()

    def _see_dependents(self, owner_uid: str) -> None:
        for _, record in self._store.dependents(owner_uid):
            self._enqueue("dependent", record.uid)

    def _see_dependent(self, uid: str) -> None:
        """An object that may have lost its owners: without any it goes, with some it forgets the others."""
        found = self._store.by_uid(uid)
        if found is None:
            return
        collection, record = found
        gone = {owner for owner in record.owners if not self._owns(owner, record)}
        if not gone:
            return
        if len(gone) < len(set(record.owners)):
            change(self._store, collection, record, lambda it: _forget_owners(it, gone), manager=_COLLECTOR)
        elif not record.is_marked:
            delete_record(self._store, collection, record, DeleteOptions(propagation="Background"))

    def _owns(self, owner_uid: str, dependent: Record) -> bool:
        found = self._store.by_uid(owner_uid)
        return found is not None and found[1].key[0] in ("", dependent.key[0])

    def _see_owner(self, uid: str) -> None:
        """An object that is going and has to wait for, or let go of, its dependents."""
        found = self._store.by_uid(uid)
        if found is None or not found[1].is_marked:
            return
        collection, record = found
        finalizers = record.manifest()["metadata"].get("finalizers", [])
        finalizer, in_use = PROTECTED.get((collection.kind.group, collection.kind.kind), ("", None))
        if in_use is not None and finalizer in finalizers:
            self._see_protected(collection, record, finalizer, needed=in_use(self._store, record))
            return
        if ORPHAN in finalizers:
            for dependents, dependent in self._store.dependents(uid):
                change(self._store, dependents, dependent, lambda it: _forget_owners(it, {uid}), manager=_COLLECTOR)
            self._remove_finalizer(collection, record.key, ORPHAN)
        elif FOREGROUND in finalizers:
            waiting = False
            self._open_circles(record)
            for dependents, dependent in self._store.dependents(uid):
                waiting = waiting or _blocks(dependent.manifest(), uid)
                if not dependent.is_marked:
                    delete_record(self._store, dependents, dependent, DeleteOptions(propagation="Foreground"))
            if not waiting or not any(_blocks(d.manifest(), uid) for _, d in self._store.dependents(uid)):
                self._remove_finalizer(collection, record.key, FOREGROUND)

    def _open_circles(self, owner: Record) -> None:
        """Lets an owner not wait for dependents that it belongs to itself: they would wait for each other for ever."""
        above: set[str] = set()
        left = list(owner.owners)
        while left:
            uid = left.pop()
            if uid not in above and (found := self._store.by_uid(uid)) is not None:
                above.add(uid)
                left += found[1].owners
        for dependents, dependent in self._store.dependents(owner.uid) if above else ():
            if dependent.uid in above:
                change(self._store, dependents, dependent, lambda document: _unblock(document, owner.uid))

    def _see_protected(self, collection: Collection, record: Record, finalizer: str, *, needed: bool) -> None:
        if needed:
            self._kept[record.uid] = None
            return
        self._kept.pop(record.uid, None)
        self._remove_finalizer(collection, record.key, finalizer)

    def _remove_finalizer(self, collection: Collection, key: Key, finalizer: str) -> None:
        record = collection.get(key)
        if record is not None:
            change(self._store, collection, record, lambda it: _drop_finalizer(it, finalizer), manager=_COLLECTOR)

    def _see_namespace(self, name: str) -> None:
        """A namespace that ends: everything in it goes first."""
        namespaces = self._store.collection(self._store.kind(NAMESPACES))
        record = namespaces.get(("", name))
        if record is None or not record.is_marked:
            self._ending_namespaces.discard(name)
            return
        self._ending_namespaces.add(name)
        left = 0
        for collection in self._store.collections():
            if not collection.kind.namespaced or not collection.count_in(name):
                continue
            for each in collection.in_namespace(name):
                if not each.is_marked:
                    delete_record(self._store, collection, each, DeleteOptions(propagation="Background"))
            left += collection.count_in(name)
        if left:
            return
        self._ending_namespaces.discard(name)
        document = record.manifest()
        document["spec"] = {key: value for key, value in document["spec"].items() if key != "finalizers"}
        if document["metadata"].get("finalizers"):
            self._store.commit(namespaces, record, document)
        else:
            self._store.commit(namespaces, record, None)

    def _see_definition(self, name: str) -> None:
        """A custom resource definition that came, changed or went."""
        definitions = self._store.collection(self._store.kind(DEFINITIONS))
        record = definitions.get(("", name))
        if record is not None and self._served.get(name) == record.version:
            return  # it is our own note that its kinds are served
        self._served.pop(name, None)
        plural, _, group = name.partition(".")
        served = {
            kind.resource for kind in self._store.kinds.all() if kind.group == group and kind.resource.plural == plural
        }
        if record is None:
            collection = self._store.custom_collection(group, plural)
            self._end_objects(collection)
            if collection is not None:
                self._store.drop_collection(collection.home)
            for resource in served:
                self._store.kinds.remove(resource)
            return
        if record.is_marked:
            self._end_objects(self._store.custom_collection(group, plural))
            self._remove_finalizer(definitions, record.key, CLEANUP)
            return
        document = record.manifest()
        kinds = kinds_of(document)
        for stale in served - {kind.resource for kind in kinds}:
            self._store.kinds.remove(stale)
        for kind in kinds:
            self._store.kinds.add(kind)
        self._store.adopt(kinds)

        def establish(definition: Manifest) -> None:
            definition["status"] = established_status(definition, self._store.now())

        noted = change(self._store, definitions, record, establish, manager=_SERVER, subresource="status")
        self._served[name] = noted.version

    def _end_objects(self, collection: Collection | None) -> None:
        if collection is not None:
            for record in list(collection):
                self._store.commit(collection, record, None)


def _forget_owners(document: Manifest, uids: set[str]) -> None:
    metadata = document["metadata"]
    kept = [owner for owner in metadata.get("ownerReferences", []) if owner["uid"] not in uids]
    _set_or_drop(metadata, "ownerReferences", kept)


def _unblock(document: Manifest, uid: str) -> None:
    for owner in document["metadata"].get("ownerReferences", ()):
        if owner["uid"] == uid and owner.get("blockOwnerDeletion"):
            owner["blockOwnerDeletion"] = False


def _drop_finalizer(document: Manifest, finalizer: str) -> None:
    metadata = document["metadata"]
    _set_or_drop(metadata, "finalizers", [each for each in metadata.get("finalizers", []) if each != finalizer])


def _set_or_drop(metadata: Manifest, field: str, values: list[object]) -> None:
    if values:
        metadata[field] = values
    else:
        metadata.pop(field, None)


def _blocks(dependent: Manifest, owner_uid: str) -> bool:
    owners = dependent["metadata"].get("ownerReferences", [])
    return any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in owners)
