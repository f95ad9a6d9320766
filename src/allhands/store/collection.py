"""All objects of one kind, and the ways to find some of them without looking at all of them.

Objects are kept in key order, by label and by the kind's indexed fields. A query starts from the smallest of the sets
that its selectors name and checks the rest of its conditions on what is left.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sortedcontainers import SortedDict

from allhands.api.errors import bad_request, go_quote
from allhands.api.kinds import Resource
from allhands.api.selectors import parse_field_selector, parse_label_selector
from allhands.store.journal import DEFAULT_WINDOW, Change, Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from allhands.api.kinds import Kind
    from allhands.api.selectors import FieldSelector, LabelSelector
    from allhands.ports import Query
    from allhands.store.record import Key, Record

LIMIT_RANGES: Final = Resource("", "v1", "limitranges")
LIMITING: Final = frozenset({LIMIT_RANGES, Resource("", "v1", "resourcequotas")})
_SCOPE_FIELDS = ("metadata.name", "metadata.namespace")
_NO_LABELS: dict[str, str] = {}


class Filter:
    """The parsed conditions of a query, checked against a kind."""

    __slots__ = ("_conditions", "_fields", "_labels", "namespace")

    def __init__(self, kind: Kind, query: Query) -> None:
        self.namespace = query.namespace
        self._labels: LabelSelector | None = parse_label_selector(query.labels) if query.labels else None
        self._fields: FieldSelector | None = parse_field_selector(query.fields) if query.fields else None
        selected = enumerate(kind.selected or kind.selectable)
        positions = {name: position for position, name in selected if name in kind.selectable}
        requirements = self._fields.requirements if self._fields else ()
        for requirement in requirements:
            if requirement.field not in positions and requirement.field not in _SCOPE_FIELDS:
                raise unsupported_field(kind, requirement.field)
        self._conditions = tuple(
            (positions.get(it.field, -1), it.field, it.value, it.operator == "=") for it in requirements
        )

    def matches(self, record: Record) -> bool:
        if self.namespace and record.key[0] != self.namespace:
            return False
        if self._labels is not None and not self._labels.matches(record.labels):
            return False
        return self._fields is None or self._matches_fields(record)

    def _matches_fields(self, record: Record) -> bool:
        for position, field, wanted, equal in self._conditions:
            value = record.fields[position] if position >= 0 else record.key[field == "metadata.name"]
            if (value == wanted) is not equal:
                return False
        return True

    def exact(self, field: str) -> str | None:
        """The one value that the field must have, if the query says so."""
        return self._fields.exact(field) if self._fields else None

    def label_equalities(self) -> list[tuple[str, frozenset[str]]]:
        return self._labels.equalities() if self._labels else []

    @property
    def is_everything(self) -> bool:
        return not self.namespace and not self.selects

    @property
    def selects(self) -> bool:
        """Whether anything but the namespace narrows the query."""
        return self._labels is not None or self._fields is not None


def unsupported_field(kind: Kind, field: str) -> Exception:
    if kind.kind == "Job" and kind.group == "batch":
        return bad_request(f"field label {go_quote(field)} not supported for Job")
    if kind.selectable or kind.custom:
        return bad_request(f"field label not supported: {field}")
    return bad_request(f'{go_quote(field)} is not a known field selector: only "metadata.name", "metadata.namespace"')


class Collection:
    """The objects of one stored kind."""

    def __init__(self, kind: Kind, start_version: int, window: int = DEFAULT_WINDOW) -> None:
        self.kind = kind
        self.stored_version = (kind.storage or kind.resource).api_version
        """The `apiVersion` under which the objects are kept."""
        self.journal = Journal(start_version, window)
        self.version = start_version
        """The version of the last change."""
        self._records: SortedDict[Key, Record] = SortedDict()
        self._by_label: dict[tuple[str, str], dict[Key, None]] = {}
        """Keys alone, so that most changes of an object leave the indexes as they are."""
        self._by_field: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in kind.indexed}
        self._indexed = [(name, kind.selectable.index(name)) for name in kind.indexed]
        self._namespace_sizes: dict[str, int] = {}
        self.home = kind.storage or kind.resource
        """Under which the store keeps it."""
        self.limits_others = self.home in LIMITING
        """Its objects say what else may come into their namespaces."""
        self.closed = False
        """The kind is gone; watchers must end."""

    def follow(self, kind: Kind) -> None:
        """The kind has a new definition, perhaps with another stored version. Who watches then must begin anew."""
        selected, self.kind = self.kind.selected, kind
        if kind.selected != selected:
            for record in {id(each): each for each in (*self, *self.journal.records())}.values():
                record.fields = kind.select(record.manifest())
        home = kind.storage or kind.resource
        if home == self.home:
            return
        before, self.stored_version = self.stored_version, home.api_version
        self.home = home
        for record in self._records.values():
            record.restate(kind.kind, before, self.stored_version)
        self.journal.restate(kind.kind, before, self.stored_version)
        self.journal.wake()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Key) -> Record | None:
        return self._records.get(key)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def in_namespace(self, namespace: str) -> list[Record]:
        return list(self._range(namespace, None))

    def count_in(self, namespace: str) -> int:
        return self._namespace_sizes.get(namespace, 0)

    def apply(self, change: Change) -> None:
        """Takes a change in: the only way objects come, change and go."""
        self._put(change.old, change.new)
        self.version = change.version
        self.journal.append(change)

    def apply_hidden(self, change: Change) -> None:
        """The same, but only writers see it until the journal reveals it or it is undone."""
        self._put(change.old, change.new)
        self.version = change.version
        self.journal.append_hidden(change)

    def undo(self, change: Change) -> None:
        """Takes the last change, which is hidden, back."""
        self._put(change.new, change.old)
        self.journal.undo_last()
        self.version = self.journal.last_version

    def load(self, records: list[Record], version: int) -> None:
        """The objects of an earlier life, into an empty collection; `version` is that of its last change."""
        self._records.update({record.key: record for record in records})
        for record in records:
            self._namespace_sizes[record.key[0]] = self._namespace_sizes.get(record.key[0], 0) + 1
            self._reindex(None, record)
        self.version = self.journal.floor_version = version

    def seen(self, key: Key) -> Record | None:
        """The object as readers see it."""
        if self.journal.hides:
            instead = self.journal.seen_instead(key)
            if instead is not None:
                return instead[0]
        return self._records.get(key)  # type: ignore[no-any-return]

    @property
    def seen_version(self) -> int:
        """The version of the last change that readers see."""
        return self.journal.last_seen_version if self.journal.hides else self.version

    def _put(self, old: Record | None, new: Record | None) -> None:
        if new is not None:
            if old is not None:
                dict.__setitem__(self._records, new.key, new)  # its place among the keys stays
            else:
                self._records[new.key] = new
                self._namespace_sizes[new.key[0]] = self._namespace_sizes.get(new.key[0], 0) + 1
        elif old is not None:
            del self._records[old.key]
            self._namespace_sizes[old.key[0]] -= 1
        self._reindex(old, new)

    def _reindex(self, old: Record | None, new: Record | None) -> None:
        before = old.labels if old is not None else _NO_LABELS
        after = new.labels if new is not None else _NO_LABELS
        if before is not after and before != after:
            for pair in before.items():
                if after.get(pair[0]) != pair[1]:
                    _discard(self._by_label, pair, old.key)  # type: ignore[union-attr]
            for pair in after.items():
                self._by_label.setdefault(pair, {})[new.key] = None  # type: ignore[union-attr]
        for name, position in self._indexed:
            was = old.fields[position] if old is not None else None
            value = new.fields[position] if new is not None else None
            if was == value:
                continue
            if old is not None:
                _discard(self._by_field[name], was, old.key)
            if new is not None and value is not None:
                self._by_field[name].setdefault(value, {})[new.key] = None

    def find(self, wanted: Filter, *, version: int | None = None, after: Key | None = None) -> Iterator[Record]:
        """The matching objects in key order, those after `after`, as they were at `version`."""
        matches: Callable[[Record], bool] = wanted.matches
        if version is not None and version < self.version:
            return (record for record in self._past(wanted, version, after) if matches(record))
        candidates = self._smallest_candidates(wanted)
        if candidates is None:
            return (record for record in self._range(wanted.namespace, after) if matches(record))
        keys = sorted(key for key in candidates if after is None or key > after)
        found = [self._records[key] for key in keys]
        return (record for record in found if matches(record))

    def _range(self, namespace: str, after: Key | None) -> Iterator[Record]:
        low = max(after or ("", ""), (namespace, ""))
        high = (namespace + "\0", "") if namespace else None
        for key in self._records.irange(low, high, inclusive=(after is None, True)):
            yield self._records[key]

    def _past(self, wanted: Filter, version: int, after: Key | None) -> Iterator[Record]:
        """The collection as it was: the present, with every later change undone. Holds all that is wanted, and more."""
        earlier = self.journal.undone_to(version)
        candidates = self._smallest_candidates(wanted)
        if candidates is None:
            vanished = sorted(key for key in earlier if key not in self._records and (after is None or key > after))
            present = (record.key for record in self._range(wanted.namespace, after))
            keys: Iterable[Key] = merge(present, vanished)
        else:
            keys = sorted(key for key in candidates | dict.fromkeys(earlier) if after is None or key > after)
        for key in keys:
            record = earlier[key] if key in earlier else self._records[key]
            if record is not None:
                yield record

    def _smallest_candidates(self, wanted: Filter) -> dict[Key, None] | None:
        """The smallest set that must contain every match, or None if only a scan will do."""
        sets: list[dict[Key, None]] = []
        name = wanted.exact("metadata.name")
        namespace = wanted.namespace or wanted.exact("metadata.namespace")
        if name is not None and (namespace or not self.kind.namespaced):
            key = (namespace or "", name)
            return {key: None} if key in self._records else {}
        for field, by_value in self._by_field.items():
            value = wanted.exact(field)
            if value is not None:
                sets.append(by_value.get(value, {}))
        for label, values in wanted.label_equalities():
            sets.append(_union(self._by_label.get((label, value), {}) for value in values))
        return min(sets, key=len) if sets else None

    def page(
        self, wanted: Filter, limit: int, version: int | None, after: Key | None
    ) -> tuple[list[Record], int | None]:
        """At most `limit` matches in key order, and how many more there are; None means some, uncounted."""
        found = self.find(wanted, version=version, after=after)
        if limit <= 0:
            return list(found), 0
        records = list(islice(found, limit + 1))
        if len(records) <= limit:
            return records, 0
        remaining = None if wanted.selects else self._remaining(wanted, records[limit - 1].key, version)
        return records[:limit], remaining

    def _remaining(self, wanted: Filter, last: Key, version: int | None) -> int:
        end = self._records.bisect((wanted.namespace + "\0", "")) if wanted.namespace else len(self._records)
        present = int(end) - int(self._records.bisect_right(last))
        if version is None or version >= self.version:
            return present
        for key, earlier in self.journal.undone_to(version).items():
            if key > last and (not wanted.namespace or key[0] == wanted.namespace):
                present += (earlier is not None) - (key in self._records)
        return present


def _union(sets: Iterable[dict[Key, None]]) -> dict[Key, None]:
    found = list(sets)
    if len(found) == 1:
        return found[0]
    merged: dict[Key, None] = {}
    for one in found:
        merged |= one
    return merged


def _discard(index: dict[Any, dict[Key, None]], value: Any, key: Key) -> None:
    bucket = index.get(value)
    if bucket is not None:
        bucket.pop(key, None)
        if not bucket:
            del index[value]
