"""Laws of server-side apply over random schemas, objects and owners: what is applied twice, given up, shared, kept."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from allhands.api.apply.comparing import compare
from allhands.api.apply.conflicts import ConflictsError
from allhands.api.apply.field_set import NOTHING, FieldSet, read_fields_v1
from allhands.api.apply.first_writer import UnusualError, fields_of_new
from allhands.api.apply.merging import merged
from allhands.api.apply.owners import Owned, Owner, Owners, applier, capped, entries_of, read_owners, updater
from allhands.api.apply.path_element import field, key, member
from allhands.api.apply.schema_types import custom_type
from allhands.api.apply.set_types import following, with_structs
from allhands.api.apply.structured import Holdings, Typing, apply, update
from allhands.api.apply.typed import check, field_set_of
from allhands.api.apply.values import ABSENT, same
from tests.depth import examples

VERSION = "example.com/v1"
NAMES = ("a", "b", "c")
TEXT: dict[str, Any] = {"type": "string"}
_steps = st.one_of(
    st.sampled_from(NAMES).map(field),
    st.text('ab.<\u2028"', max_size=2).map(field),
    st.dictionaries(
        st.sampled_from(NAMES), st.integers(0, 2) | st.text("x<&", max_size=1) | st.booleans(), min_size=1
    ).map(key),
    (st.integers(0, 2) | st.floats(0, 2) | st.text("x<", max_size=1) | st.booleans()).map(member),
    st.integers(0, 3).map(lambda index: f"i:{index}"),
)
SETS = st.lists(st.lists(_steps, min_size=1, max_size=4).map(tuple), max_size=8).map(FieldSet.of)


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda properties, whole: {"type": "object", "properties": properties} | whole,
        st.dictionaries(st.sampled_from(NAMES), inner, min_size=1),
        st.sampled_from([{}, {}, {"x-kubernetes-map-type": "atomic"}]),
    )


def _maps(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return inner.map(lambda it: {"type": "object", "additionalProperties": it})


def _keyed(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def listed(it: dict[str, Any], keys: list[str]) -> dict[str, Any]:
        item = {"type": "object", "required": ["k"], "properties": {"k": TEXT, "l": TEXT | {"default": "z"}, "v": it}}
        return {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}

    return st.builds(listed, inner, st.sampled_from([["k"], ["k", "l"]]))


_lists = st.sampled_from(["set", "atomic"]).map(
    lambda how: {"type": "array", "items": TEXT, "x-kubernetes-list-type": how}
)
PARTS = st.recursive(
    st.just(TEXT) | _lists, lambda inner: st.one_of(_objects(inner), _maps(inner), _keyed(inner)), max_leaves=6
)
SCHEMAS = st.dictionaries(st.sampled_from(NAMES), PARTS, min_size=1).map(
    lambda spec: {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
)


def value_of(data: st.DataObject, schema: dict[str, Any]) -> Any:
    """A value that fits, with nothing empty in it."""
    texts = st.sampled_from(["x", "y", "z"])
    if schema["type"] == "string":
        return data.draw(texts)
    if schema["type"] == "array":
        if schema["x-kubernetes-list-type"] != "map":
            return data.draw(st.lists(texts, min_size=1, max_size=3, unique=True))
        found = {name: value_of(data, schema["items"]) | {"k": name} for name in data.draw(st.sets(texts, min_size=1))}
        return list(found.values())
    if "additionalProperties" in schema:
        names = data.draw(st.sets(st.sampled_from(NAMES), min_size=1))
        return {name: value_of(data, schema["additionalProperties"]) for name in sorted(names)}
    names = data.draw(st.sets(st.sampled_from(sorted(schema["properties"])), min_size=1))
    return {name: value_of(data, schema["properties"][name]) for name in sorted(names)}


def typing_of(schema: dict[str, Any]) -> Typing:
    found = custom_type(schema)
    return Typing({VERSION: lambda: found}, {}, VERSION)


class World:
    """An object and its owners, and those who write to it."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.schema = data.draw(SCHEMAS)
        self.typing = typing_of(self.schema)
        self.document: Any = {}
        self.holdings: Holdings = {}

    def config(self) -> Any:
        return value_of(self.data, self.schema)

    def apply(self, name: str, config: Any, *, force: bool = False) -> bool:
        """Whether the object changed."""
        found = apply(self.typing, self.document, config, self.holdings, applier(name), force=force)
        new, self.holdings = found
        check(self.typing.type, self.document, duplicates=True)
        self.document = self.document if new is None else new
        return new is not None

    def update(self, name: str, new: Any) -> None:
        self.holdings = update(self.typing, self.document, new, self.holdings, updater(name, VERSION))
        self.document = new

    def fields(self) -> FieldSet:
        return with_structs(field_set_of(self.typing.type, self.document), self.typing.type)

    def live_a_little(self) -> None:
        for _ in range(self.data.draw(st.integers(0, 4))):
            who = self.data.draw(st.sampled_from(["one", "two", "three"]))
            if self.data.draw(st.booleans()):
                self.apply(who, self.config(), force=True)
            else:
                self.update(who, self.config())


