"""`allhands bench api`: schedulers side by side on one real API server, divided by one that does not think."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allhands.cli.bench_run import Teller, named_contenders, on_judged_plane, run_and_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.measure.api.comparison import Plan, Row
    from allhands.measure.api.contenders import Contender
    from allhands.measure.api.running import Run


@click.command("api", short_help="Schedulers side by side on a real API server.")
@click.option("--pods", type=click.IntRange(1, 100_000), default=10_000, show_default=True, help="In each shape.")
@click.option(
    "--shapes", default="", metavar="GxP,…", help="Instead of the usual four: so many groups of so many pods."
)
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="Of 16 CPUs and 64Gi.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="How often each one runs.")
@click.option("--gangs", type=click.Choice(["off", "on", "both"]), default="both", show_default=True,
              help="Pods that are alone, pods that start together, or one after the other.")  # fmt: skip
@click.option("--schedulers", default="", metavar="NAME,…", help="Only these; the null scheduler always runs.")
@click.option("--schedulers-from", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Further schedulers: a YAML file each, see docs/benchmarks.md.")  # fmt: skip
@click.option(
    "--flight", type=click.IntRange(1, 1_000), help="Requests at a time of the null scheduler. [default: best]"
)
@click.option("--timeout", type=click.IntRange(1), default=600, show_default=True, help="Seconds for each run.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the rows.")
@click.option("--html", "page_file", type=click.Path(dir_okay=False, writable=True, path_type=Path),
              help="Write a page with curves to this file.")  # fmt: skip
def command(
    pods: int, shapes: str, nodes: int, rounds: int, gangs: str, schedulers: str, schedulers_from: Path | None,
    flight: int | None, timeout: int, output: str, page_file: Path | None,
) -> None:  # fmt: skip
    """Start etcd and kube-apiserver, let pods wait, start one scheduler after the other, and see who is done when.

    The null scheduler binds in turn and thinks nothing: it shows what the API server gives, and everybody is divided by
    it. kube-scheduler, kube-scheduler with its own gangs, and allhands run on the same pods, round after round. Needs
    the real binaries: `make tools` builds them.

    \b
    Examples:
      allhands bench api
      allhands bench api --pods 1000 --nodes 100 --rounds 1
      allhands bench api --shapes 500x20 --gangs on --html gangs.html
      allhands bench api --schedulers-from my-schedulers -o json > api.json
    """
    from allhands.measure.api.comparison import Plan  # noqa: PLC0415 (`--help` must not load aiohttp)
    from allhands.measure.api.workload import ShapeError, parse_shape, usual_shapes  # noqa: PLC0415

    try:
        asked = [parse_shape(text) for text in shapes.split(",")] if shapes else usual_shapes(pods)
    except ShapeError as error:
        raise click.UsageError(f"--shapes: {error}") from None
    modes = {"off": (False,), "on": (True,), "both": (False, True)}[gangs]
    plan = Plan(
        shapes=tuple(asked), modes=modes, nodes=nodes, rounds=rounds, limit_seconds=float(timeout), flight=flight or 0
    )
    if problem := plan.problem():
        raise click.UsageError(problem)
    bench = _Bench(plan, named_contenders(schedulers, schedulers_from), output, page_file)
    run_and_report(bench.measure, bench.report, bench.teller, bench.stopped)


class _Bench:
    def __init__(self, plan: Plan, contenders: list[Contender], output: str, page_file: Path | None) -> None:
        self._plan = plan
        self._contenders = contenders
        self._output = output
        self._page_file = page_file
        self._runs: list[Run] = []
        self._facts: dict[str, Any] = {"command": f"allhands {shlex.join(sys.argv[1:])}"}
        self.teller = Teller()

    def stopped(self) -> str:
        taking_part = [
            sum(it.takes_part(with_gangs=case.with_gangs) for it in self._contenders) for case in self._plan.cases
        ]
        return f"{len(self._runs)} of {self._plan.rounds * sum(taking_part)} runs"

    def measure(self) -> None:
        on_judged_plane(self.teller, self._compare)

    async def _compare(self, plane: Any) -> None:
        from allhands.measure.api.cluster import BenchCluster  # noqa: PLC0415
        from allhands.measure.api.comparison import Comparison  # noqa: PLC0415

        async with BenchCluster(plane) as cluster:
            self.teller.tell(f"… creating {self._plan.nodes:,} nodes")
            await cluster.add_nodes(self._plan.nodes)
            comparison = Comparison(cluster, self._contenders, self._plan, self._progress)
            await comparison.find_flight()
            self._facts |= {
                "nodes": self._plan.nodes,
                "rounds": self._plan.rounds,
                "flight": comparison.flight,
                "flight_seconds": comparison.sweep,
            }
            async for run in comparison.runs():
                self._runs.append(run)
                reached = f"{run.bound:,} of {run.pods:,} in time" if run.seconds is None else f"{run.seconds:.2f} s"
                self.teller.result(reached)

    def _progress(self, text: str, bound: int, pods: int, seconds: float) -> None:
        self.teller.step(text, f"{bound:,} of {pods:,} bound, {seconds:.0f} s")

    def report(self) -> None:
        """Of what there is."""
        from allhands.measure.api.comparison import goals_of, rows_of  # noqa: PLC0415
        from allhands.measure.api.report import document, page, table  # noqa: PLC0415

        rows: Sequence[Row] = rows_of(self._plan, self._contenders, self._runs)
        if not rows:
            return
        goals = goals_of(rows)
        if self._page_file is not None:
            self._page_file.write_text(page(self._facts, rows, goals), encoding="utf-8")
        if self._output == "json":
            import json  # noqa: PLC0415

            click.echo(json.dumps(document(self._facts, rows, goals), indent=1))
            return
        click.echo(self._head())
        for line in table(rows, goals):
            click.echo(line)

    def _head(self) -> str:
        tried = ", ".join(f"{flight}: {seconds:.2f} s" for flight, seconds in self._facts["flight_seconds"].items())
        found = f" (tried {tried})" if tried else ""
        nodes, rounds = self._facts["nodes"], self._facts["rounds"]
        return (
            f"{nodes:,} nodes, {rounds} {'round' if rounds == 1 else 'rounds'}, "
            f"null scheduler with {self._facts['flight']} in flight{found}\n"
        )
