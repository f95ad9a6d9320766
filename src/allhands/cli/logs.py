"""`allhands logs KIND/NAME`: what all pods of a job write, each line with the pod it comes from."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from allhands.cli.cluster import cluster_options, sentence_of, speak
from allhands.cli.options import Subject, SubjectType, not_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.cli.cluster import Session, Target
    from allhands.kube.log_stream import LogStream
    from allhands.views.groups import Group
    from allhands.views.picture import PodSeen

COLOURS: Final = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")
LONGEST_LINE: Final = 64 * 1024
"""A line that does not end is printed in pieces."""
AGAIN_SECONDS: Final = 1.0
NOT_STARTED: Final = frozenset({400, 404})
GRACE_TURNS: Final = 3
"""So often the end of everything is looked at again before it is believed: the last output may be under way."""


class LogOptions(NamedTuple):
    container: str = ""
    follow: bool = False
    tail: int | None = None
    since_seconds: int | None = None
    timestamps: bool = False
    previous: bool = False
    prefix: bool = True

    def query(self, container: str) -> dict[str, str]:
        values = {
            "container": container,
            "follow": "true" if self.follow else "",
            "tailLines": "" if self.tail is None else str(self.tail),
            "sinceSeconds": "" if self.since_seconds is None else str(self.since_seconds),
            "timestamps": "true" if self.timestamps else "",
            "previous": "true" if self.previous else "",
        }
        return {name: value for name, value in values.items() if value}


@click.command("logs", short_help="Print what the pods of a job write.")
@click.argument("subject", metavar="KIND/NAME", type=SubjectType("job", "vcjob", "pod", "podgroup"))
@click.option("-f", "--follow", is_flag=True, help="Go on as long as pods write; pods that come later are joined.")
@click.option("-c", "--container", default="", metavar="NAME", help="Only this container. [default: all]")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last lines of each container.")
@click.option("--since", default="", metavar="SPAN", help="Only what is younger, such as 10m.")
@click.option("--timestamps", is_flag=True, help="With the time of each line.")
@click.option("-p", "--previous", is_flag=True, help="Of the container before its last restart.")
@click.option("--no-prefix", is_flag=True, help="Without the pod's name before each line.")
@cluster_options()
def command(
    target: Target,
    subject: Subject,
    follow: bool,
    container: str,
    tail: int | None,
    since: str,
    timestamps: bool,
    previous: bool,
    no_prefix: bool,
) -> None:
    """Print the output of every pod of a Job or PodGroup, or of one pod.

    \b
    Examples:
      allhands logs job/train
      allhands logs -f job/train --tail 10
    """
    from allhands.cli.wait import timeout_seconds  # noqa: PLC0415 (`--help` must not pay for it)

    younger = timeout_seconds(since) if since else None
    options = LogOptions(
        container, follow, tail, None if younger is None else int(younger), timestamps, previous, not no_prefix
    )
    speak(target, lambda session: logs(session, subject, options))


async def logs(session: Session, subject: Subject, options: LogOptions) -> None:
    from allhands.cli.looking import GROUP_PARTS, LivePictures  # noqa: PLC0415
    from allhands.cli.wait import Awaited, group_of, names_like  # noqa: PLC0415
    from allhands.kube.log_stream import LogStream  # noqa: PLC0415

    about = Awaited(session.namespace, subject)
    async with (
        LivePictures(session.objects, GROUP_PARTS, session.namespace) as live,
        LogStream(session.access) as stream,
    ):
        group = group_of(about, live.first)
        uid = "" if group is None else group.declared.uid
        if group is None:
            raise not_found(subject, session.namespace, names_like(about, live.first))
        named = {name for seen in group.pods for name in seen.containers}
        if options.container and named and options.container not in named:
            raise click.ClickException(
                f"{subject} has no container {options.container!r}; it has {', '.join(sorted(named))}"
            )
        printer = Printer(stream, options, _with_prefix(group, subject))
        if not options.follow:
            if not await _print_all(group, printer):
                raise SystemExit(1)
            return
        ends = 0
        try:
            while ends < GRACE_TURNS:
                if group is not None:
                    printer.follow(group)
                ends = ends + 1 if (group is None or _is_over(group)) and printer.is_quiet else 0
                picture = await live.next(AGAIN_SECONDS / GRACE_TURNS if ends else AGAIN_SECONDS)
                group = group_of(about, picture, uid)
        finally:
            await printer.close()
        printer.tell_silent()


def _is_over(group: Group) -> bool:
    from allhands.views.rows import row_of  # noqa: PLC0415

    return row_of(group).state.is_over


def _with_prefix(group: Group, subject: Subject) -> bool:
    return subject.kind != "pod" or any(len(it.containers) > 1 for it in group.pods)


async def _print_all(group: Group, printer: Printer) -> bool:
    """One pod after the other; whether any of them could be read."""
    readable, refusals = 0, 0
    for seen in group.pods:
        if not seen.record.pod.is_bound:
            click.echo(f"{seen.record.pod.name} is not on a node yet.", err=True)
            continue
        for container in printer.containers(seen):
            if await printer.copy(seen, container):
                readable += 1
            else:
                refusals += 1
    if not group.pods:
        click.echo(f"{group.label} has no pods yet.", err=True)
    return readable > 0 or refusals == 0


class Printer:
    """Copies output of containers to stdout, whole lines at a time."""

    def __init__(self, stream: LogStream, options: LogOptions, with_prefix: bool) -> None:
        self._stream = stream
        self._options = options
        self._with_prefix = with_prefix and options.prefix
        self._colours: dict[str, str] = {}
        self._open: dict[tuple[str, str], tuple[asyncio.Task[bool], int]] = {}
        """Pod uid and container -> its copying, and how many restarts the pod had when it began."""
        self._silent: dict[str, str] = {}
        """Pods that could not be read, and why."""

    def containers(self, seen: PodSeen) -> tuple[str, ...]:
        wanted = self._options.container
        return tuple(it for it in seen.containers if not wanted or it == wanted)

    @property
    def is_quiet(self) -> bool:
        return all(task.done() for task, _ in self._open.values())

    def follow(self, group: Group) -> None:
        """Begins to copy what is not copied yet, and again what has been restarted or had not started."""
        for seen in group.pods:
            pod = seen.record.pod
            if not pod.is_bound:
                continue
            for container in self.containers(seen):
                key = (pod.uid, container)
                known = self._open.get(key)
                if known is not None:
                    task, restarts = known
                    failed_to_start = task.done() and not task.result() and not pod.is_finished
                    if not task.done() or (seen.restarts <= restarts and not failed_to_start):
                        continue
                self._open[key] = (asyncio.create_task(self.copy(seen, container)), seen.restarts)

    async def copy(self, seen: PodSeen, container: str) -> bool:
        """To the end of what there is; False if it could not be read."""
        from allhands.api.errors import StatusError  # noqa: PLC0415

        pod = seen.record.pod
        before = self._prefix(seen, container)
        try:
            async for line in lines(self._stream.read(pod.namespace, pod.name, self._options.query(container))):
                sys.stdout.buffer.write(before + line)
                if self._options.follow:
                    sys.stdout.buffer.flush()
        except StatusError as refusal:
            if self._options.follow and refusal.code in NOT_STARTED:
                self._silent[pod.name] = sentence_of(refusal)
                return False
            if refusal.code in (401, 403, 503):
                raise
            click.echo(f"{pod.name}: {sentence_of(refusal)}", err=True)
            return False
        finally:
            sys.stdout.buffer.flush()
        self._silent.pop(pod.name, None)
        return True

    async def close(self) -> None:
        """Ends all copying."""
        for task, _ in self._open.values():
            task.cancel()
        await asyncio.gather(*(task for task, _ in self._open.values()), return_exceptions=True)

    def tell_silent(self) -> None:
        for name, why in self._silent.items():
            click.echo(f"{name}: {why}", err=True)

    def _prefix(self, seen: PodSeen, container: str) -> bytes:
        if not self._with_prefix:
            return b""
        name = seen.record.pod.name
        colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
        text = f"[{name}] " if len(seen.containers) == 1 else f"[{name} {container}] "
        return (click.style(text, fg=colour) if sys.stdout.isatty() else text).encode()


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines with their ends; what has no end in time is cut into pieces."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > LONGEST_LINE:
            yield rest + b"\n"
            rest = b""
    if rest:
        yield rest + b"\n"
