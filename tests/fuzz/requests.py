"""Requests that no sane client sends, drawn from the server's own OpenAPI and from manifests that are nearly right.

Names are few, so that requests meet each other's objects; everything else is wild.
"""

from __future__ import annotations

import json
import random
import urllib.parse
from typing import TYPE_CHECKING, Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from tests.conformance.scenario import CONTENT_TYPES, fill, load_scenarios
from tests.fuzz.judging import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMESPACES: Final = ("default", "fuzz", "fuzz", "fuzz", "none")
NAMES: Final = ("a", "a", "b", "c")
_PATCHES: Final = ("merge", "json patch", "strategic", "yaml", "json", "apply")
_WILD: Final[tuple[Any, ...]] = (
    *(None, True, [], {}, "", 0, -1, 2**31, 2**63, 2**64, -(2**63), 10**400, 1.5, -0.0, 1e308),
    *("-1", "1e999999999", "9" * 2000, "1Gi1", "100mm", "٣", "0x10", "1_000", "NaN", "Infinity", "+", ".", "Ei"),
    *(
        "\0",
        "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
        "\u202e",
        "a" * 100_000,
        "../..",
        "%",
    ),
    *("2001-02-30T00:00:00Z", "0000-00-00T00:00:00Z", "99999-01-01T00:00:00Z", "*/0 * * * *", "{}", "[]", "null"),
    *([None], [[]], [{}], {"": ""}, {"a": {"a": {"a": {}}}}, [1] * 1000, {"$patch": "replace"}, {"$retainKeys": [1]}),
)
_QUERIES: Final = (
    *("limit=-1", "limit=99999999999999999999", "limit=x", "continue=%00", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"),
    *(
        "labelSelector=a%20in%20(",
        "labelSelector=" + "a%3Db%2C" * 500,
        "labelSelector=%21%21",
        "fieldSelector=a%3D%3D%3D",
    ),
    *("fieldSelector=metadata.name%3D%5C", "resourceVersion=-1", "resourceVersion=1e9", "resourceVersion=" + "9" * 40),
    *(
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Maybe",
        "dryRun=Some",
        "dryRun=All&dryRun=All",
    ),
    *("fieldValidation=Loud", "fieldManager=" + "x" * 200, "timeoutSeconds=-1", "timeoutSeconds=1e9", "pretty=maybe"),
    *("watch=true&timeoutSeconds=1", "watch=maybe", "sendInitialEvents=true", "%ff=%fe", "=&=&&", "a" * 5000),
    *(
        "gracePeriodSeconds=-99",
        "propagationPolicy=Sideways",
        "orphanDependents=perhaps",
        "propagationPolicy=Foreground",
    ),
)
_PATHS: Final = (
    *("//", "/api//v1/pods", "/api/v1/namespaces/%2e%2e/pods", "/api/v1/namespaces/%00/pods", "/api/v1/%ff", "*", "/?"),
    *("/apis/", "/apis/x/y/z/w/v/u/t", "/api/v1/namespaces/fuzz/pods/a/status/status", "/api/v1/pods/a/b/c/d/e", "/%"),
    *("/api/v1/namespaces/fuzz/pods/a/log?tailLines=-1", "/api/v1/namespaces/fuzz/pods/a/log?sinceTime=yesterday"),
    *("/api/v1/namespaces/fuzz/pods/a/exec?command=x", "/openapi/v3/..", "/openapi/v2?x", "/apis/apps/v1/%20"),
    *("/api/v1/namespaces/" + "n" * 4000 + "/pods", "/" + "a/" * 2000, "/version/x", "/healthz/%00", "/metrics/..;/"),
    *("/apis/batch/v1/namespaces/fuzz/jobs/%F0%9F%98%80", "/api/v1/namespaces/fuzz/pods?" + "&".join(["a=b"] * 1000)),
)


def from_openapi(documents: list[Any], number: int, start: int, take: Callable[[Request], object]) -> None:
    """At least `number` requests that the documents describe, some of them wrong on purpose, each given to `take`."""
    operations = []
    for document in documents:
        schema = schemathesis.openapi.from_dict(document)
        schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
        for found in schema.get_all_operations():
            assert isinstance(found, Ok), f"our own OpenAPI is wrong: {found}"
            operations.append(found.ok())
    random.Random(start).shuffle(operations)
    each = -(-number // len(operations))
    for position, operation in enumerate(operations[: -(-number // each)]):
        _draw(operation, each, start + position, take)


def _draw(operation: Any, number: int, start: int, take: Callable[[Request], object]) -> None:
    chance = random.Random(start)

    @seed(start)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy())
    def run(case: Any) -> None:
        take(_as_request(case, chance))

    run()


def _as_request(case: Any, chance: random.Random) -> Request:
    path = case.path
    for name, wild in (case.path_parameters or {}).items():
        known = chance.choice(NAMESPACES if name == "namespace" else NAMES)
        value = known if chance.random() < 0.9 else str(wild)
        path = path.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
    query = urllib.parse.urlencode(case.query or {}, doseq=True, errors="replace")
    body = None if isinstance(case.body, type(schemathesis.core.NOT_SET)) else case.body
    if isinstance(body, dict) and isinstance(body.get("metadata", {}), dict) and chance.random() < 0.8:
        body = body | {"metadata": body.get("metadata", {}) | {"name": chance.choice(NAMES), "namespace": "fuzz"}}
        body["metadata"].pop("resourceVersion", None)
    raw = body if body is None or isinstance(body, bytes) else _encoded(body)
    return Request(
        case.method.upper(), f"{path}?{query}" if query else path, raw, case.media_type or "application/json"
    )


def _encoded(body: Any) -> bytes:
    return json.dumps(body, default=str).encode("utf-8", "replace")


def mutants(number: int, start: int) -> Iterator[Request]:
    """Requests of the conformance cases, each changed in a place or two: a body, a query, a path, or its bytes."""
    chance = random.Random(start)
    known = [
        (step.verb, step.target, step.body, step.type)
        for scenario in load_scenarios()
        for step in scenario.steps
        if step.verb in ("POST", "PUT", "PATCH", "DELETE", "GET") and "watch" not in step.target
    ]
    for _ in range(number):
        verb, target, body, kind = chance.choice(known)
        yield _mutant(chance, verb, _filled(target), _filled(body), kind)


def _filled(value: Any) -> Any:
    try:
        return fill(value, {"ns": "fuzz"})
    except LookupError:
        return json.loads(json.dumps(value).replace("{ns}", "fuzz"))  # it names what an earlier step would have saved


def _mutant(chance: random.Random, verb: str, target: str, body: Any, kind: str) -> Request:
    way = chance.randrange(6)
    if way == 0:
        target = (
            chance.choice(_PATHS) if chance.random() < 0.3 else f"{target.partition('?')[0]}?{chance.choice(_QUERIES)}"
        )
    if way == 1:
        verb = chance.choice(("GET", "PUT", "PATCH", "DELETE", "POST", "OPTIONS", "HEAD", "TRACE", "FROB"))
    if way == 2 and verb == "PATCH":
        kind = chance.choice(_PATCHES)
    for _ in range(chance.randrange(1, 4) if body is not None and way > 1 else 0):
        body = _changed(chance, body)
    raw = None if body is None else _encoded(body)
    if raw is not None and way == 5:
        raw = _damaged(chance, raw)
    return Request(verb, target, raw, CONTENT_TYPES.get(kind, kind))


def _changed(chance: random.Random, value: Any) -> Any:
    """The document with one place changed."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(sorted(value))
        if chance.random() < 0.1:
            return {**value, str(chance.choice(_WILD))[:300]: chance.choice(_WILD)}
        return {**value, name: _changed(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], _changed(chance, value[place]), *value[place + chance.randrange(2) :]]
    return chance.choice(_WILD)


def _damaged(chance: random.Random, raw: bytes) -> bytes:
    place = chance.randrange(len(raw) + 1)
    match chance.randrange(7):
        case 0:
            return raw[:place]
        case 1:
            return raw[:place] + bytes(chance.randrange(256) for _ in range(3)) + raw[place:]
        case 2:
            return b'{"metadata":{"name":"a"},"metadata":{"name":"b"},' + raw[1:]
        case 3:
            deep = chance.choice((400, 499, 501, 5_000, 100_000))
            return b'{"metadata":{"name":"a"},"spec":' + b"[" * deep + b"]" * deep + b"}"
        case 4:
            return b"\xff\xfe" + raw
        case 5:
            return raw.replace(b'"', b"'", 2)
        case _:
            return b"k8s\0" + raw
