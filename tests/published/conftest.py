"""The folder of public traces, which are not part of this repository: docs/traces.md says where to get them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import NO_TRACES


@pytest.fixture(scope="session")
def traces() -> Path:
    """What ALLHANDS_TRACES names, or a loud refusal."""
    named = os.environ.get("ALLHANDS_TRACES", "")
    if not named:
        pytest.skip(NO_TRACES)
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"ALLHANDS_TRACES names {folder}, which is no folder")
    return folder
