"""One cluster per server for the whole folder. All stories that were asked for begin at once, each in a namespace of
its own, and each test waits for the end of its own one. When the last test of the folder is over the cluster goes,
whatever tests come after it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import NodeId

from tests.compat.volcano.clusters import cluster_of
from tests.compat.volcano.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.compat.volcano.clusters import Cluster
    from tests.compat.volcano.story import Story

FOLDER = Path(__file__).parent
RUNNING = pytest.StashKey[contextlib.ExitStack]()
SERVERS = [
    pytest.param("embedded", marks=pytest.mark.xdist_group("volcano-embedded")),
    pytest.param("real", marks=pytest.mark.xdist_group("real")),
]


@pytest.fixture(scope="session", params=SERVERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if request.param == "real":
        request.getfixturevalue("real_tools")
    with contextlib.ExitStack() as running:
        request.config.stash[RUNNING] = running
        cluster = running.enter_context(cluster_of(request.param, tmp_path_factory.mktemp(f"volcano-{request.param}")))
        for story in _chosen(request.session.items, request.param):
            cluster.begin(story.name, _told(cluster, story))
        yield cluster


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One worker for each server. With pytest 9.2 names of groups that xdist 3.8 gives to tests are not seen."""
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and item.path.is_relative_to(FOLDER) and "@" not in item.nodeid:
            item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A fixture of a session would live until its end."""
    if nextitem is not None and not nextitem.path.is_relative_to(FOLDER) and RUNNING in item.config.stash:
        item.config.stash[RUNNING].close()


def _chosen(items: list[pytest.Item], server: str) -> list[Story]:
    """The stories of the tests that will run on this server."""
    found = [getattr(it, "callspec", None) for it in items]
    return [
        it.params["story"] for it in found if it is not None and "story" in it.params and it.params["cluster"] == server
    ]


async def _told(cluster: Cluster, story: Story) -> None:
    stage = Stage(cluster.objects, story.name)
    await stage.prepare()
    await story.tell(stage)
