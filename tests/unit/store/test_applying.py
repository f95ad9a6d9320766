"""Server-side apply in the store: who is tracked, what every other write leaves of it, and what deep input does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.ports import WriteOptions
from tests.manifests import CONFIG_MAPS, DEFINITIONS, PODS, config_map, pod

if TYPE_CHECKING:
    from allhands.store import InProcessObjects, Store
    from tests.doubles import ManualClock

ME, YOU = WriteOptions(field_manager="me"), WriteOptions(field_manager="you")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
THINGS = Resource("example.com", "v1", "things")


def applied(manifest: dict[str, Any], kind: str, api_version: str = "v1") -> dict[str, Any]:
    return {**manifest, "apiVersion": api_version, "kind": kind}


async def owners(objects: InProcessObjects, resource: Resource, name: str) -> dict[tuple[str, str, str], Any]:
    found = (await objects.get(resource, name, "default")).manifest()["metadata"].get("managedFields", [])
    return {(it["manager"], it["operation"], it.get("subresource", "")): it["fieldsV1"] for it in found}


async def apply_pod(objects: InProcessObjects) -> dict[str, Any]:
    body = applied(pod("a"), "Pod")
    return (await objects.patch(PODS, "a", "apply", body, "default", ME)).manifest()


MINE = ("me", "Apply", "")
DEEDS: dict[str, tuple[Any, set[tuple[str, str, str]]]] = {
    "bound": (
        lambda it, _: it.bind("default", "a", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}),
        {MINE},
    ),
    "reported about": (
        lambda it, _: it.patch(
            PODS, "a", "strategic", {"status": {"phase": "Running"}}, "default", YOU, subresource="status"
        ),
        {MINE, ("you", "Update", "status")},
    ),
    "labelled by a patch": (
        lambda it, _: it.patch(PODS, "a", "merge", {"metadata": {"labels": {"x": "y"}}}, "default", YOU),
        {MINE, ("you", "Update", "")},
    ),
    "annotated by an update": (
        lambda it, seen: it.update(
            PODS, "a", {**seen, "metadata": {**seen["metadata"], "annotations": {"x": "y"}}}, "default", YOU
        ),
        {MINE, ("you", "Update", "")},
    ),
    "updated without its owners": (
        lambda it, _: it.update(PODS, "a", {**pod("a"), "metadata": {"name": "a", "labels": {"x": "y"}}}, "default"),
        {MINE, ("unknown", "Update", "")},
    ),
    "evicted in a dry run": (
        lambda it, _: it.evict("default", "a", {"metadata": {"name": "a"}}, WriteOptions(dry_run=True)),
        {MINE},
    ),
}


@pytest.mark.parametrize(("deed", "wanted"), DEEDS.values(), ids=DEEDS)
async def test_a_pod_that_was_applied_keeps_its_owners_when_it_is(
    objects: InProcessObjects, store: Store, deed: Any, wanted: set[tuple[str, str, str]]
) -> None:
    seen = await apply_pod(objects)
    before = (await owners(objects, PODS, "a"))[MINE]
    await deed(objects, seen)
    after = await owners(objects, PODS, "a")
    assert set(after) == wanted
    assert after[MINE] == before
    record = store.collection(store.kind(PODS)).get(("default", "a"))
    assert record is not None
    assert record.is_tracked == (b'"managedFields":[{' in record.raw) is True


async def test_an_object_that_nobody_applied_is_not_tracked(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a", k="v"), "default", ME)
    await objects.patch(CONFIG_MAPS, "a", "merge", {"data": {"l": "w"}}, "default", YOU)
    await objects.update(CONFIG_MAPS, "a", config_map("a", k="x"), "default", YOU)
    assert await owners(objects, CONFIG_MAPS, "a") == {}


async def test_the_first_apply_gives_what_is_there_to_those_before(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a", k="v"), "default")
    body = applied(config_map("a", k="w"), "ConfigMap")
    with pytest.raises(StatusError, match=r'conflict with "before-first-apply" using v1: \.data\.k') as refused:
        await objects.patch(CONFIG_MAPS, "a", "apply", body, "default", ME)
    assert refused.value.code == 409
    forced = WriteOptions(field_manager="me", force=True)
    await objects.patch(CONFIG_MAPS, "a", "apply", body, "default", forced)
    found = await owners(objects, CONFIG_MAPS, "a")
    assert found[MINE] == {"f:data": {"f:k": {}}}
    assert "f:k" not in found["before-first-apply", "Update", ""].get("f:data", {})


async def test_what_changes_nothing_keeps_version_and_time(objects: InProcessObjects, clock: ManualClock) -> None:
    body = applied(config_map("a", k="v"), "ConfigMap")
    first = await objects.patch(CONFIG_MAPS, "a", "apply", body, "default", ME)
    clock.advance(3600)
    again = await objects.patch(CONFIG_MAPS, "a", "apply", body, "default", ME)
    assert (first.created, again.created, again.raw) == (True, False, first.raw)


async def test_a_dry_run_keeps_nothing(objects: InProcessObjects) -> None:
    body = applied(config_map("a", k="v"), "ConfigMap")
    shown = await objects.patch(
        CONFIG_MAPS, "a", "apply", body, "default", WriteOptions(field_manager="me", dry_run=True)
    )
    assert shown.manifest()["metadata"]["managedFields"][0]["manager"] == "me"
    with pytest.raises(StatusError, match="not found"):
        await objects.get(CONFIG_MAPS, "a", "default")


async def test_what_housekeeping_takes_away_nobody_owns(objects: InProcessObjects, store: Store) -> None:
    body = applied(config_map("a"), "ConfigMap")
    body["metadata"] |= {"finalizers": ["orphan", "example.com/stay"]}
    await objects.patch(CONFIG_MAPS, "a", "apply", body, "default", ME)
    await objects.delete(CONFIG_MAPS, "a", "default")
    store.housekeeper.run_pending()
    left = (await objects.get(CONFIG_MAPS, "a", "default")).manifest()["metadata"]
    assert left["finalizers"] == ["example.com/stay"]
    assert (await owners(objects, CONFIG_MAPS, "a"))[MINE] == {
        "f:metadata": {"f:finalizers": {'v:"example.com/stay"': {}}}
    }


async def test_to_scale_is_to_own_the_number(objects: InProcessObjects) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    body = applied({"metadata": {"name": "a"}, "spec": spec}, "Deployment", "apps/v1")
    await objects.patch(DEPLOYMENTS, "a", "apply", body, "default", ME)
    await objects.patch(DEPLOYMENTS, "a", "merge", {"spec": {"replicas": 5}}, "default", YOU, subresource="scale")
    found = await owners(objects, DEPLOYMENTS, "a")
    assert found["you", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in found[MINE]["f:spec"]
    with pytest.raises(
        StatusError, match=r'conflict with "you" with subresource "scale" using apps/v1: \.spec\.replicas'
    ):
        await objects.patch(DEPLOYMENTS, "a", "apply", body, "default", ME)
    with pytest.raises(StatusError, match="a scale is not patched by a json patch"):
        await objects.patch(DEPLOYMENTS, "a", "json", [], "default", YOU, subresource="scale")


@pytest.mark.parametrize("depth", [50, 480, 5000])
async def test_what_is_too_deep_is_refused_and_nothing_breaks(
    objects: InProcessObjects, store: Store, depth: int
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await objects.create(DEFINITIONS, {"metadata": {"name": "things.example.com"}, "spec": spec})
    store.housekeeper.run_pending()
    inside: Any = "x"
    for _ in range(depth):
        inside = {"a": inside}
    body = applied({"metadata": {"name": "a"}, "spec": inside}, "Thing", "example.com/v1")
    if depth == 50:
        assert (await objects.patch(THINGS, "a", "apply", body, "default", ME)).created
        return
    with pytest.raises(StatusError, match="exceeded max depth") as refused:
        await objects.patch(THINGS, "a", "apply", body, "default", ME)
    assert refused.value.code == 400
