"""`vcctl`, by the words its users have in their scripts: its job and queue verbs, flags and columns.

Everything is done as the commands of `allhands` do it; this only translates. What `vcctl` cannot say, `allhands` can.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from allhands.cli.cluster import Target, all_of, sentence_of, speak
from allhands.cli.commanding import ABORT, CLOSE, OPEN, RESUME, tell
from allhands.cli.options import Subject, resource_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.api.document import Manifest
    from allhands.cli.cluster import Session

NOTHING: Final = "No resources found"
JOB_LABEL: Final = "job.volcano.sh"
_JOB_COLUMNS: Final = (
    "Name",
    "Creation",
    "Phase",
    "JobType",
    "Replicas",
    "Min",
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Unknown",
    "RetryCount",
)
_COUNTED: Final = ("pending", "running", "succeeded", "failed", "unknown", "retryCount")
_QUEUE_COLUMNS: Final = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
_QUEUE_COUNTED: Final = ("inqueue", "pending", "running", "unknown", "completed")
_BATCH_TYPE: Final = "Batch"


def _common(function: Callable[..., None]) -> Callable[..., None]:
    return click.option("-k", "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file.")(function)


def _of_job(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        _common,
        click.option("-n", "--namespace", default="default", show_default=True, help="The Job's namespace."),
        click.option("-N", "--name", required=True, help="The Job's name."),
    ):
        function = option(function)
    return function


@click.group("vcctl", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The job and queue verbs of Volcano's command line, served by allhands."""


def main() -> None:
    command.main(prog_name="vcctl")


@command.group("job")
def job() -> None:
    """Run, list, view, suspend, resume and delete Volcano Jobs."""


@job.command("list")
@_common
@click.option("-n", "--namespace", default="default", show_default=True, help="Only those in it.")
@click.option("--all-namespaces", is_flag=True, help="Those in all namespaces.")
@click.option("-q", "--queue", default="", help="Only those in this queue.")
@click.option("-S", "--scheduler", default="", help="Only those of this scheduler.")
@click.option("--selector", default="", help="Only those with this in their name.")
def list_jobs(
    kubeconfig: Path | None, namespace: str, all_namespaces: bool, queue: str, scheduler: str, selector: str
) -> None:
    """List Volcano Jobs."""

    def is_wanted(it: Manifest) -> bool:
        spec = it.get("spec") or {}
        return (
            queue in ("", spec.get("queue"))
            and scheduler in ("", spec.get("schedulerName"))
            and selector in it["metadata"]["name"]
        )

    async def talk(session: Session) -> None:
        found = await _listed(session, "vcjob", "" if all_namespaces else namespace)
        first = ("Namespace",) if all_namespaces else ()
        rows = [
            [*([it["metadata"]["namespace"]] if all_namespaces else []), *_job_cells(it)]
            for it in found
            if is_wanted(it)
        ]
        _print([*first, *_JOB_COLUMNS], rows)

    speak(Target(kubeconfig), talk)


