"""How long changes of pods are gathered before their Job is looked at: longer for bigger Jobs, so that the work on a
Job grows with its pods and not with their square; and where a change is only counted, all Jobs together once a second.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

GATHER_SECONDS: Final = 0.01
GATHER_SECONDS_PER_POD: Final = 0.0002
MOST_GATHER_SECONDS: Final = 1.0
COUNT_SECONDS: Final = 1.0
"""How often Jobs are counted that only go on: as often as Kubernetes does, and all in one go, which is much cheaper."""


def gather_seconds(pods: int) -> float:
    return min(MOST_GATHER_SECONDS, GATHER_SECONDS + GATHER_SECONDS_PER_POD * pods)


def count_seconds(pods: int) -> float:
    """Until the next turn at which all are counted."""
    now = asyncio.get_running_loop().time()
    return (math.floor((now + gather_seconds(pods)) / COUNT_SECONDS) + 1) * COUNT_SECONDS - now
