"""The schemas of Volcano's kinds have its fields, with what it requires and fills in; pods' parts are those of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.builtin.definitions import validate_create
from allhands.api.schema.generated import is_generated
from allhands.api.schema.of_builtin import built_in_schema
from allhands.api.volcano.admission import ADMISSIONS
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.lifecycle_policy import ACTIONS_OF_USERS, EVENTS_OF_USERS
from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.api.volcano.pod_template import POD_TEMPLATE
from allhands.api.volcano.podgroup import POD_GROUP

if TYPE_CHECKING:
    from allhands.api.definitions import Definition

Schema = dict[str, Any]
LARGEST_BYTES = 100_000


def _version(definition: Definition) -> Schema:
    return definition.manifest()["spec"]["versions"][0]  # type: ignore[no-any-return]


def _fields(definition: Definition, path: str = "") -> Schema:
    """What stands at a dotted path; `[]` steps into the items of a list."""
    schema: Schema = _version(definition)["schema"]["openAPIV3Schema"]
    for name in path.split("."):
        if name:
            schema = schema["properties"][name.removesuffix("[]")]
            schema = schema["items"] if name.endswith("[]") else schema
    return schema


@pytest.mark.parametrize(
    ("definition", "path", "names"),
    [
        (
            JOB,
            "spec",
            (
                "schedulerName minAvailable volumes tasks policies plugins runningEstimate queue maxRetry "
                "ttlSecondsAfterFinished priorityClassName minSuccess networkTopology"
            ),
        ),
        (
            JOB,
            "spec.tasks[]",
            "name replicas minAvailable template policies topologyPolicy maxRetry dependsOn partitionPolicy",
        ),
        (
            JOB,
            "status",
            (
                "state minAvailable taskStatusCount pending running succeeded failed terminating unknown version "
                "retryCount runningDuration controlledResources conditions"
            ),
        ),
        (JOB, "spec.policies[]", "action event events exitCode timeout"),
        (JOB, "spec.tasks[].partitionPolicy", "totalPartitions partitionSize minPartitions networkTopology"),
        (
            CRON_JOB,
            "spec",
            (
                "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate "
                "successfulJobsHistoryLimit failedJobsHistoryLimit"
            ),
        ),
        (CRON_JOB, "status", "active lastScheduleTime lastSuccessfulTime"),
        (COMMAND, "", "apiVersion kind metadata action target reason message"),
        (COMMAND, "target", "apiVersion kind name uid controller blockOwnerDeletion"),
        (
            POD_GROUP,
            "spec",
            "minMember minTaskMember queue priorityClassName minResources networkTopology subGroupPolicy",
        ),
        (
            POD_GROUP,
            "spec.subGroupPolicy[]",
            "name networkTopology subGroupSize minSubGroups labelSelector matchLabelKeys",
        ),
        (POD_GROUP, "status", "phase conditions running succeeded failed"),
        (POD_GROUP, "status.conditions[]", "type status transitionID lastTransitionTime reason message"),
        (JOB_FLOW, "spec.flows[].dependsOn.probe", "httpGetList tcpSocketList taskStatusList"),
        (HYPER_NODE, "spec", "tier tierName members"),
        (NUMATOPOLOGY, "spec", "policies resReserved numares cpuDetail podAllocations"),
    ],
    ids=lambda it: getattr(it, "name", it),
)
def test_fields_are_volcanos(definition: Definition, path: str, names: str) -> None:
    assert set(_fields(definition, path)["properties"]) == set(names.split())


@pytest.mark.parametrize(
    ("definition", "path", "names"),
    [
        (JOB_FLOW, "spec", "flows jobRetainPolicy"),
        (JOB_FLOW, "spec.flows[]", "name dependsOn patch"),
        (
            JOB_FLOW,
            "status",
            "pendingJobs runningJobs failedJobs completedJobs terminatedJobs unKnowJobs jobStatusList conditions state",
        ),
        (HYPER_NODE, "status", "conditions nodeCount"),
        (JOB_TEMPLATE, "status", "jobDependsOnList"),
    ],
    ids=lambda it: getattr(it, "name", it),
)
def test_fields_that_volcano_has_are_there(definition: Definition, path: str, names: str) -> None:
    assert set(names.split()) <= set(_fields(definition, path)["properties"])


@pytest.mark.parametrize(
    ("definition", "path", "wanted"),
    [
        (JOB, "spec.queue", "default"),
        (JOB, "spec.maxRetry", 3),
        (JOB, "spec.networkTopology.mode", "hard"),
        (JOB, "spec.tasks[].partitionPolicy.minPartitions", 0),
        (CRON_JOB, "spec.concurrencyPolicy", "Allow"),
        (CRON_JOB, "spec.suspend", False),
        (CRON_JOB, "spec.successfulJobsHistoryLimit", 3),
        (CRON_JOB, "spec.failedJobsHistoryLimit", 1),
        (CRON_JOB, "spec.jobTemplate.spec.queue", "default"),
        (POD_GROUP, "spec.queue", "default"),
        (POD_GROUP, "spec.subGroupPolicy[].subGroupSize", 1),
        (POD_GROUP, "spec.subGroupPolicy[].minSubGroups", 0),
        (JOB_FLOW, "spec.flows[].patch.jobSpec.queue", None),
        (JOB_FLOW, "spec.flows[].patch.jobSpec.maxRetry", None),
        (JOB_FLOW, "spec.flows[].patch.jobSpec.networkTopology.mode", None),
    ],
    ids=lambda it: getattr(it, "name", str(it)),
)
def test_the_server_fills_in_what_volcanos_does_and_nothing_in_a_patch(
    definition: Definition, path: str, wanted: Any
) -> None:
    assert _fields(definition, path).get("default") == wanted


@pytest.mark.parametrize(
    ("definition", "path", "names"),
    [
        (JOB, "spec.volumes[]", ("mountPath",)),
        (JOB, "spec.tasks[].partitionPolicy", ("totalPartitions", "partitionSize")),
        (CRON_JOB, "spec", ("schedule", "jobTemplate")),
        (COMMAND, "target", ("apiVersion", "kind", "name", "uid")),
        (HYPER_NODE, "spec", ("tier",)),
        (HYPER_NODE, "spec.members[]", ("type",)),
        (JOB_FLOW, "spec.flows[].dependsOn.probe.tcpSocketList[]", ("port",)),
        (JOB, "spec.tasks[].template.spec", ("containers",)),
    ],
    ids=lambda it: getattr(it, "name", str(it)),
)
def test_only_what_volcano_requires_is_required(definition: Definition, path: str, names: tuple[str, ...]) -> None:
    assert set(_fields(definition, path).get("required", ())) == set(names)


@pytest.mark.parametrize("above", ["spec", "spec.tasks[]"])
def test_a_schema_lists_only_what_may_be_written_in_that_place(above: str) -> None:
    """Else an error would name choices that are refused a moment later."""
    events = sorted(it.value for it in EVENTS_OF_USERS)
    assert _fields(JOB, f"{above}.policies[].event")["enum"] == events
    assert _fields(JOB, f"{above}.policies[].events")["items"]["enum"] == events
    assert _fields(JOB, f"{above}.policies[].action")["enum"] == sorted(it.value for it in ACTIONS_OF_USERS)


def test_a_command_may_ask_for_what_somebody_does() -> None:
    assert set(_fields(COMMAND, "action")["enum"]) == {
        *("AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"),
        *("OpenQueue", "CloseQueue"),
    }


def test_only_the_kinds_that_have_one_upstream_have_a_status_of_their_own() -> None:
    without = {it.kind for it in VOLCANO_KINDS if "status" not in (_version(it).get("subresources") or {})}
    assert without == {"PodGroup", "Command"}


@pytest.mark.parametrize("definition", VOLCANO_KINDS, ids=lambda it: it.name)
def test_a_definition_is_small_and_right_even_if_nobody_knew_that_it_is_ours(definition: Definition) -> None:
    manifest = definition.manifest()
    assert len(msgspec.json.encode(manifest)) < LARGEST_BYTES
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert is_generated(schema)
    schema["description"] += " And more."
    assert not is_generated(schema)
    manifest["status"] = {"storedVersions": [definition.stored_version.name]}
    assert [str(error) for error in validate_create(manifest)] == []


def test_the_template_of_a_pod_is_that_of_every_pod() -> None:
    template = built_in_schema(POD_TEMPLATE)
    spec = template["properties"]["spec"]["properties"]
    container = spec["containers"]["items"]["properties"]
    assert container["ports"]["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert container["ports"]["items"]["properties"]["protocol"] == {"type": "string", "default": "TCP"}
    assert container["resources"]["properties"]["requests"]["additionalProperties"]["x-kubernetes-int-or-string"]
    assert spec["imagePullSecrets"]["items"]["properties"]["name"]["default"] == ""
    assert set(template["properties"]["metadata"]["properties"]) == {
        "annotations",
        "finalizers",
        "labels",
        "name",
        "namespace",
    }
    assert b'"description"' not in msgspec.json.encode(template).replace(b'"description":{', b"")


def test_everyone_gets_a_schema_of_their_own() -> None:
    built_in_schema(POD_TEMPLATE)["properties"].clear()
    assert built_in_schema(POD_TEMPLATE)["properties"]
    JOB.manifest()["spec"]["versions"].clear()
    assert JOB.manifest()["spec"]["versions"]


def test_every_admission_is_of_a_kind_that_is_served() -> None:
    assert set(ADMISSIONS) <= {(it.group, it.kind) for it in VOLCANO_KINDS}
