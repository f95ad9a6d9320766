"""Refusals of what the real server never routes, and of bodies that say that they are something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.server.asgi_client import Client, ScriptedObjects

MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'

NO_PAGES = {
    "an unknown group": ("GET", "/apis/nope.io/v1/things"),
    "an unknown group's name": ("GET", "/apis/nope.io"),
    "an unknown version of a custom group": ("GET", "/apis/example.com/v9/widgets"),
    "an unknown kind in a custom group": ("GET", "/apis/example.com/v1/gadgets"),
    "a custom kind without its namespace": ("GET", "/apis/example.com/v1/widgets/a"),
    "creating a custom object in no namespace": ("POST", "/apis/example.com/v1/widgets"),
    "an unknown path": ("GET", "/nope"),
    "writing to an unknown path": ("POST", "/nope"),
    "an unknown health check": ("GET", "/livez/nope"),
    "a part of the old OpenAPI": ("GET", "/openapi/v2/api"),
}

CUSTOM_BODIES = {
    "no kind": (
        '{"metadata":{"name":"a"}}',
        400,
        (
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in "
            '\'{"metadata":{"name":"a"}}\' ({"metadata":{"name":"a"}})'
        ),
    ),
    "nothing": (
        "null",
        400,
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in 'null' (6e756c6c)",
    ),
    "no version": (
        '{"kind":"Widget"}',
        400,
        "the API version in the data () does not match the expected API version (example.com/v1)",
    ),
    "another kind": (
        '{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}',
        422,
        'Gadget.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget',
    ),
    "a version that is none": (
        '{"apiVersion":"a/b/c","kind":"Widget"}',
        400,
        (
            "the object provided is unrecognized (must be of type Widget): unexpected GroupVersion string: a/b/c "
            '({"apiVersion":"a/b/c","kind":" ...)'
        ),
    ),
}

EVICTIONS = {
    "another kind": (
        '{"apiVersion":"v1","kind":"Pod"}',
        "converting (v1.Pod) to (policy.Eviction): unknown conversion",
    ),
    "an unknown kind": (
        '{"apiVersion":"v1","kind":"Unicorn"}',
        f'no kind "Unicorn" is registered for version "v1" {SCHEME}',
    ),
    "an unknown version": (
        '{"apiVersion":"policy/v9","kind":"Eviction"}',
        f'no kind "Eviction" is registered for version "policy/v9" {SCHEME}',
    ),
}


@pytest.mark.parametrize(("method", "url"), NO_PAGES.values(), ids=NO_PAGES)
async def test_where_nothing_is_served_there_is_no_page(client: Client, method: str, url: str) -> None:
    reply = await client.ask(method, url, headers={"accept": "application/yaml"})
    assert (reply.code, reply.body) == (404, b"404 page not found\n")
    assert reply.header("content-type") == "text/plain; charset=utf-8"


@pytest.mark.parametrize(("body", "code", "message"), CUSTOM_BODIES.values(), ids=CUSTOM_BODIES)
async def test_custom_body(client: Client, port: ScriptedObjects, body: str, code: int, message: str) -> None:
    reply = await client.ask("POST", WIDGETS, body)
    assert (reply.code, reply.json()["message"], port.calls) == (code, message, [])


@pytest.mark.parametrize(("body", "why"), EVICTIONS.values(), ids=EVICTIONS)
async def test_eviction_of_another_kind(client: Client, body: str, why: str) -> None:
    message = (await client.ask("POST", "/api/v1/namespaces/default/pods/a/eviction", body)).json()["message"]
    assert message.endswith(f"cannot be handled as a Eviction: {why}")


NO_CONFIGURATION = {
    "no YAML": ("a: [b", "error decoding YAML: error converting YAML to JSON: yaml: "),
    "a list": ("[]", "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array"),
    "a key twice": (
        "a: b\na: c\n",
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:",
    ),
    "too deep": (
        "[" * 1000 + "]" * 1000,
        "error decoding YAML: error converting YAML to JSON: yaml: exceeded max depth",
    ),
}


@pytest.mark.parametrize("url", [f"{MAPS}/a", f"{WIDGETS}/a", f"{WIDGETS}/a/status"])
@pytest.mark.parametrize(("body", "why"), NO_CONFIGURATION.values(), ids=NO_CONFIGURATION)
async def test_apply_of_what_is_no_configuration(
    client: Client, port: ScriptedObjects, url: str, body: str, why: str
) -> None:
    url = f"{url}?fieldManager=me&force=true&fieldValidation=Strict"
    reply = await client.ask("PATCH", url, body, {"content-type": "application/apply-patch+yaml"})
    assert (reply.code, reply.json()["reason"], port.calls) == (400, "BadRequest", [])
    assert reply.json()["message"].startswith(why)


@pytest.mark.parametrize("media_type", ["application/json", "", "text/plain"])
async def test_a_patch_of_a_built_in_kind_needs_a_media_type_for_patches(client: Client, media_type: str) -> None:
    reply = await client.ask("PATCH", f"{MAPS}/a", "{}", {"content-type": media_type})
    status = reply.json()
    assert (reply.code, status["message"], status["details"]) == (415, "415: Unsupported Media Type", {})
