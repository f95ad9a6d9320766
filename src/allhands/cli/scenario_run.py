"""`allhands simulate FILE.yaml`: a scenario on the whole simulated system, with a bar and a table at its end.

Its numbers have the names and the code of those of traces, and so has its page.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from allhands.cli.progress import erase_progress, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.compose.scenarios import NamedPolicy, ScenarioResult
    from allhands.sim.report import Result
    from allhands.sim.scenario import Scenario

MOST_BYTES: Final = 10 * 1024 * 1024
UNFINISHED_SHOWN: Final = 3
TRACES_ONLY: Final = {
    "format_name": "--format",
    "processors": "--processors",
    "nodes": "--nodes",
    "skip": "--skip",
    "count": "--jobs",
    "queue_order": "--queue-order",
}
"""Options that say what a trace does not; a scenario says it itself."""


def run_scenario_file(
    file: Path, seed: int | None, output: str, policies: Sequence[str] = (), page_file: Path | None = None
) -> None:
    """Under its own policy, or under each of those that are named."""
    from allhands.compose.machine import spare_the_collector  # noqa: PLC0415 (traces need none of this)

    _refuse_options_of_traces()
    logging.getLogger("allhands").addHandler(logging.NullHandler())  # troubles are wanted here, and would hide the bar
    scenario = _read(file)
    chosen: list[NamedPolicy | None] = [_policy(name) for name in policies]
    spare_the_collector()
    results = [_run(file, scenario, seed, policy) for policy in chosen or [None]]
    _show(file, results, output)
    if page_file is not None:
        _write_page(page_file, file, results)


def _refuse_options_of_traces() -> None:
    from click.core import ParameterSource  # noqa: PLC0415

    context = click.get_current_context(silent=True)
    for name, option in TRACES_ONLY.items():
        if context is not None and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is for traces; a scenario says it in its file")


def _read(file: Path) -> Scenario:
    import yaml  # noqa: PLC0415 (traces need none of this)

    from allhands.sim.scenario import ScenarioError, read_scenario  # noqa: PLC0415

    if file.stat().st_size > MOST_BYTES:
        raise click.ClickException(f"{file} is larger than {MOST_BYTES // 1024 // 1024} MiB")
    try:
        return read_scenario(yaml.safe_load(file.read_text(encoding="utf-8")))
    except ScenarioError as error:
        lines = str(error).splitlines()
        raise click.ClickException("\n".join(f"{file}: {line}" for line in lines)) from None
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file}: {error}") from None
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file} is not YAML: {' '.join(str(error).split())}") from None


def _policy(name: str) -> NamedPolicy:
    from allhands.cli.policy_file import policy_of_file  # noqa: PLC0415
    from allhands.compose.scenarios import NamedPolicy  # noqa: PLC0415

    if not Path(name).suffix:
        raise click.UsageError(f"{name}: named policies are for traces; for a scenario, give a file with a policy")
    return NamedPolicy(Path(name).stem, policy_of_file(Path(name)))


def _run(file: Path, scenario: Scenario, seed: int | None, policy: NamedPolicy | None) -> Result:
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.compose.scenarios import run_scenario  # noqa: PLC0415
    from allhands.sim.report import Result  # noqa: PLC0415

    begun = time.perf_counter()
    try:
        run = run_scenario(scenario, seed=seed, policy=policy, progress=_progress())
    except (StatusError, ValueError) as error:
        raise click.ClickException(f"{file}: {error}") from None
    finally:
        erase_progress()
    return Result(run.history, run.result, time.perf_counter() - begun)


def _progress() -> Callable[[int, int, float], None] | None:
    bar = progress_bar()
    if bar is None:
        return None

    def show(ended: int, total: int, seconds: float) -> None:
        bar(ended, total, f"{ended:,} of {total:,} jobs have ended, {seconds:,.0f} s have passed")

    return show


def _show(file: Path, results: Sequence[Result], output: str) -> None:
    from allhands.sim.report import document, table_text  # noqa: PLC0415

    if output == "json":
        shown = document(str(file), results, what="scenario")
        if len(results) == 1:  # the numbers themselves, so that nobody has to look into a list of one
            shown |= shown.pop("results")[0]
        click.echo(json.dumps(shown, indent=1))
        return
    if len(results) == 1:
        click.echo("\n".join(lines(_result(results[0]))))
    else:
        click.echo(table_text([it.summary for it in results]))
    for it in results:
        click.echo(f"{it.wall_seconds:.1f} s of wall time, {_result(it).writes:,} writes", err=True)


def _result(result: Result) -> ScenarioResult:
    from allhands.compose.scenarios import ScenarioResult  # noqa: PLC0415

    assert isinstance(result.summary, ScenarioResult)
    return result.summary


def lines(result: ScenarioResult) -> list[str]:
    """The numbers for people, one line for each kind of them."""
    from allhands.sim.report import duration_text  # noqa: PLC0415

    ratio = result.makespan_seconds / result.ideal_seconds if result.ideal_seconds else 0.0
    done = f"{result.jobs_succeeded:,} succeeded, {result.jobs_failed:,} failed, {result.jobs_unfinished:,} not done"
    bound = duration_text(result.lower_bound_seconds)
    rows = (
        ("jobs", done),
        ("makespan", f"{duration_text(result.makespan_seconds)} ({ratio:.3f} x ideal list scheduling)"),
        ("ideal", f"{duration_text(result.ideal_seconds)}; no schedule is below {bound}"),
        ("completion", f"{_times(result.jct_mean_seconds, result.jct_p50_seconds, result.jct_p99_seconds)}"),
        ("wait", f"{_times(result.wait_mean_seconds, result.wait_p50_seconds, result.wait_p99_seconds)}"),
        ("slowdown", f"{result.bounded_slowdown_mean:.2f} on average, bounded"),
        ("utilisation", f"{_percent(result.utilisation)} of the machine; {_percent(result.wasted)} of it ran in vain"),
        ("fragmentation", f"{_percent(result.fragmentation)} of the machine idle while somebody waited"),
        ("fairness", f"{result.fairness:.3f} (1: all queues are slowed alike; without queues, all jobs)"),
        ("preemptions", f"{result.preemptions:,} (how often a job lost pods and had to begin again)"),
    )
    width = max(len(name) for name, _ in rows)
    waiting = [f"not done: {name}{f': {told}' if told else ''}" for name, told in result.unfinished.items()]
    return [*(f"{name:<{width}}  {text}" for name, text in rows), *waiting[:UNFINISHED_SHOWN]]


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _times(mean: float, median: float, p99: float) -> str:
    from allhands.sim.report import duration_text  # noqa: PLC0415

    return f"mean {duration_text(mean)}, median {duration_text(median)}, p99 {duration_text(p99)}"


def _write_page(page_file: Path, file: Path, results: Sequence[Result]) -> None:
    from allhands.sim.report import page  # noqa: PLC0415

    more = lines(_result(results[0])) if len(results) == 1 else ()
    try:
        page_file.write_text(page(str(file), results, what="scenario", more=more), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {page_file}: {error.strerror or error}") from None
    click.echo(f"wrote {page_file}", err=True)
