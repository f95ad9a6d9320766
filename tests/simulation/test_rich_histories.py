"""Random histories with much that meets in a cluster: native PodGroups, queues with caps, priorities and preemption,
volumes, Jobs after Jobs; with faults. Everyone ends well, no queue is over its cap, and whoever waits knows why."""

from __future__ import annotations

import msgspec
import pytest

from allhands.compose.fuzzing import ROUGH, fuzz
from allhands.sim.faults import NONE
from tests.depth import examples

KEPT: tuple[int, ...] = (31, 33, 38)
KEPT_WITH_SLOW_WRITES: tuple[int, ...] = (1, 21)
"""Every seed that ever failed, so that it never does again."""


@pytest.mark.parametrize("seed", sorted({*range(examples(8)), *KEPT}))
def test_rich_histories_with_faults_end_well(seed: int) -> None:
    fuzz(seed, rich=True)


@pytest.mark.parametrize("seed", range(2))
def test_rich_histories_without_faults_end_well(seed: int) -> None:
    fuzz(seed, NONE, rich=True)


@pytest.mark.parametrize("seed", sorted({*range(examples(4)), *KEPT_WITH_SLOW_WRITES}))
def test_rich_histories_with_many_slow_writes_under_way_at_a_time_end_well(seed: int) -> None:
    fuzz(seed, msgspec.structs.replace(ROUGH, slow=0.5), rich=True, flight=8)


def test_a_rich_history_repeats() -> None:
    assert fuzz(1, rich=True) == fuzz(1, rich=True)
