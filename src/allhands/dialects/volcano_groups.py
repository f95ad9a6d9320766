"""Volcano's PodGroups (`scheduling.volcano.sh/v1beta1`) as pod-groups, and their status as its users know it.

| field | what it means here |
|---|---|
| spec.minMember | so many of its pods start together or none |
| spec.minTaskMember | so many of each task (pod annotation `volcano.sh/task-spec`), unless they add up to more than minMember: then, as in Volcano, minMember alone counts |
| spec.queue | the queue that is charged; `default` where it says nothing |
| spec.priorityClassName | its priority |
| spec.networkTopology | mode hard or soft, and the highest tier by number or name; hard without a tier is refused |
| spec.subGroupPolicy | sub-groups by the labels of pods: pods that labelSelector takes and that have equal values of all matchLabelKeys are one sub-group, the first policy that takes a pod counts; without keys all that are taken are one. subGroupSize pods start together or none of them, minSubGroups such sub-groups must, each within its own networkTopology |
| spec.minResources | when it may be Inqueue before there are pods; room itself is looked for pod by pod on nodes |
| annotation `volcano.sh/preemptable: "false"` | nobody preempts it |
| annotation `volcano.sh/cooldown-time` | nobody preempts it for so long (`10m`) after its start; a text that is none protects nobody |
| annotation `volcano.sh/jdb-min-available` | so many of its pods, a number or percent of those that there are, stay up whoever is evicted |
| annotation `volcano.sh/jdb-max-unavailable` | at most so many of its pods are missing when one is evicted; not read beside the other |
| status | phase, running, succeeded, failed and the conditions Unschedulable and Scheduled are written here |

Pods name their group by the annotation `scheduling.k8s.io/group-name`, or by `scheduling.volcano.sh/group-name`.
"""  # noqa: E501 (a row of a table is one line)

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.annotation_names import GROUP_SIZE
from allhands.api.kinds import Resource
from allhands.api.volcano.budget_rules import BUDGETS, MIN_AVAILABLE, budget_errors
from allhands.api.volcano.workloads import group_name
from allhands.dialects.annotations import expected_or_problem, queue_named
from allhands.dialects.group_parts import MOST_PARTS, PartRule
from allhands.dialects.group_progress import with_condition, written_status
from allhands.dialects.groups import GroupRecord, Metadata, unreadable
from allhands.dialects.scheduling_record import read_record
from allhands.model.go_duration import exact_seconds
from allhands.model.pod_document import seconds_of
from allhands.model.podgroup import DisruptionLimit, TaskMinimum, TopologyMode, TopologyRule
from allhands.model.reason import Reason
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelectorDocument, selector_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest
    from allhands.dialects.group_progress import Progress

PREFIX: Final = "volcano:"
GROUP_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
TASK_ANNOTATION: Final = "volcano.sh/task-spec"
PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN: Final = "volcano.sh/cooldown-time"
RESOURCE: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")
DEFAULT_QUEUE: Final = "default"
LONGEST_NAME: Final = 253
LONGEST_NUMBER: Final = 9
TASK_PRIORITY: Final = "volcano.sh/task-priority"
"""On a pod: its rank among those of its group, a whole number of 32 bits. Without it, its priority."""
_RANKS: Final = range(-(2**31), 2**31)
_RANK: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
SLA: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""How long it should wait at most; the first of both counts."""
LONGEST_DURATION: Final = 64
LONGEST_SECONDS: Final = 2**31 - 1
READY: Final = "tasks in gang are ready to be scheduled"
"""Volcano's own words for the reason; other programs look for them."""
WHOLE: Final = "All pods that must run together are bound."
LET_IN: Final = "Its queue has room for it: its pods may be made."
TOO_FEW_PODS, TOO_LITTLE_ROOM = "NotEnoughTasks", "NotEnoughResources"
NEVER: Final = Reason.GROUP_NEVER_FITS.value
"""Ours: its queue will never let it in, as things are."""
_MODES: Final = {"": TopologyMode.HARD, "hard": TopologyMode.HARD, "soft": TopologyMode.SOFT}


