"""How simulated pods behave: how long they pull, start and run, and how they end. Defaults by chance, or as a pod says.

Chance is drawn per pod and attempt, from the seed and the pod's uid alone, so that the order of events does not matter:
the same pod does the same in every history. What a pod says in its annotations goes before every default.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from allhands.agents.pod_status import KILLED_EXIT_CODE

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "sim.allhands.dev/"
RUN_SECONDS: Final = PREFIX + "run-seconds"
EXIT_CODE: Final = PREFIX + "exit-code"
PULL_SECONDS: Final = PREFIX + "pull-seconds"
PULL_FAILS: Final = PREFIX + "pull-fails"
INIT_SECONDS: Final = PREFIX + "init-seconds"
START_DELAY_SECONDS: Final = PREFIX + "start-delay-seconds"
STOP_SECONDS: Final = PREFIX + "stop-seconds"
IGNORES_SIGTERM: Final = PREFIX + "ignores-sigterm"
OUT_OF_MEMORY: Final = PREFIX + "out-of-memory"

MOST_SECONDS: Final = 1e10
"""About 300 years; longer is a mistake, and would not fit a calendar."""


class Chance(Protocol):
    """Numbers from 0 to 1, without 1; `random.Random` is one."""

    def random(self) -> float: ...


class _ChanceOf:
    """Numbers that follow from a text alone: a digest, cut into pieces. Much cheaper to begin than a generator."""

    __slots__ = ("_block", "_left", "_text")

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self._block = 0
        self._left: list[int] = []

    def random(self) -> float:
        if not self._left:
            digest = hashlib.blake2b(self._text, salt=self._block.to_bytes(16, "little")).digest()
            self._left = list(struct.unpack("<8Q", digest))
            self._block += 1
        return (self._left.pop() >> 11) * 2.0**-53


class AnnotationError(ValueError):
    """An annotation of ours that says nothing sensible; the text names it and what is allowed."""


def _check(name: str, seconds: float) -> None:
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"{name}: {seconds:g} is not between 0 and {MOST_SECONDS:.0f}")


class Fixed(msgspec.Struct, frozen=True, tag="fixed"):
    seconds: float

    def __post_init__(self) -> None:
        _check("seconds", self.seconds)

    def draw(self, chance: Chance) -> float:
        chance.random()
        return self.seconds


class Uniform(msgspec.Struct, frozen=True, tag="uniform"):
    least_seconds: float
    most_seconds: float

    def __post_init__(self) -> None:
        _check("least_seconds", self.least_seconds)
        _check("most_seconds", self.most_seconds)
        if self.least_seconds > self.most_seconds:
            raise ValueError(f"least_seconds: {self.least_seconds:g} is more than most_seconds, {self.most_seconds:g}")

    def draw(self, chance: Chance) -> float:
        return self.least_seconds + (self.most_seconds - self.least_seconds) * chance.random()


class Exponential(msgspec.Struct, frozen=True, tag="exponential"):
    mean_seconds: float
    most_seconds: float = MOST_SECONDS

    def __post_init__(self) -> None:
        _check("mean_seconds", self.mean_seconds)
        _check("most_seconds", self.most_seconds)

    def draw(self, chance: Chance) -> float:
        return min(self.most_seconds, -math.log(1.0 - chance.random()) * self.mean_seconds)


class LogNormal(msgspec.Struct, frozen=True, tag="lognormal"):
    """What run times of real clusters look like: most short, a few very long."""

    median_seconds: float
    sigma: float = 1.0
    most_seconds: float = MOST_SECONDS

    def __post_init__(self) -> None:
        _check("median_seconds", self.median_seconds)
        _check("most_seconds", self.most_seconds)
        if not 0 <= self.sigma <= 10:
            raise ValueError(f"sigma: {self.sigma:g} is not between 0 and 10")

    def draw(self, chance: Chance) -> float:
        # Always two numbers, so that the next draw does not depend on what was drawn here.
        radius, angle = chance.random(), chance.random()
        normal = math.sqrt(-2.0 * math.log(1.0 - radius)) * math.cos(2.0 * math.pi * angle)
        return min(self.most_seconds, self.median_seconds * math.exp(self.sigma * normal))


Distribution = Fixed | Uniform | Exponential | LogNormal


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What pods do that say nothing else. Those that are always restarted run until they are deleted."""

    pull: Distribution = Fixed(0)
    init: Distribution = Fixed(0)
    """The time of each init container."""
    start: Distribution = Fixed(0)
    run: Distribution = Fixed(60)
    stop: Distribution = Fixed(0)
    """From SIGTERM to the end."""
    failure_rate: float = 0.0
    """The share of runs that fail, somewhere on their way."""
    failure_exit_code: int = 1
    out_of_memory_rate: float = 0.0
    """The share of runs that are killed for want of memory."""
    reports_creating: bool = True
    """Whether pods that take time to start report it, at the price of one more write each."""
    notice_seconds: float = 0.0
    """How often nodes look whether what runs has ended, as kubelets do once a second; 0: they know at once. What is
    noticed together is dealt with together, which is much cheaper."""

    def __post_init__(self) -> None:
        for name in ("failure_rate", "out_of_memory_rate"):
            rate = getattr(self, name)
            if not 0 <= rate <= 1:
                raise ValueError(f"{name}: {rate:g} is not between 0 and 1")
        if self.notice_seconds < 0:
            raise ValueError(f"notice_seconds: {self.notice_seconds:g} is below 0")
        if not 1 <= self.failure_exit_code <= 255:
            raise ValueError(f"failure_exit_code: {self.failure_exit_code} is not between 1 and 255")


