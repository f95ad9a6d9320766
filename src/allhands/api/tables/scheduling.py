"""How what decides where and when pods run is shown: priorities, pod-groups, disruption budgets and claimed devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import (
    NONE,
    age_of,
    at,
    integer_at,
    is_terminating,
    list_at,
    name_of,
    or_default,
    text_at,
)
from allhands.api.tables.column import AGE, NAME, Printers, TablePrinter, described, documented
from allhands.api.tables.core import name_and_age_row

if TYPE_CHECKING:
    from datetime import datetime

    from allhands.api.document import Json, Manifest


def priority_class_row(priority_class: Manifest, now: datetime) -> list[Json]:
    return [
        name_of(priority_class),
        integer_at(priority_class, "value"),
        bool(at(priority_class, "globalDefault")),
        age_of(priority_class, now),
        text_at(priority_class, "preemptionPolicy"),
    ]


def _pod_group_status(pod_group: Manifest) -> str:
    conditions = {text_at(condition, "type"): condition for condition in list_at(pod_group, "status", "conditions")}
    if disrupted := conditions.get("DisruptionTarget"):
        return text_at(disrupted, "reason")
    scheduled = conditions.get("PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


def pod_group_row(pod_group: Manifest, now: datetime) -> list[Json]:
    reference = at(pod_group, "spec", "podGroupTemplateRef")
    return [
        name_of(pod_group),
        "Basic" if at(pod_group, "spec", "schedulingPolicy", "gang") is None else "Gang",
        NONE if reference is None else text_at(reference, "workload", "workloadName"),
        _pod_group_status(pod_group),
        age_of(pod_group, now),
    ]


def disruption_budget_row(budget: Manifest, now: datetime) -> list[Json]:
    return [
        name_of(budget),
        str(or_default(at(budget, "spec", "minAvailable"), "N/A")),
        str(or_default(at(budget, "spec", "maxUnavailable"), "N/A")),
        integer_at(budget, "status", "disruptionsAllowed"),
        age_of(budget, now),
    ]


def _claim_state(claim: Manifest) -> str:
    states = ["deleted"] if is_terminating(claim) else []
    if at(claim, "status", "allocation") is not None:
        states.append("allocated")
        if list_at(claim, "status", "reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def resource_claim_row(claim: Manifest, now: datetime) -> list[Json]:
    return [name_of(claim), _claim_state(claim), age_of(claim, now)]


def resource_slice_row(resource_slice: Manifest, now: datetime) -> list[Json]:
    return [
        name_of(resource_slice),
        text_at(resource_slice, "spec", "nodeName"),
        text_at(resource_slice, "spec", "driver"),
        text_at(resource_slice, "spec", "pool", "name"),
        age_of(resource_slice, now),
    ]


_PRIORITY: Final = "io.k8s.api.scheduling.v1.PriorityClass"
_RESOURCE: Final = "io.k8s.api.resource.v1."

PRINTERS: Final[Printers] = {
    ("scheduling.k8s.io", "PriorityClass"): TablePrinter(
        (
            NAME,
            documented("Value", _PRIORITY, "value", type="integer"),
            documented("Global-Default", _PRIORITY, "globalDefault", type="boolean"),
            AGE,
            documented("PreemptionPolicy", _PRIORITY, "preemptionPolicy"),
        ),
        priority_class_row,
    ),
    ("scheduling.k8s.io", "Workload"): TablePrinter((NAME, AGE), name_and_age_row),
    ("scheduling.k8s.io", "PodGroup"): TablePrinter(
        (
            NAME,
            documented("Policy", "io.k8s.api.scheduling.v1alpha2.PodGroupSpec", "schedulingPolicy"),
            described("Workload", "Name of the referenced Workload object"),
            described("Status", "Status of the PodGroup"),
            AGE,
        ),
        pod_group_row,
    ),
    ("policy", "PodDisruptionBudget"): TablePrinter(
        (
            NAME,
            described("Min Available", "The minimum number of pods that must be available."),
            described("Max Unavailable", "The maximum number of pods that may be unavailable."),
            described(
                "Allowed Disruptions",
                "Calculated number of pods that may be disrupted at this time.",
                type="integer",
            ),
            AGE,
        ),
        disruption_budget_row,
    ),
    ("resource.k8s.io", "DeviceClass"): TablePrinter((NAME, AGE), name_and_age_row),
    ("resource.k8s.io", "ResourceClaimTemplate"): TablePrinter((NAME, AGE), name_and_age_row),
    ("resource.k8s.io", "ResourceClaim"): TablePrinter(
        (
            NAME,
            described("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
            AGE,
        ),
        resource_claim_row,
    ),
    ("resource.k8s.io", "ResourceSlice"): TablePrinter(
        (
            NAME,
            documented("Node", _RESOURCE + "ResourceSliceSpec", "nodeName"),
            documented("Driver", _RESOURCE + "ResourceSliceSpec", "driver"),
            documented("Pool", _RESOURCE + "ResourcePool", "name"),
            AGE,
        ),
        resource_slice_row,
    ),
}
