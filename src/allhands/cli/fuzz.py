"""`allhands fuzz`: random histories of the whole system with faults, seed after seed, until a law breaks."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from allhands.cli.progress import ERASE_LINE

if TYPE_CHECKING:
    from allhands.sim.fuzzing import History


@click.command("fuzz", short_help="Run random histories with faults and check that no law breaks.")
@click.option("--seeds", type=click.IntRange(1), default=20, show_default=True, help="How many histories.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="The first seed.")
@click.option("--faults", type=click.Choice(["rough", "none"]), default="rough", show_default=True)
@click.option("--rich", is_flag=True, help="With queues, native PodGroups, priorities, volumes and Jobs after Jobs.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the results.")
def command(seeds: int, first: int, faults: str, rich: bool, output: str) -> None:
    """Run the whole system (API, scheduler, controllers, nodes) on virtual time, with lost replies, broken watches,
    crashes between any two writes, dying nodes and jumping clocks, and check the laws at every change.

    The same seed gives the same history, bit for bit. A seed that fails is made smaller and printed as the one command
    that replays it.

    \b
    Examples:
      allhands fuzz --seeds 100
      allhands fuzz --seeds 100 --rich
      allhands fuzz --first 17 --seeds 1
    """
    from allhands.compose.fuzzing import ROUGH, fuzz, shrunk  # noqa: PLC0415 (`--help` must not load the system)
    from allhands.sim.faults import NONE  # noqa: PLC0415

    chosen = ROUGH if faults == "rough" else NONE
    rows: list[dict[str, object]] = []
    broken = 0
    begun = time.perf_counter()
    for number, seed in enumerate(range(first, first + seeds)):
        _progress(number, seeds, broken)
        try:
            rows.append(_row(seed, fuzz(seed, chosen, rich=rich)))
        except Exception as error:
            broken += 1
            steps = shrunk(seed, chosen, rich=rich)
            again = f"allhands fuzz --first {seed} --seeds 1 --faults {faults}{' --rich' if rich else ''}"
            rows.append({"seed": seed, "broken": f"{type(error).__name__}: {error}", "replay": again, "jobs": steps})
            if output == "table":
                click.echo(f"{_erase()}seed {seed} broke after {steps} jobs: {error}\n  replay: {again}", err=True)
    if output == "json":
        import json  # noqa: PLC0415

        click.echo(f"{_erase()}{json.dumps({'seeds': seeds, 'broken': broken, 'histories': rows}, indent=1)}")
    else:
        changes = sum(int(str(row.get("changes", 0))) for row in rows)
        took = time.perf_counter() - begun
        click.echo(f"{_erase()}{seeds} histories, {changes:,} changes, {broken} broken, {took:.1f} s")
    if broken:
        raise SystemExit(1)


def _row(seed: int, history: History) -> dict[str, object]:
    return {
        "seed": seed,
        "seconds": round(history.seconds, 3),
        "jobs": history.jobs,
        "pods_bound": history.pods_bound,
        "changes": history.changes,
        "digest": history.digest,
    }


def _erase() -> str:
    return ERASE_LINE if sys.stdout.isatty() else ""


def _progress(done: int, total: int, broken: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"{ERASE_LINE}{done} of {total} histories, {broken} broken", nl=False, err=True)
