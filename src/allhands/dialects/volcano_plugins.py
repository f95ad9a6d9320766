"""What becomes of every plugin of Volcano's scheduler, of every argument of one, and of every switch that is off.

docs/volcano-configuration.md shows the same rows, and a test keeps the two equal. It is one table, and long for that.
"""

from __future__ import annotations

from typing import Final

from allhands.dialects.volcano_rows import PluginRow, Row, Type, Verdict, ours, refused, same

_ALWAYS_CHECKED: Final = "it is always checked"
_GANG: Final = "a group starts whole or not at all; that cannot be switched off"
_QUOTA: Final = "limits of queues always hold"
_PROTECTED: Final = "it always protects"
_DRA: Final = "pods with resource claims wait, with a reason: dynamic resources are not served yet"
_DEVICES: Final = "devices are not shared here: ask for whole ones"
_LOAD: Final = "real load is not measured here"
_NO_EXTENDER: Final = "nothing outside is asked while deciding"

PLUGINS: Final = (
    PluginRow(
        "priority",
        Verdict.SAME,
        "the order priority; only groups of a lower priority are preempted",
        switches=(
            same("enableJobOrder", "the order priority is left out"),
            same("enableTaskOrder", "pods of one group are placed together, whatever their priority"),
            same("enabledSubJobOrder", "parts of one group are placed together, whatever their priority"),
            ours("enablePreemptable", "only groups of a lower priority are ever preempted"),
            ours("enableJobStarving", "who waits and may preempt does so"),
        ),
    ),
    PluginRow(
        "gang",
        Verdict.SAME,
        "always on; groups that have begun are completed first",
        switches=(
            ours("enableJobOrder", "groups that have begun are completed first"),
            refused("enableJobReady", _GANG),
            refused("enableJobPipelined", _GANG),
            refused("enabledSubJobReady", _GANG),
            refused("enabledSubJobPipelined", _GANG),
            ours("enabledSubJobOrder", "parts of one group are placed together"),
            ours("enableJobStarving", "who waits and may preempt does so"),
            same("enablePreemptable", "a minimum does not protect a group: it is taken whole, never in part"),
            same("enableReclaimable", "a minimum does not protect a group: it is taken whole, never in part"),
        ),
    ),
    PluginRow(
        "conformance",
        Verdict.SAME,
        "the guard conformance, always on",
        switches=(ours("enablePreemptable", _PROTECTED), ours("enableReclaimable", _PROTECTED)),
    ),
    PluginRow(
        "drf",
        Verdict.OURS,
        "groups that wait have nothing yet, so their shares are equal; shares order the queues",
        switches=(
            same("enableHierarchy", "queueChoice hdrf if true; refused together with proportion"),
            same("enableJobOrder", "it makes no difference among groups that wait"),
            ours("enableQueueOrder", "queues are ordered by share"),
            same("enablePreemptable", "shares within a queue choose no victims"),
            ours("enableReclaimable", "what is taken back is bounded by what queues deserve"),
        ),
    ),
    PluginRow(
        "proportion",
        Verdict.SAME,
        "queueChoice proportion",
        switches=(
            same("enableQueueOrder", "another plugin, else the default, chooses the queue"),
            ours("enabledAllocatable", _QUOTA),
            ours("enabledOverused", _QUOTA),
            ours("enableJobEnqueued", _QUOTA),
            ours("enablePredicate", _QUOTA),
            ours("enablePreemptive", "what is taken back is bounded by what queues deserve"),
            ours("enableReclaimable", "what is taken back is bounded by what queues deserve"),
        ),
    ),
    PluginRow(
        "capacity",
        Verdict.SAME,
        "queueChoice proportion; amounts that are written stand, the rest is shared by weight",
        (
            ours(
                "ancestorReclaimLevel",
                "two queues are compared where their paths part, at whatever level that is",
                Type.WHOLE,
                neutral=(0,),
            ),
            refused(
                "capacity.DynamicResourceAllocationEnable", "queues have no quota of device classes", neutral=(False,)
            ),
            refused("capacity.DRAConsumableCapacityEnable", "queues have no quota of device classes", neutral=(False,)),
        ),
        (
            ours("enableHierarchy", "the parents that queues name always count"),
            same("enableQueueOrder", "another plugin, else the default, chooses the queue"),
            ours("enabledAllocatable", _QUOTA),
            ours("enableJobEnqueued", _QUOTA),
            ours("enablePredicate", _QUOTA),
            ours("enablePreemptive", "what is taken back is bounded by what queues deserve"),
            ours("enableReclaimable", "what is taken back is bounded by what queues deserve"),
        ),
    ),
    PluginRow(
        "overcommit",
        Verdict.OURS,
        "nothing is admitted without room, so nothing need be over-committed; the gate overcommit can keep room free",
        (same("overcommit-factor", "it makes no difference", Type.NUMBER),),
        (same("enableJobEnqueued", "it makes no difference"),),
    ),
    PluginRow(
        "predicates",
        Verdict.SAME,
        "all filters, always on",
        (
            ours("predicate.NodeAffinityEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.NodePortsEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.TaintTolerationEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.PodAffinityEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.NodeVolumeLimitsEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.VolumeZoneEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.PodTopologySpreadEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.VolumeBindingEnable", _ALWAYS_CHECKED, neutral=(True,)),
            ours("predicate.DynamicResourceAllocationEnable", _DRA, neutral=(False,)),
            same("predicate.CacheEnable", "saves work only; masks are remembered in any case"),
            ours(
                "volumebinding.bindTimeoutSeconds",
                "volumes are prepared before any pod of the group is bound",
                Type.WHOLE,
            ),
            ours("volumebinding.weight", "the capacity of volumes is not scored", Type.WHOLE),
            ours("volumebinding.shape", "the capacity of volumes is not scored", Type.LIST),
            ours("dynamicresources.filterTimeoutSeconds", _DRA, Type.WHOLE),
            refused("predicate.GPUSharingEnable", f"deprecated; {_DEVICES}", neutral=(False,)),
            refused("predicate.GPUNumberEnable", f"deprecated; {_DEVICES}", neutral=(False,)),
            refused("predicate.ProportionalEnable", "deprecated; room is not kept in proportion", neutral=(False,)),
            ours("predicate.resources", "deprecated; room is not kept in proportion", Type.TEXT),
            ours("predicate.resources.<name>", "deprecated; room is not kept in proportion", Type.NUMBER),
        ),
        (
            ours("enablePredicate", _ALWAYS_CHECKED),
            same("enableNodeOrder", "the capacity of volumes is not scored"),
        ),
    ),
    PluginRow(
        "nodeorder",
        Verdict.SAME,
        "the scores below, with these weights (in brackets: where nothing is said)",
        (
            same("leastrequested.weight", "the score leastallocated (1)", Type.WHOLE),
            same("mostrequested.weight", "the score mostallocated (0)", Type.WHOLE),
            same("nodeaffinity.weight", "the score nodeaffinity (2)", Type.WHOLE),
            same("podaffinity.weight", "neighbourWeight (2), the larger of the two", Type.WHOLE),
            same("balancedresource.weight", "the score balanced (1)", Type.WHOLE),
            same("tainttoleration.weight", "the score taints (3)", Type.WHOLE),
            same("imagelocality.weight", "the score imagelocality (1)", Type.WHOLE),
            same("podtopologyspread.weight", "neighbourWeight (2), the larger of the two", Type.WHOLE),
        ),
        (same("enableNodeOrder", "its scores are left out"),),
    ),
    PluginRow(
        "binpack",
        Verdict.SAME,
        "the score binpack",
        (
            same("binpack.weight", "its weight (1)", Type.WHOLE),
            same("binpack.cpu", "the weight of cpu in it (1; if negative, 1)", Type.WHOLE),
            same("binpack.memory", "the weight of memory in it (1; if negative, 1)", Type.WHOLE),
            same("binpack.resources", "further resources in it, with commas between", Type.TEXT),
            same("binpack.resources.<name>", "the weight of such a one (1; if negative, 1)", Type.WHOLE),
        ),
        (same("enableNodeOrder", "it is left out"),),
    ),
    PluginRow(
        "resource-strategy-fit",
        Verdict.SAME,
        "the scores resourcestrategy and scarce; annotations of pods that change them are not read",
        (
            same("resourceStrategyFitWeight", "the weight of resourcestrategy (10; if negative, 10)", Type.WHOLE),
            same("resources", "its argument resources: for each name a type and a weight", Type.MAPPING),
            same(
                "sra",
                "the score scarce, if it says enable: true; with resources, resourceWeight and weight",
                Type.MAPPING,
            ),
            Row(
                "proportional",
                Verdict.REFUSED,
                "room is not kept in proportion to devices",
                Type.MAPPING,
                unless_off="enablePredicate",
            ),
        ),
        (
            same("enableNodeOrder", "its scores are left out"),
            same("enablePredicate", "the argument proportional is not read"),
        ),
    ),
    PluginRow(
        "network-topology-aware",
        Verdict.OURS,
        "topology is always kept: the tightest domain first, and of those the one that leaves large holes whole",
        (
            ours("weight", "domains are not weighed against nodes: the domain is chosen first", Type.WHOLE),
            ours("hypernode.binpack.cpu", "the domain that fits best is chosen by pods that fit", Type.WHOLE),
            ours("hypernode.binpack.memory", "the domain that fits best is chosen by pods that fit", Type.WHOLE),
            ours("hypernode.binpack.resources", "the domain that fits best is chosen by pods that fit", Type.TEXT),
            ours(
                "hypernode.binpack.resources.<name>", "the domain that fits best is chosen by pods that fit", Type.WHOLE
            ),
            ours(
                "hypernode.binpack.normal-pod.enable", "pods without a rule are placed by nodes alone", neutral=(False,)
            ),
            ours("hypernode.binpack.normal-pod.fading", "pods without a rule are placed by nodes alone", Type.NUMBER),
            same("hypernode.gradient.evict.max-hypernodes", "maxDomainsTried", Type.WHOLE),
        ),
        (
            ours("enableNodeOrder", "topology is always kept"),
            ours("enabledHyperNodeOrder", "topology is always kept"),
            ours("enabledHyperNodeGradient", "topology is always kept"),
        ),
    ),
    PluginRow(
        "nodegroup",
        Verdict.SAME,
        "nodeGroups: strict; queues that name node groups keep to them with any configuration",
        (
            same("strict", "false: nodeGroups: apart"),
            same("enablePreferredOrder", "ordersNodeGroups"),
        ),
        (
            ours("enableHierarchy", "who names no node groups has those of the queue above"),
            ours("enablePredicate", "queues that name node groups always keep to them"),
            same("enableNodeOrder", "the score nodeaffinity, which prefers nodes of groups too, is not added"),
        ),
    ),
    PluginRow(
        "deviceshare",
        Verdict.OURS,
        "devices are whole extended resources",
        (
            refused("deviceshare.GPUSharingEnable", _DEVICES, neutral=(False,)),
            refused("deviceshare.GPUNumberEnable", _DEVICES, neutral=(False,)),
            refused("deviceshare.VGPUEnable", _DEVICES, neutral=(False,)),
            refused("deviceshare.AscendMindClusterVNPUEnable", _DEVICES, neutral=(False,)),
            refused("deviceshare.AscendHAMiVNPUEnable", _DEVICES, neutral=(False,)),
            ours("deviceshare.NodeLockEnable", _DEVICES, neutral=(False,)),
            ours("deviceshare.SchedulePolicy", _DEVICES, Type.TEXT),
            ours("deviceshare.ScheduleWeight", _DEVICES, Type.WHOLE),
            ours("deviceshare.KnownGeometriesCMName", _DEVICES, Type.TEXT),
            ours("deviceshare.KnownGeometriesCMNamespace", _DEVICES, Type.TEXT),
            refused("deviceshare.GPUExclusiveRules", _DEVICES, Type.LIST, neutral=([],)),
        ),
        (same("enablePredicate", "it makes no difference"), same("enableNodeOrder", "it makes no difference")),
    ),
    PluginRow(
        "numa-aware",
        Verdict.REFUSED,
        "the NUMA topology of nodes is not known here",
        (refused("weight", "refused with the plugin", Type.WHOLE),),
    ),
    PluginRow(
        "task-topology",
        Verdict.REFUSED,
        "annotations of jobs about which tasks go together are not read; use pod affinity or sub-groups",
        (refused("task-topology.weight", "refused with the plugin", Type.WHOLE),),
    ),
    PluginRow(
        "sla",
        Verdict.OURS,
        "the order deadline; after the waiting time a domain is drained for a group, so that it starts",
        (same("sla-waiting-time", "drainAfterSeconds", Type.DURATION),),
        (
            same("enableJobOrder", "the order deadline is left out"),
            ours("enableJobEnqueued", "nothing is admitted without room"),
            same("enableJobPipelined", "the waiting time is not read"),
        ),
    ),
    PluginRow(
        "tdm",
        Verdict.REFUSED,
        "nodes that are lent for hours of the day are not known here; advance reservations are",
        (
            refused("tdm.revocable-zone.<name>", "refused with the plugin", Type.TEXT),
            refused("tdm.evict.period", "refused with the plugin", Type.DURATION),
        ),
    ),
    PluginRow(
        "usage",
        Verdict.REFUSED,
        _LOAD,
        (
            refused("usage.weight", "refused with the plugin", Type.WHOLE),
            refused("cpu.weight", "refused with the plugin", Type.WHOLE),
            refused("memory.weight", "refused with the plugin", Type.WHOLE),
            refused("thresholds", "refused with the plugin", Type.MAPPING),
            refused("estimator", "refused with the plugin", Type.MAPPING),
        ),
    ),
    PluginRow(
        "rescheduling",
        Verdict.REFUSED,
        "running pods are not moved to balance load",
        (
            refused("interval", "refused with the plugin", Type.DURATION),
            refused("metricsPeriod", "refused with the plugin", Type.DURATION),
            refused("strategies", "refused with the plugin", Type.LIST),
        ),
    ),
    PluginRow(
        "cdp",
        Verdict.SAME,
        "the guard minruntime, always on",
        switches=(ours("enablePreemptable", _PROTECTED), ours("enableReclaimable", _PROTECTED)),
    ),
    PluginRow(
        "pdb",
        Verdict.SAME,
        "the guard disruptionbudget, always on",
        switches=(
            ours("enablePreemptable", _PROTECTED),
            ours("enableReclaimable", _PROTECTED),
            same("enabledVictim", "running pods are not moved to balance load"),
        ),
    ),
    PluginRow(
        "resourcequota",
        Verdict.SAME,
        "always on: who asks for more than a quota of its namespace leaves waits before its first pod, and is told so",
        switches=(ours("enableJobEnqueued", "quotas of namespaces always hold"),),
    ),
    PluginRow(
        "extender",
        Verdict.REFUSED,
        _NO_EXTENDER,
        (
            refused("extender.urlPrefix", "refused with the plugin", Type.TEXT),
            refused("extender.httpTimeout", "refused with the plugin", Type.DURATION),
            refused("extender.ignorable", "refused with the plugin"),
            refused("extender.managedResources", "refused with the plugin", Type.LIST),
            refused("extender.<verb>Verb", "refused with the plugin", Type.TEXT),
        ),
    ),
)

SWITCHES: Final = (
    "enableBestNode",
    "enableHierarchy",
    "enableJobEnqueued",
    "enableJobOrder",
    "enableJobPipelined",
    "enableJobReady",
    "enableJobStarving",
    "enableNodeOrder",
    "enablePredicate",
    "enablePreemptable",
    "enablePreemptive",
    "enableQueueOrder",
    "enableReclaimable",
    "enableReservedNodes",
    "enableTargetJob",
    "enableTaskOrder",
    "enabledAllocatable",
    "enabledClusterOrder",
    "enabledHyperNodeGradient",
    "enabledHyperNodeOrder",
    "enabledOverused",
    "enabledSubJobOrder",
    "enabledSubJobPipelined",
    "enabledSubJobReady",
    "enabledVictim",
)
"""Every switch of a plugin, as Volcano spells it: some begin with `enable`, some with `enabled`."""
