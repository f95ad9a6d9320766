"""The whole scheduler is exact: what it binds the real kube-scheduler allows, and what it leaves nobody could place.

Random clusters and pods that touch every filter, on the real API server, with `allhands scheduler` as a process. A
failure names its seed: `python -m tests.judge.whole SEED` shows it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.depth import examples
from tests.judge.clusters import Case
from tests.judge.whole import OURS, WholeJudge, whole_case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS = range(1, 1 + examples(10, soak_factor=200))
BATCH = 10
KEPT = (1933,)
"""Here one fits only before another that is evicted later: the judge must find that order."""


@pytest.fixture(scope="module")
def judge(real_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeJudge]:
    with WholeJudge() as judge, judge.ours(tmp_path_factory.mktemp("whole")):
        yield judge


@pytest.mark.timeout(1800)  # a difference is believed only after a minute
@pytest.mark.parametrize("first", SEEDS[::BATCH], ids=lambda first: f"seeds from {first}")
def test_what_was_bound_was_allowed_and_what_waits_fits_nowhere(judge: WholeJudge, first: int) -> None:
    done = [judge.examine(whole_case(seed)) for seed in range(first, first + BATCH)]
    assert not [str(it) for each in done for it in each.findings]
    assert sum(each.bound for each in done) > 5 * BATCH
    assert sum(each.waiting for each in done) > BATCH


@pytest.mark.parametrize("seed", KEPT)
def test_a_case_in_which_the_order_of_binds_is_hard_to_find(judge: WholeJudge, seed: int) -> None:
    assert not [str(it) for it in judge.examine(whole_case(seed)).findings]


def test_the_judge_sees_a_binding_that_breaks_a_rule(judge: WholeJudge) -> None:
    """Two pods that keep away from each other, and a third that the node is too small for and that is bound by hand."""
    room = {"cpu": "2", "memory": "8Gi", "pods": "10"}
    apart = {"labelSelector": {"matchLabels": {"app": "lonely"}}, "topologyKey": "kubernetes.io/hostname"}
    lonely = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    pods = [_pod("first", "1", affinity=lonely), _pod("second", "1", affinity=lonely), _pod("large", "4")]
    node = {"metadata": {"name": "only", "labels": {"kubernetes.io/hostname": "only"}}, "status": _status(room)}
    case = Case(0, {"Node": [node]}, pods, ["apart", "apart", "too large"])
    alone = judge.examine(case)
    assert (alone.bound, alone.waiting, alone.findings) == (1, 2, [])
    meddled = judge.examine(case, lambda: judge.bind(pods[2], "only"))
    assert [(it.pod, it.theme) for it in meddled.findings] == [("alpha/large", "too large")]
    assert "Insufficient cpu" in meddled.findings[0].problem


def _status(room: dict[str, str]) -> dict[str, Any]:
    return {"allocatable": room, "capacity": room}


def _pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "alpha", "labels": {"app": "lonely"}}
    return {"metadata": metadata, "spec": {"schedulerName": OURS, "containers": [container], **spec}}
