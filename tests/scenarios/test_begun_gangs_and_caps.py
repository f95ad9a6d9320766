"""A gang that has begun is completed whatever its queue holds, so what it still needs of the queue is kept for it."""

from __future__ import annotations

from allhands.model.queue import Queue
from allhands.model.reason import Reason
from tests.scenarios.cluster import Cluster, cpu


def begun_without_room() -> Cluster:
    """A queue of three cores; one of a gang's three pods is on a node, and the nodes have room for one more."""
    cluster = Cluster("a b", cpu=4).know(accounts=(Queue("capped", quotas=(cpu(capability=3),)), Queue("free")))
    cluster.gang("gang", 3, minimum=3, cpu=1, queue="capped", on="a")
    cluster.pod("in-the-way", on="a", cpu=3)
    cluster.pod("leaving-soon", on="b", cpu=3)
    return cluster


def test_others_of_its_queue_do_not_take_what_it_needs() -> None:
    cluster = begun_without_room()
    cluster.gang("small", 1, cpu=1, queue="capped")
    for _ in range(5):
        plan = cluster.step()
        assert not plan.starts
    assert cluster.wait("small").explanation.reason is Reason.QUEUE_OVER_CAPABILITY
    cluster.lose("leaving-soon")
    cluster.step()
    assert (cluster.running("gang"), cluster.running("small")) == (3, 0)


def test_others_elsewhere_go_on() -> None:
    cluster = begun_without_room()
    cluster.gang("elsewhere", 1, cpu=1, queue="free")
    cluster.step()
    assert cluster.running("elsewhere") == 1
