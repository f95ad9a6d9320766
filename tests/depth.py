"""How much random input a run tries: little in `make test`, much in `make soak`. The tests are the same."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

SOAK = os.environ.get("ALLHANDS_SOAK") == "1"


def examples(quick: int, soak_factor: int = 20) -> int:
    """The number of examples for a law that usually tries `quick` of them."""
    return quick * soak_factor if SOAK else quick


ten_times_in_soak = pytest.mark.parametrize("round_", range(examples(1, soak_factor=10)))
"""For what must go well every time, such as surviving a fault: once is luck. The test takes the number of the round."""


def load_profile() -> None:
    """What laws that say nothing about it try. Time limits per example would measure the machine."""
    settings.register_profile("allhands", max_examples=examples(100), deadline=None)
    settings.load_profile("allhands")
