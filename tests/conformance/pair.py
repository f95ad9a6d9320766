"""One request for two servers: what differs between them (versions, uids, generated names) is filled in for each.

Every exchange is kept, so that a difference is shown with all that led to it. It decides nothing about what is asked.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import difflib
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from tests.conformance.client import Answer, Client, Server, Watch
from tests.conformance.normalise import Normaliser
from tests.conformance.record import render
from tests.conformance.runner import Exchange
from tests.conformance.scenario import ACCEPTS, CONTENT_TYPES, fill

if TYPE_CHECKING:
    from collections.abc import Callable

NO_VERSION = "1"
LONGEST_PREFIX = 58
"""The server cuts a longer one before it adds five characters."""
NO_UID = "11111111-1111-1111-1111-111111111111"


class DifferenceError(AssertionError):
    """The two servers do not do the same."""


class Ask(msgspec.Struct, frozen=True):
    """A request with placeholders. `slot` names the object it is about; `onto` merges the body into what was last seen.

    Known placeholders: `{ns}`, `{token}` of the last page, and `{fresh_SLOT}`, `{old_SLOT}`, `{uid_SLOT}`.
    """

    method: str
    path: str
    body: Any = None
    text: str | None = None
    type: str = "json"
    accept: str = "json"
    slot: str = ""
    onto: bool = False

    def __str__(self) -> str:
        about = f" (into what was last seen of {self.slot})" if self.onto else ""
        body = self.text if self.text is not None else json.dumps(self.body)
        shown = "" if self.body is None and self.text is None else f"\n      {self.type}{about}: {body}"
        return f"{self.method} {self.path}{'' if self.accept == 'json' else f' as {self.accept}'}{shown}"


class Side:
    """One of the two servers, with what it has told so far."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.client = Client(server)
        self.normalise = Normaliser(datetime.datetime.now(datetime.UTC))
        self.known = {"ns": namespace, "token": ""}
        self.seen: dict[str, Any] = {}
        self.watches: dict[str, Watch] = {}
        self.headers = {"Authorization": f"Bearer {server.token}"}

    def ask(self, ask: Ask) -> Answer:
        headers = {**self.headers, "Accept": ACCEPTS[ask.accept]}
        body = self._body(ask)
        if body is not None:
            headers["Content-Type"] = CONTENT_TYPES[ask.type]
        answer = self.client.request(ask.method, self._filled(ask.path), headers, body)
        self._remember(ask, answer)
        return answer

    def normal(self, answer: Answer, ask: Ask) -> Answer:
        """The answer without what only this server knows. A refusal names the generated name nowhere but in texts."""
        body, prefix = answer.body, _generated_prefix(ask)
        if prefix and answer.status >= 300:
            body = json.loads(re.sub(re.escape(prefix) + "[a-z0-9]{5}(?![a-z0-9])", f"{prefix}<end>", json.dumps(body)))
        headers = {name: [self.normalise.text(value) for value in values] for name, values in answer.headers.items()}
        return Answer(answer.status, headers, self.normalise(body, ask.path))

    def watch(self, path: str) -> None:
        """Opens a watch that begins with what is there now."""
        path = self._filled(path)
        listed = self.client.request("GET", path, {**self.headers, "Accept": ACCEPTS["json"]})
        version = listed.body["metadata"]["resourceVersion"]
        self.watches[path] = self.client.watch(f"{path}?watch=true&resourceVersion={version}", self.headers)

    def events_until(self, path: str, last_name: str) -> list[Any]:
        """What the watch saw, up to the coming of an object of this name; others' objects of the cluster left out."""
        found: list[Any] = []
        watch = self.watches[self._filled(path)]
        own = self.known["ns"]
        while events := watch.events(1):
            metadata = events[0].get("object", {}).get("metadata", {})
            if "namespace" in metadata or str(metadata.get("name", own)).startswith(own):
                found += events
            if metadata.get("name") == last_name:
                break
        return found

    def close(self) -> None:
        for watch in self.watches.values():
            watch.close()
        with contextlib.suppress(OSError):
            self.client.__exit__()

    def _filled(self, value: Any) -> Any:
        return fill(value, self.known)

    def _body(self, ask: Ask) -> bytes | None:
        if ask.text is not None:
            return ask.text.encode()
        if ask.body is None:
            return None
        body = self._filled(ask.body)
        if ask.onto:
            body = merged(self.seen.get(ask.slot, {}), body)
        return json.dumps(body).encode()

    def _remember(self, ask: Ask, answer: Answer) -> None:
        body = answer.body
        if not isinstance(body, dict) or answer.status >= 300:
            return
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            return
        if "uid" not in metadata:
            self.known["token"] = metadata.get("continue") or self.known["token"]
        elif ask.slot and "dryRun" not in ask.path and body.get("kind") != "Scale":
            fresh = metadata["resourceVersion"]
            if fresh != self.known.get(f"fresh_{ask.slot}", fresh):
                self.known[f"old_{ask.slot}"] = self.known[f"fresh_{ask.slot}"]
            self.known[f"fresh_{ask.slot}"] = fresh
            self.known[f"uid_{ask.slot}"] = metadata["uid"]
            self.known[f"name_{ask.slot}"] = metadata["name"]
            self.seen[ask.slot] = body


