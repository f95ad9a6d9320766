"""One container of a local pod: its command, environment and log, run after run, and what is to be reported of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from allhands.agents.before import CRASH_LOOP
from allhands.agents.child import Child, Command, StartProblem
from allhands.agents.environment import environment_of, expanded
from allhands.agents.log_files import LogFile
from allhands.agents.pod_status import (
    CREATING,
    KILLED_EXIT_CODE,
    RAN_WITH_THE_AGENT,
    START_ERROR_EXIT_CODE,
    ContainerReport,
    Running,
    State,
    Terminated,
    Waiting,
    ended,
    never_seen_again,
)
from allhands.agents.volumes import rewritten
from allhands.model.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.agents.before import Before
    from allhands.agents.references import References
    from allhands.agents.time_texts import TimeTexts
    from allhands.agents.volumes import PodFolder
    from allhands.agents.workplace import MemoryWatch
    from allhands.api.document import Manifest

LONGEST_MESSAGE_BYTES: Final = 4_096
DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"
LOGS_KEPT: Final = 2
"""This run's and the one before."""
NICE_WITHOUT_REQUEST: Final = 10


class LocalContainer:
    def __init__(self, spec: Manifest, pod: Manifest, folder: PodFolder, *, is_init: bool, log_bytes: int) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.sidecar = is_init and spec.get("restartPolicy") == "Always"
        self.is_init = is_init and not self.sidecar
        self.state: State = CREATING
        self.last: Terminated | None = None
        self.restarts = 0
        self.ran_before = False
        """Whether an earlier agent ran it: what it wrote then is gone."""
        self.logs: list[LogFile] = []
        self.child: Child | None = None
        self._pod = pod
        self._folder = folder
        self._log_bytes = log_bytes
        self._started = False

    # -- from an earlier agent

    def take_over(self, before: Before, now: str) -> bool:
        """Goes on from what the API knows; True if it was running, which it is not any more: agents take their
        processes along."""
        self.restarts, self.state, self.last = before.restarts, before.state, before.last
        self.ran_before = self.last is not None or not isinstance(self.state, Waiting)
        if not isinstance(before.state, Running):
            return False
        self.state = never_seen_again(before.state.started_at, now, f"it {RAN_WITH_THE_AGENT}")
        return True

    def begin_again(self, waiting: Waiting) -> None:
        """It was lost and is to run once more."""
        if isinstance(self.state, Terminated):
            self.restarts, self.last = self.restarts + 1, self.state
        self.state = waiting

    @property
    def is_backing_off(self) -> bool:
        return isinstance(self.state, Waiting) and self.state.reason == CRASH_LOOP

    # -- running

    async def run_once(
        self,
        inherited: Mapping[str, str],
        references: References,
        texts: TimeTexts,
        memory: MemoryWatch,
        changed: Callable[[], None],
    ) -> Terminated:
        """From start to end. What it needs and is not there is a ReferenceProblem, before anything starts."""
        command = await self._command(inherited, references)
        log = self._new_log()
        message_file = self._message_file()
        try:
            child = await Child.start(command, log, texts.precise_nanos)
        except StartProblem as problem:
            log.write("stderr", f"{problem}\n".encode(), texts.precise_nanos())
            log.close(texts.precise_nanos())
            return Terminated(START_ERROR_EXIT_CODE, "StartError", None, texts.now(), str(problem))
        started_at = texts.now()
        self.child = child
        self._started = True
        self.state = Running(started_at)
        if command.memory_bytes is not None:
            memory.watch(child.pid, command.memory_bytes, lambda: _out_of_memory(child))
        changed()
        try:
            code = await child.wait()
        finally:
            self.child = None
            memory.forget(child.pid)
            log.close(texts.precise_nanos())
        told = await self._last_words(message_file, log, code)
        if child.out_of_memory:
            return ended(KILLED_EXIT_CODE, started_at, texts.now(), reason="OOMKilled", message=told)
        return ended(code, started_at, texts.now(), message=told)

    async def _command(self, inherited: Mapping[str, str], references: References) -> Command:
        names = self._folder.names
        read = await environment_of(self.spec, self._pod, references)
        variables = {name: names.replaced(value) for name, value in read.items()}
        places = self._folder.mount(self.spec, variables)
        root = self._folder.root(self.name)
        own = {"HOME": str(root), "TMPDIR": str(root / "tmp"), "ALLHANDS_POD_ROOT": str(root)}
        given = {name: rewritten(value, places) for name, value in variables.items()}
        # A command without a program of its own would need the image's, which nobody here knows.
        words = [*(self.spec.get("command") or ()), *(self.spec.get("args") or ())] if self.spec.get("command") else []
        return Command(
            [rewritten(names.replaced(expanded(word, variables)), places) for word in words],
            {**inherited, **own, **given},
            self._working_folder(places, root),
            f"{self._pod['metadata']['uid']}/{self.name}/{self.restarts}",
            self._memory_limit(),
            0 if _amount(self.spec, "requests", "cpu") else NICE_WITHOUT_REQUEST,
        )

    def _working_folder(self, places: Mapping[str, Path], root: Path) -> Path:
        wanted = self.spec.get("workingDir")
        if not wanted:
            return root
        mapped = Path(rewritten(wanted, places))
        return mapped if mapped.is_absolute() else root / mapped

    def _memory_limit(self) -> int | None:
        limit = _amount(self.spec, "limits", "memory")
        return limit.value() if limit is not None else None

    def _new_log(self) -> LogFile:
        log = LogFile(self._folder.folder / "logs" / self.name / str(self.restarts), self._log_bytes)
        self.logs.append(log)
        while len(self.logs) > LOGS_KEPT:
            self.logs.pop(0).remove()
        return log

    # -- last words

    def _message_file(self) -> Path:
        """Where the container may say why it ends: below its root."""
        path = self.spec.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
        place = self._folder.root(self.name) / path.lstrip("/")
        with contextlib.suppress(OSError):
            if ".." not in place.parts:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(b"")
        return place

    async def _last_words(self, message_file: Path, log: LogFile, code: int) -> str:
        text = b""
        with contextlib.suppress(OSError), message_file.open("rb") as file:
            text = file.read(LONGEST_MESSAGE_BYTES)
        if not text and code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = await log.end(LONGEST_MESSAGE_BYTES // 2)
        return text.decode(errors="replace")

    # -- reporting

    def report(self) -> ContainerReport:
        running = isinstance(self.state, Running)
        over = isinstance(self.state, Terminated) and self.state.exit_code == 0
        return ContainerReport(
            self.name,
            self.spec.get("image", ""),
            self.state,
            self.last,
            self.restarts,
            over if self.is_init else running,
            self.sidecar,
            f"process://{self._pod['metadata']['uid']}/{self.name}/{self.restarts}" if self._started else "",
        )


def _out_of_memory(child: Child) -> None:
    child.out_of_memory = True
    child.kill_now()


def _amount(container: Manifest, which: str, resource: str) -> Quantity | None:
    text = ((container.get("resources") or {}).get(which) or {}).get(resource)
    if text is None:
        return None
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None
