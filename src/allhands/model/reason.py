"""Why a group or a pod waits: one list of reasons and one way to say them, for conditions, events, CLI and pages alike.

A reason is a word for programs; an explanation is a sentence for people, with its numbers kept apart so that both can
be compared. No other module may invent a word or a wording for waiting.
"""

from __future__ import annotations

import enum
import functools
import string
from typing import Final

import msgspec

Number = int | str
"""A count, or an amount already written with its unit ("8Gi"), or a name."""


class Reason(enum.StrEnum):
    """CamelCase, as conditions of the API want them."""

    GANG_INCOMPLETE = "GangIncomplete"
    SUB_GROUP_INCOMPLETE = "SubGroupIncomplete"
    SCHEDULING_GATED = "SchedulingGated"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    NEVER_FITS = "NeverFits"
    GROUP_NEVER_FITS = "GroupNeverFits"
    NO_MATCHING_NODE = "NoMatchingNode"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    TOPOLOGY = "TopologyUnsatisfied"
    AFFINITY = "AffinityUnsatisfied"
    VOLUME_NOT_READY = "VolumeNotReady"
    DEVICE_NOT_AVAILABLE = "DeviceNotAvailable"
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_HELD = "QueueHeld"
    QUEUE_DRAINING = "QueueDraining"
    QUEUE_OVER_CAPABILITY = "QueueOverCapability"
    QUEUE_OVER_DESERVED = "QueueOverDeserved"
    NAMESPACE_QUOTA = "NamespaceQuotaReached"
    BORROWING_LIMIT = "BorrowingLimitReached"
    QUEUE_RUNNING_LIMIT = "QueueRunningLimitReached"
    USER_LIMIT = "UserLimitReached"
    USER_RUNNING_LIMIT = "UserRunningLimitReached"
    BEHIND_OTHERS = "BehindOthers"
    ROOM_RESERVED = "RoomReserved"
    DEPENDENCY_PENDING = "DependencyPending"
    NOT_BEFORE = "StartTimeNotReached"
    SUSPENDED = "Suspended"
    BACKING_OFF = "BackingOff"
    START_FAILED = "StartFailed"
    AWAITING_PREEMPTION = "AwaitingPreemption"
    PREEMPTED = "Preempted"
    RECLAIMED = "Reclaimed"
    AWAITING_NODES = "AwaitingNodes"
    PARTLY_BOUND = "PartlyBound"
    AT_MAXIMUM = "AtMaximum"
    INVALID = "Invalid"


SENTENCES: Final[dict[Reason, str]] = {
    Reason.GANG_INCOMPLETE: "{have} of the {need} pods that must start together exist.",
    Reason.SUB_GROUP_INCOMPLETE: 'Sub-group "{subgroup}" has {have} of the {need} {what} that it must start with.',
    Reason.SCHEDULING_GATED: "{gated} of {total} pods are held back by scheduling gates ({gates}).",
    Reason.INSUFFICIENT_RESOURCES: "{fits} of the {need} pods fit now; {resource} is short by {short}.",
    Reason.NEVER_FITS: "A pod asks for {request} of {resource}, but the largest node has {largest}.",
    Reason.GROUP_NEVER_FITS: "With every other group gone, there would still be no room for its {need} pods together.",
    Reason.NO_MATCHING_NODE: "None of {nodes} nodes matches the pod's node selector and affinity.",
    Reason.UNTOLERATED_TAINT: "{tainted} of {nodes} nodes have a taint that the pod does not tolerate ({taint}).",
    Reason.TOPOLOGY: "No domain of tier {tier} has room for {need} pods; the best of {domains} holds {fits}.",
    Reason.AFFINITY: "{fits} of the {need} pods fit with respect to where other pods must or must not be.",
    Reason.VOLUME_NOT_READY: 'Volume claim "{claim}" is not ready: {problem}.',
    Reason.DEVICE_NOT_AVAILABLE: "{have} of {need} devices of class {device_class} are available.",
    Reason.QUEUE_NOT_FOUND: 'Queue "{queue}" does not exist.',
    Reason.QUEUE_CLOSED: 'Queue "{queue}" is closed.',
    Reason.QUEUE_HELD: 'Queue "{queue}" is held and starts nothing.',
    Reason.QUEUE_DRAINING: 'Queue "{queue}" is being drained and starts nothing.',
    Reason.QUEUE_OVER_CAPABILITY: (
        'Queue "{queue}" uses {used} of its capability of {limit} {resource}; the group asks for {request}.'
    ),
    Reason.QUEUE_OVER_DESERVED: (
        'Queue "{queue}" uses {used} of the {limit} {resource} that it deserves, and the group asks for {request}, '
        "which nobody lends."
    ),
    Reason.NAMESPACE_QUOTA: (
        'ResourceQuota "{quota}" of its namespace allows {limit} {resource}, of which {used} is used or promised; '
        "the group asks for {request}."
    ),
    Reason.BORROWING_LIMIT: (
        'Queue "{queue}" already borrows {used} {resource} of at most {limit}; the group asks for {request}.'
    ),
    Reason.QUEUE_RUNNING_LIMIT: 'Queue "{queue}" runs {used} groups, and at most {limit} may run in it at a time.',
    Reason.USER_LIMIT: (
        'User "{user}" uses {used} of the {limit} {what} that one user may use in queue "{queue}"; '
        "the group asks for {request}."
    ),
    Reason.USER_RUNNING_LIMIT: (
        'User "{user}" runs {used} groups in queue "{queue}", in which one user may run at most {limit} at a time.'
    ),
    Reason.BEHIND_OTHERS: 'The group is number {position} of {waiting} in queue "{queue}".',
    Reason.ROOM_RESERVED: 'The room it would fit in is reserved for "{owner}".',
    Reason.DEPENDENCY_PENDING: 'It waits for "{dependency}".',
    Reason.NOT_BEFORE: "It must not start before {time}.",
    Reason.SUSPENDED: "It is suspended.",
    Reason.BACKING_OFF: "Its last start failed; attempt {attempt} comes at {time}.",
    Reason.START_FAILED: "{unstarted} pods were bound and did not start within {seconds} s ({nodes}).",
    Reason.AWAITING_PREEMPTION: "{victims} pods are leaving to make room for it.",
    Reason.PREEMPTED: (
        '{what} "{victim}" must leave for "{preemptor}", whose priority is {priority} over {victim_priority} '
        "{within}; this frees {frees}."
    ),
    Reason.RECLAIMED: (
        '{what} "{victim}" must leave for "{preemptor}": queue "{queue}" uses {used} of the {deserved} {resource} '
        'that it deserves, queue "{victim_queue}" {victim_used} of {victim_deserved}; this frees {frees}.'
    ),
    Reason.AWAITING_NODES: "{need} pods wait for new nodes.",
    Reason.PARTLY_BOUND: "{bound} of the {need} pods that must run together are bound; the rest has no room now.",
    Reason.AT_MAXIMUM: "It runs with {have} pods, which is the most that it may have; {waiting} more exist.",
    Reason.INVALID: "{problem}",
}
"""The standard sentence of each reason; the names in braces are the numbers that it needs."""


