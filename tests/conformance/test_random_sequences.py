"""Random sequences of requests drive the real API server and the embedded one: both always do and say the same.

Every step compares status, headers and body, and at the end what a watch of each kind saw. The default run takes the
same sequences every time; `make soak` takes many more, and new ones each time. A failure prints the whole sequence.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.conformance import random_requests as requests
from tests.conformance.pair import Ask, Pair
from tests.conformance.random_requests import KINDS, SLOTS, RandomKind

if TYPE_CHECKING:
    from tests.conformance.client import Server

SOAK = os.environ.get("ALLHANDS_SOAK") == "1"
EXAMPLES = 3000 if SOAK else 150
STEPS = 50 if SOAK else 25
LONGEST_SECONDS = 7200 if SOAK else 600
"""A soak makes a failure smaller before it shows it, which takes minutes; the default run shows it as it is."""
LAST = "{ns}-last"

_numbers = itertools.count()
_run = os.urandom(3).hex()


class Sequence(RuleBasedStateMachine):
    """Two or three kinds with a few objects each, so that requests meet what earlier ones left."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        self.kinds: list[RandomKind] = []
        self.made = 0

    @initialize(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique_by=lambda kind: kind.plural))
    def begin(self, kinds: list[RandomKind]) -> None:
        self.kinds = kinds
        self.pair.ask(Ask("POST", "/api/v1/namespaces", {"metadata": {"name": "{ns}"}}))
        for kind in kinds:
            for slot in SLOTS:
                self.pair.know(kind.slot(slot))
            for side in self.pair.sides:
                side.watch(kind.collection)

    def _kind(self, data: st.DataObject) -> RandomKind:
        return data.draw(st.sampled_from(self.kinds))

    def _has(self, plural: str) -> bool:
        return any(kind.plural == plural for kind in self.kinds)

    def _create(self, kind: RandomKind, ask: Ask) -> None:
        """Of one that gets a finalizer by admission, a first update through its status counts on the real server even
        if it changes nothing. So such an object, too, gets a real change at once."""
        status = self.pair.ask(ask)
        if status == 201 and (kind.labelled_late or kind.guarded) and "dryRun" not in ask.path:
            self.pair.ask(requests.first_change(kind, f"{{name_{ask.slot}}}", ask.slot))

    @rule(data=st.data(), slot=requests.slots, dry_run=requests.dry_runs, validation=requests.validations)
    def create(self, data: st.DataObject, slot: str, dry_run: str, validation: str) -> None:
        kind = self._kind(data)
        body = data.draw(requests.bodies(kind, kind.name(slot)))
        ask = Ask("POST", kind.collection + requests.query(dry_run, validation), body, slot=kind.slot(slot))
        self._create(kind, ask)

    @rule(data=st.data(), slot=requests.slots)
    def create_what_is_good(self, data: st.DataObject, slot: str) -> None:
        kind = self._kind(data)
        self._create(kind, Ask("POST", kind.collection, kind.minimal(kind.name(slot)), slot=kind.slot(slot)))

    @precondition(lambda self: any(kind.namespaced and not kind.guarded for kind in self.kinds))
    @rule(data=st.data(), prefix=st.sampled_from(["gen-", "gen-", "Gen-", "", "g" * 58]), dry_run=requests.dry_runs)
    def create_with_a_generated_name(self, data: st.DataObject, prefix: str, dry_run: str) -> None:
        kind = data.draw(st.sampled_from([kind for kind in self.kinds if kind.namespaced and not kind.guarded]))
        body = {**kind.base, "metadata": {"generateName": prefix}}
        slot = f"{kind.plural}_made_{'abcdefgh'[self.made % 8]}"
        self.made += 1
        self.pair.know(slot)
        status = self.pair.ask(Ask("POST", kind.collection + requests.query(dry_run), body, slot=slot))
        if status == 201 and not dry_run:
            self.pair.ask(Ask("GET", f"{kind.collection}/{{name_{slot}}}", slot=slot))
            self.pair.ask(Ask("DELETE", f"{kind.collection}/{{name_{slot}}}?propagationPolicy=Background"))

    @rule(data=st.data(), slot=requests.slots, accept=requests.accepts)
    def get(self, data: st.DataObject, slot: str, accept: str) -> None:
        kind = self._kind(data)
        self.pair.ask(Ask("GET", f"{kind.collection}/{kind.name(slot)}", accept=accept, slot=kind.slot(slot)))

    @rule(data=st.data())
    def list_some(self, data: st.DataObject) -> None:
        kind = self._kind(data)
        self.pair.ask(data.draw(requests.lists(kind)))

    @rule(data=st.data())
    def list_in_pages(self, data: st.DataObject) -> None:
        kind = self._kind(data)
        if kind.namespaced:
            self.pair.ask(Ask("GET", f"{kind.collection}?limit=1"))
            if self.pair.sides[0].known["token"]:
                self.pair.ask(Ask("GET", f"{kind.collection}?limit=1&continue={{token}}"))
                self._forget_token()

    def _forget_token(self) -> None:
        for side in self.pair.sides:
            side.known["token"] = ""

    @rule(data=st.data(), slot=requests.slots)
    def update(self, data: st.DataObject, slot: str) -> None:
        self.pair.ask(data.draw(requests.updates(self._kind(data), slot)))

    @rule(data=st.data(), slot=requests.slots)
    def patch(self, data: st.DataObject, slot: str) -> None:
        self.pair.ask(data.draw(requests.patches(self._kind(data), slot)))

    @rule(data=st.data(), slot=requests.slots)
    def delete(self, data: st.DataObject, slot: str) -> None:
        self.pair.ask(data.draw(requests.deletions(self._kind(data), slot)))

    @rule(data=st.data())
    def delete_a_collection(self, data: st.DataObject) -> None:
        self.pair.ask(data.draw(requests.collection_deletions(self._kind(data))))

    @rule(
        data=st.data(),
        slot=requests.slots,
        text=st.sampled_from(["", "{", "[]", "null", "1", '{"a":1}{', "\xff", '"x"']),
    )
    def send_no_object(self, data: st.DataObject, slot: str, text: str) -> None:
        kind = self._kind(data)
        method, end = data.draw(st.sampled_from([("POST", ""), ("PUT", f"/{kind.name(slot)}")]))
        self.pair.ask(Ask(method, kind.collection + end, text=text))

    @precondition(lambda self: self._has("pods"))
    @rule(data=st.data(), slot=requests.slots)
    def bind(self, data: st.DataObject, slot: str) -> None:
        self.pair.ask(data.draw(requests.bindings(slot)))

    @precondition(lambda self: self._has("pods"))
    @rule(data=st.data(), slot=requests.slots)
    def evict(self, data: st.DataObject, slot: str) -> None:
        self.pair.ask(data.draw(requests.evictions(slot)))

    @precondition(lambda self: self._has("deployments"))
    @rule(data=st.data(), slot=requests.slots)
    def scale(self, data: st.DataObject, slot: str) -> None:
        kind = next(kind for kind in self.kinds if kind.plural == "deployments")
        self.pair.ask(data.draw(requests.scalings(kind, slot)))

    def teardown(self) -> None:
        """A last object of each kind ends the watches; what is outside of the namespace is removed."""
        try:
            if self.pair.differs:
                return  # what is found now would only hide what was found first
            for kind in self.kinds:
                self.pair.ask(Ask("POST", kind.collection, kind.minimal(LAST)))
            self.pair.compare_watches(self.pair.sides[0].known["ns"] + "-last")
            for kind in self.kinds:
                for name in () if kind.namespaced else ("a", "b", "other", "last"):
                    path = f"{kind.collection}/{{ns}}-{name}"
                    self.pair.ask(Ask("PATCH", path, {"metadata": {"finalizers": None}}, type="merge"))
                    self.pair.ask(Ask("DELETE", path))
        finally:
            self.pair.close()


def namespace() -> str:
    return f"r{next(_numbers):04d}-{_run}"


@pytest.mark.timeout(LONGEST_SECONDS)
def test_any_sequence_of_requests_does_the_same_on_both_servers(real: Server, embedded: Server) -> None:
    class OnBoth(Sequence):
        def __init__(self) -> None:
            super().__init__(Pair(real, embedded, namespace()))

    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        phases=[Phase.generate, Phase.shrink] if SOAK else [Phase.generate],
        derandomize=not SOAK,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(OnBoth, settings=chosen)
