"""The whole story of one object, as a title, facts and sections of lines: what it is, why, until when, what happened.

The scheduler's sentences are repeated, not reworded. What nobody knows is left out rather than guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.model.pod import PodPhase
from allhands.views.groups import groups_of
from allhands.views.moments import ago_text, ahead_text, dated, span_text
from allhands.views.parts import part_lines, part_name
from allhands.views.room import asks_lines, place_lines, room_lines, why_there_lines
from allhands.views.rows import GroupRow, GroupState, row_of
from allhands.views.tasks import task_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.views.groups import Group
    from allhands.views.picture import EventSeen, Picture, PodSeen

EVENTS_SHOWN: Final = 20
TROUBLES_SHOWN: Final = 5
IN_THE_WAY_SHOWN: Final = 3
QUIET_SECONDS: Final = 10
"""Nobody having said anything for so long is worth a word."""


class Fact(msgspec.Struct, frozen=True):
    name: str
    value: str


class Section(msgspec.Struct, frozen=True):
    heading: str
    lines: tuple[str, ...]


class Story(msgspec.Struct, frozen=True):
    title: str
    state: str
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]


def told(title: str, state: str, facts: Iterable[tuple[str, str]], sections: Iterable[tuple[str, list[str]]]) -> Story:
    """Leaves out what is empty."""
    return Story(
        title,
        state,
        tuple(Fact(name, value) for name, value in facts if value),
        tuple(Section(heading, tuple(lines)) for heading, lines in sections if lines),
    )


def group_story(group: Group, picture: Picture, now_seconds: int) -> Story:
    row = row_of(group)
    others = groups_of(picture, bare_pods=True) if row.state is GroupState.WAITING else []
    heading = "Why it waits" if row.state is GroupState.WAITING else "Why it failed"
    troubles = trouble_lines(group.pods) if row.state is not GroupState.SUCCEEDED else []
    why = [] if troubles and not row.waiting and not row.state.is_over else _why(row)
    is_placed = row.state in (GroupState.STARTING, GroupState.RUNNING)
    sections = [
        (heading if row.state in (GroupState.WAITING, GroupState.FAILED) else "What is in the way", why),
        ("When it starts", _when(group, row, now_seconds)),
        ("In its way", _in_the_way(row, others, now_seconds)),
        ("Room that is made for it", _being_made(group, row, now_seconds)),
        ("Failed starts", _failed_starts(row, now_seconds)),
        ("Its tasks", task_lines(group) if not row.state.is_over else []),
        ("Its sub-groups", part_lines(group) if not row.state.is_over else []),
        ("Room on the nodes now", room_lines(group, picture) if row.waiting else []),
        ("Where its pods are", place_lines(group, picture)),
        ("Why there", why_there_lines(group, picture) if is_placed else []),
        ("Pods in trouble", troubles),
        ("What happened", event_lines(_events_of(group, picture), now_seconds)),
    ]
    title = f'{group.label} in namespace "{group.namespace}"'
    return told(title, row.state.value, _facts(group, row, now_seconds), sections)


def _facts(group: Group, row: GroupRow, now: int) -> list[tuple[str, str]]:
    expected = group.declared.expected_duration_seconds
    is_counted = group.job is not None and row.completions and (row.succeeded or row.state.is_over)
    done = f"{row.succeeded} of {row.completions} succeeded" if is_counted else ""
    facts = [
        ("Kind", _kind(group)),
        ("Phase", _phase(group)),
        ("Queue", row.queue or "none"),
        ("Pods", _pods_words(row)),
        ("Done", ", ".join(it for it in (done, f"{row.failed} failed" if row.failed else "") if it)),
        ("Each asks for", "; ".join(asks_lines(group))),
        ("Priority", str(row.priority) if row.priority else ""),
        ("Created", dated(row.created_at_seconds, ago_text(row.created_at_seconds, now))),
    ]
    if row.started_at_seconds is not None:
        facts.append(("Started", dated(row.started_at_seconds, ago_text(row.started_at_seconds, now))))
    if row.finished_at_seconds is not None:
        facts.append(("Ended", dated(row.finished_at_seconds, ago_text(row.finished_at_seconds, now))))
        if row.started_at_seconds is not None:
            facts.append(("Took", span_text(row.finished_at_seconds - row.started_at_seconds)))
    elif expected is not None:
        facts.append(("Runs for", f"at most or about {span_text(expected)}, as it says itself"))
        if row.started_at_seconds is not None:
            end = row.started_at_seconds + expected
            facts.append(("Expected end", dated(end, ahead_text(end, now))))
    return facts


def _kind(group: Group) -> str:
    """Said where the word of its name does not say it."""
    names = {"podgroup": "PodGroup", "vcjob": "Job"}
    return f"{names[group.kind]} of {group.api_group}" if group.kind in names else ""


def _phase(group: Group) -> str:
    """In the word of its own kind."""
    if group.job is not None and group.job.phase:
        return group.job.phase
    return group.pod_group.record.written.phase if group.pod_group is not None else ""


def _pods_words(row: GroupRow) -> str:
    if row.state.is_over:
        return ""
    words = f"{row.ready} of {row.total} ready"
    if row.bound > row.ready:
        words += f", {row.bound} on nodes"
    if row.is_gang and row.min_count > 1:
        many = f"all {row.min_count}" if row.min_count == row.total else f"at least {row.min_count}"
        return f"{words}; {many} must start together"
    return f"{words}; each starts on its own" if row.total > 1 and not row.is_gang else words


def _why(row: GroupRow) -> list[str]:
    if not row.why:
        return []
    return [row.why, f"Reason: {row.reason}"] if row.reason else [row.why]


def _when(group: Group, row: GroupRow, now: int) -> list[str]:
    if group.job is not None and (until := group.job.pauses_until_seconds) is not None:
        return [f"Its pods are made anew after a pause, which ends {dated(until, ahead_text(until, now))}."]
    if row.state is not GroupState.WAITING:
        return []
    if row.expected_start_seconds is not None:
        moment = row.expected_start_seconds
        if moment <= now:
            return [f"It was expected to start {dated(moment, ago_text(moment, now))}: any moment now."]
        return [f"It is expected to start {dated(moment, ahead_text(moment, now))}."]
    if row.is_never:
        return ["Never, as long as it, the nodes and the quotas stay what they are."]
    if group.pod_group is not None and not group.pods:
        if group.pod_group.record.written.phase == "Inqueue":
            return ["Its queue has let it in: whoever makes its pods may make them now."]
        if group.pod_group.told:
            return ["Its pods are to be made once its queue lets it in (Inqueue); nobody knows when that is."]
    if rest := row.told[len(row.why) :].strip():
        return [rest]
    if not row.why and now - row.created_at_seconds >= QUIET_SECONDS:
        names = sorted({it.record.pod.scheduler_name for it in group.live_pods})
        asked = f" Its pods ask for the scheduler {' and '.join(map(repr, names))}; is it running?" if names else ""
        return [f"No scheduler has said anything about it.{asked}"]
    return []


def _in_the_way(row: GroupRow, others: list[Group], now: int) -> list[str]:
    """Those that the scheduler named, and how they are."""
    named = [it for it in others if any(f'"{key}"' in row.told for key in it.keys)]
    strangers = [it for it in named if (it.namespace, it.label) != (row.namespace, row.label)]
    return [_in_short(it, now) for it in strangers[:IN_THE_WAY_SHOWN]]


def _in_short(group: Group, now: int) -> str:
    row = row_of(group)
    words = f"{group.label} in {group.namespace}: {row.state.value}"
    if row.started_at_seconds is not None:
        words += f" since {span_text(now - row.started_at_seconds)}"
        if (runs := group.declared.expected_duration_seconds) is not None:
            words += f", expected to end {ahead_text(row.started_at_seconds + runs, now)}"
        else:
            words += ", and nobody knows for how long"
    if row.nodes:
        words += f"; {row.bound} pods on {', '.join(row.nodes[:4])}{' …' if len(row.nodes) > 4 else ''}"
    return f"{words}."


def _being_made(group: Group, row: GroupRow, now: int) -> list[str]:
    if row.preempting_since_seconds is None or row.state.is_over or not row.waiting:
        return []
    nodes = ", ".join(group.status.nominated_nodes)
    where = f" on {nodes}" if nodes else ""
    return [f"Since {span_text(now - row.preempting_since_seconds)} others are leaving{where} to make room for it."]


def _failed_starts(row: GroupRow, now: int) -> list[str]:
    if not row.failed_starts:
        return []
    times = "start" if row.failed_starts == 1 else "starts"
    lines = [f"{row.failed_starts} {times} failed: its pods were on nodes and did not begin to run in time."]
    if row.state is GroupState.WAITING and row.retry_at_seconds is not None:
        lines.append(f"The next is tried {dated(row.retry_at_seconds, ahead_text(row.retry_at_seconds, now))}.")
    if row.avoid_nodes:
        lines.append(f"Nodes that it avoids since: {', '.join(row.avoid_nodes)}.")
    return lines


def trouble_lines(pods: Iterable[PodSeen]) -> list[str]:
    troubled = [it for it in pods if it.trouble]
    lines = []
    for it in troubled[:TROUBLES_SHOWN]:
        again = f" (restarted {it.restarts} times)" if it.restarts else ""
        where = f" on {it.record.pod.node_name}" if it.record.pod.is_bound else ""
        lines.append(f"{it.record.pod.name}{where}: {it.trouble}{again}")
    if len(troubled) > TROUBLES_SHOWN:
        lines.append(f"and {len(troubled) - TROUBLES_SHOWN} more")
    return lines


def _events_of(group: Group, picture: Picture) -> list[EventSeen]:
    uids = {group.declared.uid, *(it.record.pod.uid for it in group.pods)}
    if group.pod_group is not None:
        uids.add(group.pod_group.record.uid)
    known = {it.record.pod.uid for it in picture.pods}
    jobs = {(it.record.namespace, it.record.name) for it in picture.jobs}
    return [
        it
        for it in picture.events
        if it.uid in uids or (it.uid not in known and group.job is not None and _maker(it, jobs) == group.name)
    ]


def _maker(event: EventSeen, jobs: set[tuple[str, str]]) -> str:
    """The Job that made a pod which is gone, by the way in which Jobs name their pods: the longest name that fits."""
    name = event.name if event.kind == "Pod" else ""
    while name:
        name = name.rpartition("-")[0]
        if (event.namespace, name) in jobs:
            return name
    return ""


def event_lines(events: Iterable[EventSeen], now: int) -> list[str]:
    """The newest so many, oldest first."""
    ordered = _folded(events)
    lines = [f"{len(ordered) - EVENTS_SHOWN} earlier events are left out"] if len(ordered) > EVENTS_SHOWN else []
    for it, pods in ordered[-EVENTS_SHOWN:]:
        times = f" ×{it.count}" if it.count > 1 else ""
        about = f" {it.name}" if pods == 1 else f" ({pods} pods)" if pods else ""
        lines.append(f"{ago_text(it.last_seconds, now):>10}  {it.reason}{times}{about}: {it.message}".rstrip(": "))
    return lines


def _folded(events: Iterable[EventSeen]) -> list[tuple[EventSeen, int]]:
    """In the order in which they happened; what was said alike of several pods is one, with how many pods it was of."""
    last: dict[tuple[str, ...], EventSeen] = {}
    pods: dict[tuple[str, ...], set[str]] = {}
    for it in sorted(events, key=lambda it: (it.last_seconds, it.version)):
        is_pod = it.kind == "Pod"
        key = (it.reason, it.message, str(it.count)) if is_pod else (it.reason, it.message, it.uid, str(it.version))
        last.pop(key, None)
        last[key] = it
        pods.setdefault(key, set()).update([it.name] if is_pod else [])
    return [(it, len(pods[key])) for key, it in last.items()]


def pod_story(seen: PodSeen, picture: Picture, now_seconds: int) -> Story:
    """A pod's own story; of its group only how that is and why."""
    pod = seen.record.pod
    group = next((it for it in groups_of(picture, bare_pods=True) if any(seen is one for one in it.pods)), None)
    whole = row_of(group) if group is not None else None
    is_member = group is not None and group.kind != "pod"
    facts = [
        ("Belongs to", f"{group.label} ({whole.state.value})" if is_member and group and whole else ""),
        ("Sub-group", part_name(group, dict(pod.labels))),
        ("Queue", whole.queue if whole is not None else ""),
        ("Node", pod.node_name or "none yet"),
        ("Asks for", asks_lines(group)[0].partition(" × ")[2].strip("()") if group and asks_lines(group) else ""),
        ("Containers", ", ".join(seen.containers)),
        ("Restarts", str(seen.restarts) if seen.restarts else ""),
        ("Created", dated(pod.created_at_seconds, ago_text(pod.created_at_seconds, now_seconds))),
    ]
    if pod.started_at_seconds is not None:
        facts.append(("Started", dated(pod.started_at_seconds, ago_text(pod.started_at_seconds, now_seconds))))
    waits = not pod.is_bound and not pod.is_finished
    why, when, others = [], [], []
    if waits and whole is not None and group is not None:
        why = _why(whole) if whole.state is GroupState.WAITING else [seen.told or whole.why]
        when = _when(group, whole, now_seconds)
        others = groups_of(picture, bare_pods=True)
    if pod.scheduling_gates:
        why = [f"Scheduling gates hold it back: {', '.join(pod.scheduling_gates)}.", *why]
    there = why_there_lines(group, picture) if group is not None and pod.is_bound and not pod.is_finished else []
    events = [it for it in picture.events if it.uid == pod.uid]
    if group is not None and is_member:
        events += [it for it in picture.events if it.uid == group.declared.uid]
    sections = [
        ("Why it waits", [it for it in why if it]),
        ("When it starts", when),
        ("In its way", _in_the_way(whole, others, now_seconds) if whole is not None else []),
        ("Room on the nodes now", room_lines(group, picture) if waits and group is not None else []),
        ("Why there", there),
        ("Trouble", trouble_lines([seen])),
        ("What happened", event_lines(events, now_seconds)),
    ]
    state = "Leaving" if pod.deleting else pod.phase.value
    state = "Waiting" if waits and not pod.deleting else "Starting" if state == PodPhase.PENDING.value else state
    return told(f'pod/{pod.name} in namespace "{pod.namespace}"', state, facts, sections)
