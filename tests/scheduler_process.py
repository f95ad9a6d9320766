"""`allhands scheduler` and `allhands controllers` as processes of their own, as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Self

from allhands.measure.processes import wait_until

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

WITHIN_SECONDS = 120
END_SECONDS = 60
_PROGRAM = "from allhands.cli import main; main()"


class SchedulerProcess:
    """Ends with the block, if nothing ended it before. Its log is JSON, one object a line. `environment` is added to
    our own."""

    def __init__(
        self,
        folder: Path,
        config: Path,
        *options: str,
        part: str = "scheduler",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = {**os.environ, **(environment or {})}
        self.log = folder / f"{part}-{os.urandom(4).hex()}.log"
        self._command = [sys.executable, "-c", _PROGRAM, part, f"--kubeconfig={config}", "--log-format=json", *options]

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"its log:\n{self.log.read_text(encoding='utf-8', errors='replace')[-4000:]}")
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far; a traceback or a sentence for people is a line without fields."""
        found = []
        for text in self.log.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(text))
            except json.JSONDecodeError:
                found.append({"msg": text})
        return found

    def said(self, words: str) -> list[str]:
        return [line["msg"] for line in self.lines() if words in line["msg"]]

    def wait_for(self, words: str) -> str:
        """The line that holds these words, as soon as there is one."""
        wait_until(lambda: bool(self.said(words)) or self._has_ended(), WITHIN_SECONDS, f"the line {words!r}")
        return self.said(words)[0]

    def _has_ended(self) -> bool:
        code = self.child.poll()
        assert code is None, f"it ended with {code}"
        return False

    @property
    def url(self) -> str:
        return self.wait_for("metrics and health are at").split()[-1]

    def answer(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def wait_until_ready(self) -> None:
        wait_until(lambda: self.answer("/readyz")[0] == 200, WITHIN_SECONDS, "readiness")

    def ends(self, by: signal.Signals | None = None) -> int:
        """Its exit code; tells it to end first if a signal is named."""
        if by is not None:
            self.child.send_signal(by)
        began = time.monotonic()
        code = self.child.wait(WITHIN_SECONDS)
        if by is not None:
            assert time.monotonic() - began < END_SECONDS
        return code
