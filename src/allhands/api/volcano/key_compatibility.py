"""What becomes of each annotation and label that Volcano's users, tools and controllers know: rows of a table in the
documentation.

Words only. A test holds the list against the words that the code uses, so that none is read or written without a row.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allhands.api.volcano.compatibility import State


class KeyRow(NamedTuple):
    """`where`: the kinds of objects that it stands on."""

    key: str
    where: str
    state: State
    note: str


_FOR_PODS: Final = "pod, PodGroup"
_DEVICES: Final = "devices are counted as extended resources; none is shared or chosen by its number"
_AGENT: Final = "for Volcano's node agent, which is not here"
_CLUSTERS: Final = "for several clusters; one is served"
_MARK: Final = "a note of Volcano's own scheduler; nobody needs it here"
_SAME: Final = State.SAME
KEYS: Final = (
    KeyRow("scheduling.k8s.io/group-name", "pod", _SAME, ""),
    KeyRow("scheduling.volcano.sh/group-name", "pod", _SAME, "the one above goes first"),
    KeyRow(
        "scheduling.volcano.sh/queue-name",
        "pod, Deployment and other owners, Namespace",
        State.MORE,
        "also on Jobs of Kubernetes; `allhands.dev/queue` goes first. On a namespace: that of groups that name none",
    ),
    KeyRow(
        "scheduling.volcano.sh/group-min-member",
        "ReplicaSet, StatefulSet, Job of Kubernetes",
        State.MORE,
        "a text that is no number is told in an event, and counts as 1",
    ),
    KeyRow(
        "scheduling.volcano.sh/group-min-resources",
        "Deployment and other owners",
        State.KEPT,
        "what the pods of the group ask for is known by the pods themselves",
    ),
    KeyRow(
        "scheduling.volcano.sh/queue-allocation-gate",
        "pod",
        State.KEPT,
        "pods wait for their queue without a gate; one that has the gate already waits until somebody removes it",
    ),
    KeyRow(
        "volcano.sh/hierarchy",
        "Queue",
        State.STRICTER,
        "no empty name, no path that another queue has, and no queue on the way to another, whichever came first",
    ),
    KeyRow("volcano.sh/hierarchy-weights", "Queue", _SAME, ""),
    KeyRow("volcano.sh/closed-by-parent", "Queue", _SAME, "written: it was closed with the queue above it"),
    KeyRow("volcano.sh/nodegroup-name", "Node", _SAME, ""),
    KeyRow(
        "volcano.sh/nodegroup-resource-limits",
        "Queue",
        State.KEPT,
        "the scheduler says so; give each node group a queue of its own with a `capability`",
    ),
    KeyRow("volcano.sh/preemptable", "Job, pod, PodGroup", _SAME, ""),
    KeyRow("volcano.sh/cooldown-time", "Job, pod, PodGroup", _SAME, "for the whole gang, from its start"),
    KeyRow("volcano.sh/revocable-zone", "Job, pod, PodGroup", State.KEPT, "handed on; the plugin `tdm` is refused"),
    KeyRow(
        "volcano.sh/jdb-min-available",
        "Job, PodGroup",
        State.MORE,
        "kept whenever room is made for somebody; in Volcano only `tdm` reads it",
    ),
    KeyRow("volcano.sh/jdb-max-unavailable", "Job, PodGroup", State.MORE, "the same; the one above goes first"),
    KeyRow(
        "volcano.sh/sla-waiting-time",
        "Job, PodGroup",
        State.MORE,
        "with any configuration: it comes before those that say nothing; after that time it is let in whatever others "
        "were promised, and nodes are emptied for it",
    ),
    KeyRow("sla-waiting-time", "Job, PodGroup", State.MORE, "the same; the one above goes first"),
    KeyRow(
        "volcano.sh/network-topology-mode",
        "pod, owner of pods",
        _SAME,
        "for groups that are made for plain pods",
    ),
    KeyRow("volcano.sh/network-topology-highest-tier", "pod, owner of pods", _SAME, "the same"),
    KeyRow("volcano.sh/network-topology-source", "HyperNode", State.KEPT, "HyperNodes are not discovered here"),
    KeyRow("volcano.sh/tor", "Node", State.KEPT, "the same; name such labels in a HyperNode's `labelMatch`"),
    KeyRow("volcano.sh/hypernode", "Node", State.KEPT, "the same"),
    KeyRow("volcano.sh/hypercluster", "Node", State.KEPT, "the same"),
    KeyRow("volcano.sh/numa-topology-policy", "pod", State.KEPT, "written as in Volcano; nobody looks at NUMA nodes"),
    KeyRow("volcano.sh/topology-decision", "pod", State.KEPT, "nobody looks at NUMA nodes"),
    KeyRow("volcano.sh/task-priority", "pod", _SAME, "within its group; nobody else is outranked by it"),
    KeyRow("volcano.sh/task-topology-affinity", "Job", State.KEPT, "the plugin `task-topology` is refused"),
    KeyRow("volcano.sh/task-topology-anti-affinity", "Job", State.KEPT, "the same"),
    KeyRow("volcano.sh/task-topology-task-order", "Job", State.KEPT, "the same"),
    KeyRow("volcano.sh/task-topology", "Job", State.KEPT, "the same"),
    KeyRow("volcano.sh/resource-strategy-scoring-type", "pod", State.KEPT, "a score is the policy's, for all pods"),
    KeyRow("volcano.sh/resource-strategy-weight", "pod", State.KEPT, "the same"),
    KeyRow("volcano.sh/resource-group", "pod, Namespace", State.KEPT, "the webhook for resource groups is not here"),
    KeyRow("volcano.sh/job-name", "pod", _SAME, "written"),
    KeyRow("volcano.sh/job-namespace", "pod", _SAME, "written"),
    KeyRow("volcano.sh/job-version", "pod", _SAME, "written"),
    KeyRow("volcano.sh/job-retry-count", "pod", _SAME, "written"),
    KeyRow("volcano.sh/task-spec", "pod", _SAME, "written for Jobs, read of all"),
    KeyRow("volcano.sh/task-index", "pod", _SAME, "written"),
    KeyRow("volcano.sh/partition-id", "pod", _SAME, "written"),
    KeyRow("volcano.sh/queue-name", "pod", _SAME, "written"),
    KeyRow("volcano.sh/template-uid", "pod", _SAME, "written"),
    KeyRow("volcano.sh/controller-out-of-sync", "pod", _SAME, "written: its controller told it to go"),
    KeyRow("volcano.sh/job-type", "Job", State.KEPT, "nothing reads it there either"),
    KeyRow("volcano.sh/cronjob-scheduled-timestamp", "Job", _SAME, "written"),
    KeyRow("volcano.sh/createdByJobTemplate", "Job", _SAME, "written"),
    KeyRow("volcano.sh/createdByJobFlow", "Job", _SAME, "written"),
    KeyRow("volcano.sh/job-allocated-hypernode", "PodGroup", State.KEPT, "`allhands explain` says where it runs"),
    KeyRow("volcano.sh/job-forwarding", "Job", State.KEPT, _CLUSTERS),
    KeyRow("volcano.sh/forward-cluster", "pod", State.KEPT, _CLUSTERS),
    KeyRow("volcano.sh/burst-name", "any", State.KEPT, _CLUSTERS),
    KeyRow("volcano.sh/silo-resource", "any", State.KEPT, _CLUSTERS),
    KeyRow("volcano.sh/gpu-memory", "resource of a pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/gpu-number", "resource of a pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-number", "resource of a pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-memory", "resource of a pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-memory-percentage", "resource of a pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-cores", "resource of a pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-mode", "pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-podgroup-policy", "PodGroup", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-use-gpuuuid", "pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/vgpu-nouse-gpuuuid", "pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/node-vgpu-register", "Node", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/gpu-index", "pod", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/gpu-unhealthy-ids", "Node", State.KEPT, _DEVICES),
    KeyRow("volcano.sh/predicate-time", "pod", State.KEPT, _MARK),
    KeyRow("volcano.sh/bind-time", "pod", State.KEPT, _MARK),
    KeyRow("volcano.sh/bind-phase", "pod", State.KEPT, _MARK),
    KeyRow("volcano.sh/devices-to-allocate", "pod", State.KEPT, _MARK),
    KeyRow("volcano.sh/vgpu-time", "pod", State.KEPT, _MARK),
    KeyRow("volcano.sh/vgpu-ids-new", "pod", State.KEPT, _MARK),
    KeyRow("volcano.sh/vgpu-node", "pod", State.KEPT, _MARK),
    KeyRow("volcano.sh/scheduling-priority", "pod", State.KEPT, "for Volcano's second scheduler, which is not here"),
    KeyRow("volcano.sh/scheduling-priority-reason", "pod", State.KEPT, "the same"),
    KeyRow("volcano.sh/scheduling-priority-timestamp", "pod", State.KEPT, "the same"),
    KeyRow("node.volcano.sh/warmup", "Node", State.KEPT, "nodes are not sharded"),
    KeyRow("volcano.sh/qos-level", _FOR_PODS, State.KEPT, _AGENT),
    KeyRow("volcano.sh/colocation", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/colocation-config", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/colocation-config-name", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription-types", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription-cpu", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription-memory", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/offline-job-evicting", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/network-bandwidth-rate", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/enable-quota-burst", "pod", State.KEPT, _AGENT),
    KeyRow("volcano.sh/quota-burst-time", "pod", State.KEPT, _AGENT),
    KeyRow("volcano.sh/evicting-cpu-high-watermark", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/evicting-cpu-low-watermark", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/evicting-memory-high-watermark", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/evicting-memory-low-watermark", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription-evicting-cpu-high-watermark", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription-evicting-cpu-low-watermark", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription-evicting-memory-high-watermark", "Node", State.KEPT, _AGENT),
    KeyRow("volcano.sh/oversubscription-evicting-memory-low-watermark", "Node", State.KEPT, _AGENT),
)
"""In the order in which people look for them."""
