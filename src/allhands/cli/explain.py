"""`allhands explain KIND/NAME`: the whole story of one object."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak
from allhands.cli.options import Subject, SubjectType, ambiguous, not_found, output_option, watch_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.cluster import Session, Target
    from allhands.cli.looking import Part
    from allhands.views.picture import Picture
    from allhands.views.story import Story

NO_FLOWS = "this cluster has no flows: it does not know the kind JobFlow (Volcano's)"
_INDENT = "  "
_MOMENT = re.compile(r" *\S+ ago  ")


@click.command("explain", short_help="Tell the whole story of a job, a pod, a group, a flow or a queue.")
@click.argument(
    "subject", metavar="KIND/NAME", type=SubjectType("job", "vcjob", "pod", "podgroup", "queue", "flow", plain=True)
)
@cluster_options()
@output_option("table", "wide", "json", "yaml")
@watch_option
def command(target: Target, subject: Subject, output: str, watch: bool) -> None:
    """Tell all that is known: state, why it waits with numbers, when it starts or who prevents an answer, where its
    pods are, failed starts and the next try, what happened.

    NAME alone will do if only one thing is called so. PodGroups are the native ones, coscheduling's and Volcano's.

    \b
    Examples:
      allhands explain job/train
      allhands explain train
      allhands explain podgroup.scheduling.volcano.sh/train
      allhands explain pod/train-0 --watch
      allhands explain queue/team-a
      allhands explain flow/nightly
    """
    speak(target, lambda session: explain(session, subject, output=output, watch=watch))


async def explain(session: Session, subject: Subject, *, output: str, watch: bool) -> None:
    from allhands.cli.grid_text import say  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.cli.looking import look, now_seconds  # noqa: PLC0415
    from allhands.cli.output import show_screen, value_text  # noqa: PLC0415

    def screen(picture: Picture) -> str:
        story = story_of(subject, session.namespace, picture, now_seconds())
        if story is None:
            return f"{subject} is gone."
        return value_text(story, output) if output in ("json", "yaml") else story_text(story, wide=output == "wide")

    def news(picture: Picture) -> object:
        return story_of(subject, session.namespace, picture, 0)  # as if no time passed

    parts = await _parts(session)
    first = await look(session.objects, parts, session.namespace)
    meant = subjects_meant(subject, session.namespace, first)
    if not meant:
        raise _missing(subject, session.namespace, first)
    if len(meant) > 1:
        raise ambiguous(subject, map(str, meant))
    subject = meant[0]
    if watch:
        await show_screen(session, parts, screen, namespace=session.namespace, is_news=news)
    else:
        say(screen(first))


async def _parts(session: Session) -> Sequence[Part]:
    """Everything everywhere, if we are shown it: who is in the way may live in another namespace."""
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.cli.looking import EVENTS, FLOWS, GROUP_PARTS, NODES_IF_SHOWN, PODS  # noqa: PLC0415
    from allhands.ports import Query  # noqa: PLC0415

    try:
        await session.objects.list(PODS.resource, Query(limit=1))
    except StatusError as refusal:
        if refusal.code != 403:
            raise
        return (*GROUP_PARTS, FLOWS, EVENTS)
    everywhere = tuple(part._replace(is_namespaced=False) for part in GROUP_PARTS)
    return (*everywhere, NODES_IF_SHOWN, FLOWS, EVENTS)


def subjects_meant(subject: Subject, namespace: str, picture: Picture) -> list[Subject]:
    """All that it may be, each said so that nothing else can be meant."""
    from allhands.views.groups import groups_named  # noqa: PLC0415
    from allhands.views.queues import queue_rows  # noqa: PLC0415

    kind, name, api_group = subject
    found: list[Subject] = []
    if kind in ("", "job", "vcjob", "podgroup"):
        groups = groups_named(picture, namespace, kind, name, api_group)
        found = [Subject(it.kind, it.name, it.api_group if it.kind == "podgroup" else "") for it in groups]
    if kind in ("", "pod"):
        key = f"{namespace}/{name}"
        found += [Subject("pod", name) for it in picture.pods if it.record.pod.key == key]
    if kind == "queue" or (kind == "" and picture.queues is not None):
        found += [Subject("queue", name) for it in queue_rows(picture) if it.name == name]
    if kind in ("", "flow"):
        found += [Subject("flow", name) for it in picture.flows or () if it.metadata.key == f"{namespace}/{name}"]
    return found


def story_of(subject: Subject, namespace: str, picture: Picture, now: int) -> Story | None:
    """Of one thing that has been found. None if it is gone."""
    from allhands.views.flows import flow_story  # noqa: PLC0415
    from allhands.views.groups import groups_named  # noqa: PLC0415
    from allhands.views.queue_story import queue_story  # noqa: PLC0415
    from allhands.views.story import group_story, pod_story  # noqa: PLC0415

    if subject.kind == "queue":
        return queue_story(subject.name, picture, now)
    if subject.kind == "flow":
        return flow_story(namespace, subject.name, picture, now)
    if subject.kind == "pod":
        for seen in picture.pods:
            if (seen.record.pod.namespace, seen.record.pod.name) == (namespace, subject.name):
                return pod_story(seen, picture, now)
        return None
    groups = groups_named(picture, namespace, *subject)
    return group_story(groups[0], picture, now) if groups else None


def _missing(subject: Subject, namespace: str, picture: Picture) -> click.ClickException:
    if subject.kind == "queue":
        if picture.queues is None:
            return click.ClickException("this cluster has no queues: it does not know the kind Queue (Volcano's)")
        return not_found(subject, "", [it.name for it in picture.queues])
    if subject.kind == "flow" and picture.flows is None:
        return click.ClickException(NO_FLOWS)
    by_kind = {
        "job": [(it.record.namespace, it.record.name) for it in picture.jobs if it.kind == "job"],
        "vcjob": [(it.record.namespace, it.record.name) for it in picture.jobs if it.kind == "vcjob"],
        "podgroup": [(it.record.namespace, it.record.name) for it in picture.pod_groups],
        "pod": [(it.record.pod.namespace, it.record.pod.name) for it in picture.pods],
        "flow": [(it.metadata.namespace, it.metadata.name) for it in picture.flows or ()],
    }
    known = by_kind[subject.kind] if subject.kind else [it for names in by_kind.values() for it in names]
    here = [name for space, name in known if space == namespace]
    return not_found(subject, namespace, here, [space for space, name in known if name == subject.name])


def story_text(story: Story, *, wide: bool = False) -> str:
    """Title, facts, sections; long lines are wrapped, not cut."""
    from allhands.cli.grid_text import STATE_COLOURS, width_of_output  # noqa: PLC0415
    from allhands.cli.plan_text import printable  # noqa: PLC0415

    width = 10_000 if wide else width_of_output()
    state = click.style(story.state, fg=STATE_COLOURS.get(story.state), bold=True)
    lines = [f"{click.style(printable(story.title), bold=True)}: {state}", ""]
    longest = max((len(fact.name) for fact in story.facts), default=0)
    for fact in story.facts:
        lead = f"{fact.name:<{longest}}  "
        lines += _wrapped(printable(fact.value), width, lead, " " * len(lead))
    for section in story.sections:
        lines += ["", click.style(section.heading, bold=True)]
        for line in section.lines:
            lines += _wrapped(printable(line), width, _INDENT, _INDENT * 2)
    return "\n".join(lines)


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    """A line that begins with a moment goes on beside it, not below."""
    moment = _MOMENT.match(text)
    lead = moment.group() if moment is not None else ""
    return textwrap.wrap(
        text[len(lead) :],
        width,
        initial_indent=first + lead,
        subsequent_indent=" " * len(first + lead) if lead else others,
        break_long_words=True,
        break_on_hyphens=False,
    ) or [first.rstrip()]
