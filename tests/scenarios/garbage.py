"""Objects of the model with nonsense in every field: right types, wrong values. Nothing may stop at them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from allhands.core.entries import Predicted
from allhands.core.facts import DisruptionBudget, Facts, PastRuns, Reservation
from allhands.model.affinity import (
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodTerm,
    PreferredNodeTerm,
    SpreadConstraint,
    WeightedPodTerm,
)
from allhands.model.domain import Domain
from allhands.model.flavor import Flavor
from allhands.model.group_status import GroupStatus, Said
from allhands.model.identity import Identity
from allhands.model.node import Node, NodeImage, Taint, Toleration
from allhands.model.pod import HostPort, Pod, PodPhase
from allhands.model.pod_volume import Attachment, InlineVolume
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TaskMinimum, TopologyMode, TopologyRule
from allhands.model.queue import Account, Queue, QueueOrder, QueueState, Quota, ShareBy
from allhands.model.reason import Reason, explain
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelector, Requirement
from allhands.model.volume import (
    ClaimReference,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeFacts,
)

NAMES = ("a", "b", "c", "node-0", "node-1", "", "x/y", "ü", "a" * 300, "0", "*")
names = st.sampled_from(NAMES)
nodes_names = st.sampled_from(("node-0", "node-1", "node-2", "gone", ""))
numbers = st.one_of(
    st.integers(-3, 5000),
    st.sampled_from(
        (0, 1, 2**31, 2**53 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, -1, -(2**63), -(2**70))
    ),
)
times = st.one_of(st.none(), numbers)
resources = st.sampled_from(("cpu", "memory", "pods", "example.com/gpu", "ephemeral-storage", "hugepages-2Mi"))
vectors = st.dictionaries(resources, numbers, max_size=4).map(ResourceVector.of)
labels = st.dictionaries(st.sampled_from(("app", "zone", "kubernetes.io/hostname", "")), names, max_size=3)
operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Strange", ""))


def tuples(of: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=most).map(tuple)


def tried(make: Any, *args: Any, **fields: Any) -> st.SearchStrategy[Any]:
    """What the model itself refuses is not garbage that can reach anybody."""

    def build(drawn: tuple[Any, ...]) -> Any:
        values = dict(zip(fields, drawn[len(args) :], strict=True))
        try:
            return make(*drawn[: len(args)], **values)
        except (ValueError, TypeError):
            return None

    return st.tuples(*args, *fields.values()).map(build).filter(lambda it: it is not None)


requirements = tried(Requirement, names, operators, tuples(names))
selectors = tried(
    LabelSelector, match_labels=tuples(st.tuples(names, names), 2), match_expressions=tuples(requirements, 2)
)
selectors_or_none = st.one_of(st.none(), selectors)
node_terms = tried(NodeSelectorTerm, tuples(requirements, 2), tuples(requirements, 1))
pod_terms = tried(
    PodTerm,
    selectors_or_none,
    st.sampled_from(("zone", "kubernetes.io/hostname", "", "none")),
    tuples(names, 2),
    selectors_or_none,
)
rules = st.one_of(
    st.none(),
    tried(
        TopologyRule,
        st.sampled_from(list(TopologyMode)),
        highest_tier=times,
        tier_name=st.one_of(st.none(), names),
        tree=st.one_of(st.none(), names),
    ),
)
slots = st.builds(Slot, st.sampled_from(("", "a", "b", "unknown")), st.sampled_from(("", "w", "m")))

pods = tried(
    Pod,
    st.sampled_from(("default", "", "kube-system")),
    st.sampled_from(("p0", "p1", "p2", "p3", "9" * 40, "")),
    uid=st.sampled_from(("u0", "u1", "u2", "u3", "u4", "u5", "")),
    labels=labels,
    node_name=nodes_names,
    priority=numbers,
    phase=st.sampled_from(list(PodPhase)),
    deleting=st.booleans(),
    scheduling_gates=tuples(names, 1),
    node_selector=st.one_of(st.just({}), labels),
    tolerations=tuples(
        tried(Toleration, names, st.sampled_from(("", "Exists", "Equal", "Lt", "Odd")), names, names), 2
    ),
    requests=vectors,
    node_affinity=tried(
        NodeAffinity,
        st.one_of(st.none(), tuples(node_terms, 2)),
        tuples(tried(PreferredNodeTerm, numbers, node_terms), 1),
    ),
    pod_affinity=tried(
        PodAffinity,
        tuples(pod_terms, 1),
        tuples(tried(WeightedPodTerm, numbers, pod_terms), 1),
        tuples(pod_terms, 1),
        tuples(tried(WeightedPodTerm, numbers, pod_terms), 1),
    ),
    spread=tuples(
        tried(
            SpreadConstraint,
            numbers,
            st.sampled_from(("zone", "kubernetes.io/hostname", "", "none")),
            st.booleans(),
            selectors_or_none,
            times,
        ),
        1,
    ),
    host_ports=tuples(tried(HostPort, names, names, numbers), 1),
    images=tuples(names, 2),
    container_count=numbers,
    claims=tuples(names, 2),
    ephemeral_claims=tuples(names, 1),
    volumes=tuples(
        tried(InlineVolume, st.sampled_from(("rbd", "iscsi", "awsElasticBlockStore", "odd")), st.tuples(names)), 1
    ),
    resource_claims=tuples(names, 1),
    nominated_node=nodes_names,
    created_at_seconds=numbers,
    started_at_seconds=times,
    bound_at_seconds=times,
    owner=names,
)
plain_pods = tried(
    Pod,
    st.just("default"),
    st.sampled_from([f"p{number}" for number in range(8)]),
    uid=st.sampled_from([f"u{number}" for number in range(8)]),
    node_name=nodes_names,
    phase=st.sampled_from(list(PodPhase)),
    deleting=st.booleans(),
    requests=vectors,
    created_at_seconds=numbers,
    owner=names,
)

nodes = tried(
    Node,
    st.sampled_from(("node-0", "node-1", "node-2", "")),
    labels=labels,
    taints=tuples(
        tried(Taint, names, st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule", "Odd")), names), 1
    ),
    unschedulable=st.booleans(),
    allocatable=st.one_of(vectors, st.just(ResourceVector.of({"cpu": 8000, "memory": 1 << 40, "pods": 20}))),
    images=tuples(tried(NodeImage, tuples(names, 2), numbers), 1),
)

counts = st.one_of(st.integers(0, 4), st.sampled_from((2**31, 2**53, 2**63, 2**70)))
leaves = tried(
    SubGroup,
    st.sampled_from(("a", "b", "c")),
    min_count=counts,
    max_count=st.one_of(st.none(), counts),
    task_minimums=tuples(tried(TaskMinimum, names, counts), 1),
    topology=rules,
)
members = tried(
    SubGroup,
    min_count=counts,
    max_count=st.one_of(st.none(), counts),
    task_minimums=tuples(tried(TaskMinimum, st.sampled_from(("", "w", "m")), counts), 2),
    children=tuples(leaves, 2),
    min_children=st.one_of(st.none(), st.integers(0, 2)),
    topology=rules,
)
groups = tried(
    PodGroup,
    st.sampled_from(("default", "")),
    st.sampled_from(("g0", "g1", "g2", "pod:p0")),
    st.sampled_from(("q0", "q1", "q2", "", "nowhere")),
    members=members,
    identity=tried(Identity, names, tuples(names, 2)),
    accounts=tuples(st.sampled_from(("q0", "q1", "q2", "nowhere")), 2),
    priority=numbers,
    created_at_seconds=numbers,
    expected_duration_seconds=times,
    preemptible=st.booleans(),
    start_timeout_seconds=times,
    min_run_seconds=numbers,
    deadline_seconds=times,
    not_before_seconds=times,
    suspended=st.booleans(),
    grace_seconds=times,
    features=tuples(st.tuples(names, numbers), 1),
)
statuses = tried(
    GroupStatus,
    admitted_at_seconds=times,
    started_at_seconds=times,
    failed_starts=numbers,
    retry_at_seconds=numbers,
    avoid_nodes=tuples(nodes_names),
    preempting_since_seconds=times,
    nominated_nodes=tuples(nodes_names),
    said=st.one_of(st.none(), st.builds(Said, st.just(explain(Reason.SUSPENDED)), times)),
)
predicted = tuples(tried(Predicted, slots, st.one_of(pods, plain_pods), numbers.map(lambda count: min(count, 50))), 2)

amounts = st.one_of(st.none(), st.integers(0, 9000), st.sampled_from((0, 2**53, 2**63, 2**200)))
quotas = tried(
    Quota,
    st.sampled_from(("cpu", "memory", "pods", "*", "odd")),
    st.sampled_from(("*", "*", "fast", "unknown")),
    guarantee=amounts,
    deserved=amounts,
    capability=amounts,
    borrowing_limit=amounts,
    lending_limit=amounts,
)
account_names = st.sampled_from(("q0", "q1", "q2", "top", ""))
parents = st.sampled_from((None, None, "top", "q0", "q1", "nowhere"))
accounts = st.one_of(
    tried(Account, account_names, parents, tuples(quotas, 2), weight_millis=numbers, priority=numbers),
    tried(
        Queue,
        account_names,
        parents,
        tuples(quotas, 2),
        weight_millis=numbers,
        priority=numbers,
        reclaimable=st.booleans(),
        state=st.sampled_from(list(QueueState)),
        order=st.sampled_from(list(QueueOrder)),
        max_running_groups=times,
        per_user=tuples(quotas, 1),
        max_running_groups_per_user=times,
        default_duration_seconds=times,
        preempt_within=st.booleans(),
        can_reclaim=st.booleans(),
        backfill=st.booleans(),
        share_by=st.sampled_from(list(ShareBy)),
    ),
)
domains = tried(
    Domain,
    st.sampled_from(("d0", "d1", "d2", "d3", "")),
    numbers,
    st.sampled_from((None, "d0", "d1", "d2", "nowhere")),
    tuples(nodes_names),
    tier_name=names,
    healthy=st.booleans(),
    tree=st.sampled_from(("", "", "other")),
)
references = tried(ClaimReference, st.just("default"), names, names)
volumes = tried(
    PersistentVolume,
    names,
    labels=labels,
    node_affinity=st.one_of(st.none(), tuples(node_terms, 1)),
    claim=st.one_of(st.none(), references),
    access_modes=tuples(names, 1),
    class_name=names,
    capacity_bytes=numbers,
    attachment=st.one_of(st.none(), st.builds(Attachment, names, names)),
    phase=st.sampled_from(("Available", "Bound", "")),
)
claims = tried(
    PersistentVolumeClaim,
    st.just("default"),
    names,
    uid=names,
    volume_name=names,
    class_name=names,
    access_modes=tuples(st.sampled_from(("ReadWriteOncePod", "ReadWriteOnce")), 1),
    request_bytes=times,
    selector=selectors_or_none,
    selected_node=st.one_of(st.none(), nodes_names),
    bind_completed=st.booleans(),
    lost=st.booleans(),
    owner_uid=names,
)


def by_name(objects: list[Any]) -> dict[str, Any]:
    return {it.name: it for it in objects}


facts = st.builds(
    Facts,
    accounts=tuples(accounts, 4),
    flavors=tuples(tried(Flavor, names, st.sampled_from(((), (("zone", "a"),)))), 2),
    domains=tuples(domains, 4),
    namespaces=st.dictionaries(names, labels, max_size=2),
    volumes=st.builds(
        VolumeFacts,
        volumes=st.lists(volumes, max_size=2).map(by_name),
        claims=st.lists(claims, max_size=2).map(lambda found: {it.key: it for it in found}),
        classes=st.lists(
            tried(StorageClass, names, names, st.sampled_from(("WaitForFirstConsumer", "Immediate", ""))), max_size=2
        ).map(by_name),
        nodes=st.lists(tried(CSINode, nodes_names, tuples(st.tuples(names, times), 1)), max_size=1).map(by_name),
        drivers=st.lists(tried(CSIDriver, names, st.booleans()), max_size=1).map(by_name),
        capacities=tuples(tried(StorageCapacity, names, names, names, selectors_or_none, times), 1),
        attachments=tuples(tried(VolumeAttachment, names, nodes_names, names, names), 1),
    ),
    reservations=tuples(
        tried(Reservation, names, numbers, numbers, tuples(nodes_names), vectors, tuples(names, 1), tuples(names, 1)), 2
    ),
    budgets=tuples(tried(DisruptionBudget, names, names, selectors, numbers), 1),
    past_runs=st.dictionaries(account_names, tried(PastRuns, numbers, numbers), max_size=1),
)


class Event(msgspec.Struct, frozen=True):
    """One call of the world."""

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


@st.composite
def _event(
    draw: st.DrawFn, /, name: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]
) -> Event:
    # Made here, and not by `builds`, since showing how each part of it was built takes minutes.
    drawn = tuple(draw(argument) for argument in arguments)
    return Event(name, drawn, {key: draw(option) for key, option in options.items()})


group_keys = st.sampled_from(("", "", "default/g0", "default/g1", "/g2", "strange"))
uids = st.sampled_from([*(f"u{number}" for number in range(8)), ""])
events = st.one_of(
    _event("set_node", nodes),
    _event("set_node", nodes),
    _event("delete_node", nodes_names),
    _event("set_pod", pods, group=group_keys, slot=slots, ours=st.booleans(), status=statuses),
    _event("set_pod", plain_pods, group=group_keys, slot=slots, ours=st.booleans()),
    _event("set_pod", plain_pods, group=group_keys, slot=slots),
    _event("delete_pod", uids),
    _event("assume_bound", uids, nodes_names, times),
    _event("assume_evicted", uids, evicted=st.booleans()),
    _event("set_group", groups, statuses, predicted),
    _event("set_group", groups),
    _event("delete_group", group_keys),
    _event("set_facts", facts),
)
