"""Create, get, list, update, patch, delete: what each verb promises, and how it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.ports import DeleteOptions, Query, WriteOptions
from tests.manifests import BUDGETS, CONFIG_MAPS, LEASES, NODES, PODS, PRIORITY_CLASSES, config_map, pod

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.store import InProcessObjects, Store
    from tests.doubles import ManualClock


async def test_a_created_object_gets_uid_time_version_and_defaults(objects: InProcessObjects) -> None:
    made = (await objects.create(PODS, pod("a"), "default")).manifest()
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"] == "2026-01-31T12:00:00Z"
    assert int(made["metadata"]["resourceVersion"]) > 0
    assert made["metadata"]["generation"] == 1
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["priority"] == 0
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert (await objects.get(PODS, "a", "default")).manifest() == made


async def test_the_callers_manifest_is_left_alone(objects: InProcessObjects) -> None:
    manifest = pod("a")
    before = repr(manifest)
    await objects.create(PODS, manifest, "default")
    assert repr(manifest) == before


async def test_pods_with_the_same_spec_share_no_state(objects: InProcessObjects) -> None:
    await objects.create(PODS, pod("a"), "default")
    await objects.create(PODS, pod("b"), "default")
    await objects.bind("default", "a", {"target": {"name": "n1"}})
    assert "nodeName" not in (await objects.get(PODS, "b", "default")).manifest()["spec"]
    await objects.create(PODS, pod("c"), "default")
    assert "nodeName" not in (await objects.get(PODS, "c", "default")).manifest()["spec"]


async def test_a_new_default_priority_class_counts_for_the_next_equal_pod(objects: InProcessObjects) -> None:
    await objects.create(PODS, pod("a"), "default")
    await objects.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7, "globalDefault": True})
    made = (await objects.create(PODS, pod("b"), "default")).manifest()
    assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (7, "high")


async def test_generate_name_makes_a_name_that_is_free(objects: InProcessObjects) -> None:
    manifest = {"metadata": {"generateName": "job-"}}
    names = {(await objects.create(CONFIG_MAPS, manifest, "default")).manifest()["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_a_dry_run_leaves_nothing_behind(objects: InProcessObjects, store: Store) -> None:
    before = store.version
    made = await objects.create(CONFIG_MAPS, config_map("a"), "default", WriteOptions(dry_run=True))
    assert made.manifest()["metadata"]["uid"]
    assert store.version == before
    with pytest.raises(StatusError, match="not found"):
        await objects.get(CONFIG_MAPS, "a", "default")


@pytest.mark.parametrize(
    ("manifest", "namespace", "code", "text"),
    [
        pytest.param(config_map("a"), "nowhere", 404, 'namespaces "nowhere" not found', id="no such namespace"),
        pytest.param(config_map("A_b"), "default", 422, "metadata.name: Invalid value", id="name outside the grammar"),
        pytest.param({"metadata": {}}, "default", 422, "name or generateName is required", id="no name at all"),
        pytest.param({"kind": "Pod", "metadata": {"name": "a"}}, "default", 400, "Pod", id="of another kind"),
        pytest.param({"apiVersion": "v2", "metadata": {"name": "a"}}, "default", 400, "v2", id="of another version"),
        pytest.param(
            {"metadata": {"name": "a", "namespace": "kube-system"}}, "default", 400, "does not match the namespace",
            id="body names another namespace",
        ),
        pytest.param({"metadata": {"name": "a"}, "data": {"k": 1}}, "default", 400, "of type string", id="wrong type"),
        pytest.param(b"{", "default", 400, "json parse error", id="half a document"),
        pytest.param(b"[]", "default", 400, "cannot unmarshal array", id="a list"),
    ],
)  # fmt: skip
async def test_a_create_is_refused_with_a_reason(
    objects: InProcessObjects, manifest: object, namespace: str, code: int, text: str
) -> None:
    with pytest.raises(StatusError) as caught:
        await objects.create(CONFIG_MAPS, manifest, namespace)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert text in caught.value.message


async def test_an_existing_name_is_refused(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(StatusError) as caught:
        await objects.create(CONFIG_MAPS, config_map("a"), "default")
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")


async def test_unknown_fields_are_dropped_warned_about_or_refused(objects: InProcessObjects) -> None:
    body = {**config_map("a"), "spec": {"x": 1}}
    made = await objects.create(CONFIG_MAPS, body, "default", WriteOptions(field_validation="Warn"))
    assert made.warnings == ('unknown field "spec"',)
    assert "spec" not in made.manifest()
    with pytest.raises(StatusError, match=r'strict decoding error: unknown field "spec"'):
        await objects.create(CONFIG_MAPS, body, "default", WriteOptions(field_validation="Strict"))


async def test_an_update_from_an_old_version_conflicts(objects: InProcessObjects) -> None:
    first = (await objects.create(CONFIG_MAPS, config_map("a"), "default")).manifest()
    await objects.update(CONFIG_MAPS, "a", {**first, "data": {"k": "1"}}, "default")
    with pytest.raises(StatusError, match="the object has been modified") as caught:
        await objects.update(CONFIG_MAPS, "a", {**first, "data": {"k": "2"}}, "default")
    assert caught.value.code == 409


async def test_an_update_that_changes_nothing_makes_no_version(objects: InProcessObjects, store: Store) -> None:
    made = (await objects.create(CONFIG_MAPS, config_map("a", k="1"), "default")).manifest()
    before = store.version
    again = (await objects.update(CONFIG_MAPS, "a", made, "default")).manifest()
    assert again == made
    assert store.version == before


async def test_a_lease_cannot_be_updated_without_its_version(objects: InProcessObjects) -> None:
    await objects.create(LEASES, {"metadata": {"name": "a"}}, "default")
    with pytest.raises(StatusError, match="must be specified for an update"):
        await objects.update(LEASES, "a", {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}, "default")


async def test_the_status_changes_only_through_its_own_door(objects: InProcessObjects) -> None:
    made = (await objects.create(NODES, {"metadata": {"name": "n"}})).manifest()
    made["status"] = {"phase": "Running"}
    same = (await objects.update(NODES, "n", made)).manifest()
    assert "phase" not in same["status"]
    same["status"]["capacity"] = {"cpu": "4000m"}
    same["spec"] = {}
    changed = (await objects.update(NODES, "n", same, subresource="status")).manifest()
    assert changed["status"]["capacity"] == {"cpu": "4"}
    assert changed["spec"]["taints"]


async def test_generation_counts_changes_of_the_spec_only(objects: InProcessObjects) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    made = (await objects.create(BUDGETS, body, "default")).manifest()
    made["metadata"]["labels"] = {"x": "y"}
    labelled = (await objects.update(BUDGETS, "b", made, "default")).manifest()
    assert labelled["metadata"]["generation"] == 1
    labelled["spec"]["minAvailable"] = 2
    assert (await objects.update(BUDGETS, "b", labelled, "default")).manifest()["metadata"]["generation"] == 2


async def test_each_kind_of_patch_applies(objects: InProcessObjects) -> None:
    await objects.create(PODS, pod("a", labels={"app": "x"}), "default")
    merged = await objects.patch(PODS, "a", "merge", {"metadata": {"labels": {"app": None, "b": "c"}}}, "default")
    assert merged.manifest()["metadata"]["labels"] == {"b": "c"}
    change = [{"op": "add", "path": "/metadata/labels/d", "value": "e"}]
    patched = await objects.patch(PODS, "a", "json", change, "default")
    assert patched.manifest()["metadata"]["labels"] == {"b": "c", "d": "e"}
    spec = {"spec": {"containers": [{"name": "main", "image": "alpine"}]}}
    strategic = (await objects.patch(PODS, "a", "strategic", spec, "default")).manifest()
    assert [c["image"] for c in strategic["spec"]["containers"]] == ["alpine"]
    assert strategic["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"


async def test_a_patch_may_demand_a_version(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(StatusError, match="the object has been modified"):
        await objects.patch(
            CONFIG_MAPS, "a", "merge", {"metadata": {"resourceVersion": "1"}, "data": {"k": "v"}}, "default"
        )


async def test_delete_checks_its_preconditions(objects: InProcessObjects) -> None:
    made = (await objects.create(CONFIG_MAPS, config_map("a"), "default")).manifest()
    with pytest.raises(StatusError, match="does not match the UID in record"):
        await objects.delete(CONFIG_MAPS, "a", "default", DeleteOptions(uid="other"))
    with pytest.raises(StatusError, match="does not match the ResourceVersion in record"):
        await objects.delete(CONFIG_MAPS, "a", "default", DeleteOptions(version="1"))
    deleted = await objects.delete(CONFIG_MAPS, "a", "default", DeleteOptions(uid=made["metadata"]["uid"]))
    assert deleted.gone
    with pytest.raises(StatusError, match="not found"):
        await objects.delete(CONFIG_MAPS, "a", "default")


async def test_a_finalizer_holds_an_object_until_it_is_removed(objects: InProcessObjects) -> None:
    manifest = config_map("a")
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    await objects.create(CONFIG_MAPS, manifest, "default")
    assert not (await objects.delete(CONFIG_MAPS, "a", "default")).gone
    held = (await objects.get(CONFIG_MAPS, "a", "default")).manifest()
    assert held["metadata"]["deletionTimestamp"] == "2026-01-31T12:00:00Z"
    await objects.patch(CONFIG_MAPS, "a", "merge", {"metadata": {"finalizers": None}}, "default")
    with pytest.raises(StatusError, match="not found"):
        await objects.get(CONFIG_MAPS, "a", "default")


async def test_a_bound_pod_waits_for_its_node_agent(objects: InProcessObjects, clock: ManualClock) -> None:
    await objects.create(PODS, pod("a"), "default")
    await objects.bind("default", "a", {"target": {"name": "n1"}})
    assert not (await objects.delete(PODS, "a", "default")).gone
    marked = (await objects.get(PODS, "a", "default")).manifest()["metadata"]
    assert (marked["deletionGracePeriodSeconds"], marked["deletionTimestamp"]) == (30, "2026-01-31T12:00:30Z")
    clock.advance(5)
    assert (await objects.delete(PODS, "a", "default", DeleteOptions(grace_seconds=0))).gone


async def test_a_pod_is_bound_once(objects: InProcessObjects) -> None:
    made = (await objects.create(PODS, pod("a"), "default")).manifest()
    with pytest.raises(StatusError, match="UID in precondition"):
        await objects.bind("default", "a", {"metadata": {"uid": "other"}, "target": {"name": "n1"}})
    await objects.bind("default", "a", {"metadata": {"uid": made["metadata"]["uid"]}, "target": {"name": "n1"}})
    bound = (await objects.get(PODS, "a", "default")).manifest()
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(StatusError, match='pod a is already assigned to node "n1"') as caught:
        await objects.bind("default", "a", {"target": {"name": "n2"}})
    assert caught.value.code == 409


_REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": 'no "room"'}


@pytest.mark.parametrize(
    ("labels", "conditions"),
    [
        ({}, []),
        ({"app": "x"}, [_REFUSED]),
        ({"resourceVersion": "1"}, [{"type": "mine/own", "status": "True"}, _REFUSED]),
    ],
    ids=["nothing said yet", "told why it waits", "a label like a field, and a condition of somebody else"],
)
async def test_a_binding_writes_the_node_and_the_condition_and_leaves_the_rest_to_the_letter(
    objects: InProcessObjects, labels: dict[str, str], conditions: list[Manifest]
) -> None:
    await objects.create(PODS, pod("a", labels=labels, nodeSelector={"nodeName": "x"}), "default")
    if conditions:
        await objects.patch(PODS, "a", "merge", {"status": {"conditions": conditions}}, "default", subresource="status")
    wanted = (await objects.get(PODS, "a", "default")).manifest()
    await objects.bind("default", "a", {"target": {"name": "n1"}})
    bound = (await objects.get(PODS, "a", "default")).raw
    wanted["metadata"]["resourceVersion"] = msgspec.json.decode(bound)["metadata"]["resourceVersion"]
    wanted["spec"]["nodeName"] = "n1"
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    others = [it for it in wanted["status"].get("conditions", ()) if it["type"] != "PodScheduled"]
    wanted["status"]["conditions"] = [*others, scheduled | {"lastTransitionTime": "2026-01-31T12:00:00Z"}]
    assert msgspec.json.decode(bound) == wanted
    assert [*msgspec.json.decode(bound)] == [*wanted]
    found = await objects.list(PODS, Query(fields="spec.nodeName=n1"))
    assert found.items == [bound]
    if labels:
        by_label = await objects.list(PODS, Query(labels=",".join(f"{key}={value}" for key, value in labels.items())))
        assert by_label.items == [bound]


async def test_an_eviction_respects_the_disruption_budget(objects: InProcessObjects) -> None:
    await objects.create(PODS, pod("a", labels={"app": "x"}), "default")
    await objects.bind("default", "a", {"target": {"name": "n1"}})
    await objects.patch(PODS, "a", "merge", {"status": {"phase": "Running"}}, "default", subresource="status")
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    await objects.create(BUDGETS, body, "default")
    with pytest.raises(StatusError, match="disruption budget") as caught:
        await objects.evict("default", "a", {})
    assert caught.value.code == 429
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    await objects.patch(BUDGETS, "b", "merge", {"status": status}, "default", subresource="status")
    await objects.evict("default", "a", {})
    assert "deletionTimestamp" in (await objects.get(PODS, "a", "default")).manifest()["metadata"]
    assert (await objects.get(BUDGETS, "b", "default")).manifest()["status"]["disruptionsAllowed"] == 0


async def test_lists_select_by_namespace_label_and_field(objects: InProcessObjects) -> None:
    for number in range(6):
        labels = {"odd": str(number % 2), "index": str(number)}
        await objects.create(PODS, pod(f"p{number}", labels=labels), "default" if number < 4 else "kube-system")
    await objects.bind("default", "p1", {"target": {"name": "n1"}})

    async def names(**query: str) -> list[str]:
        page = await objects.list(PODS, Query(**query))  # type: ignore[arg-type]
        return [msgspec.json.decode(item)["metadata"]["name"] for item in page.items]

    assert await names() == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert await names(namespace="kube-system") == ["p4", "p5"]
    assert await names(labels="odd=1") == ["p1", "p3", "p5"]
    assert await names(labels="odd in (0),index!=2", namespace="default") == ["p0"]
    assert await names(labels="index") == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert await names(labels="!index") == []
    assert await names(fields="spec.nodeName=n1") == ["p1"]
    assert await names(fields="spec.nodeName!=n1,metadata.namespace=default") == ["p0", "p2", "p3"]
    assert await names(fields="metadata.name=p4") == ["p4"]
    with pytest.raises(StatusError, match=r"field label not supported: spec\.foo"):
        await names(fields="spec.foo=bar")
    with pytest.raises(StatusError, match="unable to parse requirement"):
        await names(labels="a in (")


async def test_a_paged_list_shows_one_moment(objects: InProcessObjects) -> None:
    for number in range(10):
        await objects.create(CONFIG_MAPS, config_map(f"c{number}"), "default")
    page = await objects.list(CONFIG_MAPS, Query(namespace="default", limit=4))
    assert (len(page.items), page.remaining) == (4, 6)
    await objects.delete(CONFIG_MAPS, "c5", "default")
    await objects.create(CONFIG_MAPS, config_map("c45"), "default")
    await objects.patch(CONFIG_MAPS, "c7", "merge", {"data": {"k": "new"}}, "default")
    rest = await objects.list(CONFIG_MAPS, Query(namespace="default", limit=400, continue_token=page.continue_token))
    assert rest.version == page.version
    assert [name for item in rest.items for name in [item.split(b'"name":"')[1].split(b'"')[0].decode()]] == [
        "c4", "c5", "c6", "c7", "c8", "c9",
    ]  # fmt: skip
    assert not any(b'"new"' in item for item in rest.items)


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        pytest.param(Query(resource_version="abc"), 400, "invalid syntax", id="a version that is no number"),
        pytest.param(Query(resource_version="-1"), 400, "invalid syntax", id="a negative version"),
        pytest.param(
            Query(resource_version="99999999"), 504, "Too large resource version", id="a version of the future"
        ),
        pytest.param(Query(continue_token="%%%"), 400, "continue key is not valid", id="a broken continue token"),
        pytest.param(Query(version_match="Exact"), 422, "resourceVersionMatch", id="a match without a version"),
    ],
)
async def test_a_list_of_nonsense_is_refused(objects: InProcessObjects, query: Query, code: int, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        await objects.list(CONFIG_MAPS, query)
    assert caught.value.code == code
    assert text in caught.value.message


async def test_delete_all_takes_what_is_selected(objects: InProcessObjects) -> None:
    for number in range(4):
        await objects.create(CONFIG_MAPS, config_map(f"c{number}", labels={"odd": str(number % 2)}), "default")
    page = await objects.delete_all(CONFIG_MAPS, Query(namespace="default", labels="odd=1"))
    assert len(page.items) == 2
    assert len((await objects.list(CONFIG_MAPS)).items) == 2