@given(SETS)
def test_a_set_is_what_its_text_says(found: FieldSet) -> None:
    assert read_fields_v1(found.fields_v1()) == found
    assert FieldSet.of(found.paths()) == found


def damaged(data: st.DataObject, value: Any) -> Any:
    """The same value, here and there with something in it that is empty, there twice, or of another form."""
    if data.draw(st.integers(0, 9)) == 0:
        return data.draw(st.sampled_from([None, {}, [], 1, True, "x", [None], {"a": 1}]))
    if isinstance(value, dict):
        return {name: damaged(data, inside) for name, inside in value.items()}
    if isinstance(value, list):
        items = [damaged(data, item) for item in value]
        return items + items[:1] if data.draw(st.booleans()) else items
    return value


@settings(max_examples=examples(300))
@given(st.data(), SETS, SETS)
def test_the_first_writer_owns_what_comparing_with_an_empty_object_finds(
    data: st.DataObject, ignored: FieldSet, never: FieldSet
) -> None:
    schema = data.draw(SCHEMAS)
    whole = custom_type(schema)
    empty: Any = data.draw(st.sampled_from([{}, {"spec": {}}, {"spec": None}, {"spec": {"a": None}}]))
    new = damaged(data, value_of(data, schema))
    try:
        found = fields_of_new(whole, empty, new, ignored, never)
    except UnusualError:
        return
    check(whole, empty, duplicates=True)
    check(whole, new, duplicates=True)
    typing = Typing({VERSION: lambda: whole}, {VERSION: ignored}, VERSION)
    writer = updater("one", VERSION)
    holdings = update(typing, empty, new, {}, writer)
    fields = holdings[writer].fields - never if writer in holdings else NOTHING
    assert list(_walked(found)) == list(_walked(fields.fields_v1()))


def _walked(fields: dict[str, Any]) -> Any:
    """The same with its order, which the server keeps, too."""
    return [(step, _walked(inside)) for step, inside in fields.items()]


