"""`-v`, `--log-level` and `--log-format`, for commands that run until they are stopped."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
_BY_VERBOSITY: Final = ("warning", "info", "debug")


def log_options(function: F, default: str = "warning") -> F:
    """Sets the log up before the command begins; the command itself does not see these options. `default` is the level
    without any of them."""
    least = _BY_VERBOSITY.index(default)

    @click.option("-v", "--verbose", count=True, help="Log more: -v what is done, -vv every detail.")
    @click.option(
        "--log-level", type=click.Choice(LEVELS), default=None, help=f"The same by name.  [default: {default}]"
    )
    @click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="Log lines for people, or one JSON object a line; to standard error.",
    )
    @functools.wraps(function)
    def logging(*arguments: Any, verbose: int, log_level: str | None, log_format: str, **options: Any) -> Any:
        from allhands.runtime.logs import set_up_logs  # noqa: PLC0415 (`--help` must not pay for it)

        if verbose and log_level is not None:
            raise click.UsageError("-v and --log-level say the same: give one of them")
        level = log_level or _BY_VERBOSITY[min(max(verbose, least), len(_BY_VERBOSITY) - 1)]
        set_up_logs(level, "json" if log_format == "json" else "text")
        return function(*arguments, **options)

    return logging  # type: ignore[return-value]
