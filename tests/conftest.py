"""Fixtures that every kind of test may use. The project root goes on the path, so that `tests.…` is importable.

A test that asks for the real control plane never skips silently: without the binaries it says so in the summary, and
with CI=true it fails.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from allhands.runtime.logs import ROOT
from tests import depth
from tests.controlplane import ControlPlane, ToolsMissingError, tools_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

depth.load_profile()

REAL = "the real control plane is not built"
NO_TRACES = "not run: no traces (ALLHANDS_TRACES names no folder; docs/traces.md)"


@pytest.fixture(autouse=True)
def logs_stay_as_they_were() -> Iterator[None]:
    """A command that a test runs in this process sets up logs; the next test must still see what it looks for."""
    yield
    ours, everything = logging.getLogger(ROOT), logging.getLogger()
    for handler in [it for it in everything.handlers if it.get_name() == ROOT]:
        everything.removeHandler(handler)
    ours.setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def real_tools() -> Path:
    """The folder of binaries, or a loud refusal."""
    try:
        return tools_folder()
    except ToolsMissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def control_plane(real_tools: Path, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """One etcd and kube-apiserver for all tests of this run (of this worker, with xdist)."""
    with ControlPlane() as plane:
        failed_before = request.session.testsfailed
        yield plane
        if request.session.testsfailed > failed_before:
            print(f"\nlogs of the real control plane: {plane.keep_logs()}")  # noqa: T201


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of the real control plane go to one worker: two cores do not carry two of them."""
    for item in items:
        if "real_tools" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("real"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, remedy in ((REAL, "run `make tools`"), (NO_TRACES, "published tables were not reproduced")):
        missed = [report for report in terminalreporter.stats.get("skipped", []) if reason in str(report.longrepr)]
        if missed:
            terminalreporter.section("not tested", red=True)
            terminalreporter.line(f"{len(missed)} tests did not run because {reason}: {remedy}", red=True)
