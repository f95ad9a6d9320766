"""How much random input a run tries: little in `make test`, much in `make soak`. The tests are the same."""

from __future__ import annotations

import os

from hypothesis import settings

SOAK = os.environ.get("ALLHANDS_SOAK") == "1"


def examples(quick: int, soak_factor: int = 20) -> int:
    """The number of examples for a law that usually tries `quick` of them."""
    return quick * soak_factor if SOAK else quick


def load_profile() -> None:
    """What laws that say nothing about it try. Time limits per example would measure the machine."""
    settings.register_profile("allhands", max_examples=examples(100), deadline=None)
    settings.load_profile("allhands")
