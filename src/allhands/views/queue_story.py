"""The story of one queue: what it may have and has, who lends or borrows, who runs in it and who waits, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.views.amounts import amount_text, in_order
from allhands.views.moments import ahead_text, span_text
from allhands.views.queues import QueueRow, queue_rows, queue_uses
from allhands.views.rows import GroupRow, GroupState
from allhands.views.story import Story, told

if TYPE_CHECKING:
    from allhands.views.picture import Picture
    from allhands.views.queues import QuotaRow

GROUPS_SHOWN: Final = 10


def queue_story(name: str, picture: Picture, now_seconds: int) -> Story | None:
    """None if there is no such queue and nobody names it."""
    rows = queue_rows(picture)
    row = next((it for it in rows if it.name == name), None)
    if row is None:
        return None
    groups = queue_uses(picture)[name].rows if name in queue_uses(picture) else ()
    by_age = sorted(groups, key=lambda it: (it.created_at_seconds, it.namespace, it.name))
    waiting = [it for it in by_age if it.state is GroupState.WAITING]
    running = [it for it in by_age if it.state in (GroupState.RUNNING, GroupState.STARTING)]
    facts = [
        ("Parent", row.parent),
        ("Weight", f"{row.weight:g}"),
        ("Priority", str(row.priority) if row.priority else ""),
        ("Reclaimable", "" if row.reclaimable else "no: what it borrows is not taken back"),
        ("Jobs", "are gangs unless they say otherwise" if row.gang_by_default else ""),
        ("Share", f"{row.share_percent}% of {_whole(row)} ({row.share_resource})" if row.share_resource else "nothing"),
    ]
    below = [f"{it.name}: {it.running} running, {it.waiting} waiting" for it in rows if it.parent == name and it.name]
    sections = [
        ("What is wrong with it", [row.problem] if row.problem else []),
        ("What is not used", list(row.notes)),
        ("What it has", [_quota_line(row, it) for it in _ordered(row)]),
        ("Queues below it", below),
        (f"Running ({len(running)})", _shown(running, now_seconds)),
        (f"Waiting ({len(waiting)}), oldest first", _shown(waiting, now_seconds)),
    ]
    return told(f"queue/{name}" if name else "no queue", row.state, facts, sections)


def _whole(row: QueueRow) -> str:
    return "what it deserves" if any(it.deserved for it in row.quotas) else "the cluster"


def _ordered(row: QueueRow) -> list[QuotaRow]:
    names = in_order(it.resource for it in row.quotas)
    return sorted(row.quotas, key=lambda it: names.index(it.resource))


def _quota_line(row: QueueRow, quota: QuotaRow) -> str:
    parts = [f"{quota.resource}: {amount_text(quota.resource, quota.used)} used"]
    limits = (("guaranteed", quota.guarantee), ("deserved", quota.deserved), ("at most", quota.capability))
    parts += [f"{words} {amount_text(quota.resource, units)}" for words, units in limits if units is not None]
    if quota.deserved is not None and quota.used > quota.deserved:
        borrowed = amount_text(quota.resource, quota.used - quota.deserved)
        parts.append(f"{borrowed} borrowed" + ("" if row.reclaimable else ", not to be reclaimed"))
    return ", ".join(parts)


def _shown(groups: list[GroupRow], now: int) -> list[str]:
    lines = [_line(it, now) for it in groups[:GROUPS_SHOWN]]
    return [*lines, f"and {len(groups) - GROUPS_SHOWN} more"] if len(groups) > GROUPS_SHOWN else lines


def _line(row: GroupRow, now: int) -> str:
    words = f"{row.namespace}/{row.label}"
    if row.state is not GroupState.WAITING:
        since = f" since {span_text(now - row.started_at_seconds)}" if row.started_at_seconds is not None else ""
        return f"{words}: {row.ready} of {row.total} pods ready{since}"
    start = f" Start {ahead_text(row.expected_start_seconds, now)}." if row.expected_start_seconds is not None else ""
    return f"{words}, since {span_text(now - row.created_at_seconds)}: {row.why}{start}"
