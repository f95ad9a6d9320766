"""What follows from a request by itself: both clusters come to the same end, in their own time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.client import Server
from tests.conformance.scenario import Scenario, load_scenarios
from tests.conformance.test_scenarios import compare
from tests.controlplane import ControlPlane
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
)
SCENARIOS = load_scenarios(Path(__file__).parent / "background")


@pytest.fixture(scope="module")
def managed(real_tools: Path) -> Iterator[Server]:
    """A real API server with those controllers of the controller manager whose work the embedded cluster does."""
    with ControlPlane(controllers=CONTROLLERS) as plane:
        yield Server("real", plane.url, plane.token, str(plane.ca_file))


@pytest.fixture(scope="module")
def tidying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An embedded API alone that does what those controllers do."""
    with EmbeddedInThread(tmp_path_factory.mktemp("tidying"), keeps_quotas=True) as cluster:
        yield Server("embedded", cluster.url, cluster.token, str(cluster.ca_file))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_both_clusters_come_to_the_same_end(scenario: Scenario, managed: Server, tidying: Server) -> None:
    compare(scenario, managed, tidying)