class _Topology(msgspec.Struct, frozen=True, rename="camel"):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class _SubGroupPolicy(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    network_topology: _Topology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelectorDocument | None = None
    match_label_keys: tuple[str, ...] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    priority_class_name: str = ""
    network_topology: _Topology | None = None
    sub_group_policy: tuple[_SubGroupPolicy, ...] | None = None
    min_resources: dict[str, str | int | float] | None = None


class _Document(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: Any = None


_documents = msgspec.json.Decoder(_Document)


def group_named_by(annotations: Mapping[str, str]) -> str:
    name = next((found for key in GROUP_ANNOTATIONS if (found := annotations.get(key, ""))), "")
    return f"{PREFIX}{name}" if name else ""


def rank_named(text: str) -> int | None:
    """As in Volcano, what is no such number says nothing."""
    rank = int(text) if _RANK.fullmatch(text) else None
    return rank if rank is not None and rank in _RANKS else None


def group_to_be(uid: str) -> str:
    """The group that is made for pods of this owner, or for the pod itself."""
    return f"{PREFIX}{group_name(uid)}"


def read_group(raw: bytes) -> GroupRecord:
    try:
        document = _documents.decode(raw)
    except msgspec.DecodeError as error:
        return unreadable(raw, error, PREFIX)
    metadata, spec = document.metadata, document.spec
    annotations = metadata.annotations or {}
    expected, problem = expected_or_problem(annotations)
    problem = _problem(spec) or problem
    return GroupRecord(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        created_at_seconds=seconds_of(metadata.creation_timestamp) or 0,
        prefix=PREFIX,
        annotations=annotations,
        status=read_record(annotations),
        min_count=spec.min_member,
        task_minimums=() if problem else _task_minimums(spec),
        queue="" if spec.queue == DEFAULT_QUEUE else spec.queue or queue_named(annotations),
        rule=None if problem else _rule(spec.network_topology),
        parts=() if problem else _parts(spec),
        preemptible=annotations.get(PREEMPTABLE, "") != "false",
        min_run_seconds=_cooldown(annotations),
        max_wait_seconds=_longest_wait(annotations),
        disruption_limit=_disruption_limit(annotations),
        expected_duration_seconds=expected,
        priority_class=spec.priority_class_name,
        problem=problem,
        min_resources=None if problem else _amounts(spec),
        min_limits=tuple(
            (name, str(amount))
            for name, amount in sorted((spec.min_resources or {}).items())
            if name.startswith("limits.")
        ),
        written=written_status(document.status),
    )


def _cooldown(annotations: Mapping[str, str]) -> int:
    return _duration(annotations.get(COOLDOWN, "")) or 0


def _longest_wait(annotations: Mapping[str, str]) -> int | None:
    """As in Volcano, what is no duration above 0 says nothing."""
    return _duration(next((annotations[it] for it in SLA if it in annotations), "")) or None


def _duration(text: str) -> int | None:
    """Whole seconds, a part of one counting whole."""
    exact = exact_seconds(text, LONGEST_DURATION)
    return None if exact is None else min(math.ceil(exact), LONGEST_SECONDS)


def _disruption_limit(annotations: Mapping[str, str]) -> DisruptionLimit | None:
    """As in Volcano the first of both counts, and what cannot be read limits nothing; admission refuses such texts."""
    name = next((it for it in BUDGETS if it in annotations), "")
    if not name or budget_errors({name: annotations[name]}):
        return None
    amount = int(annotations[name].removesuffix("%"))
    size = annotations.get(GROUP_SIZE, "")
    limit = DisruptionLimit(
        in_percent=annotations[name].endswith("%"),
        size=int(size) if size.isascii() and size.isdigit() and len(size) <= LONGEST_NUMBER else 0,
    )
    if name == MIN_AVAILABLE:
        return msgspec.structs.replace(limit, min_available=amount)
    return msgspec.structs.replace(limit, max_unavailable=amount)


def _problem(spec: _Spec) -> str:
    if spec.min_member < 0:
        return f"spec.minMember: {spec.min_member} is less than none"
    for task, count in sorted((spec.min_task_member or {}).items()):
        if count < 0:
            return f"spec.minTaskMember[{task}]: {count} is less than none"
    try:
        _amounts(spec)
    except ValueError as error:
        return f"spec.minResources.{error}"
    return _topology_problem("spec.networkTopology", spec.network_topology) or _policies_problem(spec)


def _amounts(spec: _Spec) -> ResourceVector | None:
    """Volcano's job controller writes there all names that a quota may use: limits and counts are no requests."""
    if not spec.min_resources:
        return None
    requests = {
        name.removeprefix("requests."): amount
        for name, amount in spec.min_resources.items()
        if not name.startswith(("limits.", "count/"))
    }
    return ResourceVector.from_quantities(requests)


def _topology_problem(path: str, topology: _Topology | None) -> str:
    if topology is None:
        return ""
    number, name = topology.highest_tier_allowed, topology.highest_tier_name
    if topology.mode not in _MODES:
        return f'{path}.mode: "{topology.mode[:40]}" is neither "hard" nor "soft"'
    if number is not None and name:
        return f"{path}: a tier is given by highestTierAllowed or by highestTierName, not by both"
    if number is not None and number < 1:
        return f"{path}.highestTierAllowed: {number} is not a tier from 1 on"
    if _MODES[topology.mode] is TopologyMode.HARD and number is None and not name:
        return f"{path}: mode hard needs a tier, by highestTierAllowed or by highestTierName"
    return ""


def _policies_problem(spec: _Spec) -> str:
    names: set[str] = set()
    for number, policy in enumerate(spec.sub_group_policy or ()):
        path = f"spec.subGroupPolicy[{number}]"
        if "/" in policy.name or "?" in policy.name or len(policy.name) > LONGEST_NAME:
            return f'{path}.name: "{policy.name[:40]}" is not a name of letters, digits and dashes'
        name = policy.name or f"#{number}"
        if name in names:
            return f'{path}.name: "{name}" is the name of another policy too'
        names.add(name)
        if policy.sub_group_size is not None and policy.sub_group_size < 1:
            return f"{path}.subGroupSize: {policy.sub_group_size} is not a number of pods from 1 on"
        if not 0 <= (policy.min_sub_groups or 0) <= MOST_PARTS:
            return f"{path}.minSubGroups: {policy.min_sub_groups} is not between 0 and {MOST_PARTS}"
        selector = selector_of(policy.label_selector)
        if selector is not None and not selector.is_valid:
            return f"{path}.labelSelector: it is no selector of labels that the API server would take"
        if problem := _topology_problem(f"{path}.networkTopology", policy.network_topology):
            return problem
    return ""


def _parts(spec: _Spec) -> tuple[PartRule, ...]:
    return tuple(
        PartRule(
            policy.name or f"#{number}",
            size=1 if policy.sub_group_size is None else policy.sub_group_size,
            min_parts=policy.min_sub_groups or 0,
            selector=selector_of(policy.label_selector),
            keys=policy.match_label_keys or (),
            topology=_rule(policy.network_topology),
        )
        for number, policy in enumerate(spec.sub_group_policy or ())
    )


def _task_minimums(spec: _Spec) -> tuple[TaskMinimum, ...]:
    wanted = {task: count for task, count in (spec.min_task_member or {}).items() if count}
    if sum(wanted.values()) > spec.min_member:
        return ()  # an elastic job: Volcano's job controller names all replicas of each task there
    return tuple(TaskMinimum(task, count) for task, count in sorted(wanted.items()))


def _rule(topology: _Topology | None) -> TopologyRule | None:
    if topology is None:
        return None
    return TopologyRule(
        _MODES[topology.mode],
        highest_tier=topology.highest_tier_allowed,
        tier_name=topology.highest_tier_name or None,
    )


def status_of(record: GroupRecord, progress: Progress, now: str) -> Manifest:
    """What its status should say; empty if it does."""
    written = record.written
    status: Manifest = {}
    phase = phase_of(record, progress)
    if phase != written.phase:
        status["phase"] = phase
    for name in ("running", "succeeded", "failed"):
        if getattr(progress, name) != getattr(written, name):
            status[name] = getattr(progress, name)
    conditions = _conditions(record, progress, now)
    if conditions != list(written.conditions):
        status["conditions"] = conditions
    return status


def phase_of(record: GroupRecord, progress: Progress) -> str:
    """Inqueue is somebody's word that pods may be made: it is not taken back. Completed says nothing of success."""
    least, before = max(1, record.min_count), record.written.phase
    ended = progress.succeeded + progress.failed
    if ended and ended == progress.pods and (ended >= least or before == "Completed"):
        return "Completed"
    if progress.bound + progress.succeeded >= least:
        return "Running"
    was_whole = progress.was_whole or before in ("Running", "Unknown")
    if (was_whole and (progress.bound or progress.failed)) or (progress.running and progress.waits):
        return "Unknown"
    return "Inqueue" if before == "Inqueue" or progress.is_enqueued else "Pending"


def _conditions(record: GroupRecord, progress: Progress, now: str) -> list[Manifest]:
    """Those of others stay as they are, and where they are. What waits beyond the minimum is no matter of the group."""
    conditions = [dict(it) for it in record.written.conditions]
    more = {"transitionID": f"{record.uid}/{now}"}
    if progress.bound + progress.succeeded >= max(1, record.min_count):
        if progress.was_whole:
            conditions = with_condition(conditions, "Scheduled", "True", READY, WHOLE, now, **more)
        if progress.was_whole and any(it.get("type") == "Unschedulable" for it in conditions):
            conditions = with_condition(conditions, "Unschedulable", "False", READY, WHOLE, now, **more)
    elif progress.is_enqueued and not progress.pods:
        if any(it.get("type") == "Unschedulable" for it in conditions):
            conditions = with_condition(conditions, "Unschedulable", "False", "Inqueue", LET_IN, now, **more)
    elif progress.waits:
        reason = TOO_FEW_PODS if 0 < progress.pods < record.min_count else TOO_LITTLE_ROOM
        reason = NEVER if progress.is_never else reason
        conditions = with_condition(conditions, "Unschedulable", "True", reason, progress.waits, now, **more)
    return conditions
