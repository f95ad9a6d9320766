"""`allhands bench kwok`: the KWOK test on a real API server, in scaled time, one scheduler after the other."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allhands.cli.bench_run import Teller, named_contenders, on_judged_plane, run_and_report

if TYPE_CHECKING:
    from allhands.measure.api.contenders import Contender
    from allhands.measure.api.kwok import KwokPlan, KwokRow


@click.command("kwok", short_help="1000 Jobs at once on a real API server, in scaled time.")
@click.option("--jobs", type=click.IntRange(1, 100_000), default=1_000, show_default=True, help="Of ten pods each.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Of 100 CPUs and 100Gi.")
@click.option("--scale", type=click.FloatRange(1, 100), default=5.0, show_default=True,
              help="So many seconds of the test are one second of yours.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of how long jobs run.")
@click.option("--schedulers", default="", metavar="NAME,…", help="Only these.")
@click.option("--schedulers-from", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Further schedulers: a YAML file each, see docs/benchmarks.md.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the rows.")
def command(
    jobs: int, nodes: int, scale: float, seed: int, schedulers: str, schedulers_from: Path | None, output: str
) -> None:
    """Submit 1000 Jobs of ten pods at once to nodes that hold half of them, and see how many are done in time.

    A job works three minutes and up to half as much again once all ten pods run, and fails 15 minutes after its
    submission. A scheduler without gangs fills the cluster with parts of jobs that all wait for the rest. kwok plays
    the nodes, kube-controller-manager the Jobs. Needs the real binaries: `make tools` builds them.

    \b
    Examples:
      allhands bench kwok
      allhands bench kwok --jobs 100 --nodes 10 --scale 20
    """
    from allhands.measure.api.contenders import NULL  # noqa: PLC0415
    from allhands.measure.api.kwok import KwokPlan  # noqa: PLC0415

    plan = KwokPlan(jobs=jobs, nodes=nodes, scale=scale, seed=seed)
    if not plan.jobs_at_once:
        raise click.UsageError(f"--nodes: {nodes} nodes cannot hold one job of {plan.pods_per_job} pods")
    found = [it for it in named_contenders(schedulers, schedulers_from) if it.name != NULL]
    bench = _Bench(plan, found, output)
    run_and_report(bench.measure, bench.report, bench.teller, bench.stopped)


class _Bench:
    def __init__(self, plan: KwokPlan, contenders: list[Contender], output: str) -> None:
        self._plan = plan
        self._contenders = contenders
        self._output = output
        self._rows: list[KwokRow] = []
        self.teller = Teller()

    def measure(self) -> None:
        from allhands.measure.api.kwok import CONTROLLERS, STAGES  # noqa: PLC0415

        parts = "etcd, kube-apiserver, kube-controller-manager and kwok"
        on_judged_plane(self.teller, self._test, parts, controllers=CONTROLLERS, kwok=True, kwok_stages=STAGES)

    async def _test(self, plane: Any) -> None:
        from allhands.measure.api.cluster import BenchCluster  # noqa: PLC0415
        from allhands.measure.api.kwok import NODE_CPU, NODE_MEMORY, KwokTest  # noqa: PLC0415

        async with BenchCluster(plane) as cluster:
            self.teller.tell(f"… creating {self._plan.nodes:,} nodes")
            await cluster.add_nodes(self._plan.nodes, NODE_CPU, NODE_MEMORY)
            test = KwokTest(cluster, self._plan, self._progress)
            for contender in self._contenders:
                row = await test.run(contender)
                self._rows.append(row)
                self.teller.result(f"{row.done} done, {row.failed} failed, {row.makespan_seconds:.0f} s")

    def _progress(self, scheduler: str, ended: int, jobs: int, seconds: float) -> None:
        self.teller.step(scheduler, f"{ended:,} of {jobs:,} jobs ended, {seconds:.0f} s of the test")

    def stopped(self) -> str:
        return f"{len(self._rows)} of {len(self._contenders)} schedulers"

    def report(self) -> None:
        """Of what there is."""
        import json  # noqa: PLC0415

        import msgspec  # noqa: PLC0415

        from allhands.measure.api.kwok import table  # noqa: PLC0415
        from allhands.measure.api.report import machine  # noqa: PLC0415

        plan = self._plan
        if not self._rows:
            return
        if self._output == "json":
            facts = {"command": f"allhands {shlex.join(sys.argv[1:])}", "machine": machine()}
            click.echo(json.dumps({**facts, **msgspec.to_builtins(plan), "rows": msgspec.to_builtins(self._rows)}))
            return
        click.echo(
            f"{plan.jobs:,} jobs of {plan.pods_per_job} pods on {plan.nodes:,} nodes, {plan.scale:g} times as fast; "
            f"ideal {plan.ideal_seconds():.0f} s\n"
        )
        for line in table(self._rows):
            click.echo(line)
