"""Random sequences of writers on one object that began with an apply: both servers agree on it and on who owns what.

Appliers with and without force, patches of all sorts, updates, statuses, scales: every answer is compared, with the
owners of fields. The default run takes the same sequences every time; `make soak` takes many more, and new ones.
"""

from __future__ import annotations

import datetime
import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance import random_requests as requests
from tests.conformance.normalise import Normaliser
from tests.conformance.pair import Ask, Side
from tests.conformance.random_requests import KINDS, RandomKind
from tests.depth import SOAK

if TYPE_CHECKING:
    from tests.conformance.client import Answer, Server

EXAMPLES = 2000 if SOAK else 80
LONGEST_SECONDS = 7200 if SOAK else 600
NAME = "a"
_LOOSELY_TOLD = ("failed to create typed patch object", "failed to convert new object")
"""Of several faults in what is applied the real server tells some, in no order; what is no value it tells in the words
of a decoder that only apply has."""
_ELSEWHERE = (
    "selfLink",
    "not base64",
    '"b": null',
    "2147483648",
    "3000000000",
    "9223372036854775808",
)
"""Values of which the documentation tells that the servers take them differently."""
_numbers = itertools.count()
_run = os.urandom(3).hex()
_managers = st.sampled_from(["one", "two", "kubectl"])


@st.composite
def applies(draw: st.DrawFn, kind: RandomKind) -> Ask:
    body = draw(requests.bodies(kind, NAME))
    if not draw(st.integers(0, 3)):
        body = {name: value for name, value in body.items() if name in ("apiVersion", "kind", "metadata")}
    end = "/status" if kind.status and not draw(st.integers(0, 4)) else ""
    if end:
        status = draw(st.sampled_from(kind.status))
        body = {name: body.get(name) for name in ("apiVersion", "kind")} | {"metadata": {"name": NAME}} | status
    words = (f"fieldManager={draw(_managers)}", draw(st.sampled_from(["", "force=true"])), draw(_dry_runs))
    return Ask("PATCH", f"{kind.collection}/{NAME}{end}{requests.query(*words)}", body, type="apply")


_dry_runs = st.sampled_from(["", "", "", "dryRun=All"])


@st.composite
def others(draw: st.DrawFn, kind: RandomKind) -> Ask:
    """A write that is no apply, by somebody with a name."""
    asks = [requests.patches(kind, NAME), requests.patches(kind, NAME), requests.updates(kind, NAME)]
    if kind.plural == "deployments":
        asks.append(requests.scalings(kind, NAME))
    ask: Ask = draw(st.one_of(asks))
    joint = "&" if "?" in ask.path else "?"
    path = f"{ask.path}{joint}fieldManager={draw(st.sampled_from(['m', 'n', 'one']))}"
    return Ask(ask.method, path, ask.body, type=ask.type, slot=ask.slot, onto=ask.onto)


@st.composite
def sequences(draw: st.DrawFn) -> tuple[RandomKind, list[Ask]]:
    kind = draw(st.sampled_from([kind for kind in KINDS if kind.namespaced and not kind.guarded]))
    path = f"{kind.collection}/{NAME}?fieldManager=one"
    made = Ask("POST", f"{kind.collection}?fieldManager=m", draw(requests.bodies(kind, NAME)), slot=kind.slot(NAME))
    first = Ask("PATCH", path, kind.minimal(NAME), type="apply", slot=kind.slot(NAME))
    asks = [draw(st.sampled_from([first, made]))]
    more = (applies(kind) | others(kind)).filter(lambda ask: not any(word in str(ask) for word in _ELSEWHERE))
    return kind, [*asks, *draw(st.lists(more, min_size=2, max_size=12))]


def _same(left: Answer, right: Answer) -> bool:
    if left == right:
        return True
    if left.status != right.status or left.status not in (422, 500):
        return False
    if left.status == 422:
        return _causes(left) == _causes(right)  # of maps it tells them in no order
    messages = [str(each.body.get("message")) for each in (left, right)]
    return any(all(message.startswith(begin) for message in messages) for begin in _LOOSELY_TOLD)


def _causes(answer: Answer) -> list[str]:
    return sorted(map(str, (answer.body.get("details") or {}).get("causes") or ()))


def _side(server: Server, namespace: str, kind: RandomKind) -> Side:
    side = Side(server, namespace)
    side.normalise = Normaliser(datetime.datetime.now(datetime.UTC))
    slot = kind.slot(NAME)
    side.known |= {f"fresh_{slot}": "1", f"old_{slot}": "1", f"uid_{slot}": "11111111-1111-1111-1111-111111111111"}
    return side


def run(kind: RandomKind, asks: list[Ask], servers: tuple[Server, Server]) -> None:
    namespace = f"ra{next(_numbers):04d}-{_run}"
    sides = [_side(server, namespace, kind) for server in servers]
    try:
        for side in sides:
            side.ask(Ask("POST", "/api/v1/namespaces", {"metadata": {"name": "{ns}"}}))
        told: list[str] = []
        waiting = asks[::-1]
        while waiting:
            ask = waiting.pop()
            told.append(str(ask))
            left, right = (side.normal(side.ask(ask), ask) for side in sides)
            if left.status == 201 and kind.labelled_late and "dryRun" not in ask.path:
                waiting.append(requests.first_change(kind, NAME, kind.slot(NAME)))
            if not _same(left, right):
                raise AssertionError("\n".join([*told, "", f"real:     {_shown(left)}", f"embedded: {_shown(right)}"]))
    finally:
        for side in sides:
            side.close()


def _shown(answer: Answer) -> Any:
    return answer.status, answer.headers, answer.body


@pytest.mark.timeout(LONGEST_SECONDS)
def test_whoever_writes_both_servers_know_the_same_owners(real: Server, embedded: Server) -> None:
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate, Phase.shrink] if SOAK else [Phase.generate],
        derandomize=not SOAK,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(sequences())
    def drive(sequence: tuple[RandomKind, list[Ask]]) -> None:
        run(*sequence, (real, embedded))

    drive()
