"""Our feasible sets equal those of the real kube-scheduler, over random clusters with pods that touch every filter.

A difference is judged again before it is believed, shrunk with the real scheduler as the judge, written to
`tests/judge/cases/` (where `tests/unit/core/test_recorded_feasibility.py` replays it from then on), and shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.depth import examples
from tests.judge.bound import HOLD
from tests.judge.clusters import Case, random_case
from tests.judge.comparison import kept_differences
from tests.judge.kube_scheduler import Judge
from tests.judge.recorded import FAILED_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Manifest = dict[str, Any]

SEEDS = range(1, 1 + examples(200, soak_factor=10))
BATCH = 20
"""Cases in one test: enough to be worth a line in the report, few enough to end soon after a failure."""
ADMISSION_TOLERATES = [{"operator": "Exists"}]


@pytest.fixture(scope="module")
def judge(real_tools: Path) -> Iterator[Judge]:
    with Judge() as found:
        yield found


@pytest.mark.timeout(900)  # a difference is shrunk by asking the real scheduler many times
@pytest.mark.parametrize("first", SEEDS[::BATCH], ids=lambda first: f"seeds from {first}")
def test_feasible_sets_equal_those_of_the_real_scheduler(judge: Judge, first: int) -> None:
    found = kept_differences(judge, SEEDS[first - SEEDS.start : first - SEEDS.start + BATCH], FAILED_ONCE)
    assert not found, "\n\n".join(found)


def test_the_judge_sees_what_a_person_would(judge: Judge) -> None:
    """The harness itself: room, taints, nominations of equals and superiors, gates, and pods that are ending."""
    nodes = [_node("big", "4"), _node("small", "1"), _node("tainted", "4", {"key": "a", "effect": "NoSchedule"})]
    nominated = _pod("nominated", "3", priorityClassName="middle", schedulerName="rival")
    nominated["spec"]["schedulingGates"] = [{"name": HOLD}]
    nominated["status"] = {"nominatedNodeName": "big"}
    ending = _pod("ending", "3", nodeName="tainted")
    ending["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    pods = {
        "fits the nodes without a taint": (_pod("a", "500m"), {"big", "small"}),
        "tolerates the taint": (_pod("b", "500m", tolerations=ADMISSION_TOLERATES), {"big", "small", "tainted"}),
        "yields to the nominated pod": (_pod("c", "2"), set()),
        "outranks the nominated pod": (_pod("d", "2", priorityClassName="top"), {"big"}),
        "finds the room of the ending pod still taken": (_pod("e", "2", tolerations=ADMISSION_TOLERATES), set()),
        "is gated": (_pod("f", "0", schedulingGates=[{"name": "example.com/wait"}]), set()),
    }
    case = Case(0, {"Node": nodes, "Pod": [nominated, ending]}, [pod for pod, _ in pods.values()], list(pods))
    verdicts = dict(zip(pods, judge.judge(case).verdicts, strict=True))
    assert {what: set(verdict.nodes) for what, verdict in verdicts.items()} == {
        what: wanted for what, (_, wanted) in pods.items()
    }


def test_a_case_leaves_nothing_behind_for_the_next_one(judge: Judge) -> None:
    crowded = random_case(11)
    judge.judge(crowded)
    alone = Case(0, {"Node": [_node("only", "4")]}, [_pod("a", "1")], ["plain"])
    judgement = judge.judge(alone)
    assert [set(verdict.nodes) for verdict in judgement.verdicts] == [{"only"}]
    assert set(judgement.world) == {"Node"}


def _node(name: str, cpu: str, *taints: Manifest) -> Manifest:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    spec = {"taints": list(taints)}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": room, "capacity": room}}


def _pod(name: str, cpu: str, **spec: Any) -> Manifest:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "namespace": "alpha"}, "spec": {"containers": [container], **spec}}
