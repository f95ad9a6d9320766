"""`allhands submit -f FILE`: creates what the file describes, or changes what is there to it, by plain API calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from allhands.cli.cluster import cluster_options, sentence_of, speak
from allhands.cli.options import Subject, near_misses

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.cli.cluster import Session, Target
    from allhands.cli.manifests import Wanted
    from allhands.ports import Document

WAITABLE = {
    ("batch", "Job"): "job",
    ("batch.volcano.sh", "Job"): "vcjob",
    ("", "Pod"): "pod",
    ("scheduling.k8s.io", "PodGroup"): "podgroup",
    ("scheduling.volcano.sh", "PodGroup"): "podgroup",
    ("scheduling.x-k8s.io", "PodGroup"): "podgroup",
}
"""API group and kind of what can be waited for."""
MANAGER = "allhands-submit"
_CLUSTERS_OWN = ("resourceVersion", "managedFields")


@click.command("submit", short_help="Create or update what files describe, in a queue and as a gang if wanted.")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE", help="YAML, JSON; - is stdin.")
@click.option("--queue", default="", metavar="NAME", help="Put jobs into this queue.")
@click.option("--min-available", default="", metavar="N|all", help="So many pods of a Job start together or none.")
@click.option("--dry-run", is_flag=True, help="Let the server check everything, and change nothing.")
@click.option("--wait", is_flag=True, help="Wait until all jobs are over; exit with 1 if one fails.")
@click.option("--timeout", default="-1", help="How long --wait waits, such as 10m. [default: as long as it takes]")
@cluster_options()
def command(
    target: Target, files: tuple[str, ...], queue: str, min_available: str, dry_run: bool, wait: bool, timeout: str
) -> None:
    """Create what the files describe; what exists is changed to what they say.

    --queue and --min-available write the annotations allhands.dev/queue and allhands.dev/min-available, so that a
    plain batch/v1 Job is queued and started as a gang. Volcano's Jobs have fields of their own for both.

    \b
    Examples:
      allhands submit -f job.yaml --queue team-a --min-available all
      allhands submit -f - --wait < job.yaml
    """
    from allhands.cli.manifests import read_file  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.cli.wait import timeout_seconds  # noqa: PLC0415

    seconds = timeout_seconds(timeout)
    wanted = [it for file in files for it in read_file(file)]
    _annotate(wanted, queue, min_available)

    async def talk(session: Session) -> None:
        await submit(session, wanted, target.namespace, dry_run=dry_run, wait=wait and not dry_run, seconds=seconds)

    speak(target, talk)


def _annotate(wanted: list[Wanted], queue: str, min_available: str) -> None:
    from allhands.cli.manifests import annotate  # noqa: PLC0415
    from allhands.dialects import annotations  # noqa: PLC0415

    if queue and not annotate(wanted, annotations.QUEUE, queue):
        raise click.UsageError("--queue: nothing in the files can be in a queue")
    if not min_available:
        return
    try:
        annotations.min_available(min_available, 0)
    except annotations.AnnotationError as error:
        raise click.BadParameter(str(error).partition(": ")[2], param_hint="--min-available") from None
    if not annotate(wanted, annotations.MIN_AVAILABLE, min_available.strip(), gangs=True):
        raise click.UsageError("--min-available: there is no Job in the files; a PodGroup says it in its spec")


async def submit(
    session: Session, wanted: list[Wanted], asked_namespace: str, *, dry_run: bool, wait: bool, seconds: float | None
) -> None:
    """One after the other, as they were written. What is refused is told, and does not stop the others."""
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.cli.wait import Awaited, wait_for  # noqa: PLC0415

    kinds = _Kinds(session)
    refused, awaited = 0, []
    for it in wanted:
        try:
            resource, singular, is_namespaced = await kinds.find(it)
            namespace = _namespace(it, session, asked_namespace) if is_namespaced else ""
            document, done = await _write(session, resource, it, namespace, dry_run=dry_run)
        except StatusError as refusal:
            if refusal.code in (401, 503):
                raise
            click.echo(f"Error: {it.place}: {sentence_of(refusal)}", err=True)
            refused += 1
            continue
        except click.ClickException as problem:
            click.echo(f"Error: {problem.format_message()}", err=True)
            refused += 1
            continue
        for warning in document.warnings:
            click.echo(f"Warning: {warning}", err=True)
        name = str(document.manifest()["metadata"]["name"])
        shown = f"{singular}.{resource.group}" if resource.group else singular
        click.echo(f"{shown}/{name} {done}{' (dry run)' if dry_run else ''}")
        if (kind := WAITABLE.get((resource.group, it.kind))) is not None:
            awaited.append(Awaited(namespace, Subject(kind, name)))
    is_good = not refused
    if wait and awaited:
        is_good = await wait_for(session, awaited, "succeeded", seconds, to_the_end=True) and is_good
    if not is_good:
        raise SystemExit(1)


def _namespace(it: Wanted, session: Session, asked: str) -> str:
    written = str(it.manifest["metadata"].get("namespace") or "")
    if written and asked and written != asked:
        raise click.ClickException(f'{it.place}: metadata.namespace: is "{written}", but -n says "{asked}"')
    return written or session.namespace


async def _write(
    session: Session, resource: Resource, it: Wanted, namespace: str, *, dry_run: bool
) -> tuple[Document, str]:
    """The object as it is now, and what was done to it."""
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.ports import WriteOptions  # noqa: PLC0415

    options = WriteOptions(dry_run=dry_run, field_validation="Strict", field_manager=MANAGER)
    try:
        return await session.objects.create(resource, it.manifest, namespace, options), "created"
    except StatusError as refusal:
        if refusal.reason != "AlreadyExists" or not it.manifest["metadata"].get("name"):
            raise
    name = str(it.manifest["metadata"]["name"])
    before = await session.objects.get(resource, name, namespace)
    after = await session.objects.patch(resource, name, "merge", it.manifest, namespace, options)
    return after, "configured" if is_changed(before, after) else "unchanged"


def is_changed(before: Document, after: Document) -> bool:
    """Beyond what the cluster itself writes at any moment, also between our two looks."""
    return _as_written(before) != _as_written(after)


def _as_written(document: Document) -> Manifest:
    manifest = document.manifest()
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _CLUSTERS_OWN}
    return {key: value for key, value in manifest.items() if key != "status"} | {"metadata": metadata}


class _Kinds:
    """Which collection a kind is found in, as the server says; each group is asked once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, list[dict[str, Any]]] = {}

    async def find(self, it: Wanted) -> tuple[Resource, str, bool]:
        """The collection, the kind's name for one object, and whether it lives in namespaces."""
        from allhands.api.kinds import Resource  # noqa: PLC0415

        version = str(it.manifest["apiVersion"])
        if version not in self._known:
            self._known[version] = await self._ask(version, it.place)
        for found in self._known[version]:
            if found.get("kind") == it.kind and "/" not in found.get("name", "/"):
                group, _, bare = version.rpartition("/")
                singular = found.get("singularName") or it.kind.lower()
                return Resource(group, bare, found["name"]), singular, bool(found.get("namespaced"))
        kinds = sorted({str(found.get("kind")) for found in self._known[version] if "/" not in found.get("name", "/")})
        near = near_misses(it.kind, kinds)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(kinds)}"
        raise click.ClickException(f'{it.place}: kind: "{version}" has no kind "{it.kind}"; {hint}')

    async def _ask(self, version: str, place: str) -> list[dict[str, Any]]:
        from allhands.api.errors import StatusError  # noqa: PLC0415

        group, _, bare = version.rpartition("/")
        try:
            answer = await self._session.objects.request("GET", f"/apis/{group}/{bare}" if group else f"/api/{bare}")
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            raise click.ClickException(
                f'{place}: apiVersion: the server does not know "{version}"; is something to be installed first?'
            ) from None
        resources: list[dict[str, Any]] = answer.manifest().get("resources") or []
        return resources
