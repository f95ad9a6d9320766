"""What the scheduler and the controllers may do in a cluster, and not a verb more.

Each rule names what it is for. A test runs both as their service accounts on a real API server and reads its audit log:
nothing is refused, and nothing is granted that nobody uses. Never a wildcard, a look at Secrets that are not our own,
or a verb that grants rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.workloads import SCHEDULER_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest

READ: Final = ("list", "watch")
VOLCANO_GROUPS: Final = "scheduling.volcano.sh"
GROUPS_OF_POD_GROUPS: Final = ("scheduling.k8s.io", VOLCANO_GROUPS, "scheduling.x-k8s.io")


class Rule(msgspec.Struct, frozen=True):
    """Verbs on resources of one group. With names, only on the objects called so."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        rule: Manifest = {"apiGroups": [self.group], "resources": list(self.resources)}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule | {"verbs": list(self.verbs)}


EVENTS: Final = Rule("", ("events",), ("create", "get", "patch"))
"""Telling people; the same again is counted on the Event that is there."""

HOME: Final = Rule("", ("namespaces",), ("get",))
"""In a Role this is the namespace that the Role is in: where a Lease is to be, it is looked whether there is room."""

SCHEDULER: Final = (
    # What is placed. Whose group has no other home keeps its record on the pod; after a bind that nobody answered the
    # pod is read back.
    Rule("", ("pods",), ("get", "list", "patch", "watch")),
    Rule("", ("pods/status",), ("patch",)),
    Rule("", ("pods/binding", "pods/eviction"), ("create",)),
    EVENTS,
    # Where it is placed.
    Rule("", ("namespaces", "nodes", "resourcequotas"), READ),
    Rule("policy", ("poddisruptionbudgets",), READ),
    Rule("scheduling.k8s.io", ("priorityclasses",), READ),
    # By whose selectors pods are spread that do not ask for it, as kube-scheduler does.
    Rule("", ("replicationcontrollers", "services"), READ),
    Rule("apps", ("replicasets", "statefulsets"), READ),
    # Volumes are prepared before the first pod of a gang is bound, and given back if it is not.
    Rule("", ("persistentvolumeclaims",), ("list", "patch", "watch")),
    Rule("", ("persistentvolumes",), ("get", "list", "patch", "watch")),
    Rule(
        "storage.k8s.io",
        ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
        READ,
    ),
    # What gangs are made of: the record of a group is on its home, and why it waits in its status.
    Rule("batch", ("jobs",), ("list", "patch", "watch")),
    *(
        rule
        for group in GROUPS_OF_POD_GROUPS
        for rule in (
            Rule(group, ("podgroups",), ("list", "patch", "watch")),
            Rule(group, ("podgroups/status",), ("patch",)),
        )
    ),
    Rule("scheduling.volcano.sh", ("queues",), READ),
    # Which nodes are close to each other.
    Rule("topology.volcano.sh", ("hypernodes",), READ),
)
"""In the whole cluster."""

SCHEDULER_AT_HOME: Final = (
    HOME,
    Rule("coordination.k8s.io", ("leases",), ("create",)),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), ("allhands-scheduler",)),
    # What was used in the past, for fairness over time.
    Rule("", ("configmaps",), ("create",)),
    Rule("", ("configmaps",), ("get", "patch"), ("usage-ledger",)),
)
"""In the namespace of the installation. What is created cannot be restricted by its name."""

