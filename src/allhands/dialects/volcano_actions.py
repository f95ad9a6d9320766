"""What becomes of every action of Volcano's scheduler, and of every argument of one.

docs/volcano-configuration.md shows the same rows, and a test keeps the two equal.
"""

from __future__ import annotations

from typing import Final

from allhands.dialects.volcano_rows import ActionRow, Type, Verdict, ours, refused, same

_NO_ERROR_CACHE: Final = same("predicateErrorCacheEnable", "saves work only; what failed is remembered in any case")
_SEARCH: Final = "every scenario is tried with all filters; how many are tried is bounded by maxVictimSearches"
_MAX_DOMAINS: Final = same("maxDomains", "maxDomainsTried", Type.WHOLE)
_WHOLE_BUNDLE: Final = refused(
    "allowWholeBundle", "victims cannot be kept to members above the minimum of their group", neutral=(True,)
)

ACTIONS: Final = (
    ActionRow(
        "enqueue", Verdict.OURS, "a group is admitted with the nodes it will run on, not by a sum of free resources"
    ),
    ActionRow("allocate", Verdict.SAME, "always done", (_NO_ERROR_CACHE,)),
    ActionRow(
        "backfill",
        Verdict.OURS,
        "pods that ask for nothing are placed with all others; who may pass a group that waits is said by backfill",
        (_NO_ERROR_CACHE,),
    ),
    ActionRow(
        "preempt",
        Verdict.OURS,
        "victims are members above a minimum first, then whole groups, and only if the group that waits then starts",
        (
            _NO_ERROR_CACHE,
            ours("enableTopologyAwarePreemption", _SEARCH),
            ours("topologyAwarePreemptWorkerNum", _SEARCH, Type.WHOLE),
            ours("minCandidateNodesPercentage", _SEARCH, Type.WHOLE),
            ours("minCandidateNodesAbsolute", _SEARCH, Type.WHOLE),
            ours("maxCandidateNodesAbsolute", _SEARCH, Type.WHOLE),
        ),
    ),
    ActionRow(
        "reclaim",
        Verdict.OURS,
        "what is taken back is taken by whole groups, and never more than the queue that takes it deserves",
        (_NO_ERROR_CACHE,),
    ),
    ActionRow("gangpreempt", Verdict.SAME, "preempts", (_MAX_DOMAINS, _WHOLE_BUNDLE)),
    ActionRow("gangreclaim", Verdict.SAME, "reclaims", (_MAX_DOMAINS, _WHOLE_BUNDLE)),
    ActionRow("shuffle", Verdict.REFUSED, "running pods are not moved to balance load"),
)

REMOVED_ACTIONS: Final = {
    "elect": "Volcano removed it long ago in favour of the plugin sla",
    "reserve": "Volcano removed it long ago in favour of the plugin sla",
}
