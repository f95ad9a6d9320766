"""Members that are bound and never begin to run: released in time, tried again later, elsewhere, and never for ever."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.core.policy import DEFAULT
from allhands.model.group_status import GroupStatus
from allhands.model.pod import PodPhase
from allhands.model.reason import Reason
from tests.scenarios.cluster import BEGIN, STEP_SECONDS, Cluster, nodes_of

QUICK = msgspec.structs.replace(DEFAULT, start_timeout_seconds=60, retry_base_seconds=40, retry_max_seconds=200)


def stuck(nodes: str = "n1 n2", count: int = 2, **fields: Any) -> Cluster:
    """Pods are bound, and do not begin to run."""
    it = Cluster(nodes, policy=QUICK)
    it.starts_pods = False
    return it.gang("it", count, cpu=3, **fields)


def run_until_released(it: Cluster) -> Cluster:
    for _ in range(60):
        if it.step().releases:
            return it
    raise AssertionError("never released")


def test_a_gang_that_does_not_start_is_released_after_its_time_and_not_before() -> None:
    it = stuck()
    it.run(7)
    assert not any(plan.releases for plan in it.plans[:6])
    assert it.plans[6].releases
    assert it.evicted == ["it-0", "it-1"]
    assert str(it.plans[6].evictions[0].why) == "2 pods were bound and did not start within 60 s (n1, n2)."


def test_the_time_that_the_group_names_goes_before_the_policys() -> None:
    it = stuck(group={"start_timeout_seconds": 20}).run(3)
    assert it.plans[2].releases


def test_a_released_gang_pauses_and_says_until_when() -> None:
    it = run_until_released(stuck())
    until = it.plan.releases[0].retry_at_seconds
    assert until == it.now - STEP_SECONDS + 40
    it.run(3)
    assert it.reason("it") is Reason.BACKING_OFF
    assert it.wait("it").expected_start_seconds == until


def test_each_pause_is_twice_the_last_up_to_a_limit() -> None:
    it = stuck("n1 n2 n3 n4")
    pauses = []
    for _ in range(5):
        run_until_released(it)
        pauses.append(it.plan.releases[0].retry_at_seconds - (it.now - STEP_SECONDS))
        it.set_status("it", avoid_nodes=())
    assert pauses == [40, 80, 160, 200, 200]


def test_the_nodes_where_it_failed_are_avoided() -> None:
    it = run_until_released(stuck("n1 n2 n3 n4"))
    assert it.plan.releases[0].avoid_nodes == ("n1", "n2")
    it.starts_pods = True
    it.run(6).settle()
    assert it.where("it") == ["n3", "n4"]


def test_only_the_nodes_of_members_that_did_not_start_are_avoided() -> None:
    it = stuck("n1 n2 n3 n4").run(1)
    it.alter("it-0", phase=PodPhase.RUNNING, started_at_seconds=it.now)
    run_until_released(it)
    assert it.plan.releases[0].avoid_nodes == ("n2",)
    assert it.evicted == ["it-0", "it-1"]


def test_while_it_pauses_its_room_serves_others() -> None:
    it = run_until_released(stuck().gang("other", 2, cpu=3)).run(2)
    assert nodes_of(it.plan, "other") == ["n1", "n2"]


def test_where_there_are_no_other_nodes_the_same_are_tried_again_after_a_while() -> None:
    it = run_until_released(stuck())
    it.starts_pods = True
    it.run(10)
    assert it.running("it") == 0
    assert "n1, n2" in it.why("it")
    it.run(30)
    assert it.where("it") == ["n1", "n2"]


def test_a_gang_of_bare_pods_is_never_deleted() -> None:
    it = stuck(owner="").run(30)
    assert it.evicted == []
    assert it.running("it") == 2


def test_a_gang_that_lost_pods_before_it_started_is_released_too() -> None:
    it = stuck("n1 n2 n3", count=3).run(1)
    it.world.delete_pod("uid-it-2")
    run_until_released(it)
    assert sorted(it.evicted) == ["it-0", "it-1"]


def test_members_that_run_are_not_released_because_others_have_succeeded() -> None:
    it = Cluster("n1 n2", policy=QUICK).gang("it", 2, cpu=3).run(1).alter("it-0", phase=PodPhase.SUCCEEDED).run(30)
    assert it.evicted == []


@pytest.mark.parametrize(
    ("known", "steps"),
    [({"bound_at_seconds": BEGIN, "created_at_seconds": 0}, 7), ({"created_at_seconds": BEGIN - 30}, 4)],
    ids=["from the binding", "from the making, where no binding is known"],
)
def test_time_counts(known: dict[str, Any], steps: int) -> None:
    it = Cluster("n1", policy=QUICK).gang("it", 1, on="n1", phase=PodPhase.PENDING, **known)
    it.starts_pods = False
    run_until_released(it)
    assert len(it.plans) == steps


def test_a_clock_that_jumps_back_releases_nobody() -> None:
    it = stuck().run(2)
    it.now -= 5000
    it.run(5)
    assert not any(plan.releases for plan in it.plans)


def test_a_gang_in_its_pause_is_not_started_by_anything_else_that_happens() -> None:
    status = GroupStatus(failed_starts=1, retry_at_seconds=BEGIN + 100)
    it = Cluster("n1", policy=QUICK).gang("it", 1, status=status)
    it.run(5).nodes("n2").run(4)
    assert it.running("it") == 0
    it.run(2)
    assert it.running("it") == 1