CONTROLLERS: Final = (
    EVENTS,
    # Queues: how much each holds, which are closed with those above them, and the two that everybody expects.
    Rule("batch", ("jobs",), READ),
    *(Rule(group, ("podgroups",), READ) for group in GROUPS_OF_POD_GROUPS if group != VOLCANO_GROUPS),
    Rule("scheduling.volcano.sh", ("queues",), ("create", "list", "patch", "watch")),
    Rule("scheduling.volcano.sh", ("queues/status",), ("patch",)),
    # Who obeys a Command removes it.
    Rule("bus.volcano.sh", ("commands",), ("delete", "list", "watch")),
    # Volcano Jobs: their groups and pods, made, told to go and made anew; gone when their time to live has passed.
    # What is made once and found there after all is read, to see whose it is; but for Secrets, which nobody reads.
    Rule("batch.volcano.sh", ("jobs",), ("create", "delete", "get", "list", "watch")),
    Rule("batch.volcano.sh", ("jobs/status",), ("patch",)),
    Rule("", ("pods",), ("create", "delete", "get", "list", "patch", "watch")),
    Rule(VOLCANO_GROUPS, ("podgroups",), ("create", "delete", "get", "list", "patch", "watch")),
    # What their plugins and volumes need; the names of hosts follow when a Job is scaled. What plugins made goes when
    # the Job ends, after a look whose it is; Secrets, at which nobody looks, go with the Job.
    Rule("", ("configmaps",), ("create", "delete", "get", "patch")),
    Rule("", ("services",), ("create", "delete", "get")),
    Rule("", ("persistentvolumeclaims",), ("create", "get")),
    Rule("", ("secrets",), ("create",)),
    Rule("networking.k8s.io", ("networkpolicies",), ("create", "delete", "get")),
    # CronJobs and flows make Volcano Jobs and throw away old ones; flows may wait for Jobs of batch/v1.
    Rule("batch.volcano.sh", ("cronjobs",), READ),
    Rule("batch.volcano.sh", ("cronjobs/status",), ("patch",)),
    Rule("flow.volcano.sh", ("jobflows", "jobtemplates"), READ),
    Rule("flow.volcano.sh", ("jobflows/status", "jobtemplates/status"), ("patch",)),
    # HyperNodes: how many nodes are in each, and whether it makes sense. What nodes say of their CPUs is not used.
    Rule("", ("nodes",), READ),
    Rule("topology.volcano.sh", ("hypernodes",), READ),
    Rule("topology.volcano.sh", ("hypernodes/status",), ("patch",)),
    Rule("nodeinfo.volcano.sh", ("numatopologies",), READ),
    Rule("nodeinfo.volcano.sh", ("numatopologies/status",), ("patch",)),
)

WORKLOAD_GROUPS: Final = (Rule("apps", ("replicasets", "statefulsets"), READ),)
"""Of the controllers, in the whole cluster, where pods are placed that were written for Volcano: how many of their pods
such owners want to start together. The groups themselves, and pods that join them, are written by the rules above."""

CONTROLLERS_AT_HOME: Final = (
    HOME,
    Rule("coordination.k8s.io", ("leases",), ("create",)),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), ("allhands-controllers",)),
)

WEBHOOKS: Final = (
    # Whether who submits a Job may do what it does.
    Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    # What rules ask about other objects; before anybody is refused it is read anew.
    Rule("", ("namespaces",), ("get", "list", "watch")),
    Rule("scheduling.k8s.io", ("priorityclasses",), ("get", "list", "watch")),
    Rule("scheduling.volcano.sh", ("queues",), ("get", "list", "watch")),
    Rule("flow.volcano.sh", ("jobtemplates",), ("get", "list", "watch")),
    # Whom the API server is to trust, in the two that the installation has brought.
    Rule(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("get", "update"),
        ("allhands-webhooks",),
    ),
)

WEBHOOKS_AT_HOME: Final = (
    # The keys of the webhooks, which the installation has brought empty: no other Secret, and none is ever made.
    Rule("", ("secrets",), ("get", "update"), ("allhands-webhooks",)),
)


def of_controllers(scheduler_names: Sequence[str]) -> tuple[Rule, ...]:
    """In the whole cluster."""
    return CONTROLLERS + WORKLOAD_GROUPS if SCHEDULER_NAME in scheduler_names else CONTROLLERS


def rule_manifests(rules: Sequence[Rule]) -> list[Manifest]:
    return [rule.manifest() for rule in rules]
