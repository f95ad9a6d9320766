"""The real control plane for tests: that of the benchmarks, with logs that are kept beside the tests.

It never builds anything: `make tools` does that.
"""

from __future__ import annotations

from pathlib import Path

from allhands.measure import controlplane
from allhands.measure.controlplane import READY_SECONDS, ToolsMissingError, tools_folder

__all__ = ["LOGS", "READY_SECONDS", "ControlPlane", "ToolsMissingError", "tools_folder"]

LOGS = Path(__file__).parent / ".logs"


class ControlPlane(controlplane.ControlPlane):
    """`with ControlPlane() as plane:` gives a ready API server at `plane.url`, for `plane.token`."""

    @classmethod
    def logs_folder(cls) -> Path:
        return LOGS
