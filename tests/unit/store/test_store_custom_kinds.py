"""Custom kinds: they appear with their definition, behave by its schema, share objects between versions, and end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.ports import Query, WriteOptions
from tests.manifests import DEFINITIONS

if TYPE_CHECKING:
    from allhands.store import InProcessObjects, Store

OLD, NEW = Resource("example.com", "v1alpha1", "widgets"), Resource("example.com", "v1", "widgets")


def version(name: str, *, storage: bool, **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}}}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, "subresources": {"status": {}}, **more}


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": list(versions)}
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


async def define(store: Store, objects: InProcessObjects, *versions: dict[str, Any]) -> None:
    await objects.create(DEFINITIONS, definition(*versions))
    store.housekeeper.run_pending()


def widget(api_version: str = "example.com/v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


async def test_a_kind_is_served_once_it_is_defined(store: Store, objects: InProcessObjects) -> None:
    with pytest.raises(StatusError, match="could not find the requested resource"):
        await objects.create(NEW, widget(), "default")
    await define(store, objects, version("v1", storage=True))
    made = (await objects.create(NEW, widget(), "default")).manifest()
    assert made["spec"] == {"size": 3}
    assert made["metadata"]["generation"] == 1
    held = (await objects.get(DEFINITIONS, "widgets.example.com")).manifest()
    assert {each["type"]: each["status"] for each in held["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }


async def test_its_schema_refuses_with_the_path_and_drops_what_it_does_not_know(
    store: Store, objects: InProcessObjects
) -> None:
    await define(store, objects, version("v1", storage=True))
    with pytest.raises(StatusError) as caught:
        await objects.create(NEW, widget(size=0), "default")
    assert (caught.value.code, (caught.value.details or {})["causes"][0]["field"]) == (422, "spec.size")
    made = await objects.create(NEW, widget(size=2, colour="red"), "default")
    assert made.manifest()["spec"] == {"size": 2}
    assert made.warnings == ('unknown field "spec.colour"',)
    with pytest.raises(StatusError, match="strict decoding error"):
        await objects.create(NEW, widget(colour="red"), "default", WriteOptions(field_validation="Strict"))


async def test_versions_show_the_same_objects_under_their_own_name(store: Store, objects: InProcessObjects) -> None:
    await define(store, objects, version("v1alpha1", storage=False), version("v1", storage=True))
    watch = await objects.watch(OLD, Query(resource_version=str(store.version)))
    made = (await objects.create(OLD, widget("example.com/v1alpha1", size=2), "default")).manifest()
    assert made["apiVersion"] == "example.com/v1alpha1"
    new = (await objects.get(NEW, "w", "default")).manifest()
    assert new == made | {"apiVersion": "example.com/v1"}
    event = watch.poll()
    assert event is not None
    assert event.manifest() == made
    before = store.version
    same = await objects.update(OLD, "w", made, "default")
    assert (same.manifest(), store.version) == (made, before)
    patched = await objects.patch(OLD, "w", "merge", {"spec": {"size": 5}}, "default")
    assert patched.manifest()["apiVersion"] == "example.com/v1alpha1"
    assert (await objects.get(NEW, "w", "default")).manifest()["spec"] == {"size": 5}
    assert b'"apiVersion":"example.com/v1alpha1"' in (await objects.list(OLD)).items[0]
    assert (await objects.delete(OLD, "w", "default")).gone
    assert (await objects.list(NEW)).items == []


async def test_a_kind_whose_stored_version_is_not_served_works_too(store: Store, objects: InProcessObjects) -> None:
    await define(store, objects, version("v1alpha1", storage=False), version("v1", storage=True, served=False))
    made = (await objects.create(OLD, widget("example.com/v1alpha1"), "default")).manifest()
    assert (await objects.get(OLD, "w", "default")).manifest() == made


async def test_objects_stay_when_another_version_is_stored(store: Store, objects: InProcessObjects) -> None:
    await define(store, objects, version("v1alpha1", storage=True), version("v1", storage=False))
    made = (await objects.create(OLD, widget("example.com/v1alpha1", size=2), "default")).manifest()
    seen = made["metadata"]["resourceVersion"]
    watches = [await objects.watch(resource, Query(resource_version=seen)) for resource in (OLD, NEW)]
    changed = (await objects.patch(NEW, "w", "merge", {"spec": {"size": 4}}, "default")).manifest()
    held = (await objects.get(DEFINITIONS, "widgets.example.com")).manifest()
    for each in held["spec"]["versions"]:
        each["storage"] = each["name"] == "v1"
    await objects.update(DEFINITIONS, "widgets.example.com", held)
    store.housekeeper.run_pending()
    for resource in (OLD, NEW):
        now = changed | {"apiVersion": resource.api_version}
        assert (await objects.get(resource, "w", "default")).manifest() == now
        assert msgspec.json.decode((await objects.list(resource)).items[0]) == now
        event = (await objects.watch(resource, Query(resource_version=seen))).poll()
        assert event is not None
        assert event.manifest() == now
    assert [await asyncio.wait_for(watch.more(), 5) for watch in watches] == [False, False]
    patched = (await objects.patch(OLD, "w", "merge", {"spec": {"size": 5}}, "default")).manifest()
    assert (patched["apiVersion"], patched["spec"]) == ("example.com/v1alpha1", {"size": 5})
    assert (await objects.delete(OLD, "w", "default")).gone
    assert (await objects.list(NEW)).items == []


async def test_a_definition_ends_with_its_objects_though_the_stored_version_is_not_served(
    store: Store, objects: InProcessObjects
) -> None:
    await define(store, objects, version("v1alpha1", storage=False), version("v1", storage=True, served=False))
    await objects.create(OLD, widget("example.com/v1alpha1"), "default")
    watch = await objects.watch(OLD, Query(resource_version=str(store.version)))
    await objects.delete(DEFINITIONS, "widgets.example.com")
    store.housekeeper.run_pending()
    event = watch.poll()
    assert (event and event.type, await asyncio.wait_for(watch.more(), 5)) == ("DELETED", False)
    await define(store, objects, version("v1alpha1", storage=False), version("v1", storage=True, served=False))
    assert (await objects.list(OLD)).items == []


async def test_a_deleted_definition_takes_its_objects_and_its_watchers(store: Store, objects: InProcessObjects) -> None:
    await define(store, objects, version("v1", storage=True))
    await objects.create(NEW, widget(), "default")
    watch = await objects.watch(NEW, Query(resource_version=str(store.version)))
    await objects.delete(DEFINITIONS, "widgets.example.com")
    store.housekeeper.run_pending()
    event = watch.poll()
    assert event is not None
    assert event.type == "DELETED"
    with pytest.raises(StopAsyncIteration):
        await watch.__anext__()
    with pytest.raises(StatusError, match="could not find the requested resource"):
        await objects.list(NEW)


async def test_a_definition_that_makes_no_sense_is_refused(objects: InProcessObjects) -> None:
    wrong = definition(version("v1", storage=False))
    with pytest.raises(StatusError, match=r"spec\.versions") as caught:
        await objects.create(DEFINITIONS, wrong)
    assert caught.value.code == 422


def selecting(name: str, *paths: str, storage: bool) -> dict[str, Any]:
    it = version(name, storage=storage, selectableFields=[{"jsonPath": path} for path in paths])
    it["schema"]["openAPIV3Schema"]["description"] = f"Unlike those of other versions: {name}."
    return it


async def found(objects: InProcessObjects, resource: Resource, fields: str) -> int:
    return len((await objects.list(resource, Query(fields=fields))).items)


async def test_each_version_selects_by_its_own_fields_also_by_new_ones(store: Store, objects: InProcessObjects) -> None:
    versions = [selecting("v1alpha1", ".status.phase", ".spec.size", storage=False), version("v1", storage=True)]
    await define(store, objects, *versions)
    await objects.create(NEW, widget(size=2), "default")
    assert [await found(objects, OLD, f"spec.size={size}") for size in (2, 3)] == [1, 0]
    with pytest.raises(StatusError, match="field label not supported"):
        await found(objects, NEW, "spec.size=2")
    held = (await objects.get(DEFINITIONS, "widgets.example.com")).manifest()
    held["spec"]["versions"] = [versions[0], selecting("v1", ".spec.size", storage=True)]
    await objects.update(DEFINITIONS, "widgets.example.com", held)
    store.housekeeper.run_pending()
    assert [await found(objects, NEW, f"spec.size={size}") for size in (2, 3)] == [1, 0]
    assert await found(objects, OLD, "spec.size=2,status.phase!=Good") == 1
