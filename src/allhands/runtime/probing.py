"""Questions about running pods that a machine has asked, put again and again until the answer is yes.

So many are under way at a time, each has its time limit, and one that is never answered holds up nobody. A yes stands
as long as somebody wants to know: what came up once counts as up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.lifecycle.job_flow.probing import Question
    from allhands.runtime.workqueue import WorkQueue

PERIOD_SECONDS: Final = 5.0
LIMIT_SECONDS: Final = 30.0
MOST_QUESTIONS: Final = 16
"""Under way at a time."""
_LOG = logging.getLogger(__name__)


class Probes(Protocol):
    """The port: who can ask pods."""

    async def is_up(self, question: Question) -> bool:
        """Whether every pod that is meant answers as it should."""


class TrustingProbes:
    """Where pods only seem to run nobody answers: that they run is enough."""

    async def is_up(self, question: Question) -> bool:
        del question
        return True


class Prober:
    """`want` says, by key, what is to be asked; the key is queued when an answer is there."""

    def __init__(
        self, probes: Probes, *, period_seconds: float = PERIOD_SECONDS, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self._probes = probes
        self._period_seconds = period_seconds
        self._limit_seconds = limit_seconds
        self._wanted: dict[str, dict[Question, None]] = {}
        self._who: dict[Question, dict[str, None]] = {}
        self._up: dict[Question, None] = {}
        self._pursued: dict[Question, None] = {}
        self._new: asyncio.Queue[Question] = asyncio.Queue()
        self._free = asyncio.Semaphore(MOST_QUESTIONS)
        self._queue: WorkQueue | None = None

    def wire(self, queue: WorkQueue) -> None:
        self._queue = queue

    def holds(self, question: Question) -> bool:
        return question in self._up

    def want(self, key: str, questions: Iterable[Question]) -> None:
        """From now on these, and no others, for this key."""
        wanted = dict.fromkeys(questions)
        before = self._wanted.pop(key, {})
        if wanted:
            self._wanted[key] = wanted
        for question in wanted:
            self._who.setdefault(question, {})[key] = None
            if question not in self._pursued and question not in self._up:
                self._pursued[question] = None
                self._new.put_nowait(question)
        for question in before:
            if question not in wanted:
                self._leave(question, key)

    def _leave(self, question: Question, key: str) -> None:
        who = self._who.get(question, {})
        who.pop(key, None)
        if not who:
            self._who.pop(question, None)
            self._up.pop(question, None)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                question = await self._new.get()
                tasks.create_task(self._pursue(question), name=f"probe of {question.job}")

    async def _pursue(self, question: Question) -> None:
        try:
            while question in self._who:
                if await self._ask(question):
                    self._note(question)
                    return
                await asyncio.sleep(self._period_seconds)
        finally:
            self._pursued.pop(question, None)

    def _note(self, question: Question) -> None:
        who = self._who.get(question)
        if who:
            self._up[question] = None
            for key in who:
                if self._queue is not None:
                    self._queue.add(key)

    async def _ask(self, question: Question) -> bool:
        async with self._free:
            try:
                async with asyncio.timeout(self._limit_seconds):
                    return await self._probes.is_up(question)
            except Exception as failure:  # whatever is wrong with one probe, the others go on
                _LOG.info("probe of Job %s/%s: %s", question.namespace, question.job, failure or type(failure).__name__)
                return False
