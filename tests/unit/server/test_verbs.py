"""How a request becomes a call of the port, and what the port says becomes an answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.api.kinds import Resource
from allhands.ports import Deleted, DeleteOptions, Document, Page, Query, WriteOptions
from tests.unit.server.asgi_client import Client, ScriptedObjects, raw

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
CONFIG_MAPS = Resource("", "v1", "configmaps")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def test_an_object_leaves_as_the_text_it_is_stored_as(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(b'{"kind":"ConfigMap",  "apiVersion":"v1","metadata":{"name":"c"}}')
    reply = await client.get(f"{MAPS}/c")
    assert (reply.code, reply.body) == (200, port.answer.raw)
    assert port.calls == [("get", (CONFIG_MAPS, "c", "default"), {"subresource": "", "resource_version": ""})]


async def test_an_object_may_be_asked_for_at_a_version(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "c"))
    await client.get(f"{MAPS}/c?resourceVersion=12")
    assert port.calls[0][2]["resource_version"] == "12"


async def test_items_of_built_in_kinds_do_not_repeat_their_kind(client: Client, port: ScriptedObjects) -> None:
    port.answer = Page([raw("ConfigMap", "a", data={"k": "v"}), raw("ConfigMap", "b")], "12", "more", 3)
    reply = (await client.get(MAPS)).json()
    assert list(reply) == ["kind", "apiVersion", "metadata", "items"]
    assert (reply["kind"], reply["apiVersion"]) == ("ConfigMapList", "v1")
    assert reply["metadata"] == {"resourceVersion": "12", "continue": "more", "remainingItemCount": 3}
    assert [sorted(item) for item in reply["items"]] == [["data", "metadata"], ["metadata"]]


async def test_items_of_custom_kinds_keep_their_kind(client: Client, port: ScriptedObjects) -> None:
    port.answer = Page([raw("Widget", "a", "example.com/v1")], "12")
    reply = (await client.get(WIDGETS)).json()
    assert reply["items"][0]["kind"] == "Widget"
    assert reply["metadata"] == {"resourceVersion": "12", "continue": ""}


async def test_an_empty_list(client: Client, port: ScriptedObjects) -> None:
    port.answer = Page([], "12")
    assert (await client.get(MAPS)).json()["items"] == []


async def test_the_selection_of_a_list(client: Client, port: ScriptedObjects) -> None:
    port.answer = Page([], "1")
    await client.get(
        "/api/v1/configmaps?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5&continue=t"
        "&resourceVersion=3&pretty=true"
    )
    query = Query(labels="a=b", fields="metadata.name=x", limit=5, continue_token="t", resource_version="3")
    assert port.calls == [("list", (CONFIG_MAPS, query), {})]


async def test_yaml(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "c", data={"on": "yes"}))
    reply = await client.get(f"{MAPS}/c", accept="application/yaml")
    assert reply.header("content-type") == "application/yaml"
    assert reply.body.startswith(b'apiVersion: v1\ndata:\n  "on": "yes"\nkind: ConfigMap\n')


async def test_a_table_of_a_list(client: Client, port: ScriptedObjects) -> None:
    port.answer = Page([raw("ConfigMap", f"c{n}", data={"k": "v"}) for n in range(600)], "12")
    reply = (await client.get(MAPS, accept=f"{TABLE},application/json")).json()
    assert (reply["kind"], reply["apiVersion"], reply["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "12"},
    )
    assert [column["name"] for column in reply["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert len(reply["rows"]) == 600
    row = reply["rows"][599]
    assert row["cells"][:2] == ["c599", 1]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "c599")


@pytest.mark.parametrize(
    ("asked", "shown"), [("Object", "ConfigMap"), ("None", None), ("Metadata", "PartialObjectMetadata")]
)
async def test_what_a_row_includes(client: Client, port: ScriptedObjects, asked: str, shown: str | None) -> None:
    port.answer = Page([raw("ConfigMap", "c")], "12")
    row = (await client.get(f"{MAPS}?includeObject={asked}", accept=TABLE)).json()["rows"][0]
    assert (row["object"] or {}).get("kind") == shown


async def test_an_unknown_inclusion_is_refused(client: Client) -> None:
    reply = await client.get(f"{MAPS}?includeObject=Bad", accept=TABLE)
    assert (reply.code, reply.json()["message"]) == (
        400,
        (
            "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', "
            "'Object', 'None', or empty"
        ),
    )


async def test_metadata_alone(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "c", data={"k": "v"}))
    reply = (await client.get(f"{MAPS}/c", accept=PARTIAL)).json()
    assert sorted(reply) == ["apiVersion", "kind", "metadata"]
    assert (reply["kind"], reply["metadata"]["name"]) == ("PartialObjectMetadata", "c")
    port.answer = Page([raw("ConfigMap", "c")], "12")
    listed = (await client.get(MAPS, accept=PARTIAL.replace("Metadata;", "MetadataList;"))).json()
    assert (listed["kind"], listed["items"][0]["kind"]) == ("PartialObjectMetadataList", "PartialObjectMetadata")


async def test_metadata_of_one_is_not_that_of_many(client: Client, port: ScriptedObjects) -> None:
    port.answer = Page([], "1")
    assert (await client.get(MAPS, accept=PARTIAL)).code == 406
    port.answer = Document(raw("ConfigMap", "c"))
    assert (await client.get(f"{MAPS}/c", accept=PARTIAL.replace("Metadata;", "MetadataList;"))).code == 406


async def test_create(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "c"), ('unknown field "spec.x"', "line\nbreak"))
    url = f"{MAPS}?fieldManager=me&fieldValidation=Ignore&dryRun=All"
    reply = await client.ask("POST", url, '{"metadata":{"name":"c"}}')
    options = WriteOptions(dry_run=True, field_validation="Ignore", field_manager="me", tracked=True)
    assert port.calls == [("create", (CONFIG_MAPS, {"metadata": {"name": "c"}}, "default", options), {})]
    assert reply.code == 201
    warnings = [value for name, value in reply.headers if name == b"warning"]
    assert warnings == [b'299 - "unknown field \\"spec.x\\""', b'299 - "line break"']


async def test_warnings_are_bounded(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "c"), ("x" * 1000,) * 50)
    reply = await client.ask("POST", MAPS, "{}")
    assert sum(len(value) for name, value in reply.headers if name == b"warning") <= 4096


@pytest.mark.parametrize("empty", ["null", "{}"])
async def test_an_empty_object_is_the_ports_to_judge(client: Client, port: ScriptedObjects, empty: str) -> None:
    assert (await client.ask("POST", MAPS, empty)).code == 201
    assert port.calls[0][1][1] == {}


async def test_a_body_in_yaml(client: Client, port: ScriptedObjects) -> None:
    await client.ask("POST", MAPS, "metadata: {name: c}", {"content-type": "application/yaml; charset=utf-8"})
    assert port.calls[0][1][1] == {"metadata": {"name": "c"}}


DUPLICATE = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","name":"y"},"data":{"a":"b","a":"c"}}'


async def test_duplicate_keys_are_warned_about(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "y"), ('unknown field "foo"',))
    reply = await client.ask("POST", MAPS, DUPLICATE)
    assert port.calls[0][1][1]["metadata"] == {"name": "y"}
    assert [value for name, value in reply.headers if name == b"warning"] == [
        b'299 - "duplicate field \\"metadata.name\\""',
        b'299 - "duplicate field \\"data.a\\""',
        b'299 - "unknown field \\"foo\\""',
    ]


async def test_duplicate_keys_are_refused_when_asked_to_be_strict(client: Client, port: ScriptedObjects) -> None:
    reply = await client.ask("POST", f"{MAPS}?fieldValidation=Strict", DUPLICATE)
    assert (reply.code, reply.json()["message"]) == (
        400,
        (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field '
            '"metadata.name", duplicate field "data.a"'
        ),
    )
    yaml = "metadata: {name: q2}\ndata: {a: b, a: c}"
    reply = await client.ask("POST", f"{MAPS}?fieldValidation=Strict", yaml, {"content-type": "application/yaml"})
    assert reply.json()["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n'
        '  line 2: key "a" already set in map'
    )
    assert port.calls == []


async def test_duplicate_keys_are_ignored_when_asked_to(client: Client) -> None:
    reply = await client.ask("POST", f"{MAPS}?fieldValidation=Ignore", DUPLICATE)
    assert (reply.code, reply.header("warning")) == (201, "")


async def test_a_body_in_protobuf(client: Client, port: ScriptedObjects) -> None:
    name = b"\x0a\x03" + b"\x0a\x01c"
    type_meta = b"\x0a\x02v1\x12\x09ConfigMap"
    body = b"k8s\x00" + b"\x0a" + bytes([len(type_meta)]) + type_meta + b"\x12" + bytes([len(name)]) + name
    reply = await client.ask("POST", MAPS, body, {"content-type": "application/vnd.kubernetes.protobuf"})
    assert reply.code == 201
    document = port.calls[0][1][1]
    assert (document["kind"], document["apiVersion"], document["metadata"]["name"]) == ("ConfigMap", "v1", "c")


async def test_update_of_a_status(client: Client, port: ScriptedObjects) -> None:
    reply = await client.ask("PUT", f"{PODS}/a/status", "{}")
    assert reply.code == 200
    assert port.calls == [
        (
            "update",
            (Resource("", "v1", "pods"), "a", {}, "default", WriteOptions(tracked=True)),
            {"subresource": "status"},
        )
    ]


async def test_a_write_that_makes_a_new_object_says_so(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "c"), created=True)
    assert (await client.ask("PUT", f"{MAPS}/c", "{}")).code == 201


@pytest.mark.parametrize(
    ("media_type", "meant", "body"),
    [
        ("application/json-patch+json", "json", []),
        ("application/merge-patch+json", "merge", {"a": None}),
        ("application/strategic-merge-patch+json", "strategic", {"$patch": "delete"}),
    ],
)
async def test_the_kinds_of_patches(
    client: Client, port: ScriptedObjects, media_type: str, meant: str, body: Any
) -> None:
    url = f"{MAPS}/c?fieldManager=me"
    reply = await client.ask("PATCH", url, msgspec.json.encode(body), {"content-type": media_type})
    assert reply.code == 200
    assert port.calls[0][1][2:4] == (meant, body)


async def test_delete_answers_with_the_object_or_a_status(client: Client, port: ScriptedObjects) -> None:
    port.answer = Deleted(Document(raw("Pod", "a")), gone=False)
    reply = await client.ask("DELETE", f"{PODS}/a")
    assert (reply.code, reply.json()["kind"]) == (200, "Pod")
    port.answer = Deleted(Document(raw("Job", "j", "batch/v1")), gone=True, as_status=True)
    reply = await client.ask("DELETE", "/apis/batch/v1/namespaces/default/jobs/j")
    details = {"name": "j", "group": "batch", "kind": "jobs", "uid": "uid-j"}
    assert reply.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


DELETE_OPTIONS = {
    "from the body": (
        "",
        (
            '{"gracePeriodSeconds":0,"propagationPolicy":"Orphan","preconditions":{"uid":"u","resourceVersion":"3"},'
            '"dryRun":["All"]}'
        ),
        DeleteOptions(grace_seconds=0, propagation="Orphan", uid="u", version="3", dry_run=True),
    ),
    "from the query": (
        "?gracePeriodSeconds=5&propagationPolicy=Foreground&dryRun=All",
        None,
        DeleteOptions(grace_seconds=5, propagation="Foreground", dry_run=True),
    ),
    "the old word for orphans": ("?orphanDependents=true", None, DeleteOptions(propagation="Orphan")),
    "none": ("", None, DeleteOptions()),
}


@pytest.mark.parametrize(("query", "body", "options"), DELETE_OPTIONS.values(), ids=DELETE_OPTIONS)
async def test_delete_options(
    client: Client, port: ScriptedObjects, query: str, body: str | None, options: DeleteOptions
) -> None:
    port.answer = Deleted(Document(raw("Pod", "a")), gone=True)
    await client.ask("DELETE", f"{PODS}/a{query}", body)
    assert port.calls[0][1][3] == options


async def test_a_pending_delete_is_accepted_where_the_old_word_asked(client: Client, port: ScriptedObjects) -> None:
    port.answer = Deleted(Document(raw("Pod", "a")), gone=False)
    assert (await client.ask("DELETE", f"{PODS}/a?orphanDependents=false")).code == 202


async def test_delete_collection(client: Client, port: ScriptedObjects) -> None:
    port.answer = Page([raw("ConfigMap", "a")], "9")
    reply = await client.ask("DELETE", f"{MAPS}?labelSelector=a", '{"propagationPolicy":"Background"}')
    assert reply.json()["kind"] == "ConfigMapList"
    verb, (_, query, options), _named = port.calls[0]
    assert (verb, query, options) == (
        "delete_all",
        Query(namespace="default", labels="a"),
        DeleteOptions(propagation="Background"),
    )


BINDING = '{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}'


@pytest.mark.parametrize("url", [f"{PODS}/a/binding", "/api/v1/namespaces/default/bindings"])
async def test_binding(client: Client, port: ScriptedObjects, url: str) -> None:
    reply = await client.ask("POST", url, BINDING)
    assert (reply.code, reply.json()["status"], reply.json()["code"]) == (201, "Success", 201)
    verb, (namespace, name, body, _options), _named = port.calls[0]
    assert (verb, namespace, name, body["target"]["name"]) == ("bind", "default", "a", "n")


async def test_eviction(client: Client, port: ScriptedObjects) -> None:
    reply = await client.ask("POST", f"{PODS}/a/eviction", '{"kind":"Eviction","metadata":{"name":"a"}}')
    assert (reply.code, port.calls[0][0]) == (201, "evict")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BINDING.replace('"a"', '"b"'), "name in URL does not match name in Binding object"),
        (
            BINDING.replace('"name":"a"', '"name":"a","namespace":"x"'),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            '{"kind":"Pod"}',
            (
                'Pod in version "v1" cannot be handled as a Binding: '
                "converting (v1.Pod) to (core.Binding): unknown conversion"
            ),
        ),
        ('{"metadata":null}', "name in URL does not match name in Binding object"),
        (
            '{"metadata":[1]}',
            (
                'Binding in version "v1" cannot be handled as a Binding: '
                "json: cannot unmarshal array into Go struct field Binding.metadata of type v1.ObjectMeta"
            ),
        ),
    ],
    ids=["another pod", "another namespace", "another kind", "no metadata", "metadata of another shape"],
)
async def test_a_binding_of_something_else(client: Client, body: str, message: str) -> None:
    reply = await client.ask("POST", f"{PODS}/a/binding", body)
    assert (reply.code, reply.json()["message"]) == (400, message)


WEB = raw(
    "Deployment",
    "web",
    "apps/v1",
    spec={"replicas": 2, "selector": {"matchLabels": {"a": "b"}}},
    status={"replicas": 1},
)
SCALE = "/apis/apps/v1/namespaces/default/deployments/web/scale"


async def test_scale_is_read_from_the_object(client: Client, port: ScriptedObjects) -> None:
    port.answer = Document(WEB)
    scale = (await client.get(SCALE)).json()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}


@pytest.mark.parametrize(
    ("method", "media_type", "body"),
    [
        ("PATCH", "application/merge-patch+json", '{"spec":{"replicas":5}}'),
        ("PATCH", "application/strategic-merge-patch+json", '{"spec":{"replicas":5}}'),
        ("PATCH", "application/json-patch+json", '[{"op":"replace","path":"/spec/replicas","value":5}]'),
        ("PUT", "application/json", '{"kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":5}}'),
    ],
)
async def test_scale_is_written_to_the_object(
    client: Client, port: ScriptedObjects, method: str, media_type: str, body: str
) -> None:
    port.answer = Document(WEB)
    assert (await client.ask(method, SCALE, body, {"content-type": media_type})).code == 200
    verb, arguments, _named = port.calls[-1]
    assert (verb, arguments[2], arguments[3]["spec"]) == ("patch", "merge", {"replicas": 5})


@pytest.mark.parametrize("body", ['{"spec":{"replicas":-5}}', '{"spec":{"replicas":"x"}}', '{"spec":[]}', "[]"])
async def test_a_scale_that_makes_no_sense(client: Client, port: ScriptedObjects, body: str) -> None:
    port.answer = Document(WEB)
    reply = await client.ask("PATCH", SCALE, body, {"content-type": "application/merge-patch+json"})
    assert reply.code in (400, 422)
    assert all(verb == "get" for verb, _arguments, _named in port.calls)
