"""A scheduler asks for what it will read while it is still being loaded: for that, once, and for nothing else."""

from __future__ import annotations

import subprocess
import sys

from allhands.compose.early import READ_FIRST, READ_IN_PAGES
from allhands.runtime.scheduling.watched_world import WatchedWorld
from tests.virtual import cluster, on_virtual_time

HEAVY = ("numpy", "uvicorn", "allhands.core", "allhands.dialects", "allhands.server")


@on_virtual_time
async def test_nothing_is_asked_for_early_that_nobody_watches() -> None:
    informers = WatchedWorld(cluster().objects, changed=lambda: None).informers
    assert set(READ_FIRST) <= {it.resource for it in informers if not it.in_pages}
    assert set(READ_IN_PAGES) <= {it.resource for it in informers if it.in_pages}
    assert len(set(READ_FIRST)) == len(READ_FIRST)


def test_asking_early_loads_nothing_of_what_is_loaded_meanwhile() -> None:
    listing = f"import sys, allhands.compose.early; print([it for it in sys.modules if it.startswith({HEAVY!r})])"
    shown = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"