@settings(max_examples=examples(50))
@given(st.data())
def test_a_plain_object_is_not_unusual(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    assert fields_of_new(custom_type(schema), {}, value_of(data, schema), NOTHING, NOTHING)


@given(SETS, SETS)
def test_sets_are_sets(left: FieldSet, right: FieldSet) -> None:
    paths, others = set(left.paths()), set(right.paths())
    assert set((left | right).paths()) == paths | others
    assert set((left & right).paths()) == paths & others
    assert set((left - right).paths()) == paths - others
    assert all(path in left for path in paths)
    kept = {path for path in paths if not any(path[: len(it)] == it for it in others)}
    assert set(left.without_branches(right).paths()) == kept
    assert bool(left) == bool(paths)


@settings(max_examples=examples(50))
@given(st.data())
def test_what_is_merged_has_all_that_was_applied(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    found = custom_type(schema)
    old, config = value_of(data, schema), value_of(data, schema)
    whole = merged(found, old, config)
    fields = field_set_of(found, whole)
    assert not field_set_of(found, config) - fields
    changes = compare(found, old, whole)
    assert not changes.removed, "a merge takes nothing away"
    assert same(merged(found, whole, config), whole)
    assert same(merged(found, whole, ABSENT), whole)


@settings(max_examples=examples(50))
@given(st.data())
def test_a_comparison_tells_all_and_nothing_else(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    found = custom_type(schema)
    old, new = value_of(data, schema), value_of(data, schema)
    there, back = compare(found, old, new), compare(found, new, old)
    assert (there.added, there.modified, there.removed) == (back.removed, back.modified, back.added)
    itself = compare(found, old, old)
    assert not (itself.added)
    assert not (itself.modified)
    assert not (itself.removed)
    before, after = field_set_of(found, old), field_set_of(found, new)
    assert not (after - before) - there.added
    assert not (before - after) - there.removed


@settings(max_examples=examples(50))
@given(st.data())
def test_to_apply_twice_is_to_apply_once(data: st.DataObject) -> None:
    world = World(data)
    world.live_a_little()
    config = world.config()
    world.apply("me", config, force=True)
    document, holdings = world.document, world.holdings
    assert not world.apply("me", config)
    assert (world.document, world.holdings) == (document, holdings)


@settings(max_examples=examples(50))
@given(st.data())
def test_who_applies_without_force_takes_nothing_from_anybody(data: st.DataObject) -> None:
    world = World(data)
    world.live_a_little()
    before, document = dict(world.holdings), world.document
    config = world.config()
    try:
        world.apply("me", config)
    except ConflictsError as conflicts:
        for owner, fields in conflicts.fields.items():
            assert not fields - before[owner].fields
        assert world.document is document
        return
    for owner, owned in before.items():
        assert world.holdings[owner] == owned
    assert world.holdings[applier("me")].fields == field_set_of(world.typing.type, config)


@settings(max_examples=examples(50))
@given(st.data())
def test_who_gives_all_up_leaves_what_others_own(data: st.DataObject) -> None:
    world = World(data)
    world.live_a_little()
    assume(world.holdings)
    world.apply("me", world.config(), force=True)
    theirs = {owner: owned for owner, owned in world.holdings.items() if owner != applier("me")}
    document = world.document
    world.apply("me", {})
    assert applier("me") not in world.holdings
    changes = compare(world.typing.type, document, world.document)
    for owner, owned in theirs.items():
        assert world.holdings[owner] == owned
        assert not owned.fields & (changes.removed | changes.modified)


@settings(max_examples=examples(40))
@given(st.data())
def test_who_alone_applied_an_object_and_gives_it_up_leaves_nothing(data: st.DataObject) -> None:
    world = World(data)
    world.apply("me", world.config())
    world.apply("me", {})
    assert not world.holdings
    assert not field_set_of(world.typing.type, world.document or {})


@settings(max_examples=examples(50))
@given(st.data())
def test_nobody_owns_what_is_not_there(data: st.DataObject) -> None:
    world = World(data)
    world.live_a_little()
    for owned in world.holdings.values():
        assert owned.fields
        assert not owned.fields - world.fields()
        assert following(owned.fields, world.typing.type) == owned.fields, "the type has not changed"


@settings(max_examples=examples(40))
@given(st.data())
def test_an_update_owns_what_it_changed(data: st.DataObject) -> None:
    world = World(data)
    world.live_a_little()
    old, new = world.document, world.config()
    world.update("me", new)
    changes = compare(world.typing.type, old, new)
    mine = world.holdings.get(updater("me", VERSION))
    assert not (changes.added | changes.modified) - (mine.fields if mine else NOTHING)
    for owner, owned in world.holdings.items():
        if owner != updater("me", VERSION):
            assert not owned.fields & (changes.added | changes.modified | changes.removed)


@settings(max_examples=examples(40))
@given(st.data())
def test_owners_are_what_their_entries_say(data: st.DataObject) -> None:
    world = World(data)
    world.live_a_little()
    owners = Owners(world.holdings, dict.fromkeys(world.holdings, "2026-01-01T00:00:00Z"))
    assert read_owners(entries_of(owners)) == owners


@given(st.integers(0, 25), st.data())
def test_owners_who_did_not_apply_stay_few_and_keep_their_fields(count: int, data: st.DataObject) -> None:
    world = World(data)
    for number in range(count):
        world.holdings[updater(f"m{number:02}", VERSION)] = _owned(f"f{number}")
    times = {owner: f"2026-01-01T00:00:{data.draw(st.integers(10, 59))}Z" for owner in world.holdings}
    found = capped(Owners(world.holdings, times))
    assert len(found.owned) == min(count, 10)
    everything = NOTHING
    for owned in found.owned.values():
        everything |= owned.fields
    assert everything == FieldSet.of([(field(f"f{number}"),) for number in range(count)])


def _owned(name: str) -> Owned:
    return Owned(FieldSet.of([(field(name),)]), VERSION)


def test_an_owner_says_who_he_is() -> None:
    assert Owner("a", "Update", "v1", "status").shown() == '"a" with subresource "status" using v1'
    assert applier('q"').shown() == '"q\\""'