@job.command("run")
@_common
@click.option("-n", "--namespace", default="default", show_default=True, help="Where to.")
@click.option("-N", "--name", default="", help="Its name; or a file.")
@click.option("-i", "--image", default="busybox", show_default=True, help="What each pod runs.")
@click.option("-m", "--min", "least", default=1, show_default=True, help="How many pods start together.")
@click.option("-r", "--replicas", default=1, show_default=True, help="How many pods there are.")
@click.option("-R", "--requests", default="cpu=1000m,memory=100Mi", show_default=True, help="What each asks for.")
@click.option("-L", "--limits", default="cpu=1000m,memory=100Mi", show_default=True, help="What each may use.")
@click.option("-S", "--scheduler", default="volcano", show_default=True, help="Who places it.")
@click.option("-f", "--filename", default="", help="A Job in YAML, instead of all of these.")
def run(
    kubeconfig: Path | None,
    namespace: str,
    name: str,
    image: str,
    least: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    filename: str,
) -> None:
    """Run a Volcano Job of equal pods, or one from a file."""
    if filename:
        from allhands.cli.manifests import read_file  # noqa: PLC0415 (`--help` must not pay for it)

        manifests = [it.manifest for it in read_file(filename) if it.is_volcano_job]
        if not manifests:
            raise click.ClickException(f"{filename}: there is no Job of batch.volcano.sh in it")
    elif name:
        resources = {"requests": _amounts("--requests", requests), "limits": _amounts("--limits", limits)}
        container = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "resources": resources}
        template = {
            "metadata": {"labels": {JOB_LABEL: name}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        task = {"replicas": replicas, "template": template}
        spec = {"minAvailable": least, "schedulerName": scheduler, "tasks": [task]}
        manifests = [
            {"apiVersion": resource_of("vcjob").api_version, "kind": "Job", "metadata": {"name": name}, "spec": spec},
        ]
    else:
        raise click.UsageError("say how it is called with -N, or name a file with -f")

    async def talk(session: Session) -> None:
        for manifest in manifests:
            where = manifest["metadata"].get("namespace") or namespace
            document = await session.objects.create(resource_of("vcjob"), manifest, where)
            click.echo(f"run job {document.manifest()['metadata']['name']} successfully")

    speak(Target(kubeconfig), talk)


@job.command("view")
@_of_job
def view(kubeconfig: Path | None, namespace: str, name: str) -> None:
    """Tell all about a Volcano Job."""
    from allhands.cli.explain import command as explain  # noqa: PLC0415

    arguments = [f"vcjob/{name}", "-n", namespace]
    if kubeconfig is not None:
        arguments += ["--kubeconfig", str(kubeconfig)]
    explain.main(arguments, prog_name="vcctl job view", standalone_mode=False)


@job.command("suspend")
@_of_job
def suspend(kubeconfig: Path | None, namespace: str, name: str) -> None:
    """Take a Volcano Job off the nodes."""
    tell(Target(kubeconfig, namespace=namespace), [Subject("vcjob", name)], ABORT, dry_run=False)


@job.command("resume")
@_of_job
def resume(kubeconfig: Path | None, namespace: str, name: str) -> None:
    """Let a suspended Volcano Job go on."""
    tell(Target(kubeconfig, namespace=namespace), [Subject("vcjob", name)], RESUME, dry_run=False)


@job.command("delete")
@_of_job
def delete(kubeconfig: Path | None, namespace: str, name: str) -> None:
    """Delete a Volcano Job with its pods."""

    async def talk(session: Session) -> None:
        from allhands.ports import DeleteOptions  # noqa: PLC0415

        await session.objects.delete(resource_of("vcjob"), name, namespace, DeleteOptions(propagation="Background"))
        click.echo(f"delete job {name} successfully")

    speak(Target(kubeconfig), talk)


@command.group("queue")
def queue() -> None:
    """Create, list, get, operate and delete queues."""


@queue.command("create")
@_common
@click.option("-n", "--name", default="test", show_default=True, help="Its name.")
@click.option("-w", "--weight", default=1, show_default=True, help="Its part beside its siblings.")
@click.option("-S", "--state", default="Open", help="It is made open, whatever this says, as in vcctl.")
def create_queue(kubeconfig: Path | None, name: str, weight: int, state: str) -> None:
    """Create a queue."""
    del state

    async def talk(session: Session) -> None:
        head = {"apiVersion": resource_of("queue").api_version, "kind": "Queue", "metadata": {"name": name}}
        await session.objects.create(resource_of("queue"), {**head, "spec": {"weight": weight, "reclaimable": True}})

    speak(Target(kubeconfig), talk)


@queue.command("delete")
@_common
@click.option("-n", "--name", required=True, help="Its name.")
def delete_queue(kubeconfig: Path | None, name: str) -> None:
    """Delete a queue."""

    async def talk(session: Session) -> None:
        from allhands.ports import DeleteOptions  # noqa: PLC0415

        await session.objects.delete(resource_of("queue"), name, "", DeleteOptions())

    speak(Target(kubeconfig), talk)


@queue.command("list")
@_common
def list_queues(kubeconfig: Path | None) -> None:
    """List queues."""

    async def talk(session: Session) -> None:
        _print(_QUEUE_COLUMNS, [_queue_cells(it) for it in await _listed(session, "queue", "")])

    speak(Target(kubeconfig), talk)


@queue.command("get")
@_common
@click.option("-n", "--name", required=True, help="Its name.")
def get_queue(kubeconfig: Path | None, name: str) -> None:
    """Show one queue."""

    async def talk(session: Session) -> None:
        document = await session.objects.get(resource_of("queue"), name)
        _print(_QUEUE_COLUMNS, [_queue_cells(document.manifest())])

    speak(Target(kubeconfig), talk)


@queue.command("operate")
@_common
@click.option("-n", "--name", required=True, help="Its name.")
@click.option(
    "-a", "--action", required=True, type=click.Choice(["open", "close", "update"]), help="What to do with it."
)
@click.option("-w", "--weight", default=0, help="Its new part beside its siblings, for update.")
def operate(kubeconfig: Path | None, name: str, action: str, weight: int) -> None:
    """Open, close or update a queue."""
    target = Target(kubeconfig)
    if action != "update":
        tell(target, [Subject("queue", name)], OPEN if action == "open" else CLOSE, dry_run=False)
        return
    if weight <= 0:
        raise click.UsageError("update needs --weight, which must be more than 0")

    async def talk(session: Session) -> None:
        await session.objects.patch(resource_of("queue"), name, "merge", {"spec": {"weight": weight}})

    speak(target, talk)


async def _listed(session: Session, kind: str, namespace: str) -> list[Manifest]:
    from allhands.api.errors import StatusError  # noqa: PLC0415

    try:
        return await all_of(session, resource_of(kind), namespace)
    except StatusError as refusal:
        if refusal.code != 404:
            raise
        raise click.ClickException(f"this cluster does not know them: {sentence_of(refusal)}") from None


def _job_cells(it: Manifest) -> list[str]:
    spec, status = it.get("spec") or {}, it.get("status") or {}
    replicas = sum(task.get("replicas") or 0 for task in spec.get("tasks") or ())
    phase = (status.get("state") or {}).get("phase") or ""
    created = str(it["metadata"].get("creationTimestamp") or "")[:10]
    least = status.get("minAvailable") or spec.get("minAvailable") or 0
    return [it["metadata"]["name"], created, phase, _BATCH_TYPE, str(replicas), str(least), *_counts(status, _COUNTED)]


def _queue_cells(it: Manifest) -> list[str]:
    spec, status = it.get("spec") or {}, it.get("status") or {}
    first = [it["metadata"]["name"], str(spec.get("weight") or 0), status.get("state") or "", spec.get("parent") or ""]
    return [*first, *_counts(status, _QUEUE_COUNTED)]


def _counts(status: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [str(status.get(name) or 0) for name in names]


def _print(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """In columns with blanks between them, as scripts cut them."""
    if not rows:
        click.echo(NOTHING)
        return
    widths = [max(len(cell) for cell in column) + 2 for column in zip(heading, *rows, strict=True)]
    for line in (heading, *rows):
        click.echo("".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _amounts(option: str, text: str) -> dict[str, str]:
    """`cpu=1,memory=1Gi` as a resource list."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, amount = part.partition("=")
        if not equals or not name or not amount:
            raise click.BadParameter(f"{part!r} is not RESOURCE=AMOUNT, such as cpu=500m", param_hint=option)
        found[name.strip()] = amount.strip()
    return found
