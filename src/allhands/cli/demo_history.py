"""What became of each job of the demo, gathered from one picture of the cluster after the other.

Moments are seconds since the story began, as they were seen. It repeats what the scheduler said and adds no reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.model.reason import Reason
from allhands.views.groups import groups_of
from allhands.views.rows import GroupState, row_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allhands.views.groups import Group
    from allhands.views.picture import Picture
    from allhands.views.rows import GroupRow

PREEMPTED: Final = "Preempted"
_UNTOLD: Final = frozenset(("", Reason.GANG_INCOMPLETE.value))
"""Pods that are being made at this moment are no news."""


class News(NamedTuple):
    """`rank`: of what is seen at the same moment, ends are told first, for they are why others start."""

    rank: int
    text: str


ENDED: Final = 0
LEAVES: Final = 1
WAITS: Final = 2
RUNS: Final = 3


class JobHistory:
    """One job from its submission on."""

    def __init__(self, name: str, submitted_at: float) -> None:
        self.name = name
        self.state = GroupState.WAITING
        self.row: GroupRow | None = None
        """As it was last seen."""
        self.nodes: tuple[str, ...] = ()
        """Of its last start."""
        self.starts = 0
        self.reasons: dict[str, str] = {}
        """Why it waited: the words of each reason, in the order in which they were first told."""
        self.expected_start_seconds: int | None = None
        """The last moment (of the wall clock) for which it was told to expect its start."""
        self.eviction = ""
        """Why it had to leave, if it had to."""
        self._since = submitted_at
        self._waited = 0.0
        self._ran = 0.0

    @property
    def is_placed(self) -> bool:
        return self.state in (GroupState.STARTING, GroupState.RUNNING)

    def waited_seconds(self, at: float) -> float:
        return self._waited + (at - self._since if self.state is GroupState.WAITING else 0.0)

    def ran_seconds(self, at: float) -> float:
        return self._ran + (at - self._since if self.is_placed else 0.0)

    def why(self) -> str:
        """All that kept it waiting, first things first."""
        return " ".join(dict.fromkeys([*([self.eviction] if self.eviction else []), *self.reasons.values()]))

    def see(self, group: Group, at: float, racks: Mapping[str, str]) -> Iterator[News]:
        """Takes the job as it is now; yields what is news to a person."""
        row = row_of(group)
        self.row = row
        if row.state is GroupState.WAITING and row.completions and row.succeeded >= row.completions:
            return  # all its pods are done, and it is about to be called complete
        if row.nodes:
            self.nodes = row.nodes
        yield from self._reasons(row)
        if row.state is not self.state:
            yield from self._change(row, at, racks)

    def _reasons(self, row: GroupRow) -> Iterator[News]:
        if row.state is not GroupState.WAITING:
            return
        if row.expected_start_seconds is not None:
            self.expected_start_seconds = row.expected_start_seconds
        if row.reason in _UNTOLD:
            return
        if row.reason not in self.reasons:
            yield News(WAITS, f"{self.name} waits: {row.told}")
        self.reasons[row.reason] = row.why

    def _change(self, row: GroupRow, at: float, racks: Mapping[str, str]) -> Iterator[News]:
        self._waited, self._ran = self.waited_seconds(at), self.ran_seconds(at)
        self.state, self._since = row.state, at
        if row.state is GroupState.RUNNING:
            self.starts += 1
            again = " again" if self.starts > 1 else ""
            count = f"{row.total} worker{'' if row.total == 1 else 's'}"
            yield News(RUNS, f"{self.name} runs{again}: {count} in {places(self.nodes, racks)}")
        elif row.state is GroupState.FAILED:
            yield News(ENDED, f"{self.name} failed: {row.why}")
        elif row.state is GroupState.SUCCEEDED:
            yield News(ENDED, f"{self.name} is done")


def places(nodes: tuple[str, ...], racks: Mapping[str, str]) -> str:
    """The racks of nodes; a node that is in none stands for itself."""
    return ", ".join(dict.fromkeys(racks.get(node, node) for node in nodes)) or "no place"


class History:
    """All jobs, in the order in which they were submitted. `racks`: node -> rack."""

    def __init__(self, racks: Mapping[str, str]) -> None:
        self.jobs: dict[str, JobHistory] = {}
        self.racks = racks

    def submit(self, name: str, at: float) -> None:
        self.jobs[name] = JobHistory(name, at)

    def see(self, picture: Picture, at: float) -> list[str]:
        """What is new in this picture, in words."""
        news = list(self._evictions(picture))
        for group in groups_of(picture):
            if group.kind == "job" and group.name in self.jobs:
                news += self.jobs[group.name].see(group, at, self.racks)
        return [it.text for it in sorted(news, key=lambda it: it.rank)]

    def _evictions(self, picture: Picture) -> Iterator[News]:
        for event in picture.events:
            if event.reason != PREEMPTED:
                continue
            job = next((it for it in self.jobs.values() if event.name.startswith(f"{it.name}-")), None)
            if job is not None and not job.eviction:
                job.eviction = event.message
                yield News(LEAVES, event.message)

    def where(self, name: str) -> str:
        return places(self.jobs[name].nodes, self.racks)

    def racks_of(self, name: str) -> set[str]:
        return {self.racks.get(node, node) for node in self.jobs[name].nodes}

    def is_running(self, *names: str) -> bool:
        return all(self.jobs[name].state is GroupState.RUNNING for name in names)

    def has_started(self, name: str) -> bool:
        return self.jobs[name].state is not GroupState.WAITING

    def is_over(self, *names: str) -> bool:
        return all(self.jobs[name].state.is_over for name in names)

    def failed(self) -> list[str]:
        return [it.name for it in self.jobs.values() if it.state is GroupState.FAILED]
