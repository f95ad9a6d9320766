"""What else a pod may ask for: volumes and claims, gates, ports, nodes by name, and the pods of other schedulers."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.core.memo import Memo
from allhands.core.plan_volumes import BindClaim, SelectNode
from allhands.core.work import Work
from allhands.model.affinity import NodeAffinity, NodeSelectorTerm, PodAffinity, PodTerm, SpreadConstraint
from allhands.model.node import Taint, Toleration
from allhands.model.pod import HostPort
from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.reason import Reason
from allhands.model.selector import LabelSelector, Requirement
from allhands.model.volume import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeFacts,
)
from tests.scenarios.cluster import Cluster, nodes_of

HOST = "kubernetes.io/hostname"
LATER = StorageClass("later", "disks.example.com", "WaitForFirstConsumer")
LOCAL = StorageClass("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
WEB = LabelSelector((("app", "web"),))


def claim(name: str, class_name: str = "later", **fields: Any) -> PersistentVolumeClaim:
    given = {"uid": f"uid-{name}", "access_modes": ("ReadWriteOnce",), "request_bytes": 10, "class_name": class_name}
    return PersistentVolumeClaim("default", name, **{**given, **fields})


def storage(*objects: PersistentVolumeClaim | PersistentVolume, **more: Any) -> VolumeFacts:
    return VolumeFacts(
        claims={it.key: it for it in objects if isinstance(it, PersistentVolumeClaim)},
        volumes={it.name: it for it in objects if isinstance(it, PersistentVolume)},
        classes={"later": LATER, "local": LOCAL},
        **more,
    )


def on(*nodes: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm((Requirement(HOST, "In", nodes),)),)


# -- volumes


def test_a_plan_says_which_node_to_make_a_volume_for_before_the_pod_is_bound() -> None:
    it = Cluster("n1").know(volumes=storage(claim("data"))).gang("g", 1, claims=("data",))
    start = it.decide().starts[0]
    assert start.prepare == (SelectNode("default/data", "uid-data", "n1"),)


def test_a_plan_says_which_volume_a_claim_gets() -> None:
    disk = PersistentVolume(
        "disk",
        node_affinity=on("n2"),
        class_name="local",
        phase="Available",
        capacity_bytes=10,
        access_modes=("ReadWriteOnce",),
    )
    it = Cluster("n1 n2").know(volumes=storage(claim("data", "local"), disk)).gang("g", 1, claims=("data",))
    plan = it.decide()
    assert nodes_of(plan, "g") == ["n2"]
    assert plan.starts[0].prepare == (BindClaim("default/data", "uid-data", "disk"),)


def test_the_claims_of_all_members_are_prepared_together() -> None:
    it = Cluster("n1 n2").know(volumes=storage(claim("a"), claim("b"))).gang("g", 0, minimum=2)
    it.more("g", 1, cpu=3, claims=("a",)).more("g", 1, cpu=3, claims=("b",))
    steps = it.decide().starts[0].prepare
    assert {(step.claim, step.node) for step in steps if isinstance(step, SelectNode)} in (
        {("default/a", "n1"), ("default/b", "n2")},
        {("default/a", "n2"), ("default/b", "n1")},
    )


def test_the_claims_of_elastic_members_are_prepared_too() -> None:
    it = Cluster("n1").know(volumes=storage(claim("data"))).gang("g", 1).more("g", 1, claims=("data",))
    prepared = [step for start in it.decide().starts for step in start.prepare]
    assert prepared == [SelectNode("default/data", "uid-data", "n1")]


def test_a_gang_with_one_claim_too_few_starts_with_no_pod() -> None:
    it = Cluster("n1 n2").know(volumes=storage(claim("a"))).gang("g", 0, minimum=2)
    it.more("g", 1, claims=("a",)).more("g", 1, claims=("missing",)).settle()
    assert it.running("g") == 0
    assert it.why("g") == 'Volume claim "default/missing" is not ready: it does not exist.'
    it.know(volumes=storage(claim("a"), claim("missing"))).settle()
    assert it.running("g") == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"lost": True}, "its volume is lost"),
        ({"deleting": True}, "it is being deleted"),
        ({"class_name": "no such class"}, "it is not bound yet"),
        ({"class_name": "local"}, "no free volume matches it and none can be made"),
    ],
    ids=[
        "a lost claim",
        "a claim that is being deleted",
        "a claim without a class",
        "a claim for which there is no disk",
    ],
)
def test_a_pod_is_told_what_is_wrong_with(fields: dict[str, Any], words: str) -> None:
    it = Cluster("n1").know(volumes=storage(claim("data", **fields))).gang("g", 1, claims=("data",)).settle()
    assert it.why("g").startswith(f'Volume claim "default/data" is not ready: {words}.')
    assert it.reason("g") is Reason.VOLUME_NOT_READY


def test_a_claim_for_one_pod_that_another_pod_has_is_awaited() -> None:
    own = claim("data", access_modes=("ReadWriteOncePod",), volume_name="disk", bind_completed=True)
    it = Cluster("n1").know(volumes=storage(own, PersistentVolume("disk")))
    it.gang("has", 1, on="n1", claims=("data",)).gang("wants", 1, claims=("data",)).settle()
    assert '"default/data" cannot be used now: another pod uses it.' in it.why("wants")
    assert it.reason("wants") is Reason.AFFINITY
    it.finish("has").settle()
    assert it.running("wants") == 1


def test_no_more_volumes_are_attached_to_a_node_than_it_can_attach() -> None:
    limits = CSINode("n1", (("disks.example.com", 2),))
    claims = [claim(name) for name in "abc"]
    it = Cluster("n1").know(volumes=storage(*claims, nodes={"n1": limits}))
    for name in "abc":
        it.gang(f"g{name}", 1, claims=(name,))
    it.settle(quiet=False)
    assert sum(it.running(f"g{name}") for name in "abc") == 2


def shared(name: str, volume: PersistentVolume) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    """A claim that is bound, and that any number of pods may use."""
    return claim(name, volume_name=volume.name, bind_completed=True, access_modes=("ReadWriteMany",)), volume


def test_gangs_with_ordinary_bound_claims_are_placed_in_one_pass_where_their_volumes_reach() -> None:
    it = Cluster("n1 n2 n3").know(
        volumes=storage(*shared("data", PersistentVolume("pv", node_affinity=on("n2", "n3"))))
    )
    it.gang("g", 8, cpu=1, claims=("data",))
    work = Work(it.world.snapshot(), it.policy, Memo(), it.now)
    state = work.state(it.entry("g").pending[0].shape)
    assert not state.is_dynamic
    assert state.static.tolist() == [False, True, True]
    assert nodes_of(it.decide(), "g") == ["n2"] * 4 + ["n3"] * 4


def test_a_volume_that_moves_takes_its_waiting_pods_along() -> None:
    def known(*nodes: str) -> VolumeFacts:
        return storage(*shared("data", PersistentVolume("pv", node_affinity=on(*nodes))))

    it = Cluster("n1 n2").know(volumes=known("n1")).gang("g", 1, cpu=1, claims=("data",))
    assert nodes_of(it.decide(), "g") == ["n1"]
    assert nodes_of(it.know(volumes=known("n2")).decide(), "g") == ["n2"]
    assert nodes_of(it.know(volumes=known("nowhere")).decide(), "g") == []
    assert nodes_of(it.know(volumes=known("n1")).decide(), "g") == ["n1"]


def test_who_may_not_go_where_its_volume_is_hears_of_the_volume() -> None:
    it = Cluster("n1 n2").know(volumes=storage(*shared("data", PersistentVolume("pv", node_affinity=on("n2")))))
    it.gang("g", 1, cpu=1, claims=("data",), node_selector={HOST: "n1"}).settle()
    assert it.why("g") == 'Volume claim "default/data" is not ready: no node that it may use reaches its volume.'


def test_a_gang_in_one_domain_goes_where_its_volume_is() -> None:
    it = Cluster("n1 n2 n3 n4").domain("a", "n1 n2").domain("b", "n3 n4")
    it.know(volumes=storage(*shared("data", PersistentVolume("pv", node_affinity=on("n3", "n4")))))
    rule = TopologyRule(TopologyMode.HARD, highest_tier=1)
    it.gang("g", 2, cpu=4, claims=("data",), members=SubGroup(min_count=2, topology=rule))
    plan = it.decide()
    assert nodes_of(plan, "g") == ["n3", "n4"]
    assert plan.starts[0].domain == "b"


# -- claims that are made for one pod


def scratch(pod: str, owner: str) -> PersistentVolumeClaim:
    return claim(f"{pod}-scratch", owner_uid=owner)


def test_a_claim_made_for_another_pod_of_the_same_name_will_not_do() -> None:
    own: dict[str, Any] = {"claims": ("g-0-scratch",), "ephemeral_claims": ("g-0-scratch",)}
    it = Cluster("n1").know(volumes=storage(scratch("g-0", "uid-of-an-older-pod"))).gang("g", 1, **own).settle()
    assert it.why("g") == 'Volume claim "default/g-0-scratch" is not ready: it was not made for the pod.'
    it.know(volumes=storage(scratch("g-0", it.members("g")[0].uid))).settle()
    assert it.running("g") == 1


def test_a_group_whose_pods_will_have_claims_of_their_own_is_admitted_before_they_exist() -> None:
    it = Cluster("n1").know(volumes=storage())
    it.gang("g", 2, predicted=True, claims=("-scratch",), ephemeral_claims=("-scratch",)).step()
    assert it.plan.starts[0].is_admission
    names = [pod.name for pod in it.members("g")]
    for name in names:
        own: dict[str, Any] = {"claims": (f"{name}-scratch",), "ephemeral_claims": (f"{name}-scratch",)}
        it.alter(name, **own)
    it.step()
    assert it.reason("g") is Reason.VOLUME_NOT_READY
    it.know(volumes=storage(*(scratch(pod.name, pod.uid) for pod in it.members("g")))).settle()
    assert it.running("g") == 2


# -- gates and claims that are not served


def test_gated_pods_are_awaited_and_the_gates_are_named() -> None:
    it = Cluster("n1").gang("g", 2).more("g", 1, scheduling_gates=("example.com/quota", "example.com/net"))
    it.gang("all", 3).alter("all-2", scheduling_gates=("example.com/net",)).settle()
    assert it.running("g") == 2
    assert it.why("all") == "1 of 3 pods are held back by scheduling gates (example.com/net)."
    it.alter("all-2", scheduling_gates=()).nodes("n2").settle()
    assert it.running("all") == 3


def test_pods_with_resource_claims_are_never_bound_and_are_told_why() -> None:
    it = Cluster("n1").gang("g", 1, resource_claims=("gpu",)).gang("other", 1).settle()
    assert (it.running("g"), it.running("other")) == (0, 1)
    assert it.why("g") == "A pod has resource claims, which are not served yet."


# -- other schedulers


def test_pods_of_other_schedulers_count_as_use() -> None:
    it = Cluster("n1").stranger("web", on="n1", cpu=3).gang("g", 2).settle()
    assert it.running("g") == 0


def test_pods_that_another_scheduler_has_nominated_count_as_use() -> None:
    it = Cluster("n1 n2").stranger("web", nominated="n1", cpu=4).gang("g", 1, cpu=4).settle()
    assert it.where("g") == ["n2"]


def test_pods_of_other_schedulers_are_not_bound_by_us() -> None:
    it = Cluster("n1").stranger("web").settle()
    assert not any(plan.binds for plan in it.plans)
    assert it.waiting == []


# -- nodes that are not ready: Kubernetes says so by taints


def test_a_node_that_is_not_ready_is_avoided_by_its_taints_and_not_by_its_condition() -> None:
    not_ready = (
        Taint("node.kubernetes.io/not-ready", "NoSchedule"),
        Taint("node.kubernetes.io/not-ready", "NoExecute"),
    )
    it = Cluster().nodes("n1", ready=False, taints=not_ready).nodes("n2", ready=True).gang("g", 2, cpu=3).settle()
    assert it.running("g") == 0
    it.nodes("n1", ready=False).settle()
    assert it.where("g") == ["n1", "n2"]


def test_a_pod_that_tolerates_it_may_start_on_a_node_that_is_not_ready() -> None:
    it = Cluster().nodes("n1", ready=False, taints=(Taint("node.kubernetes.io/not-ready", "NoSchedule"),))
    it.gang("g", 1, tolerations=(Toleration("node.kubernetes.io/not-ready", "Exists"),)).settle()
    assert it.running("g") == 1


# -- gangs that look at each other


def test_members_that_must_be_apart_are_and_wait_if_they_cannot() -> None:
    apart = PodAffinity(required_apart=(PodTerm(WEB, HOST, ("default",)),))
    it = Cluster("n1 n2").gang("g", 3, labels={"app": "web"}, pod_affinity=apart).settle()
    assert it.running("g") == 0
    it.nodes("n3").settle()
    assert it.where("g") == ["n1", "n2", "n3"]


def test_members_that_lack_cores_are_told_so_even_if_they_also_look_at_others() -> None:
    apart = PodAffinity(required_apart=(PodTerm(WEB, HOST, ("default",)),))
    it = Cluster("n1 n2").gang("runs", 2, cpu=4, on="n1 n2").gang("g", 2, labels={"app": "web"}, pod_affinity=apart)
    it.settle()
    assert it.reason("g") is Reason.INSUFFICIENT_RESOURCES


def test_members_spread_evenly_or_wait() -> None:
    even = (SpreadConstraint(1, HOST, hard=True, selector=WEB),)
    it = Cluster().nodes("n1", cpu=8).nodes("n2", cpu=1)
    it.gang("g", 4, labels={"app": "web"}, spread=even).settle()
    assert it.running("g") == 0
    it.nodes("n2", cpu=2).settle()
    assert it.where("g") == ["n1", "n1", "n2", "n2"]


def test_members_with_a_port_of_the_node_get_a_node_each() -> None:
    it = Cluster("n1 n2").gang("g", 2, host_ports=(HostPort(port=80),)).gang("h", 1, host_ports=(HostPort(port=80),))
    it.settle()
    assert it.where("g") == ["n1", "n2"]
    assert it.running("h") == 0


def test_a_pod_that_selects_no_node_is_told_so() -> None:
    it = Cluster("n1 n2").gang("g", 1, node_selector={"disk": "ssd"})
    it.gang("h", 1, node_affinity=NodeAffinity(required=on("n9"))).settle()
    assert it.why("g") == "None of 2 nodes matches the pod's node selector and affinity."
    assert it.why("h") == "None of 2 nodes matches the pod's node selector and affinity."
