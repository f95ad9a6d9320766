"""What benchmarks on a real API server share on the command line: progress, Ctrl-C, and errors as one sentence.

Whatever ends a run, what was measured so far is reported, and nothing is left running.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allhands.cli.progress import ERASE_LINE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from allhands.measure.api.contenders import Contender

SECONDS_BETWEEN = 0.2


class Teller:
    """On a terminal one line of standard error that is overwritten; in a file a line for each step."""

    def __init__(self) -> None:
        self._step = ""
        self._told_at = 0.0

    def tell(self, text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"{ERASE_LINE}{text}", nl=False, err=True)
        elif text:
            click.echo(text, err=True)

    def step(self, step: str, so_far: str) -> None:
        """Call it as often as you like: what is told is limited."""
        is_new, now = self._step != step, time.monotonic()
        if is_new or (sys.stderr.isatty() and now - self._told_at >= SECONDS_BETWEEN):
            self._step, self._told_at = step, now
            self.tell(f"… {step}" if is_new else f"… {step}: {so_far}")

    def result(self, text: str) -> None:
        """Of the last step; on a terminal the next one follows at once."""
        if not sys.stderr.isatty():
            self.tell(f"  {text}")


def named_contenders(names: str, folder: Path | None) -> list[Contender]:
    """Those that the user has named, by commas, of ours and of the folder's; all if none is named."""
    from allhands.measure.api.contenders import ContenderError, all_contenders, chosen  # noqa: PLC0415

    try:
        return chosen(all_contenders(folder), [name.strip() for name in names.split(",") if name.strip()])
    except ContenderError as error:
        raise click.UsageError(str(error)) from None


def on_judged_plane(
    teller: Teller,
    measure: Callable[[Any], Coroutine[Any, Any, None]],
    parts: str = "etcd and kube-apiserver",
    **more: Any,
) -> None:
    """Starts a control plane, with `more` of it if asked for, measures on it, and takes it away."""
    from allhands.measure.api.cluster import JudgedPlane  # noqa: PLC0415 (`--help` must not load aiohttp)

    with tempfile.TemporaryDirectory(prefix="allhands-bench-") as folder:
        teller.tell(f"… starting {parts}")
        with JudgedPlane(Path(folder), **more) as plane:
            asyncio.run(measure(plane))


def run_and_report(
    measure: Callable[[], None], report: Callable[[], None], teller: Teller, stopped: Callable[[], str]
) -> None:
    """`report` is of what there is; `stopped` says after Ctrl-C or SIGTERM how far it was."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        measure()
    except KeyboardInterrupt:
        teller.tell("")
        report()
        click.echo(f"Stopped after {stopped()}; nothing is left running.", err=True)
        raise SystemExit(1) from None
    except Exception as error:
        teller.tell("")
        report()
        if not isinstance(cause := _first(error), _expected()):
            raise
        raise click.ClickException(str(cause)) from None
    else:
        teller.tell("")
        report()
    finally:
        signal.signal(signal.SIGTERM, before)


def _expected() -> tuple[type[Exception], ...]:
    """What may go wrong without being a mistake of ours."""
    from allhands.api.errors import StatusError  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.measure.api.contenders import ContenderError  # noqa: PLC0415
    from allhands.measure.controlplane import ToolsMissingError  # noqa: PLC0415
    from allhands.measure.processes import ServiceEndedError  # noqa: PLC0415

    return (ContenderError, ToolsMissingError, ServiceEndedError, TimeoutError, StatusError)


def _first(error: BaseException) -> BaseException:
    """Tasks that fail together are told by the first of them."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
