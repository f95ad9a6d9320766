"""Odd requests that a comparison with the real API server found, each with the real server's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.errors import StatusError
from allhands.ports import DeleteOptions
from tests.manifests import BUDGETS, CONFIG_MAPS, JOBS, LEASES, NODES, PODS, config_map, pod

if TYPE_CHECKING:
    from allhands.api.kinds import Resource
    from allhands.store import InProcessObjects


async def test_an_empty_job_is_refused_for_its_name_and_template(objects: InProcessObjects) -> None:
    with pytest.raises(StatusError) as refused:
        await objects.create(JOBS, {}, "default")
    fields = [cause["field"] for cause in (refused.value.details or {})["causes"]]
    assert fields == ["metadata.name", "spec.template.spec.containers", "spec.template.spec.restartPolicy"]


async def test_a_version_that_is_no_number_is_an_error_without_a_reason(objects: InProcessObjects) -> None:
    made = (await objects.create(CONFIG_MAPS, config_map("a"), "default")).manifest()
    made["metadata"]["resourceVersion"] = "x"
    with pytest.raises(StatusError) as refused:
        await objects.update(CONFIG_MAPS, "a", made, "default")
    assert (refused.value.code, refused.value.reason) == (500, "")
    assert refused.value.message == 'strconv.ParseUint: parsing "x": invalid syntax'


@pytest.mark.parametrize("metadata", [{"name": "Bad_Name"}, {"name": "x" * 260}, {"generateName": "g" * 300}])
async def test_a_disruption_budget_may_have_any_name_that_fits_in_a_path(
    metadata: dict[str, Any], objects: InProcessObjects
) -> None:
    made = (await objects.create(BUDGETS, {"metadata": metadata, "spec": {"minAvailable": 1}}, "default")).manifest()
    assert made["metadata"]["name"]


async def test_a_disruption_budget_is_checked_before_its_metadata(objects: InProcessObjects) -> None:
    with pytest.raises(StatusError) as refused:
        await objects.create(BUDGETS, {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, "default")
    assert [cause["field"] for cause in (refused.value.details or {})["causes"]] == ["spec"]


@pytest.mark.parametrize(("resource", "body"), [(LEASES, {}), (BUDGETS, {"spec": {"minAvailable": 1}})])
async def test_leases_and_budgets_take_any_finalizer(
    resource: Resource, body: dict[str, Any], objects: InProcessObjects
) -> None:
    made = await objects.create(resource, {"metadata": {"name": "a", "finalizers": ["hold"]}, **body}, "default")
    assert made.manifest()["metadata"]["finalizers"] == ["hold"]


async def test_a_strategic_patch_cannot_state_another_kind(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    changes = {"apiVersion": "v9", "kind": "Other", "data": {"k": "w"}}
    patched = (await objects.patch(CONFIG_MAPS, "a", "strategic", changes, "default")).manifest()
    assert (patched["apiVersion"], patched["kind"], patched["data"]) == ("v1", "ConfigMap", {"k": "w"})


CONVERSIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a number for a text": ({"data": {"k": 1}}, "cannot convert int64 to string"),
    "a boolean for a text": ({"data": {"k": True}}, "unrecognized type: string"),
    "a text for a boolean": ({"immutable": "yes"}, "unrecognized type: bool"),
    "a fraction for a whole number": ({"metadata": {"generation": 1.5}}, "cannot convert float64 to int64"),
    "a list for a map": ({"data": [1]}, "cannot restore map from slice"),
    "a text for a list": ({"metadata": {"finalizers": "x"}}, "cannot restore slice from string"),
    "a number for an object": ({"metadata": {"ownerReferences": [1]}}, "cannot restore struct from: int64"),
}


@pytest.mark.parametrize("case", CONVERSIONS)
async def test_a_strategic_patch_with_the_wrong_type_is_refused_in_the_words_of_the_converter(
    case: str, objects: InProcessObjects
) -> None:
    changes, wanted = CONVERSIONS[case]
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(StatusError) as refused:
        await objects.patch(CONFIG_MAPS, "a", "strategic", changes, "default")
    assert refused.value.message.endswith(f": {wanted}")


async def test_a_number_too_large_for_its_field_is_cut_to_its_lower_bits_by_a_strategic_patch_alone(
    objects: InProcessObjects,
) -> None:
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    await objects.create(JOBS, {"metadata": {"name": "a"}, "spec": {"template": {"spec": pods}}}, "default")
    with pytest.raises(StatusError) as refused:
        await objects.patch(JOBS, "a", "strategic", {"spec": {"parallelism": 3_000_000_000}}, "default")
    assert refused.value.message == (
        'Job.batch "a" is invalid: spec.parallelism: Invalid value: -1294967296: must be greater than or equal to 0'
    )
    patched = await objects.patch(JOBS, "a", "strategic", {"spec": {"parallelism": 2**32 + 3}}, "default")
    assert patched.manifest()["spec"]["parallelism"] == 3
    with pytest.raises(StatusError, match="cannot unmarshal number 3000000000"):
        await objects.patch(JOBS, "a", "merge", {"spec": {"parallelism": 3_000_000_000}}, "default")


async def test_a_grace_period_past_the_end_of_time_ends_with_it(objects: InProcessObjects) -> None:
    bound = pod("a")
    bound["spec"]["nodeName"] = "node-1"
    await objects.create(PODS, bound, "default")
    await objects.delete(PODS, "a", "default", DeleteOptions(grace_seconds=2**63 - 1))
    marked = (await objects.get(PODS, "a", "default")).manifest()["metadata"]
    assert marked["deletionTimestamp"] == "9999-12-31T23:59:59Z"


async def test_a_namespace_stated_where_there_are_none_means_nothing(objects: InProcessObjects) -> None:
    made = await objects.create(NODES, {"metadata": {"name": "n1", "namespace": "elsewhere"}})
    assert "namespace" not in made.manifest()["metadata"]
    patched = await objects.patch(NODES, "n1", "merge", {"metadata": {"namespace": "elsewhere", "labels": {"a": "b"}}})
    assert "namespace" not in patched.manifest()["metadata"]
    assert patched.manifest()["metadata"]["labels"]["a"] == "b"
