"""Pods that another scheduler means to put on a node hold room there, but not against those who outrank them.

As with kube-scheduler, which counts a nominated pod for pods of its own priority and of lower ones.
"""

from __future__ import annotations

from typing import Any

import msgspec

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.orders import Creation
from allhands.core.policy import DEFAULT, Policy
from allhands.model.affinity import PodAffinity, PodTerm, SpreadConstraint
from allhands.model.pod import HostPort
from allhands.model.pod_volume import InlineVolume
from allhands.model.selector import LabelSelector
from tests.scenarios.cluster import Cluster

HOST = "kubernetes.io/hostname"
WEB = LabelSelector((("app", "web"),))
BY_AGE = msgspec.structs.replace(DEFAULT, orders=(Creation(),))
SILENT = msgspec.structs.replace(BY_AGE, explains=False, tells_promises=False, preempts=False, reclaims=False)
HIGH = {"priority": 6}


def rival(cluster: Cluster, cpu: float, **fields: Any) -> Cluster:
    return cluster.stranger("rival", nominated="n1", cpu=cpu, priority=5, **fields)


def test_a_group_that_outranks_it_takes_its_room() -> None:
    it = rival(Cluster("n1"), 4).gang("high", cpu=4, group=HIGH).settle()
    assert it.where("high") == ["n1"]


def test_a_group_of_its_priority_or_of_less_leaves_it_its_room() -> None:
    it = rival(Cluster("n1"), 2).gang("equal", cpu=3, group={"priority": 5}).gang("low", cpu=3).settle()
    assert it.running("equal") == it.running("low") == 0


def test_equal_groups_of_several_priorities_are_each_asked() -> None:
    """The first in line is refused for a pod that the next one need not mind."""
    it = rival(Cluster("n1", policy=BY_AGE), 2).gang("low", cpu=3).gang("high", cpu=3, group=HIGH)
    assert _started(it, SILENT, Memo()) == ["default/high"]
    it.settle()
    assert it.where("high") == ["n1"]
    assert it.running("low") == 0


def test_what_a_cycle_without_it_left_behind_does_not_keep_away_who_outranks_it() -> None:
    """It comes with as much as a pod had that has gone: nothing has come free for those who mind it."""
    it, memo = Cluster("n1", policy=SILENT).gang("there", cpu=3, on="n1").gang("low", cpu=3), Memo()
    it.gang("high", cpu=3, group=HIGH)
    assert _started(it, SILENT, memo) == _started(it, SILENT, memo) == []
    it.world.delete_pod("uid-there-0")
    it.world.delete_group("default/there")
    assert _started(rival(it, 3), SILENT, memo) == ["default/high"]


def _started(cluster: Cluster, policy: Policy, memo: Memo) -> list[str]:
    plan, _ = cycle(cluster.world.snapshot(), policy, memo, cluster.now)
    return [start.group for start in plan.starts]


def test_what_a_higher_group_took_of_its_room_is_not_there_for_a_lower_one() -> None:
    it = rival(Cluster("n1"), 3).gang("high", cpu=2, group=HIGH).gang("low", cpu=1).settle()
    assert it.where("high") == ["n1"]
    assert it.running("low") == 0


def test_of_several_each_counts_for_those_that_it_is_not_outranked_by() -> None:
    it = rival(Cluster("n1"), 1).stranger("other", nominated="n1", cpu=1, priority=8)
    it.gang("low", cpu=3).gang("middle", cpu=3, group={"priority": 8}).gang("top", cpu=4, group={"priority": 9})
    assert [bind.pod for start in it.step().starts for bind in start.binds] == ["default/top-0"]
    it.finish("top").settle()
    assert (it.running("middle"), it.running("low")) == (1, 0)


def test_a_whole_group_grows_over_it() -> None:
    it = rival(Cluster("n1"), 2).gang("high", 4, minimum=2, group=HIGH).gang("low", 4, minimum=2).settle()
    assert (it.running("high"), it.running("low")) == (4, 0)


def test_nobody_is_evicted_for_room_that_it_does_not_hold() -> None:
    it = rival(Cluster("n1"), 2).gang("low", 2, on="n1 n1").gang("high", 2, group=HIGH).settle()
    assert it.running("high") == it.running("low") == 2


def test_who_must_evict_others_looks_past_it_too() -> None:
    it = rival(Cluster("n1"), 2).gang("low", 4, on="n1 n1 n1 n1").gang("high", 1, group=HIGH)
    it.gang("spare", 1, minimum=0).settle()
    assert it.running("high") == 1


def test_its_ports_are_free_to_who_outranks_it() -> None:
    ports = (HostPort(port=80),)
    it = rival(Cluster("n1"), 1, host_ports=ports).gang("low", host_ports=ports)
    it.gang("high", host_ports=ports, group=HIGH).settle()
    assert (it.running("high"), it.running("low")) == (1, 0)


def test_its_company_does_not_matter_to_who_outranks_it() -> None:
    alone = PodAffinity(required_apart=(PodTerm(WEB, HOST, ("default",)),))
    it = rival(Cluster("n1"), 1, labels={"app": "web"}).gang("low", pod_affinity=alone)
    it.gang("high", pod_affinity=alone, group=HIGH).settle()
    assert (it.running("high"), it.running("low")) == (1, 0)


def test_it_does_not_count_in_the_spreading_of_who_outranks_it() -> None:
    evenly: dict[str, Any] = {
        "labels": {"app": "web"},
        "spread": (SpreadConstraint(1, HOST, hard=True, selector=WEB),),
        "cpu": 1,
    }
    it = rival(Cluster("n1 n2"), 1, labels={"app": "web"}).nodes("n2", cpu=0)
    it.gang("low", **evenly).gang("high", **evenly, group=HIGH).settle()
    assert (it.where("high"), it.running("low")) == (["n1"], 0)


def test_its_disks_do_not_keep_away_who_outranks_it() -> None:
    disks = (InlineVolume("gcePersistentDisk", ("disk",)),)
    it = rival(Cluster("n1"), 1, volumes=disks).gang("low", volumes=disks)
    it.gang("high", volumes=disks, group=HIGH).settle()
    assert (it.running("high"), it.running("low")) == (1, 0)