class Pair:
    """Both servers at once. A difference goes to `on_difference`, which by default fails the test."""

    def __init__(
        self, real: Server, embedded: Server, namespace: str, on_difference: Callable[[Pair, str], None] | None = None
    ) -> None:
        self.sides = (Side(real, namespace), Side(embedded, namespace))
        self.story: list[str] = []
        self.differs = False
        self._on_difference = on_difference or _fail

    def know(self, slot: str) -> None:
        """Makes the placeholders of a slot usable before its object was ever seen."""
        for side in self.sides:
            for name, value in (("fresh", NO_VERSION), ("old", NO_VERSION), ("uid", NO_UID), ("name", "none")):
                side.known.setdefault(f"{name}_{slot}", value)

    def ask(self, ask: Ask) -> int:
        """The status code of the real server; both bodies are compared."""
        answers = [side.ask(ask) for side in self.sides]
        normal = [side.normal(answer, ask) for side, answer in zip(self.sides, answers, strict=True)]
        self.story.append(f"{len(self.story) + 1:4}. {ask}\n      -> {_summary(normal[0])}")
        if normal[0] != normal[1]:
            self.differs = True
            self._on_difference(self, _difference(str(ask), *normal))
        return answers[0].status

    def compare_watches(self, last_name: str) -> None:
        """What each watch saw up to the object of this name."""
        for path in list(self.sides[0].watches):
            events = [side.events_until(path, last_name) for side in self.sides]
            normal = [
                Answer(200, {}, side.normalise(seen, path)) for side, seen in zip(self.sides, events, strict=True)
            ]
            if normal[0] != normal[1]:
                self._on_difference(self, _difference(f"WATCH {path}", *normal))

    def close(self) -> None:
        for side in self.sides:
            side.close()


def merged(onto: Any, part: Any) -> Any:
    """`part` laid over `onto`, as in a JSON merge patch, except that null stays null: bodies may say it."""
    if not isinstance(onto, dict) or not isinstance(part, dict):
        return copy.deepcopy(part)
    return {**onto, **{key: merged(onto.get(key), value) for key, value in part.items()}}


def _generated_prefix(ask: Ask) -> str:
    metadata = ask.body.get("metadata") if isinstance(ask.body, dict) else None
    prefix = metadata.get("generateName") if isinstance(metadata, dict) and "name" not in metadata else None
    return prefix[:LONGEST_PREFIX] if isinstance(prefix, str) else ""


def _summary(answer: Answer) -> str:
    body = answer.body if isinstance(answer.body, dict) else {}
    message = f": {body.get('message', '')}"[:300] if body.get("kind") == "Status" and answer.status >= 300 else ""
    return f"{answer.status}{message}"


def _difference(request: str, theirs: Answer, ours: Answer) -> str:
    wanted, found = (render(Exchange(request, 0, answer)).splitlines() for answer in (theirs, ours))
    return "\n".join([request, *difflib.unified_diff(wanted, found, "real", "embedded", n=3, lineterm="")])


def _fail(pair: Pair, difference: str) -> None:
    message = "the servers differ after\n" + "\n".join(pair.story) + "\n\n" + difference
    raise DifferenceError(message)
