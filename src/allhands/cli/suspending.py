"""What `suspend` and `resume` share: one field, `spec.suspend`, of the kinds that have it, object by object; a Volcano
Job has none and is told by a Command.

One that is refused does not stop the others. What is as wanted already is told, and not written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from allhands.cli import commanding
from allhands.cli.cluster import all_of, cluster_options, sentence_of, speak
from allhands.cli.options import ALIASES, PLACES, Subject, not_found, resource_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.cli.cluster import Session, Target

F = TypeVar("F", bound="Callable[..., Any]")

MANAGER: Final = "allhands-suspend"
JOBS: Final = ("job", "vcjob")
_ALIASES: Final = (
    dict.fromkeys(ALIASES["job"], "job")
    | dict.fromkeys(ALIASES["vcjob"], "vcjob")
    | dict.fromkeys(("cronjob", "cronjobs", "cj", "cronjob.batch", "cronjobs.batch"), "cronjob")
    | dict.fromkeys(
        ("cronvcjob", "cronvj", "cronjob.batch.volcano.sh", "cronjobs.batch.volcano.sh"),
        "cronvcjob",
    )
)
_INSTEAD: Final = {
    "pod": "suspend the Job that it belongs to, or delete it",
    "podgroup": "suspend the Job that its pods belong to",
    "queue": "close it with `allhands queue close`, or suspend its jobs by a label with -l",
}
"""What somebody may have wanted of kinds that cannot."""


class Change(NamedTuple):
    """What is wanted, and how it is said."""

    suspends: bool
    done: str
    already: str
    too_late: str
    order: commanding.Order


SUSPEND: Final = Change(
    suspends=True, done="suspended", already="is suspended already", too_late="suspend", order=commanding.ABORT
)
RESUME: Final = Change(
    suspends=False, done="resumed", already="is not suspended", too_late="resume", order=commanding.RESUME
)


class SuspendableType(click.ParamType["Subject"]):
    """KIND/NAME of a kind that has `spec.suspend`."""

    name = "KIND/NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Subject:
        if isinstance(value, Subject):
            return value
        written, slash, name = str(value).partition("/")
        if not slash or not name or "/" in name:
            self.fail(f"{value!r} is not KIND/NAME, such as job/hello", param, ctx)
        kind = _ALIASES.get(written.lower(), "")
        if not kind:
            known = next((it for it, aliases in ALIASES.items() if written.lower() in aliases), "")
            hint = f"; {_INSTEAD[known]}" if known in _INSTEAD else ""
            self.fail(
                f"{written!r} has nothing that could be suspended; job, cronjob, vcjob and cronvcjob have{hint}",
                param,
                ctx,
            )
        return Subject(kind, name)


def suspending_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        cluster_options(everywhere=True),
        click.option("--dry-run", is_flag=True, help="The server checks everything and changes nothing."),
        click.option("-l", "--selector", default="", metavar="LABELS", help="All Jobs with these labels."),
        click.argument("subjects", metavar="[KIND/NAME...]", nargs=-1, type=SuspendableType()),
    ):
        function = option(function)
    return function


def change(target: Target, subjects: Sequence[Subject], selector: str, dry_run: bool, wanted: Change) -> None:
    """The whole command."""
    if bool(subjects) == bool(selector):
        raise click.UsageError("say which: KIND/NAME, or all Jobs with some labels by -l; not both")
    if target.everywhere and not selector:
        raise click.UsageError("-A is for -l; objects with names are in one namespace")

    async def talk(session: Session) -> None:
        if selector:
            is_good = await _change_selected(session, selector, wanted, dry_run=dry_run)
        else:
            is_good = all([await _change_named(session, it, wanted, dry_run=dry_run) for it in subjects])
        if not is_good:
            raise SystemExit(1)

    speak(target, talk)


async def _change_selected(session: Session, selector: str, wanted: Change, *, dry_run: bool) -> bool:
    """All Jobs that match and are not over; those that are over are counted."""
    found = [(kind, it) for kind in JOBS for it in await _listed(session, kind, session.scope, selector)]
    over = [it for _, it in found if _ending(it)]
    rest = [(kind, it) for kind, it in found if not _ending(it)]
    where = "any namespace" if session.everywhere else f'namespace "{session.namespace}"'
    if not found:
        click.echo(f"No Jobs with {selector} in {where}.", err=True)
    elif not rest:
        click.echo(f"All {len(over)} Jobs with {selector} in {where} are over.", err=True)
    is_good = True
    for kind, it in rest:
        is_good = await _change_one(session, kind, it, wanted, dry_run=dry_run) and is_good
    return is_good


async def _change_named(session: Session, subject: Subject, wanted: Change, *, dry_run: bool) -> bool:
    from allhands.api.errors import StatusError  # noqa: PLC0415

    try:
        document = await session.objects.get(resource_of(subject.kind), subject.name, session.namespace)
    except StatusError as refusal:
        if refusal.code in (401, 503):
            raise
        problem = sentence_of(refusal)
        if refusal.code == 404:
            problem = (await _missing(session, subject)).format_message()
        click.echo(f"Error: {problem}", err=True)
        return False
    manifest = document.manifest()
    if ending := _ending(manifest):
        words = f"{subject} {ending}: there is nothing to {wanted.too_late}"
        click.echo(f"Error: {words}", err=True)
        return False
    return await _change_one(session, subject.kind, manifest, wanted, dry_run=dry_run)


async def _change_one(session: Session, kind: str, manifest: Manifest, wanted: Change, *, dry_run: bool) -> bool:
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.ports import WriteOptions  # noqa: PLC0415

    if kind == "vcjob":
        return await commanding.give(session, kind, manifest, wanted.order, dry_run=dry_run)
    metadata = manifest["metadata"]
    shown = f"{'job' if kind in JOBS else 'cronjob'}.{PLACES[kind][0]}/{metadata['name']}"
    if session.everywhere:
        shown = f"{metadata['namespace']}/{shown}"
    if bool(manifest.get("spec", {}).get("suspend")) is wanted.suspends:
        click.echo(f"{shown} {wanted.already}")
        return True
    patch = {"metadata": {"uid": metadata["uid"]}, "spec": {"suspend": wanted.suspends}}
    options = WriteOptions(dry_run=dry_run, field_manager=MANAGER)
    try:
        await session.objects.patch(
            resource_of(kind), metadata["name"], "merge", patch, metadata.get("namespace", ""), options
        )
    except StatusError as refusal:
        if refusal.code in (401, 503):
            raise
        click.echo(f"Error: {shown}: {sentence_of(refusal)}", err=True)
        return False
    click.echo(f"{shown} {wanted.done}{' (dry run)' if dry_run else ''}")
    return True


def _ending(manifest: Manifest) -> str:
    """How it ended, if it did. CronJobs never do."""
    if end := commanding.OVER.get(commanding.state_of("vcjob", manifest)):
        return end
    for it in manifest.get("status", {}).get("conditions") or ():
        if it.get("status") == "True" and it.get("type") in ("Complete", "Failed"):
            return "has succeeded" if it["type"] == "Complete" else "has failed"
    return ""


async def _missing(session: Session, subject: Subject) -> click.ClickException:
    names = [it["metadata"]["name"] for it in await _listed(session, subject.kind, session.namespace)]
    return not_found(subject, session.namespace, names)


async def _listed(session: Session, kind: str, namespace: str, selector: str = "") -> list[Manifest]:
    from allhands.api.errors import StatusError  # noqa: PLC0415

    try:
        return await all_of(session, resource_of(kind), namespace, selector)
    except StatusError as refusal:
        if kind == "vcjob" and refusal.code in (403, 404):  # a cluster without them, or not shown to us
            return []
        raise
