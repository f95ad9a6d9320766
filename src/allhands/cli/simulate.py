"""`allhands simulate FILE`: a trace of jobs in virtual time, under one policy or several, and what came of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allhands.cli.progress import erase_progress, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.sim.disciplines import Discipline
    from allhands.sim.machine import Machine
    from allhands.sim.report import Result
    from allhands.sim.traces.job import TraceJob

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SCENARIOS = (".yaml", ".yml")
DEFAULT_POLICY = "fcfs-easy"


@click.command("simulate", short_help="Replay a trace in virtual time and show how long jobs took.")
@click.argument("file", type=_FILE)
@click.option(
    "-p",
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME|FILE",
    help="A named policy such as sjf-easy, or a file with one; several are compared.  [default: fcfs-easy]",
)
@click.option("--format", "format_name", default="", help="swf, philly or muri, if the file does not tell by itself.")
@click.option("--processors", type=click.IntRange(1), help="Of the machine, if the trace does not say.")
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="Over how many nodes they spread.")
@click.option("--skip", type=click.IntRange(0), default=0, help="Leave out so many jobs, the earliest.")
@click.option("--jobs", "count", type=click.IntRange(1), help="Replay only so many.")
@click.option("--queue-order", type=click.Choice(["best-effort", "strict"]), default="best-effort", show_default=True,
              help="For policies from files: whether anybody may pass the first.")  # fmt: skip
@click.option("--seed", type=int, help="Of a scenario's chances, instead of its own.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the results.")
@click.option("--html", "page_file", type=click.Path(dir_okay=False, writable=True, path_type=Path),
              help="Write a page with plots there; it opens without a network.")  # fmt: skip
@click.option("--list-policies", is_flag=True, is_eager=True, expose_value=False, help="Show the named policies.",
              callback=lambda context, _, chosen: _list_policies(context) if chosen else None)  # fmt: skip
def command(
    file: Path,
    policies: tuple[str, ...],
    format_name: str,
    processors: int | None,
    nodes: int,
    skip: int,
    count: int | None,
    queue_order: str,
    seed: int | None,
    output: str,
    page_file: Path | None,
) -> None:
    """Replay a trace of jobs, or act out a scenario: time jumps from event to event, nothing really runs.

    A FILE ending in .yaml is a scenario for the whole system (docs/simulation.md). Any other is a trace, which the
    scheduling core alone decides: SWF (Parallel Workloads Archive), Philly or Muri, plain or packed with gzip.
    docs/traces.md says where to get public ones; examples/traces has small ones.

    \b
    Examples:
      allhands simulate examples/kwok-1000x10.yaml --html report.html
      allhands simulate examples/traces/sample.swf
      allhands simulate examples/traces/sample.swf -p fcfs-strict -p sjf-easy -p saf-preempt --html report.html
      allhands simulate trace.csv --processors 64 --nodes 8 -p saf-easy -o json
    """
    if file.suffix in _SCENARIOS:
        from allhands.cli.scenario_run import run_scenario_file  # noqa: PLC0415 (traces need none of it)

        run_scenario_file(file, seed, output, policies, page_file)
        return
    disciplines = [_discipline(name, queue_order) for name in policies or (DEFAULT_POLICY,)]
    jobs, machine = _workload(file, format_name, processors, nodes)
    jobs = jobs[skip : None if count is None else skip + count]
    if not jobs:
        raise click.ClickException(f"{file}: no jobs are left to simulate")
    results = [_simulated(discipline, machine, jobs) for discipline in disciplines]
    _show(str(file), results, output)
    if page_file is not None:
        _write_page(page_file, str(file), results)


def _list_policies(context: click.Context) -> None:
    from allhands.sim.disciplines import names  # noqa: PLC0415 (`--help` must not load numpy)

    click.echo("\n".join(names()))
    context.exit()


def _discipline(name: str, queue_order: str) -> Discipline:
    from allhands.sim.disciplines import Discipline, discipline  # noqa: PLC0415

    if Path(name).suffix:
        from allhands.cli.policy_file import policy_of_file  # noqa: PLC0415
        from allhands.model.queue import QueueOrder  # noqa: PLC0415

        order = QueueOrder.FIFO_STRICT if queue_order == "strict" else QueueOrder.FIFO_BEST_EFFORT
        return Discipline(Path(name).stem, policy_of_file(Path(name)), order)
    try:
        return discipline(name)
    except ValueError as error:
        raise click.UsageError(f"{error}; --list-policies shows all") from None


def _workload(file: Path, format_name: str, processors: int | None, nodes: int) -> tuple[list[TraceJob], Machine]:
    from allhands.model.resources import CPU  # noqa: PLC0415
    from allhands.sim.machine import GPU, Machine  # noqa: PLC0415
    from allhands.sim.traces.formats import open_trace  # noqa: PLC0415
    from allhands.sim.traces.lines import TraceError  # noqa: PLC0415
    from allhands.sim.traces.swf import SwfTrace  # noqa: PLC0415

    try:
        trace = open_trace(file, format_name)
        jobs = sorted(trace, key=lambda job: job.submit_seconds)
        units = processors or trace.processors
        if units is None:
            raise click.UsageError(f"{file} does not say how many processors there are: give --processors")
        machine = Machine(units, nodes, CPU if isinstance(trace, SwfTrace) else GPU)
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for reason, number in trace.left_out.items():
        click.echo(f"{file}: {number:,} jobs are left out: {reason}", err=True)
    return jobs, machine


def _simulated(discipline: Discipline, machine: Machine, jobs: Sequence[TraceJob]) -> Result:
    from allhands.compose.machine import spare_the_collector  # noqa: PLC0415
    from allhands.sim.decisions import DecisionSimulator  # noqa: PLC0415
    from allhands.sim.metrics import summarise  # noqa: PLC0415
    from allhands.sim.report import Result  # noqa: PLC0415

    spare_the_collector()
    begun = time.perf_counter()
    history = DecisionSimulator(machine, discipline, progress=_progress(discipline.name, len(jobs))).run(jobs)
    wall_seconds = time.perf_counter() - begun
    erase_progress()
    if history.too_wide:
        widest = max(job.width for job in history.too_wide)
        number = len(history.too_wide)
        click.echo(f"{number:,} jobs are wider (up to {widest:,}) than the machine ({machine.units:,})", err=True)
    if history.unfinished:
        click.echo(f"{len(history.unfinished):,} jobs could never start under {discipline.name}", err=True)
    return Result(history, summarise(history), wall_seconds)


def _progress(name: str, total: int) -> Callable[[int], None] | None:
    bar = progress_bar(f"{name}  ")
    return None if bar is None else lambda ended: bar(ended, total, f"{ended:,} of {total:,} jobs")


def _show(trace: str, results: Sequence[Result], output: str) -> None:
    from allhands.sim.report import document, duration_text, table_text  # noqa: PLC0415

    if output == "json":
        import json  # noqa: PLC0415

        click.echo(json.dumps(document(trace, results), indent=1))
        return
    click.echo(table_text([it.summary for it in results]))
    first = results[0].summary
    click.echo(f"\nNo scheduler can have a mean completion time below {duration_text(first.jct_mean_bound_seconds)}.")
    for it in results:
        rate = it.summary.jobs_succeeded / it.wall_seconds
        took = duration_text(it.wall_seconds)
        click.echo(f"{it.summary.policy}: {took}, {rate:,.0f} jobs a second, {it.summary.cycles:,} cycles", err=True)


def _write_page(file: Path, trace: str, results: Sequence[Result]) -> None:
    from allhands.sim.report import page  # noqa: PLC0415

    try:
        file.write_text(page(trace, results), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror or error}") from None
    click.echo(f"wrote {file}", err=True)
