"""The face and the store together: what only shows when both work."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.server.app import App, build_app
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock
from tests.unit.server.asgi_client import TOKEN, Client

MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = {"content-type": "application/merge-patch+json"}
DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
            }
        ],
    },
}


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock, CountingIds())


@pytest.fixture
def app(store: Store, clock: ManualClock) -> App:
    return build_app(InProcessObjects(store), store.kinds, token=TOKEN, clock=clock)


async def create(client: Client, url: str, body: Any) -> dict[str, Any]:
    reply = await client.ask("POST", url, msgspec.json.encode(body))
    assert reply.code == 201, reply.body
    document: dict[str, Any] = reply.json()
    return document


async def test_pages_make_the_whole_list(client: Client) -> None:
    for n in range(7):
        await create(client, MAPS, {"metadata": {"name": f"m{n}"}})
    names, token = [], ""
    while True:
        page = (await client.get(f"{MAPS}?limit=3&continue={token}")).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        assert all(sorted(item)[:1] == ["metadata"] for item in page["items"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == [f"m{n}" for n in range(7)]


async def test_what_is_created_is_what_is_read(client: Client) -> None:
    made = await create(client, MAPS, {"metadata": {"name": "m"}, "data": {"key": "värde, ключ"}})
    assert (await client.get(f"{MAPS}/m")).json() == made
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


async def test_a_watch_begins_with_what_is_there_and_says_when_that_is_over(client: Client) -> None:
    await create(client, MAPS, {"metadata": {"name": "m"}})
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    reply = await client.get(f"{MAPS}?{query}")
    added, bookmark = (msgspec.json.decode(line) for line in reply.body.splitlines())
    assert (added["type"], added["object"]["kind"]) == ("ADDED", "ConfigMap")
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_what_exists_from_the_start_names_its_kind(client: Client) -> None:
    reply = await client.get("/api/v1/namespaces?watch=1&timeoutSeconds=1")
    events = [msgspec.json.decode(line) for line in reply.body.splitlines()]
    assert {event["object"].get("kind") for event in events} == {"Namespace"}


async def test_a_custom_kind_comes_and_goes(client: Client, store: Store) -> None:
    assert (await client.get(WIDGETS)).code == 404
    await create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    store.housekeeper.run_pending()
    await create(client, WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    listed = (await client.get(WIDGETS)).json()
    assert (listed["kind"], listed["items"][0]["kind"]) == ("WidgetList", "Widget")
    assert "example.com" in [group["name"] for group in (await client.get("/apis")).json()["groups"]]
    await client.ask("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
    store.housekeeper.run_pending()
    assert (await client.get(WIDGETS)).code == 404


async def test_a_custom_kind_says_where_its_scale_is(client: Client, store: Store) -> None:
    await create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    store.housekeeper.run_pending()
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 2}}
    await create(client, WIDGETS, widget)
    assert (await client.get(f"{WIDGETS}/w/scale")).json()["spec"] == {"replicas": 2}
    reply = await client.ask("PATCH", f"{WIDGETS}/w/scale", '{"spec":{"replicas":5}}', MERGE)
    assert (reply.code, reply.json()["spec"]) == (200, {"replicas": 5})
    assert (await client.get(f"{WIDGETS}/w")).json()["spec"] == {"size": 5}


async def test_a_scale_of_an_old_version_is_refused(client: Client) -> None:
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": labels, "template": template}
    url = "/apis/apps/v1/namespaces/default/deployments"
    made = await create(client, url, {"metadata": {"name": "web"}, "spec": spec})
    old = made["metadata"]["resourceVersion"]
    change = {"metadata": {"resourceVersion": old}, "spec": {"replicas": 3}}
    first = await client.ask("PATCH", f"{url}/web/scale", msgspec.json.encode(change), MERGE)
    assert first.code == 200
    again = await client.ask("PATCH", f"{url}/web/scale", msgspec.json.encode(change), MERGE)
    assert (again.code, again.json()["reason"]) == (409, "Conflict")
