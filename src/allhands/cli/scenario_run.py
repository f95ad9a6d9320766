"""`allhands simulate FILE.yaml`: a scenario on the whole simulated system, with a bar and a table at its end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click
import msgspec

from allhands.cli.progress import erase_progress, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from allhands.compose.scenarios import ScenarioResult

MOST_BYTES = 10 * 1024 * 1024


def run_scenario_file(file: Path, seed: int | None, output: str) -> None:
    import yaml  # noqa: PLC0415 (traces need none of this)

    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.compose.scenarios import run_scenario  # noqa: PLC0415
    from allhands.sim.scenario import ScenarioError, read_scenario  # noqa: PLC0415

    if file.stat().st_size > MOST_BYTES:
        raise click.ClickException(f"{file} is larger than {MOST_BYTES // 1024 // 1024} MiB")
    try:
        scenario = read_scenario(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (ScenarioError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: {error}") from None
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    begun = time.perf_counter()
    try:
        result = run_scenario(scenario, seed=seed, progress=_progress())
    except (StatusError, ValueError) as error:
        raise click.ClickException(f"{file}: {error}") from None
    finally:
        erase_progress()
    wall_seconds = time.perf_counter() - begun
    if output == "json":
        shown = {"scenario": str(file), **msgspec.to_builtins(result), "wall_seconds": round(wall_seconds, 3)}
        click.echo(json.dumps(shown, indent=1))
    else:
        click.echo(_table(result))
        click.echo(f"{wall_seconds:.1f} s of wall time, {result.writes:,} writes", err=True)


def _progress() -> Callable[[int, int, float], None] | None:
    bar = progress_bar()
    if bar is None:
        return None

    def show(ended: int, total: int, seconds: float) -> None:
        bar(ended, total, f"{ended:,} of {total:,} jobs have ended, {seconds:,.0f} s have passed")

    return show


def _table(result: ScenarioResult) -> str:
    from allhands.sim.report import duration_text  # noqa: PLC0415

    ratio = result.makespan_seconds / result.ideal_seconds if result.ideal_seconds else 0.0
    rows = (
        (
            "jobs",
            f"{result.jobs_succeeded:,} succeeded, {result.jobs_failed:,} failed, {result.jobs_unfinished:,} not done",
        ),
        ("makespan", f"{duration_text(result.makespan_seconds)} ({ratio:.3f} x ideal list scheduling)"),
        (
            "ideal",
            f"{duration_text(result.ideal_seconds)}; no schedule is below {duration_text(result.lower_bound_seconds)}",
        ),
        ("completion", f"{_times(result.jct_mean_seconds, result.jct_p50_seconds, result.jct_p99_seconds)}"),
        ("wait", f"{_times(result.wait_mean_seconds, result.wait_p50_seconds, result.wait_p99_seconds)}"),
        ("slowdown", f"{result.bounded_slowdown_mean:.2f} on average, bounded"),
        ("utilisation", f"{100 * result.utilisation:.1f} %"),
    )
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _times(mean: float, median: float, p99: float) -> str:
    from allhands.sim.report import duration_text  # noqa: PLC0415

    return f"mean {duration_text(mean)}, median {duration_text(median)}, p99 {duration_text(p99)}"
