"""`allhands wait KIND/NAME --for=…`: ends when it is so, when it can no longer be so, or when time is up."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from allhands.cli.cluster import cluster_options, speak
from allhands.cli.options import Subject, SubjectType, ambiguous, not_found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.cluster import Session, Target
    from allhands.views.groups import Group
    from allhands.views.picture import Picture
    from allhands.views.rows import GroupRow

GOALS: Final = ("running", "succeeded", "complete", "failed", "over", "deleted")
LOOK_SECONDS: Final = 1.0


class Awaited(NamedTuple):
    namespace: str
    subject: Subject


class Verdict(NamedTuple):
    """How it stands: reached, out of reach (with the reason), or neither yet."""

    is_met: bool = False
    is_hopeless: bool = False
    words: str = ""


@click.command("wait", short_help="Wait until a job runs, succeeds, fails or is gone.")
@click.argument(
    "subjects",
    metavar="KIND/NAME...",
    nargs=-1,
    required=True,
    type=SubjectType("job", "vcjob", "pod", "podgroup"),
)
@click.option("--for", "goal", type=click.Choice(GOALS), default="succeeded", show_default=True, help="What for.")
@click.option(
    "--timeout", default="30s", show_default=True, help="How long, such as 90s or 2h; 0 looks once, -1 waits on."
)
@cluster_options()
def command(target: Target, subjects: tuple[Subject, ...], goal: str, timeout: str) -> None:
    """Wait for all of them. Exits with 0 if all are so, and with 1 as soon as one of them cannot be any more (it
    failed, or was deleted) or time is up. `complete` is `succeeded`, in kubectl's word; `over` is either end.

    On a terminal it shows meanwhile why it is not so yet.

    \b
    Examples:
      allhands wait job/train --for=running --timeout 10m
      allhands wait job/a job/b --timeout -1
    """
    seconds = timeout_seconds(timeout)

    async def talk(session: Session) -> None:
        awaited = [Awaited(session.namespace, subject) for subject in subjects]
        if not await wait_for(session, awaited, goal, seconds):
            raise SystemExit(1)

    speak(target, talk)


def timeout_seconds(text: str) -> float | None:
    """None for ever."""
    from allhands.dialects.annotations import AnnotationError, duration_seconds  # noqa: PLC0415

    if text.strip().startswith("-"):
        return None
    try:
        return float(duration_seconds("--timeout", text))
    except AnnotationError as error:
        raise click.BadParameter(str(error).partition(": ")[2], param_hint="--timeout") from None


async def wait_for(
    session: Session, awaited: Sequence[Awaited], goal: str, seconds: float | None, *, to_the_end: bool = False
) -> bool:
    """Whether all became so. Says of each what came of it; `to_the_end`: of all, even after one cannot be so."""
    from allhands.cli.looking import GROUP_PARTS, LivePictures  # noqa: PLC0415

    spaces = {it.namespace for it in awaited}
    scope = spaces.pop() if len(spaces) == 1 else ""
    loop = asyncio.get_running_loop()
    until = None if seconds is None else loop.time() + seconds
    async with LivePictures(session.objects, GROUP_PARTS, scope) as live:
        picture, uids = live.first, {it: uid_of(it, live.first) for it in awaited}
        names = {it: full_name(it, live.first) for it in awaited}
        pending, is_good = list(awaited), True
        if goal != "deleted":
            for it in awaited:
                if not uids[it]:
                    raise not_found(it.subject, it.namespace, names_like(it, picture))
        while True:
            verdicts = {it: judge(it, goal, picture, uids[it]) for it in pending}
            for it, verdict in verdicts.items():
                if verdict.is_met:
                    _clear_line()
                    click.echo(f"{names[it]} {verdict.words}")
                elif verdict.is_hopeless:
                    _clear_line()
                    click.echo(f"Error: {it.subject} {verdict.words}", err=True)
                    is_good = False
            pending = [it for it in pending if not (verdicts[it].is_met or verdicts[it].is_hopeless)]
            if not pending or not (is_good or to_the_end):
                return is_good
            left = LOOK_SECONDS if until is None else min(LOOK_SECONDS, until - loop.time())
            if left <= 0:
                _clear_line()
                for it in pending:
                    click.echo(f"Error: timed out: {it.subject} {_not_yet(verdicts[it], goal)}", err=True)
                return False
            _progress(f"{pending[0].subject} {_not_yet(verdicts[pending[0]], goal)}")
            picture = await live.next(left)


def _not_yet(verdict: Verdict, goal: str) -> str:
    return verdict.words or f"is not {goal} yet"


def _clear_line() -> None:
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        from allhands.cli.grid_text import width_of_output  # noqa: PLC0415
        from allhands.cli.plan_text import printable  # noqa: PLC0415

        _clear_line()
        click.echo(printable(text)[: width_of_output() - 1], nl=False, err=True)


def group_of(it: Awaited, picture: Picture, uid: str = "") -> Group | None:
    """The one with that uid, if it is known; else refuses words that may mean several."""
    from allhands.views.groups import groups_named, of_pod  # noqa: PLC0415

    kind, name, api_group = it.subject
    if kind == "pod":
        queues = {queue.name: queue for queue in picture.queues or ()}
        pods = (seen for seen in picture.pods if seen.record.pod.key == f"{it.namespace}/{name}")
        return next((of_pod(seen, queues) for seen in pods), None)
    found = groups_named(picture, it.namespace, kind, name, api_group)
    same = [group for group in found if group.declared.uid == uid]
    if len(found) > 1 and not same and not uid:
        raise ambiguous(it.subject, (group.label for group in found))
    return next(iter(same or found), None)


def uid_of(it: Awaited, picture: Picture) -> str:
    group = group_of(it, picture)
    return "" if group is None else group.declared.uid


def full_name(it: Awaited, picture: Picture) -> str:
    """As the API's own tools print it."""
    group = group_of(it, picture) if it.subject.kind == "podgroup" else None
    api_group = "" if group is None or group.pod_group is None else group.pod_group.api_group
    return it.subject._replace(api_group=api_group).full_name


