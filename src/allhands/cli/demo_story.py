"""The scenes of the demo, for people who have never seen batch on Kubernetes: a sentence, what happens, what it proves.

Each scene waits for what it promises and goes on at once; the scenes build on each other, so their order matters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.cli import demo_cast as cast
from allhands.cli.demo_stage import PromiseBrokenError
from allhands.model.reason import Reason
from allhands.model.time_text import utc_text
from allhands.views.rows import GroupState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.cli.demo_history import History
    from allhands.cli.demo_stage import Stage

READING_SECONDS: Final = 0.8
"""So long a scene stays as it is before the next one begins; people read slower than clusters schedule."""
BUDGET_SECONDS: Final = 50.0
"""The whole story, on the slowest machine."""


class Scene(msgspec.Struct, frozen=True):
    title: str
    sentence: str
    play: Callable[[Stage], Awaitable[None]]


async def tell(stage: Stage) -> None:
    """All scenes, one after the other; raises PromiseBrokenError at the first that does not do what it says."""
    title = ""
    try:
        async with asyncio.timeout(BUDGET_SECONDS):
            for number, scene in enumerate(SCENES, 1):
                title = scene.title
                stage.screen.heading(f"{number}. {title}")
                stage.screen.words(scene.sentence)
                await scene.play(stage)
    except TimeoutError:
        raise PromiseBrokenError(f'the story is told within {BUDGET_SECONDS:g} s; it was at "{title}"') from None


async def all_or_nothing(stage: Stage) -> None:
    together = (cast.RESNET, cast.WHISPER, cast.SWEEP)
    await stage.submit(*together)
    names = [it.name for it in together]
    await stage.until(f"{', '.join(names)} run", lambda history: history.is_running(*names))
    for name in names:
        _in_one_rack(stage.history, name)
    await asyncio.sleep(READING_SECONDS)


async def priority(stage: Stage) -> None:
    victim, urgent = cast.SWEEP.name, cast.HOTFIX.name
    await stage.submit(cast.HOTFIX)
    await stage.until(f"{urgent} runs", lambda history: history.has_started(urgent))
    await stage.until(f"{victim} is evicted for {urgent}", lambda history: urgent in history.jobs[victim].eviction)
    await asyncio.sleep(READING_SECONDS)


async def waiting(stage: Stage) -> None:
    big, small = cast.GPT.name, cast.EVAL.name
    await stage.submit(cast.GPT)
    await stage.until(f"{big} is told why it waits and until when", lambda history: _is_told(history, big))
    expected = stage.history.jobs[big].expected_start_seconds
    assert expected is not None
    stage.screen.words(
        f"{big} holds nothing while it waits, and its turn is reserved. A small job may pass if it ends before that:"
    )
    await stage.submit(cast.EVAL)
    await stage.until(f"{small} starts", lambda history: history.has_started(small))
    if stage.history.has_started(big):
        raise PromiseBrokenError(f"{small} starts before {big}, without delaying it")
    await stage.until(f"{big} starts when its turn comes", lambda history: history.has_started(big))
    row = stage.history.jobs[big].row
    if row is not None and row.started_at_seconds is not None:
        started = utc_text(row.started_at_seconds)
        stage.screen.words(f"{big} was told to expect {utc_text(expected)}, and started at {started}.")


async def one_rack(stage: Stage) -> None:
    name, before = cast.LLAMA.name, (cast.RESNET.name, cast.WHISPER.name)
    await stage.until(f"{' and '.join(before)} are done", lambda history: history.is_over(*before))
    await stage.submit(cast.LLAMA)
    await stage.until(
        f"{name} starts, or is told why it waits",
        lambda history: history.has_started(name) or bool(history.jobs[name].reasons),
    )


async def one_after_the_other(stage: Stage) -> None:
    first, second = cast.PREPARE.name, cast.TRAIN.name
    await stage.submit(cast.PREPARE, cast.TRAIN)
    await stage.until(f"{first} starts", lambda history: history.has_started(first))
    await stage.until(
        f'{second} is told that it waits for "{first}"',
        lambda history: Reason.DEPENDENCY_PENDING.value in history.jobs[second].reasons,
    )


async def for_real(stage: Stage) -> None:
    name = cast.ALL_REDUCE
    await stage.submit_all_reduce()
    await stage.until(f"{name} is done", lambda history: history.is_over(name))
    lines = await stage.last_lines(name)
    stage.screen.words(f"What its processes have written (allhands logs job/{name}):")
    for line in lines:
        stage.screen.words(line, "  ")
    right = sum("correct" in line for line in lines)
    if right != cast.ALL_REDUCE_WORKERS:
        raise PromiseBrokenError(f"all {cast.ALL_REDUCE_WORKERS} processes of {name} have the same sum; {right} have")


async def the_end(stage: Stage) -> None:
    history = stage.history
    victim, rack = cast.SWEEP.name, cast.LLAMA.name
    await stage.until("every job is done", lambda it: it.is_over(*it.jobs))
    _in_one_rack(history, rack)
    if history.jobs[victim].starts < 2:
        raise PromiseBrokenError(f"{victim} starts again after it had to leave")
    first, second = history.jobs[cast.PREPARE.name].row, history.jobs[cast.TRAIN.name].row
    assert first is not None
    assert second is not None
    if (second.started_at_seconds or 0) < (first.finished_at_seconds or 0):
        raise PromiseBrokenError(f"{second.name} starts only when {first.name} is complete")


def _is_told(history: History, name: str) -> bool:
    job = history.jobs[name]
    return job.state is GroupState.WAITING and bool(job.reasons) and job.expected_start_seconds is not None


def _in_one_rack(history: History, name: str) -> None:
    if len(history.racks_of(name)) != 1:
        raise PromiseBrokenError(f"all workers of {name} are in one rack; they are in {history.where(name)}")


SCENES: Final = (
    Scene(
        "All hands or none",
        "Three jobs come in, each of three workers with two GPUs. The workers of a job are of use only together: "
        "all of them start or none does, and close to each other where that is possible.",
        all_or_nothing,
    ),
    Scene(
        "An urgent job",
        "Six GPUs are left, two in each rack, and the urgent job hotfix needs eight. The least urgent job of the same "
        "team makes room: all of it, since half a job is of no use.",
        priority,
    ),
    Scene(
        "A job that must wait knows why and until when",
        "gpt needs twelve GPUs at once, and four are free. Instead of taking these and waiting for the rest, it waits "
        "as a whole and is told what is in its way.",
        waiting,
    ),
    Scene(
        "Close together",
        "llama wants its four workers in one rack, where the network is fast. It waits until a rack has eight free "
        "GPUs, rather than be scattered over those that are free here and there.",
        one_rack,
    ),
    Scene(
        "One after the other",
        "train needs what prepare makes. Both are submitted now; train says that it comes after prepare.",
        one_after_the_other,
    ),
    Scene(
        "A job that really runs",
        "So far nodes only pretended. allreduce runs on this machine: four processes find each other by the addresses "
        "that they are given, and add up their numbers in a ring over TCP.",
        for_real,
    ),
    Scene(
        "Nobody is forgotten",
        "sweep, which had to leave, starts again from its beginning, ten seconds later: so long Kubernetes' Jobs pause "
        "before they make new pods. When it is done, everything is.",
        the_end,
    ),
)
