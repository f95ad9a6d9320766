"""Our feasible sets equal those the real kube-scheduler once gave: recorded clusters, and failures that were shrunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.judge.ours import differing
from tests.judge.recorded import load, recorded_files
from tests.judge.replay import shown

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", recorded_files(), ids=lambda path: path.name.split(".")[0])
def test_the_recorded_verdicts_of_the_real_scheduler_are_ours_too(path: Path) -> None:
    kept = load(path)
    found = [shown(kept, number) for number in differing(kept)]
    assert not found, "\n\n".join(found)


def test_there_is_something_to_replay() -> None:
    assert len(recorded_files()) >= 60
