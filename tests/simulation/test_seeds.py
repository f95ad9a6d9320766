"""Whole histories of the whole system, with faults: no law breaks, everyone ends well, and a history repeats."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from allhands.compose.fuzzing import fuzz
from allhands.sim.faults import NONE
from tests.depth import examples

BATCH = 10
KEPT: tuple[int, ...] = ()
"""Every seed that ever failed, so that it never does again."""


@pytest.mark.parametrize("first", range(0, examples(100), BATCH))
def test_seeds_with_faults_end_well(first: int) -> None:
    for seed in range(first, first + BATCH):
        try:
            fuzz(seed)
        except Exception as error:
            error.add_note(f"replay it: allhands fuzz --first {seed} --seeds 1")
            raise


def test_seeds_that_once_failed_end_well() -> None:
    for seed in KEPT:
        fuzz(seed)


def test_without_faults_everyone_ends_well_too() -> None:
    for seed in range(5):
        fuzz(seed, NONE)


def test_the_same_seed_gives_the_same_history_in_another_process() -> None:
    here = [fuzz(seed).digest for seed in (3, 8)]
    script = "from allhands.compose.fuzzing import fuzz; print(fuzz(3).digest, fuzz(8).digest)"
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", script]
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        assert there == here
