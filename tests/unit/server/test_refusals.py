"""What is refused before the port is asked, with the codes and words recorded from a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError, no_such_object
from allhands.server.app import App, build_app
from allhands.server.limits import Limits
from tests.depth import examples
from tests.doubles import ManualClock
from tests.unit.server.asgi_client import TOKEN, Client, ScriptedObjects, registry, request_scope

MAPS = "/api/v1/namespaces/default/configmaps"
UNKNOWN = "the server could not find the requested resource"
WRONG = "the server does not allow this method on the requested resource"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'

PATHS = {
    "an unknown resource": ("GET", "/api/v1/nope", 404, UNKNOWN),
    "an unknown version": ("GET", "/apis/batch/v9", 404, UNKNOWN),
    "an unknown sub-resource": ("GET", f"{MAPS}/a/foo", 404, UNKNOWN),
    "a pod without its namespace": ("GET", "/api/v1/pods/a", 404, UNKNOWN),
    "a node within a namespace": ("GET", "/api/v1/namespaces/default/nodes/a", 404, UNKNOWN),
    "a list of bindings": ("GET", "/api/v1/bindings", 404, UNKNOWN),
    "an empty namespace": ("GET", "/api/v1/namespaces//pods", 404, UNKNOWN),
    "a POST to an object": ("POST", f"{MAPS}/a", 405, WRONG),
    "a POST to all namespaces": ("POST", "/api/v1/configmaps", 405, WRONG),
    "a DELETE of all namespaces' objects": ("DELETE", "/api/v1/configmaps", 405, WRONG),
    "a PUT to a collection": ("PUT", MAPS, 405, WRONG),
    "an unknown method": ("BREW", MAPS, 405, WRONG),
    "HEAD of a collection": ("HEAD", MAPS, 405, WRONG),
    "deletecollection of namespaces": ("DELETE", "/api/v1/namespaces", 405, WRONG),
    "reading a binding": ("GET", "/api/v1/namespaces/default/pods/a/binding", 405, WRONG),
    "creating a status": ("POST", "/api/v1/namespaces/default/pods/a/status", 405, WRONG),
    "reading what is only written": ("GET", "/api/v1/namespaces/default/finalize", 405, WRONG),
    "a log": (
        "GET",
        "/api/v1/namespaces/default/pods/a/log",
        501,
        "pods/log is not served by the embedded cluster without its nodes",
    ),
    "a proxy": ("GET", "/api/v1/nodes/n/proxy/metrics", 501, "nodes/proxy is not served by the embedded cluster"),
    "a POST to discovery": ("POST", "/api/v1", 405, WRONG),
    "a POST to discovery of a group": ("POST", "/apis/batch/v1", 405, WRONG),
    "a POST to the version": ("POST", "/version", 405, WRONG),
    "an unknown sub-resource of a custom kind": ("GET", f"{WIDGETS}/a/foo", 404, 'widgets.example.com "a" not found'),
    "creating the status of a custom kind": (
        "POST",
        f"{WIDGETS}/a/status",
        405,
        'create is not supported on resources of kind "widgets.example.com"',
    ),
    "a PUT to a collection of a custom kind": ("PUT", WIDGETS, 400, "name must be provided"),
}

QUERIES = {
    "a limit that is no number": ("?limit=abc", 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
    "a limit beyond all numbers": (
        "?limit=99999999999999999999",
        400,
        'strconv.ParseInt: parsing "99999999999999999999": value out of range',
    ),
    "a match without a version": (
        "?resourceVersionMatch=Exact",
        422,
        (
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is '
            "forbidden unless resourceVersion is provided"
        ),
    ),
    "an unknown match": (
        "?resourceVersionMatch=Nope&resourceVersion=1",
        422,
        (
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Nope": supported values: '
            '"Exact", "NotOlderThan", ""'
        ),
    ),
    "initial events without a match": (
        "?watch=true&sendInitialEvents=true",
        422,
        (
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires '
            "setting resourceVersionMatch to NotOlderThan"
        ),
    ),
    "initial events of a list": (
        "?sendInitialEvents=true",
        422,
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list',
    ),
    "a time-out that is no number": (
        "?watch=true&timeoutSeconds=abc",
        400,
        'strconv.ParseInt: parsing "abc": invalid syntax',
    ),
}

UNRECOGNISED = (
    "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: "
)

BODIES = {
    "a bare key": ("{bad", UNRECOGNISED + "invalid character 'b' looking for beginning of object key string ({bad)"),
    "nothing": ("", UNRECOGNISED + "unexpected end of JSON input (<empty>)"),
    "a list": ("[]", f"{UNRECOGNISED}json: cannot unmarshal array into Go value of type {TYPE_META} (5b5d)"),
    "a text": ('"x"', f"{UNRECOGNISED}json: cannot unmarshal string into Go value of type {TYPE_META} (227822)"),
    "a number for the kind": (
        '{"kind":1}',
        UNRECOGNISED + 'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":1})',
    ),
    "something behind the object": (
        '{"metadata":{"name":"p1"}} trailing',
        UNRECOGNISED + 'invalid character \'t\' after top-level value ({"metadata":{"name":"p1"}} tra ...)',
    ),
}

OPTIONS = {
    "a dry run of another kind": (
        "?dryRun=Some",
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
    "an unknown validation": (
        "?fieldValidation=Maybe",
        (
            'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Maybe": supported values: '
            '"", "Ignore", "Strict", "Warn"'
        ),
    ),
    "a long manager": (
        f"?fieldManager={'a' * 130}",
        'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
    ),
}

DELETES = {
    "an unknown policy": (
        '{"propagationPolicy":"Foo"}',
        422,
        (
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Foo": supported values: '
            '"Foreground", "Background", "Orphan", "nil"'
        ),
    ),
    "two policies": (
        '{"orphanDependents":true,"propagationPolicy":"Orphan"}',
        422,
        (
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and '
            "deletionPropagation cannot be both set"
        ),
    ),
    "a text for seconds": (
        '{"gracePeriodSeconds":"a"}',
        400,
        "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    ),
    "another kind": ('{"kind":"Foo","apiVersion":"v1"}', 400, f'no kind "Foo" is registered for version "v1" {SCHEME}'),
    "another kind of no version": (
        '{"kind":"Foo"}',
        400,
        f'no kind "Foo" is registered for version "meta.k8s.io/v1" {SCHEME}',
    ),
    "a version that is none": (
        '{"kind":"DeleteOptions","apiVersion":"a/b/c"}',
        400,
        "unexpected GroupVersion string: a/b/c",
    ),
    "malformed options": (
        "{bad",
        400,
        "couldn't get version/kind; json parse error: invalid character 'b' looking for beginning of object key string",
    ),
    "a dry run of another kind": (
        '{"dryRun":["Some"]}',
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
}

PATCHES = {
    "half a merge patch": ("merge-patch+json", '{"x":', "error decoding patch: unexpected end of JSON input"),
    "a list as merge patch": (
        "merge-patch+json",
        "[]",
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
    ),
    "an object as JSON patch": (
        "json-patch+json",
        "{}",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    ),
    "half a strategic patch": ("strategic-merge-patch+json", '{"x":', "unexpected end of JSON input"),
    "a list as strategic patch": (
        "strategic-merge-patch+json",
        "[]",
        "json: cannot unmarshal array into Go value of type map[string]interface {}",
    ),
}


def assert_refused(reply: Any, code: int, message: str) -> None:
    status = reply.json()
    assert (reply.code, status["message"]) == (code, message)
    assert status["kind"] == "Status"
    assert status["code"] == code
    assert reply.header("content-type") == "application/json"


@pytest.mark.parametrize(("method", "url", "code", "message"), PATHS.values(), ids=PATHS)
async def test_path(client: Client, method: str, url: str, code: int, message: str) -> None:
    assert_refused(await client.ask(method, url), code, message)


async def test_a_refusal_is_yaml_if_that_was_asked_for(client: Client) -> None:
    reply = await client.get("/api/v1/nope", accept="application/yaml")
    assert (reply.code, reply.header("content-type")) == (404, "application/yaml")
    assert f"message: {UNKNOWN}\n" in reply.body.decode()


@pytest.mark.parametrize(("query", "code", "message"), QUERIES.values(), ids=QUERIES)
async def test_query(client: Client, port: ScriptedObjects, query: str, code: int, message: str) -> None:
    assert_refused(await client.get(MAPS + query), code, message)
    assert port.calls == []


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
async def test_body(client: Client, body: str, message: str) -> None:
    assert_refused(await client.ask("POST", MAPS, body), 400, message)


@pytest.mark.parametrize(("query", "message"), OPTIONS.values(), ids=OPTIONS)
async def test_write_options(client: Client, query: str, message: str) -> None:
    assert_refused(await client.ask("POST", MAPS + query, "{}"), 422, message)


@pytest.mark.parametrize(("body", "code", "message"), DELETES.values(), ids=DELETES)
async def test_delete_options(client: Client, body: str, code: int, message: str) -> None:
    assert_refused(await client.ask("DELETE", f"{MAPS}/a", body), code, message)


@pytest.mark.parametrize(("kind", "body", "message"), PATCHES.values(), ids=PATCHES)
async def test_patch(client: Client, kind: str, body: str, message: str) -> None:
    reply = await client.ask("PATCH", f"{MAPS}/a", body, {"content-type": f"application/{kind}"})
    assert_refused(reply, 400, message)


async def test_a_patch_has_no_force(client: Client) -> None:
    reply = await client.ask("PATCH", f"{MAPS}/a?force=true", "{}", {"content-type": "application/merge-patch+json"})
    assert "force: Forbidden: may not be specified for non-apply patch" in reply.json()["message"]


@pytest.mark.parametrize(
    ("url", "method", "media_type"),
    [
        (MAPS, "POST", "text/plain"),
        ("/apis/example.com/v1/namespaces/default/widgets/w", "PATCH", "application/strategic-merge-patch+json"),
        ("/apis/example.com/v1/namespaces/default/widgets", "POST", "application/vnd.kubernetes.protobuf"),
    ],
    ids=["an unknown type", "merge keys of a custom kind", "protobuf of a custom kind"],
)
async def test_media_type(client: Client, url: str, method: str, media_type: str) -> None:
    reply = await client.ask(method, url, "{}", {"content-type": media_type})
    assert (reply.code, reply.json()["reason"]) == (415, "UnsupportedMediaType")
    assert "accepted media types include: application/json" in reply.json()["message"]


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf"])
async def test_nothing_acceptable_means_nothing_is_done(client: Client, port: ScriptedObjects, accept: str) -> None:
    reply = await client.ask("POST", MAPS, "{}", {"accept": accept})
    assert (reply.code, reply.json()["reason"], port.calls) == (406, "NotAcceptable", [])


@pytest.mark.parametrize("header", ["", "Bearer wrong", "bearer", "Basic YTpi", f"Bearer {TOKEN}x", "Bearer \xff"])
async def test_without_the_token_nothing_is_answered(client: Client, header: str) -> None:
    reply = await client.ask("GET", MAPS, headers={"authorization": header})
    assert_refused(reply, 401, "Unauthorized")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/version", "/livez/ping"])
async def test_health_and_version_need_no_token_but_no_wrong_one(client: Client, path: str) -> None:
    assert (await client.ask("GET", path, headers={"authorization": ""})).code == 200
    assert (await client.ask("GET", path, headers={"authorization": "Bearer wrong"})).code == 401


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(ValueError, match="token"):
        build_app(ScriptedObjects(), registry(), token="", clock=ManualClock())


async def test_a_body_that_says_it_is_too_large_is_not_read(app: App) -> None:
    limit = app.face.limits.body_bytes
    sent: list[Any] = []
    scope, _ = request_scope("POST", MAPS, "{}", {"content-length": str(limit + 1)})
    received = 0

    async def receive() -> dict[str, Any]:
        nonlocal received
        received += 1
        return {"type": "http.request", "body": b"x" * 1024, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]
    assert msgspec.json.decode(sent[1]["body"])["message"] == f"Request entity too large: limit is {limit}"
    assert received <= limit / 1024 + 256, "the rest is thrown away only as long as the client may still be sending it"


async def test_a_body_without_a_length_is_read_to_the_limit_only(port: ScriptedObjects) -> None:
    app = build_app(port, registry(), token=TOKEN, clock=ManualClock(), limits=Limits(body_bytes=10_000))
    scope, _ = request_scope("POST", MAPS, "", {"content-length": "", "transfer-encoding": "chunked"})
    taken = 0
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1000
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 413
    assert taken < 300_000


async def test_a_body_that_does_not_come_is_not_waited_for(port: ScriptedObjects) -> None:
    app = build_app(port, registry(), token=TOKEN, clock=ManualClock(), limits=Limits(body_seconds=0.01))
    scope, _ = request_scope("POST", MAPS, "{}")
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 408


async def test_a_client_that_leaves_gets_no_answer(app: App, port: ScriptedObjects) -> None:
    scope, _ = request_scope("POST", MAPS, "{}")
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert (sent, port.calls) == ([], [])


async def test_a_refusal_of_the_port_is_passed_on(client: Client, port: ScriptedObjects) -> None:
    port.answer = no_such_object("", "configmaps", "a")
    reply = await client.get(f"{MAPS}/a")
    assert_refused(reply, 404, 'configmaps "a" not found')
    assert reply.json()["details"] == {"name": "a", "kind": "configmaps"}


async def test_a_time_to_wait_is_a_header_too(client: Client, port: ScriptedObjects) -> None:
    port.answer = StatusError(429, "TooManyRequests", "later", {"retryAfterSeconds": 7})
    assert (await client.get(f"{MAPS}/a")).header("retry-after") == "7"


async def test_an_accident_is_logged_and_not_shown(
    client: Client, port: ScriptedObjects, caplog: pytest.LogCaptureFixture
) -> None:
    port.answer = RuntimeError("a secret detail")
    reply = await client.get(f"{MAPS}/a")
    assert (reply.code, reply.json()["reason"]) == (500, "InternalError")
    assert b"secret" not in reply.body
    assert b"Traceback" not in reply.body
    assert "a secret detail" in caplog.text


async def test_too_many_requests_at_once(port: ScriptedObjects) -> None:
    app = build_app(port, registry(), token=TOKEN, clock=ManualClock(), limits=Limits(requests_in_flight=0))
    reply = await Client(app).get(f"{MAPS}/a")
    assert (reply.code, reply.header("retry-after")) == (429, "1")
    assert (await Client(app).get("/readyz")).code == 200, "a server that is busy is still ready"


@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]),
    path=st.sampled_from(
        [MAPS, f"{MAPS}/a", f"{MAPS}/%ff", "/api/%2f/x", "/apis/a/b/c/d/e/f/g", "/openapi/v3/api/v1/x"]
    ),
    query=st.sampled_from(
        ["", "?limit=%ff", "?dryRun=", "?watch=&x", "?=&&=", "?labelSelector=%00", "?includeObject=x"]
    ),
    body=st.binary(max_size=40),
    media_type=st.sampled_from(
        [
            "application/json",
            "application/yaml",
            "application/merge-patch+json",
            "x",
            "application/vnd.kubernetes.protobuf",
        ]
    ),
    accept=st.sampled_from(["", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", ";;,", "application/yaml"]),
)
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_sent_gets_a_whole_answer(
    method: str, path: str, query: str, body: bytes, media_type: str, accept: str
) -> None:
    port = ScriptedObjects()
    port.answer = no_such_object("", "configmaps", "a")
    app = build_app(port, registry(), token=TOKEN, clock=ManualClock())
    headers = {"content-type": media_type, "accept": accept}
    reply = asyncio.run(Client(app).ask(method, path + query, body, headers))
    assert 400 <= reply.code < 500
    if reply.header("content-type").startswith("text/plain"):
        assert (reply.code, reply.body) == (404, b"404 page not found\n")
    else:
        assert yaml.safe_load(reply.body)["status"] == "Failure"  # JSON is YAML too