AFTER: Final = 'It can start once "{after}" has ended, expected at {expected}.'
AFTER_IN_DOMAINS: Final = '{serving} could hold it once "{after}" has ended, expected at {expected}.'
AFTER_UNKNOWN: Final = 'It waits for "{after}" too, and nobody knows when that ends.'
"""What is added to a reason that ends with time: when, and after whom."""
HELD_BY_OTHERS: Final = '"{claim}" cannot be used now: {problem}.'
NODE_GROUPS: Final = "Its queue may use only nodes {groups} (label volcano.sh/nodegroup-name)."
AVOIDED: Final = "Nodes on which its last start failed are left out ({avoided})."
TAKEN_BACK: Final = "None of them has started, so they are taken back, and the group waits for room for all."
NEVER_PREEMPTS: Final = "Nobody is evicted for it, since its preemption policy is Never."
FIRST_NEVER: Final = 'The first of them, "{first}", can never start as things are, and nobody passes it in this queue.'
NEVER_ALLOWED: Final = "It can never start with these quotas, even if nothing else ran."
MORE_THAN_ALL: Final = (
    "It asks for {together} {scarce} in all, and all nodes together have {everything}: "
    "it can never start on these nodes."
)
"""What is added to a reason for want of room: what else is in the way, and what is done about it."""
NEVER: Final = frozenset((Reason.NEVER_FITS, Reason.GROUP_NEVER_FITS, Reason.INVALID))
"""Why a group cannot start as long as it, the nodes and the quotas stay what they are, whoever else ends."""
EVICTED: Final = frozenset((Reason.PREEMPTED, Reason.RECLAIMED))
"""Why a group that ran must make room for another."""


class Explanation(msgspec.Struct, frozen=True):
    """One reason with its numbers; `str()` is the sentence. Equal explanations need not be written again."""

    reason: Reason
    message: str
    numbers: tuple[tuple[str, Number], ...] = ()

    def __post_init__(self) -> None:
        needed, given = _placeholders(self.message), [name for name, _ in self.numbers]
        if len(set(given)) < len(given):
            raise ValueError(f"{self.reason.value}: a number is given twice: {', '.join(given)}")
        if missing := sorted(needed - set(given)):
            raise ValueError(f"{self.reason.value}: the sentence needs {', '.join(missing)}")

    def __str__(self) -> str:
        # A value is data and may hold braces, but a sentence stays on one line.
        return " ".join(self.message.format(**dict(self.numbers)).split())

    def with_more(self, sentence: str, **numbers: Number) -> Explanation:
        """The same reason with a further sentence."""
        both = {**dict(self.numbers), **numbers}
        return Explanation(self.reason, f"{self.message} {sentence}", tuple(sorted(both.items())))

    def number(self, name: str) -> Number:
        return dict(self.numbers)[name]

    @property
    def is_never(self) -> bool:
        """Whether it rules a start out for good: by its reason, or since the number "never" says so."""
        return self.reason in NEVER or ("never", 1) in self.numbers


def explain(reason: Reason, **numbers: Number) -> Explanation:
    """The standard sentence of a reason. Numbers beyond those that it shows are kept for programs."""
    return Explanation(reason, SENTENCES[reason], tuple(sorted(numbers.items())))


@functools.lru_cache(maxsize=256)
def _placeholders(message: str) -> frozenset[str]:
    names = set()
    for _, name, spec, conversion in string.Formatter().parse(message):
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise ValueError(f"a sentence may hold only plain names in braces, got {{{name}}}")
        names.add(name)
    return frozenset(names)
