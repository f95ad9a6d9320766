"""Runs a scenario on one server and returns what it answered, normalised, step by step.

It decides nothing: the comparison and the expectations live in the tests, the printing in `record`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from typing import TYPE_CHECKING

import msgspec

from tests.conformance.client import PATIENCE_SECONDS, Answer, Client, Server, Watch
from tests.conformance.normalise import Normaliser
from tests.conformance.scenario import ACCEPTS, CONTENT_TYPES, Scenario, Step, body_of, fill, look_up, picked

if TYPE_CHECKING:
    from collections.abc import Iterator

POLL_SECONDS = 0.05
"""Some answers settle a moment after the request, by the server's own controllers; only the settled one is compared."""


class Exchange(msgspec.Struct, frozen=True):
    """A request line as written in the scenario, and the normalised answer."""

    request: str
    wanted_status: int
    answer: Answer


class Run:
    """The state of one scenario on one server: saved values, open watches, what was seen so far."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._known = {"ns": namespace}
        self._watches: dict[str, Watch] = {}
        self._normalise = Normaliser(datetime.datetime.now(datetime.UTC))

    def step(self, step: Step) -> Exchange:
        answer = self._perform(step)
        for name, path in step.save.items():
            value = look_up(answer.body, path)
            if value is None:
                message = f"{step.do}: nothing at {path} to save in {json.dumps(answer.body)[:2000]}"
                raise LookupError(message)
            self._known[name] = str(value)
        body = answer.body
        for rule in step.pick:
            body = picked(body, rule)
        normal = Answer(
            answer.status,
            {name: [self._normalise.text(value) for value in values] for name, values in answer.headers.items()},
            self._normalise(body, step.target),
        )
        return Exchange(step.do, step.wanted_status, normal)

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()

    def _perform(self, step: Step) -> Answer:
        path = str(fill(step.target, self._known))
        if step.verb == "COLLECT":
            return self._watches[step.watch].answer(step.events)
        if step.verb in ("WATCH", "OPEN"):
            return self._open(step, path)
        end = time.monotonic() + PATIENCE_SECONDS
        while not self._reached(answer := self._ask(step, path), step):
            if time.monotonic() > end:
                wanted = step.until or step.until_status
                message = f"{step.do} never showed {wanted}: {json.dumps(answer.body)[:2000]}"
                raise TimeoutError(message)
            time.sleep(POLL_SECONDS)
        return answer

    def _reached(self, answer: Answer, step: Step) -> bool:
        """True as soon as the step's condition holds; a step without one is asked once."""
        if step.until_status is not None:
            return answer.status == step.until_status
        if step.until is None:
            return True
        place, _, wanted = str(fill(step.until, self._known)).rpartition("=")
        return str(look_up(answer.body, place)) == wanted

    def _open(self, step: Step, path: str) -> Answer:
        path += ("&" if "?" in path else "?") + "watch=true"
        watch = self._client.watch(path, self._headers(step, body=None))
        if step.verb == "OPEN" and watch.status == 200:
            self._watches[step.watch] = watch
            return Answer(watch.status, watch.headers, None)
        with contextlib.closing(watch):
            return watch.answer(step.events)

    def _ask(self, step: Step, path: str) -> Answer:
        body = body_of(step, self._known)
        return self._client.request(step.verb, path, self._headers(step, body), body)

    def _headers(self, step: Step, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": ACCEPTS.get(step.accept, step.accept)} if step.accept else {}
        if body is not None and step.type:
            headers["Content-Type"] = CONTENT_TYPES.get(step.type, step.type)
        tokens = {"good": f"Bearer {self._client.server.token}", "wrong": "Bearer wrong", "none": ""}
        if tokens.get(step.token, step.token):
            headers["Authorization"] = tokens.get(step.token, str(fill(step.token, self._known)))
        headers |= {name: str(fill(value, self._known)) for name, value in step.headers.items()}
        return headers


def run_scenario(scenario: Scenario, server: Server, namespace: str) -> Iterator[Exchange]:
    """Yields after each step, so that a reader sees how far it came."""
    with Client(server) as client:
        run = Run(client, namespace)
        made = run.step(Step("POST /api/v1/namespaces", body={"metadata": {"name": "{ns}"}}))
        if made.answer.status != 201:
            message = f"{server.name} gives no namespace for the scenario: {made.answer}"
            raise RuntimeError(message)
        with contextlib.closing(run):
            for step in scenario.steps:
                yield run.step(step)
