"""`allhands bench latency`: how long a pod waits that fits an idle cluster, on a real API server."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allhands.cli.bench_run import Teller, named_contenders, on_judged_plane, run_and_report

if TYPE_CHECKING:
    from allhands.measure.api.contenders import Contender
    from allhands.measure.api.latency import LatencyPlan, LatencyRun


@click.command("latency", short_help="One pod at a time on an idle cluster with a real API server.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="Of 16 CPUs and 64Gi.")
@click.option("--pods", type=click.IntRange(1, 100_000), default=200, show_default=True, help="In each round.")
@click.option("--rate", "per_second", type=click.FloatRange(0.01, 1_000), default=5.0, show_default=True,
              help="Pods a second on average, at random moments.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 100), default=1, show_default=True, help="How often each one runs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the moments at which pods come.")
@click.option("--schedulers", default="", metavar="NAME,…", help="Only these; the null scheduler always runs.")
@click.option("--schedulers-from", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Further schedulers: a YAML file each, see docs/benchmarks.md.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the rows.")
def command(
    nodes: int, pods: int, per_second: float, rounds: int, seed: int, schedulers: str, schedulers_from: Path | None,
    output: str,
) -> None:  # fmt: skip
    """Create pods one at a time, at random moments, and see how long each waits for its node.

    Both moments are the API server's: it had answered the creation, it had answered the binding. The null scheduler
    watches and binds at once, without thinking: it shows what the API server and a watch give. kube-scheduler and
    allhands follow, on the same moments. Needs the real binaries: `make tools` builds them.

    \b
    Examples:
      allhands bench latency
      allhands bench latency --rounds 3 --pods 400 -o json > latency.json
      allhands bench latency --nodes 50 --pods 20 --schedulers allhands
    """
    from allhands.measure.api.latency import LatencyPlan, watching  # noqa: PLC0415

    plan = LatencyPlan(nodes=nodes, pods=pods, rounds=rounds, per_second=per_second, seed=seed)
    if problem := plan.problem():
        raise click.UsageError(problem)
    bench = _Bench(plan, watching(named_contenders(schedulers, schedulers_from)), output)
    run_and_report(bench.measure, bench.report, bench.teller, bench.stopped)


class _Bench:
    def __init__(self, plan: LatencyPlan, contenders: list[Contender], output: str) -> None:
        self._plan = plan
        self._contenders = contenders
        self._output = output
        self._runs: list[LatencyRun] = []
        self.teller = Teller()

    def stopped(self) -> str:
        return f"{len(self._runs)} of {self._plan.rounds * len(self._contenders)} runs"

    def measure(self) -> None:
        on_judged_plane(self.teller, self._test)

    async def _test(self, plane: Any) -> None:
        from allhands.measure.api.cluster import BenchCluster  # noqa: PLC0415
        from allhands.measure.api.latency import LatencyTest, spread_of  # noqa: PLC0415

        async with BenchCluster(plane) as cluster:
            self.teller.tell(f"… creating {self._plan.nodes:,} nodes")
            await cluster.add_nodes(self._plan.nodes)
            test = LatencyTest(cluster, self._contenders, self._plan, self._progress)
            async for run in test.runs():
                self._runs.append(run)
                spread = spread_of([wait.latency for wait in run.waits])
                self.teller.result("none was bound" if spread is None else f"p50 {spread.p50} ms, p99 {spread.p99} ms")

    def _progress(self, text: str, created: int, pods: int) -> None:
        self.teller.step(text, f"{created:,} of {pods:,} pods created")

    def report(self) -> None:
        """Of what there is."""
        import json  # noqa: PLC0415

        import msgspec  # noqa: PLC0415

        from allhands.measure.api.latency import GOAL_MILLIS, rows_of, table  # noqa: PLC0415
        from allhands.measure.api.report import machine  # noqa: PLC0415

        plan, rows = self._plan, rows_of(self._contenders, self._runs)
        if not rows:
            return
        if self._output == "json":
            facts = {"command": f"allhands {shlex.join(sys.argv[1:])}", "machine": machine(), "goal_ms": GOAL_MILLIS}
            click.echo(json.dumps({**facts, **msgspec.to_builtins(plan), "rows": msgspec.to_builtins(rows)}))
            return
        click.echo(f"{plan.nodes:,} nodes, {plan.per_second:g} pods a second at random moments\n")
        for line in table(plan, rows):
            click.echo(line)
