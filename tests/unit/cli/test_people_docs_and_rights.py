"""docs/commands.md names every option of the commands for people; who may see little is shown what he may see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.cli import root
from allhands.cli.cluster import Session
from allhands.cli.explain import explain
from allhands.cli.jobs import JobTable, group_rows
from allhands.cli.looking import GROUP_PARTS, QUEUE_PARTS, look
from allhands.cli.options import Subject
from allhands.cli.output import show_rows
from allhands.kube.kubeconfig import Access
from allhands.ports import EVERYTHING, Page, Query
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock

if TYPE_CHECKING:
    from allhands.api.document import Manifest

DOCS = Path(__file__).parents[3] / "docs" / "commands.md"
PEOPLE = (
    "submit",
    "jobs",
    "queues",
    "flows",
    "explain",
    "top",
    "topology",
    "logs",
    "wait",
    "suspend",
    "resume",
    "abort",
    "restart",
)
JOB: Manifest = {
    "metadata": {"name": "train"},
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}},
    },
}


@pytest.mark.parametrize("name", PEOPLE)
def test_every_option_is_in_the_docs(name: str) -> None:
    text = DOCS.read_text(encoding="utf-8")
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert f"## {name}\n" in text
    options = [it for it in command.params if isinstance(it, click.Option)]
    missing = [it.opts[-1] for it in options if it.opts[-1] not in text and it.opts[-1] != "--filename"]
    assert missing == []


class InOneNamespace(InProcessObjects):
    """A user who may see one namespace and nothing that is cluster-wide."""

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page:
        if not query.namespace:
            raise StatusError(
                403, "Forbidden", f'{resource} is forbidden: User "guest" cannot list it at the cluster scope'
            )
        return await super().list(resource, query)


@pytest.fixture
async def session() -> Session:
    objects: Any = InOneNamespace(Store(ManualClock(), CountingIds()))
    await objects.create(Resource("batch", "v1", "jobs"), JOB, "default")
    return Session(objects, Access(server="http://nowhere"), "default")


async def test_a_guest_of_one_namespace_is_told_the_story_of_it(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    await explain(session, Subject("job", "train"), output="table", watch=False)
    told = capsys.readouterr().out
    assert 'job/train in namespace "default": Waiting' in told
    assert "It is suspended." in told


async def test_a_guest_of_one_namespace_sees_its_jobs_and_is_refused_all_others(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    async def show(scope: str) -> None:
        await show_rows(
            session,
            GROUP_PARTS,
            group_rows,
            lambda: JobTable(0),
            output="name",
            watch=False,
            nothing=lambda: "",
            namespace=scope,
        )

    await show("default")
    assert capsys.readouterr().out == "job.batch/train\n"
    with pytest.raises(StatusError, match="cannot list it at the cluster scope"):
        await show("")


async def test_what_is_not_shown_is_named_in_the_picture() -> None:
    objects: Any = InOneNamespace(Store(ManualClock(), CountingIds()))
    assert (await look(objects, QUEUE_PARTS)).hidden == {"jobs", "pods"}
    assert (await look(objects, QUEUE_PARTS, "default")).hidden == frozenset()
