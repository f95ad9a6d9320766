"""Discovery and schemas: what clients learn about the kinds, compared with what a real server says of the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from allhands.api.kinds import Resource
from allhands.ports import Page
from allhands.server.discovery import version_order
from allhands.server.openapi import references
from tests.unit.server.asgi_client import CUSTOM, Client, widget_kind

if TYPE_CHECKING:
    from allhands.api.kinds import KindRegistry
    from tests.unit.server.asgi_client import ScriptedObjects

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


async def test_legacy_rows_are_those_of_a_real_server(client: Client) -> None:
    rows = {row["name"]: row for row in (await client.get("/api/v1")).json()["resources"]}
    assert rows["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ALL_VERBS,
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }
    assert rows["bindings"] == {
        "name": "bindings",
        "singularName": "binding",
        "namespaced": True,
        "kind": "Binding",
        "verbs": ["create"],
    }
    assert rows["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert rows["nodes/status"]["verbs"] == ["get", "patch", "update"]
    assert rows["replicationcontrollers/scale"]["kind"] == "Scale"


async def test_the_legacy_documents(client: Client) -> None:
    assert (await client.get("/api")).json()["versions"] == ["v1"]
    groups = (await client.get("/apis")).json()
    assert groups["kind"] == "APIGroupList"
    assert [group["name"] for group in groups["groups"]][-1] == "example.com"
    batch = (await client.get("/apis/batch")).json()
    assert batch["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    assert (await client.get("/apis/batch/v1")).json()["groupVersion"] == "batch/v1"
    assert "/apis/batch/v1" in (await client.get("/")).json()["paths"]


async def test_aggregated_discovery(client: Client) -> None:
    reply = await client.get("/apis", accept=f"{AGGREGATED},application/json")
    assert reply.header("content-type") == AGGREGATED
    document = reply.json()
    assert document["apiVersion"] == "apidiscovery.k8s.io/v2"
    apps = next(item for item in document["items"] if item["metadata"]["name"] == "apps")
    deployments = next(row for row in apps["versions"][0]["resources"] if row["resource"] == "deployments")
    assert deployments["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }
    core = (await client.get("/api", accept=AGGREGATED)).json()
    assert [item["metadata"] for item in core["items"]] == [{}]


async def test_rows_of_built_in_kinds_leave_group_and_version_to_the_document(client: Client) -> None:
    items = (await client.get("/apis", accept=AGGREGATED)).json()["items"]
    rows = {item["metadata"]["name"]: item["versions"][0]["resources"] for item in items}
    assert rows["batch"][0]["responseKind"] == {"group": "", "version": "", "kind": "CronJob"}
    assert rows["example.com"][0]["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}


async def test_groups_come_in_the_order_of_a_real_server(client: Client) -> None:
    names = [group["name"] for group in (await client.get("/apis")).json()["groups"]]
    known = ["apps", "batch", "policy", "storage.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io"]
    assert [name for name in names if name in known] == known


async def test_discovery_is_yaml_if_that_was_asked_for(client: Client) -> None:
    reply = await client.get("/apis/batch", accept="application/yaml")
    assert reply.header("content-type") == "application/yaml"
    assert yaml.safe_load(reply.body)["preferredVersion"]["groupVersion"] == "batch/v1"


async def test_a_custom_kind_may_have_a_word_of_its_own_for_lists(
    client: Client, kinds: KindRegistry, port: ScriptedObjects
) -> None:
    port.answer = Page([], "12")
    kinds.add(msgspec.structs.replace(widget_kind(), list_kind="Widgetry"))
    schemas = (await client.get("/openapi/v3/apis/example.com/v1")).json()["components"]["schemas"]
    assert "com.example.v1.Widgetry" in schemas
    assert (await client.get("/apis/example.com/v1/widgets")).json()["kind"] == "Widgetry"


async def test_what_is_known_is_not_sent_again_until_kinds_change(client: Client, kinds: KindRegistry) -> None:
    first = await client.get("/apis", accept=AGGREGATED)
    tag = first.header("etag")
    again = await client.get("/apis", accept=AGGREGATED, if_none_match=tag)
    assert (again.code, again.body) == (304, b"")
    kinds.remove(CUSTOM)
    after = await client.get("/apis", accept=AGGREGATED, if_none_match=tag)
    assert after.code == 200
    assert b"example.com" not in after.body
    assert (await client.get("/apis/example.com/v1")).code == 404


def test_versions_are_ordered_as_clients_expect() -> None:
    versions = ["v1alpha2", "v2beta1", "v1", "foo", "v10", "v2", "v1beta1"]
    assert sorted(versions, key=version_order) == ["v10", "v2", "v1", "v2beta1", "v1beta1", "v1alpha2", "foo"]


async def test_the_version_is_one_that_clients_understand(client: Client) -> None:
    version = (await client.get("/version")).json()
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.3-allhands.")


async def _documents(client: Client) -> dict[str, dict[str, Any]]:
    index = (await client.get("/openapi/v3")).json()["paths"]
    return {path: (await client.get(entry["serverRelativeURL"])).json() for path, entry in index.items()}


async def test_every_schema_that_is_pointed_to_is_there(client: Client) -> None:
    for path, document in (await _documents(client)).items():
        schemas = document["components"]["schemas"]
        missing = set(references(document)) - set(schemas)
        assert not missing, path


async def test_every_kind_has_a_schema_and_a_patch_that_takes_field_validation(
    client: Client, kinds: KindRegistry
) -> None:
    documents = await _documents(client)
    for kind in kinds.all():
        group, version = kind.group, kind.resource.version
        document = documents[f"apis/{group}/{version}" if group else f"api/{version}"]
        wanted = {"group": group, "version": version, "kind": kind.kind}
        patches = [
            path["patch"]
            for path in document["paths"].values()
            if path.get("patch", {}).get("x-kubernetes-group-version-kind") == wanted
        ]
        assert bool(patches) is not kind.is_question, kind.kind
        for patch in patches:
            assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
            strategic = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
            assert strategic == (not kind.custom)
            assert "application/apply-patch+yaml" in patch["requestBody"]["content"]
        named = [
            s
            for s in document["components"]["schemas"].values()
            if wanted in s.get("x-kubernetes-group-version-kind", [])
        ]
        assert len(named) == 1, kind.kind


async def test_schemas_are_of_version_3(client: Client) -> None:
    schemas = (await client.get("/openapi/v3/api/v1")).json()["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]
    assert schemas["io.k8s.api.core.v1.Pod"]["properties"]["kind"]["type"] == "string"
    assert "enum" not in schemas["io.k8s.api.core.v1.Pod"]["properties"]["kind"]
    pending: list[Any] = [schemas]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            assert not isinstance(item.get("type"), list)
            pending.extend(item.values())


async def test_a_custom_kind_has_its_own_schema(client: Client) -> None:
    document = (await client.get("/openapi/v3/apis/example.com/v1")).json()
    widget = document["components"]["schemas"]["com.example.v1.Widget"]
    assert widget["properties"]["spec"]["properties"] == {"size": {"type": "integer"}}
    assert "com.example.v1.WidgetList" in document["components"]["schemas"]


async def test_a_document_is_cached_by_its_hash(client: Client, kinds: KindRegistry) -> None:
    url = (await client.get("/openapi/v3")).json()["paths"]["apis/example.com/v1"]["serverRelativeURL"]
    reply = await client.get(url)
    assert "immutable" in reply.header("cache-control")
    assert (await client.get(url, if_none_match=reply.header("etag"))).code == 304
    stale = await client.get("/openapi/v3/apis/example.com/v1?hash=OLD")
    assert (stale.code, stale.header("location")) == (301, url)
    kinds.add(_changed_widget())
    assert (await client.get("/openapi/v3")).json()["paths"]["apis/example.com/v1"]["serverRelativeURL"] != url


def _changed_widget() -> Any:
    return msgspec.structs.replace(widget_kind(), open_api_schema={"type": "object"})


async def test_the_index_has_the_type_that_clients_are_used_to(client: Client) -> None:
    reply = await client.get("/openapi/v3")
    assert reply.header("content-type") == "text/plain; charset=utf-8"
    assert (await client.get("/openapi/v3", if_none_match=reply.header("etag"))).code == 304


async def test_the_old_document_is_there_for_who_asks(client: Client) -> None:
    reply = await client.get("/openapi/v2")
    assert (reply.code, reply.header("content-type")) == (200, "application/json")
    assert reply.json() == {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": {}}
    asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf, application/json"
    packed = await client.get("/openapi/v2", accept=asked)
    assert packed.header("content-type") == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert packed.body == b"\n\x032.0\x12\x12\n\nKubernetes\x12\x041.36"


@pytest.mark.parametrize("probe", ["livez", "readyz", "healthz"])
async def test_health(client: Client, probe: str) -> None:
    assert (await client.get(f"/{probe}")).body == b"ok"
    verbose = (await client.get(f"/{probe}?verbose")).body.decode()
    assert verbose.startswith("[+]ping ok\n")
    assert verbose.endswith(f"{probe} check passed\n")


def test_the_custom_kind_of_these_tests_is_where_they_think() -> None:
    assert widget_kind().resource == Resource("example.com", "v1", "widgets")
