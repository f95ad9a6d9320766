"""Room on nodes is counted only where the queue's node groups let its pods go."""

from __future__ import annotations

from allhands.views.groups import groups_of
from allhands.views.room import room_lines, why_there_lines
from tests.unit.views.view_objects import job, node, picture, pod, queue

REQUIRED = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["red"]}}


def test_nodes_of_other_groups_are_not_counted_as_room() -> None:
    named = {"allhands.dev/queue": "team"}
    shown = picture(
        job("a", size=1, annotations=named),
        pod("a-0", job="a"),
        node("n1", labels={"volcano.sh/nodegroup-name": "red"}),
        node("n2", labels={"volcano.sh/nodegroup-name": "blue"}),
        node("n3"),
        queues=(queue("org", affinity=REQUIRED), queue("team", parent="org")),
    )
    (group,) = groups_of(shown)
    assert room_lines(group, shown) == [
        "1 of 3 nodes allow its pods; looked at one by one, they have room for 4 of them.",
        "n1: room for 4; cpu has 4 of 4 free",
    ]


def test_the_node_groups_of_the_queue_are_not_told_as_wishes_of_the_pods() -> None:
    nodes = (node("n1", labels={"volcano.sh/nodegroup-name": "red", "disk": "ssd"}), node("n2"))
    named = {"allhands.dev/queue": "team"}
    for selector, words in (
        ({}, 'The node groups of queue "team" leave 1 of 2 nodes.'),
        ({"disk": "ssd"}, 'Its node selector and affinity and the node groups of queue "team" leave 1 of 2 nodes.'),
    ):
        made = pod("a-0", job="a", spec={"nodeSelector": selector})
        shown = picture(job("a", size=1, annotations=named), made, *nodes, queues=(queue("team", affinity=REQUIRED),))
        (group,) = groups_of(shown)
        assert why_there_lines(group, shown) == [words]