KWOK_TEST: Final = Behaviour(run=Uniform(180, 270), reports_creating=False)
"""Three minutes and up to half as much again, as in the KWOK test of design §8."""


class RunPlan(msgspec.Struct, frozen=True, gc=False):
    """What one attempt of one pod will do."""

    pull_seconds: float = 0.0
    init_seconds: float = 0.0
    start_seconds: float = 0.0
    run_seconds: float = math.inf
    stop_seconds: float = 0.0
    exit_code: int = 0
    reason: str = ""
    pull_fails: bool = False
    ignores_sigterm: bool = False


def plan(
    behaviour: Behaviour, seed: int, uid: str, attempt: int, annotations: Mapping[str, str], *, restarts_always: bool
) -> RunPlan:
    """The plan of an attempt; an annotation that makes no sense raises AnnotationError."""
    chance = _ChanceOf(f"{seed}/{uid}/{attempt}")
    pull, init = behaviour.pull.draw(chance), behaviour.init.draw(chance)
    start, run, stop = behaviour.start.draw(chance), behaviour.run.draw(chance), behaviour.stop.draw(chance)
    fate, moment = chance.random(), chance.random()
    exit_code, reason = 0, ""
    if restarts_always:
        run = math.inf
    elif fate < behaviour.failure_rate:
        exit_code, run = behaviour.failure_exit_code, run * moment
    elif fate < behaviour.failure_rate + behaviour.out_of_memory_rate:
        exit_code, reason, run = KILLED_EXIT_CODE, "OOMKilled", run * moment
    drawn = RunPlan(pull, init, start, run, stop, exit_code, reason)
    return _annotated(drawn, annotations, chance) if annotations else drawn


def _annotated(drawn: RunPlan, said: Mapping[str, str], chance: Chance) -> RunPlan:
    exit_code, reason = drawn.exit_code, drawn.reason
    if EXIT_CODE in said:
        exit_code, reason = _exit_code(said[EXIT_CODE]), ""
    if _flag(said, OUT_OF_MEMORY):
        exit_code, reason = KILLED_EXIT_CODE, "OOMKilled"
    return RunPlan(
        _seconds(said, PULL_SECONDS, drawn.pull_seconds),
        _seconds(said, INIT_SECONDS, drawn.init_seconds),
        _seconds(said, START_DELAY_SECONDS, drawn.start_seconds),
        _run_seconds(said, drawn.run_seconds, chance),
        _seconds(said, STOP_SECONDS, drawn.stop_seconds),
        exit_code,
        reason,
        _flag(said, PULL_FAILS),
        _flag(said, IGNORES_SIGTERM),
    )


def _run_seconds(said: Mapping[str, str], default: float, chance: Chance) -> float:
    """A number, or two with a dash between them: anything from the first to the second, each pod for itself."""
    least, dash, most = said.get(RUN_SECONDS, "").partition("-")
    if not least or not dash:
        return _seconds(said, RUN_SECONDS, default)
    try:
        return Uniform(float(least), float(most)).draw(chance)
    except ValueError:
        wanted = "a number of seconds, or two such as 180-270"
        raise AnnotationError(
            f"metadata.annotations[{RUN_SECONDS}]: {said[RUN_SECONDS][:80]!r} is not {wanted}"
        ) from None


def _seconds(said: Mapping[str, str], key: str, default: float) -> float:
    text = said.get(key)
    if text is None:
        return default
    try:
        seconds = float(text)
        _check(key, seconds)
    except ValueError:
        wanted = f"a number of seconds between 0 and {MOST_SECONDS:.0f}"
        raise AnnotationError(f"metadata.annotations[{key}]: {text[:80]!r} is not {wanted}") from None
    return seconds


def _exit_code(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) <= 255:
        return int(text)
    raise AnnotationError(f"metadata.annotations[{EXIT_CODE}]: {text[:80]!r} is not a whole number between 0 and 255")


def _flag(said: Mapping[str, str], key: str) -> bool:
    text = said.get(key, "false")
    if text not in ("true", "false"):
        raise AnnotationError(f'metadata.annotations[{key}]: {text[:80]!r} is neither "true" nor "false"')
    return text == "true"
