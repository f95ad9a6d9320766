"""How long the groups of each queue have run: those that ended well, the last ones of each queue, and their median.

It follows the groups of one snapshot after the other. A run that it did not see to its end does not count.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from allhands.core.calendar.estimates import LONGEST_SECONDS
from allhands.core.facts import PastRuns
from allhands.dialects.groups import job_group_name
from allhands.runtime.informer import split_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.dialects.groups import GroupRecord
    from allhands.runtime.informer import Informer

KEPT_RUNS: Final = 50
"""Of each queue: as many as say something about the next one, and few enough to follow when runs change."""
MOST_BYTES: Final = 200_000
"""Of all of them as text, so that it fits into one object of the API: of many queues fewer runs are kept."""
Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_SECONDS)]
_DECODER: Final = msgspec.json.Decoder(dict[str, list[Seconds]])
_JOB: Final = job_group_name("")


class RunTimes:
    """`jobs` say how a Job ended, which its pods alone do not."""

    def __init__(self, jobs: Informer[GroupRecord]) -> None:
        self._jobs = jobs
        self._begun: dict[str, int] = {}
        """Groups that hold room -> since when."""
        self._runs: dict[str, deque[int]] = {}

    def follow(self, snapshot: Snapshot, changed: Iterable[str], gone: Iterable[str], now: int) -> bool:
        """Whether a run has ended."""
        has_ended = False
        since_of = snapshot.pods.since.item
        for key in gone:
            self._begun.pop(key, None)
        for key in changed:
            entry = snapshot.groups.get(key)
            if entry is None:
                continue
            if entry.bound:
                since = min(map(since_of, entry.bound))
                self._begun[key] = min(since, self._begun.get(key, since))
            elif key in self._begun and not entry.leaving and not entry.pending:
                has_ended |= self._ended(entry, now)
        return has_ended

    def keep_only(self, groups: Mapping[str, GroupEntry]) -> None:
        """Those that are begun, of which nobody said that they are gone."""
        self._begun = {key: since for key, since in self._begun.items() if key in groups}

    def _ended(self, entry: GroupEntry, now: int) -> bool:
        queue = entry.group.queue
        is_well = entry.is_whole and bool(entry.present)
        namespace, name = split_key(entry.key)
        if name.startswith(_JOB):
            job = self._jobs.get(f"{namespace}/{name.removeprefix(_JOB)}")
            if job is not None and not job.has_ended:
                return False  # its next pods are on their way, or it is about to say how it ended
            is_well = job is not None and job.end == "Complete"
        seconds = now - self._begun.pop(entry.key)
        if not is_well or not queue:
            return False
        self._runs.setdefault(queue, deque(maxlen=KEPT_RUNS)).append(min(max(seconds, 0), LONGEST_SECONDS))
        return True

    def past_runs(self, queues: Iterable[str]) -> dict[str, PastRuns]:
        """Of these queues; what is known of others is forgotten."""
        self._runs = {name: runs for name in sorted(queues) if (runs := self._runs.get(name))}
        return {name: PastRuns(statistics.median_low(runs), len(runs)) for name, runs in self._runs.items()}

    def encode(self) -> bytes:
        for kept in (KEPT_RUNS, KEPT_RUNS // 5, 1):
            text = msgspec.json.encode({name: list(runs)[-kept:] for name, runs in sorted(self._runs.items())})
            if len(text) <= MOST_BYTES:
                return text
        return b"{}"

    def decode(self, text: bytes) -> None:
        """What an earlier process knew. Anything else raises ValueError."""
        try:
            found = _DECODER.decode(text)
        except msgspec.MsgspecError as error:
            raise ValueError(f"not a list of run times: {error}") from None
        self._runs = {name: deque(runs[-KEPT_RUNS:], maxlen=KEPT_RUNS) for name, runs in found.items() if runs}
