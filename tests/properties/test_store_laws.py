"""Laws of the store over random histories: no event lost or doubled, the past can be listed, indexes equal scans."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from allhands.api.errors import StatusError
from allhands.api.selectors import parse_label_selector
from allhands.ports import DeleteOptions, Query
from allhands.store import InProcessObjects, Store
from tests.depth import examples
from tests.doubles import CountingIds, ManualClock
from tests.manifests import CONFIG_MAPS, config_map

NAMES = st.sampled_from([f"c{number}" for number in range(6)])
SPACES = st.sampled_from(["default", "kube-system"])
LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]), max_size=2)
SELECTORS = st.sampled_from(["", "a=1", "a!=1", "a in (1,2),b", "!b", "a=1,b=2"])

if TYPE_CHECKING:
    from allhands.store.watching import StoreWatch

State = dict[tuple[str, str], dict[str, Any]]


def run(awaitable: Any) -> Any:
    """Verbs of the in-process port never wait: one step runs them to their end."""
    try:
        awaitable.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("an in-process verb waited")


def key_of(manifest: dict[str, Any]) -> tuple[str, str]:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


class Watcher:
    """A client that keeps a copy of what it watches, and refuses impossible events."""

    def __init__(self, watch: StoreWatch, selector: str, state: State, version: int) -> None:
        self.watch, self.selector, self.state, self.version = watch, selector, state, version

    def catch_up(self) -> None:
        while (event := self.watch.poll()) is not None:
            manifest = event.manifest()
            version, key = int(manifest["metadata"]["resourceVersion"]), key_of(manifest)
            if version <= self.version:
                assert event.type == "ADDED", "an event came twice or out of order"
            self.version = max(self.version, version)
            if event.type == "ADDED":
                assert key not in self.state
                self.state[key] = manifest
            elif event.type == "MODIFIED":
                assert key in self.state
                self.state[key] = manifest
            else:
                assert event.type == "DELETED"
                del self.state[key]


class StoreHistory(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store = Store(ManualClock(), CountingIds())
        self.objects = InProcessObjects(self.store)
        self.model: State = {}
        self.past: dict[int, State] = {}
        self.watchers: list[Watcher] = []
        self.begun: list[tuple[str, str, list[Any]]] = []

    def _accept(self, document: Any) -> None:
        manifest = document.manifest()
        self.model[key_of(manifest)] = manifest

    @rule(name=NAMES, space=SPACES, labels=LABELS, finalized=st.booleans())
    def create(self, name: str, space: str, labels: dict[str, str], finalized: bool) -> None:
        manifest = config_map(name, labels=labels)
        free = (space, name) not in self.model
        if finalized:
            manifest["metadata"]["finalizers"] = ["example.com/hold"]
        try:
            self._accept(run(self.objects.create(CONFIG_MAPS, manifest, space)))
            created = True
        except StatusError as refusal:
            assert refusal.reason == "AlreadyExists"
            created = False
        assert created == free

    @rule(name=NAMES, space=SPACES, labels=LABELS, value=st.sampled_from(["x", "y"]))
    def relabel(self, name: str, space: str, labels: dict[str, str], value: str) -> None:
        known = self.model.get((space, name))
        if known is None:
            return
        changed = {**known, "metadata": {**known["metadata"], "labels": labels}, "data": {"k": value}}
        self._accept(run(self.objects.update(CONFIG_MAPS, name, changed, space)))

    @rule(name=NAMES, space=SPACES)
    def delete(self, name: str, space: str) -> None:
        try:
            deleted = run(self.objects.delete(CONFIG_MAPS, name, space, DeleteOptions()))
        except StatusError as refusal:
            assert refusal.code == 404
            assert (space, name) not in self.model
            return
        if deleted.gone:
            del self.model[(space, name)]
        else:
            self._accept(run(self.objects.get(CONFIG_MAPS, name, space)))

    @rule(name=NAMES, space=SPACES)
    def release(self, name: str, space: str) -> None:
        known = self.model.get((space, name))
        if known is None or "finalizers" not in known["metadata"]:
            return
        patched = run(self.objects.patch(CONFIG_MAPS, name, "merge", {"metadata": {"finalizers": None}}, space))
        if "deletionTimestamp" in known["metadata"]:
            del self.model[(space, name)]
        else:
            self._accept(patched)

    @rule(selector=SELECTORS)
    def watch_from_the_beginning(self, selector: str) -> None:
        watch = run(self.objects.watch(CONFIG_MAPS, Query(labels=selector)))
        self.watchers.append(Watcher(watch, selector, {}, self.store.version))

    @rule(selector=SELECTORS)
    def watch_from_a_list(self, selector: str) -> None:
        page = run(self.objects.list(CONFIG_MAPS, Query(labels=selector)))
        listed = [msgspec.json.decode(item) for item in page.items]
        watch = run(self.objects.watch(CONFIG_MAPS, Query(labels=selector, resource_version=page.version)))
        self.watchers.append(Watcher(watch, selector, {key_of(each): each for each in listed}, int(page.version)))

    @rule()
    def remember(self) -> None:
        self.past[self.store.version] = dict(self.model)

    @rule(selector=SELECTORS, space=st.sampled_from(["", "default", "kube-system"]), limit=st.integers(1, 4))
    def list_in_pages(self, selector: str, space: str, limit: int) -> None:
        wanted = parse_label_selector(selector) if selector else None
        expected = [
            manifest
            for key, manifest in sorted(self.model.items())
            if (not space or key[0] == space)
            and (wanted is None or wanted.matches(manifest["metadata"].get("labels", {})))
        ]
        found, token = [], ""
        while True:
            query = Query(labels=selector, namespace=space, limit=limit, continue_token=token)
            page = run(self.objects.list(CONFIG_MAPS, query))
            found += [msgspec.json.decode(item) for item in page.items]
            token = page.continue_token
            if not token:
                break
            assert len(page.items) == limit
        assert found == expected

    @rule(space=st.sampled_from(["", "default"]), limit=st.integers(1, 3))
    def begin_a_paged_list(self, space: str, limit: int) -> None:
        page = run(self.objects.list(CONFIG_MAPS, Query(namespace=space, limit=limit)))
        if page.continue_token:
            everything = [self.model[key] for key in sorted(self.model) if not space or key[0] == space]
            assert page.remaining == len(everything) - limit
            self.begun.append((page.continue_token, space, everything[limit:]))

    @rule(limit=st.integers(1, 3))
    def go_on_with_a_paged_list(self, limit: int) -> None:
        if not self.begun:
            return
        token, space, rest = self.begun.pop(0)
        page = run(self.objects.list(CONFIG_MAPS, Query(namespace=space, limit=limit, continue_token=token)))
        assert [msgspec.json.decode(item) for item in page.items] == rest[:limit]
        assert (page.remaining or 0) == max(len(rest) - limit, 0)

    @invariant()
    def watchers_see_what_is_there(self) -> None:
        for watcher in getattr(self, "watchers", ()):
            watcher.catch_up()
            selector = parse_label_selector(watcher.selector) if watcher.selector else None
            expected = {
                key: manifest
                for key, manifest in self.model.items()
                if selector is None or selector.matches(manifest["metadata"].get("labels", {}))
            }
            assert watcher.state == expected

    @invariant()
    def the_past_can_be_listed(self) -> None:
        for version, state in getattr(self, "past", {}).items():
            query = Query(resource_version=str(version), version_match="Exact")
            items = run(self.objects.list(CONFIG_MAPS, query)).items
            assert [msgspec.json.decode(item) for item in items] == [state[key] for key in sorted(state)]


TestStoreHistory = StoreHistory.TestCase
TestStoreHistory.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)


def test_verbs_of_the_port_are_coroutines_all_the_same() -> None:
    store = Store(ManualClock(), CountingIds())
    assert asyncio.run(InProcessObjects(store).list(CONFIG_MAPS)).items == []