def names_like(it: Awaited, picture: Picture) -> list[str]:
    known = {
        "job": [(job.record.namespace, job.record.name) for job in picture.jobs if job.kind == "job"],
        "vcjob": [(job.record.namespace, job.record.name) for job in picture.jobs if job.kind == "vcjob"],
        "podgroup": [(group.record.namespace, group.record.name) for group in picture.pod_groups],
        "pod": [(seen.record.pod.namespace, seen.record.pod.name) for seen in picture.pods],
    }[it.subject.kind]
    return [name for namespace, name in known if namespace == it.namespace]


def judge(it: Awaited, goal: str, picture: Picture, uid: str) -> Verdict:
    """How an object stands to what is waited for. One of the same name with another uid is another object."""
    from allhands.views.rows import row_of  # noqa: PLC0415

    group = group_of(it, picture, uid)
    is_there = group is not None and group.declared.uid == uid
    if goal == "deleted":
        return Verdict(words="is still there") if is_there else Verdict(is_met=True, words="deleted")
    if group is None or not is_there:
        return Verdict(is_hopeless=True, words="was deleted while it was waited for")
    return _judged(row_of(group), goal)


def _judged(row: GroupRow, goal: str) -> Verdict:
    from allhands.views.rows import GroupState  # noqa: PLC0415

    state, why = row.state, f": {row.why}" if row.why else ""
    met = {
        "running": (GroupState.RUNNING, GroupState.SUCCEEDED),
        "succeeded": (GroupState.SUCCEEDED,),
        "complete": (GroupState.SUCCEEDED,),
        "failed": (GroupState.FAILED,),
        "over": (GroupState.SUCCEEDED, GroupState.FAILED),
    }[goal]
    words = f"is {state.value.lower()}{why}" if not state.is_over else f"{state.value.lower()}{why}"
    if state in met:
        return Verdict(is_met=True, words=words)
    return Verdict(is_hopeless=state.is_over, words=words)
