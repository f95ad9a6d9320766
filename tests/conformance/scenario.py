"""What a scenario is: a sentence and a list of requests, read from `cases/*.yaml`, with a tiny placeholder language.

`{ns}` is the scenario's own namespace, `{name}` a value that an earlier step saved, `{repeat x 3000}` a long text.
A scenario holds no expectation but the status code of the real server; everything else is compared between servers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

CASES = Path(__file__).parent / "cases"

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
ACCEPTS = {
    "json": "application/json",
    "yaml": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "protobuf or json": "application/vnd.kubernetes.protobuf,application/json",
    "table": TABLE,
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "metadata list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "discovery": DISCOVERY,
}
CONTENT_TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "merge": "application/merge-patch+json",
    "json patch": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_PLACEHOLDER = re.compile(r"\{([a-z_]+)((?: [^{} ]+)*)\}")
_PATH_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[([^=\]]+)=([^\]]+)\]")


class Pick(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of the list at `at` (`*` walks every item) only the items whose field `by` is one of `among` are compared."""

    at: str
    by: str
    among: list[str]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. `do` is its first line; the verbs WATCH, OPEN and COLLECT are ours."""

    do: str
    body: Any = None
    text: str | None = None
    type: str = "json"
    accept: str = "json"
    token: str = "good"
    headers: dict[str, str] = {}
    want: int | None = None
    save: dict[str, str] = {}
    until: str | None = None
    until_status: int | None = None
    events: int | None = None
    watch: str = "watch"
    pick: list[Pick] = []

    @property
    def verb(self) -> str:
        return self.do.split(" ", 1)[0]

    @property
    def target(self) -> str:
        return self.do.split(" ", 1)[1] if " " in self.do else ""

    @property
    def wanted_status(self) -> int:
        return self.want or (201 if self.verb == "POST" else 200)


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`name` is a sentence: it is the test's id and a line of the report."""

    name: str
    steps: list[Step]
    topic: str = ""


def load_scenarios(folder: Path = CASES) -> list[Scenario]:
    found: list[Scenario] = []
    for path in sorted(folder.glob("*.yaml")):
        # PyYAML's C loader: the cases are many, and the plain one takes seconds.
        document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        scenarios = msgspec.convert(document["scenarios"], list[Scenario])
        found += [msgspec.structs.replace(scenario, topic=path.stem) for scenario in scenarios]
    return found


def fill(value: Any, known: dict[str, str]) -> Any:
    """The value with its placeholders replaced, in every string and key."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: _filled(found, known), value)
    if isinstance(value, dict):
        return {fill(key, known): fill(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, known) for item in value]
    return value


def _filled(found: re.Match[str], known: dict[str, str]) -> str:
    name, words = found[1], found[2].split()
    if name == "repeat":
        return words[0] * int(words[1])
    if name not in known:
        message = f"placeholder {found[0]} names nothing; known are {', '.join(sorted(known))}"
        raise LookupError(message)
    return known[name]


def body_of(step: Step, known: dict[str, str]) -> bytes | None:
    if step.text is not None:
        return str(fill(step.text, known)).encode()
    if step.body is None:
        return None
    body = fill(step.body, known)
    return yaml.safe_dump(body).encode() if step.type == "yaml" else json.dumps(body).encode()


def look_up(document: Any, path: str) -> Any:
    """The value at `a.b[0].c[type=Ready].status`, or None."""
    for name, place, key, wanted in _PATH_STEP.findall(path):
        if name:
            document = document.get(name) if isinstance(document, dict) else None
        elif place:
            document = document[int(place)] if isinstance(document, list) and len(document) > int(place) else None
        else:
            document = next((item for item in document or [] if str(look_up(item, key)) == wanted), None)
    return document


def picked(document: Any, rule: Pick) -> Any:
    """The document in which the list at `rule.at` holds only the wanted items."""
    return _picked(document, rule.at.split("."), rule)


def _picked(value: Any, path: list[str], rule: Pick) -> Any:
    if path and path[0] == "*":
        return [_picked(item, path[1:], rule) for item in value] if isinstance(value, list) else value
    if path:
        if not isinstance(value, dict) or path[0] not in value:
            return value
        return {**value, path[0]: _picked(value[path[0]], path[1:], rule)}
    if not isinstance(value, list):
        return value
    return [item for item in value if look_up(item, rule.by) in rule.among]
