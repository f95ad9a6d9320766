"""`allhands bench core`: how fast the scheduling core decides, on this machine. Others have files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from allhands.cli import bench_api, bench_jobs, bench_kwok, bench_latency
from allhands.cli.progress import ERASE_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.measure.core_bench import Row
    from allhands.measure.core_cases import Case

_COLUMNS = "{:<10}{:>8}{:>8}{:>9}{:>8}{:>10}  {:<11}{:>6}  {}"
_HEADING = _COLUMNS.format("CASE", "NODES", "GROUPS", "PODS/GR", "SHAPES", "SECONDS", "GOAL", "MIB", "")
_RATIOS = "{:<31}{:>8}  {:<12}{:>9}  {:<11}{}"


@click.group("bench", short_help="Measure how fast this machine decides.")
def command() -> None:
    """Benchmarks of allhands itself. Figures are of this machine: compare ratios, not seconds, with another's."""


command.add_command(bench_api.command)
command.add_command(bench_jobs.command)
command.add_command(bench_kwok.command)
command.add_command(bench_latency.command)


@command.command("core", short_help="The scheduling core alone, without an API server.")
@click.argument("names", nargs=-1, metavar="[CASE]...")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the rows.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="How often each case runs.")
@click.option("--quick", is_flag=True, help="Tiny sizes: a check that it runs, no figures to publish.")
def core(names: tuple[str, ...], output: str, rounds: int, *, quick: bool) -> None:
    """Decide 10,000 pods in gangs of every size, with many shapes, queues and domains, and print the seconds.

    Every case runs in a process of its own, with an empty memo each time; `unchanged` runs the same world once more.
    Without a CASE, all run: some minutes. docs/benchmarks.md says how to read the figures.

    \b
    Examples:
      allhands bench core
      allhands bench core topology queues
      allhands bench core -o json > core.json
    """
    chosen = _chosen(names, quick=quick)
    rows: list[Row] = []
    try:
        for row in _measured(chosen, rounds, quick=quick):
            rows.append(row)
            if output == "table":
                click.echo(f"{_HEADING.rstrip()}\n{table_line(row)}" if len(rows) == 1 else table_line(row))
    except KeyboardInterrupt:
        _progress("")
        click.echo(f"Stopped after {len(rows)} of {len(chosen)} cases.", err=True)
        raise SystemExit(1) from None
    if output == "table":
        for line in table_below(rows):
            click.echo(line)
    else:
        import json  # noqa: PLC0415

        click.echo(json.dumps(rows, indent=1))


def _chosen(names: tuple[str, ...], *, quick: bool) -> list[Case]:
    from allhands.measure.core_cases import FULL, QUICK, cases  # noqa: PLC0415 (`--help` must not load numpy)

    known = cases(QUICK if quick else FULL)
    unknown = sorted(set(names) - {case.name for case in known})
    if unknown:
        there_are = ", ".join(dict.fromkeys(case.name for case in known))
        raise click.UsageError(f"no case named {', '.join(unknown)}; there are {there_are}")
    return [case for case in known if not names or case.name in names]


def _measured(chosen: Sequence[Case], rounds: int, *, quick: bool) -> Iterator[Row]:
    from allhands.measure.core_bench import MeasureError, row_of  # noqa: PLC0415

    total = len(chosen)
    for number, case in enumerate(chosen, 1):
        _progress(f"… {number} of {total}: {case.title}")
        try:
            row = row_of(case, rounds, quick=quick)
        except MeasureError as error:
            _progress("")
            raise click.ClickException(str(error)) from None
        _progress("")
        yield row


def _progress(text: str) -> None:
    """On a terminal one line that is overwritten; in a file a line each."""
    if sys.stderr.isatty():
        click.echo(f"{ERASE_LINE}{text}", nl=False, err=True)
    elif text:
        click.echo(text, err=True)


def table_line(row: Row) -> str:
    seconds = f"{row['seconds']:.4f}" if row["seconds"] >= 0.0001 else "<0.0001"
    goals = []
    if row["goal_seconds"] is not None:
        goals.append((f"≤ {row['goal_seconds']:g} s", row["seconds"] <= row["goal_seconds"]))
    if row["goal_mib"] is not None:
        goals.append((f"≤ {row['goal_mib']} MiB", row["rss_mib"] <= row["goal_mib"]))
    goal = ", ".join(text for text, _ in goals)
    verdict = _verdict(is_met=all(met for _, met in goals)) if goals else ""
    sizes = (row["case"], row["nodes"], row["groups"], row["pods_per_group"], row["shapes"])
    return _COLUMNS.format(*sizes, seconds, goal, f"{row['rss_mib']:.0f}", verdict).rstrip()


def _verdict(*, is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def table_below(rows: Sequence[Row]) -> Iterator[str]:
    """What is a ratio, with its goal."""
    compared = [(row, row["comparison"]) for row in rows if row["comparison"] is not None]
    if compared:
        yield ""
        yield _RATIOS.format("RATIO", "NODES", "GANGS", "VALUE", "GOAL", "").rstrip()
    for row, ratio in compared:
        gangs = f"{row['groups']:,} × {row['pods_per_group']:,}"
        value, goal, verdict = f"{ratio['value']:.2f} {ratio['unit']}", "", ""
        if ratio["goal"] is not None:
            goal = f"≤ {ratio['goal']:g} {ratio['unit']}"
            verdict = _verdict(is_met=ratio["value"] <= ratio["goal"])
        yield _RATIOS.format(ratio["name"], row["nodes"], gangs, value, goal, verdict).rstrip()
