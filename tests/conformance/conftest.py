"""The two servers that are compared: the real one and the embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.compose.access_settings import AccessWish
from tests.conformance.client import Server
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.compose.embedded import EmbeddedCluster
    from tests.controlplane import ControlPlane


@pytest.fixture(scope="session")
def real(control_plane: ControlPlane) -> Server:
    return Server("real", control_plane.url, control_plane.token, str(control_plane.ca_file))


@pytest.fixture(scope="session")
def embedded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedInThread(tmp_path_factory.mktemp("embedded"), AccessWish(rbac=True)) as cluster:
        yield cluster


@pytest.fixture(scope="session", name="embedded")
def embedded_server(embedded_cluster: EmbeddedCluster) -> Server:
    return Server("embedded", embedded_cluster.url, embedded_cluster.token, str(embedded_cluster.ca_file))
