"""`allhands bench jobs`: from Volcano Jobs to bound pods on a real API server, divided by only making and binding."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allhands.cli.bench_run import Teller, on_judged_plane, run_and_report

if TYPE_CHECKING:
    from allhands.measure.api.jobs import JobsPlan, JobsRun


@click.command("jobs", short_help="Volcano Jobs to bound pods on a real API server, webhooks on.")
@click.option("--shapes", default="500x20,1x10000", show_default=True, metavar="JxP,…", help="Jobs of so many pods.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="Of 16 CPUs and 64Gi.")
@click.option("--rounds", type=click.IntRange(1, 100), default=1, show_default=True, help="How often each one runs.")
@click.option("--flight", type=click.IntRange(1, 1_000), help="Requests at a time of the null system. [default: best]")
@click.option("--timeout", type=click.IntRange(1), default=600, show_default=True, help="Seconds for each run.")
@click.option("--webhooks/--no-webhooks", default=True, show_default=True, help="Whether Jobs are reviewed.")
@click.option("--sampled", default="", metavar="PROGRAM,DIR", help="Run our processes by it: see docs/benchmarks.md.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the rows.")
def command(
    shapes: str, nodes: int, rounds: int, flight: int | None, timeout: int, webhooks: bool, sampled: str, output: str
) -> None:
    """Start etcd, kube-apiserver and our scheduler, controllers and webhooks; create Volcano Jobs; see when the last of
    their pods is bound, how often the API server was asked, and what our processes used.

    The null system creates the same pods and binds each as soon as it is there, and thinks nothing: everything is
    divided by it. Needs the real binaries: `make tools` builds them.

    \b
    Examples:
      allhands bench jobs
      allhands bench jobs --shapes 50x20,1x1000 --nodes 100
      allhands bench jobs --rounds 3 -o json > jobs.json
    """
    from allhands.measure.api.jobs import JobsPlan  # noqa: PLC0415 (`--help` must not load aiohttp)
    from allhands.measure.api.workload import ShapeError, parse_shape  # noqa: PLC0415

    try:
        asked = tuple(parse_shape(text) for text in shapes.split(","))
    except ShapeError as error:
        raise click.UsageError(f"--shapes: {error}") from None
    plan = JobsPlan(
        shapes=asked, nodes=nodes, rounds=rounds, flight=flight or 0, limit_seconds=float(timeout), webhooks=webhooks
    )
    if problem := plan.problem():
        raise click.UsageError(problem)
    bench = _Bench(plan, output, _sampler(sampled))
    run_and_report(bench.measure, bench.report, bench.teller, bench.stopped)


def _sampler(said: str) -> str:
    """With whole paths: the processes run in a folder of their own. Looked at now, not after a minute of measuring."""
    if not said:
        return ""
    program, comma, folder = said.partition(",")
    if not comma or not folder or not Path(program).is_file():
        raise click.UsageError(f"--sampled: {said!r} is not PROGRAM,DIR with a program that is there")
    return f"{Path(program).resolve()},{Path(folder).resolve()}"


class _Bench:
    def __init__(self, plan: JobsPlan, output: str, sampled: str) -> None:
        self._plan = plan
        self._output = output
        self._sampled = sampled
        self._runs: list[JobsRun] = []
        self._facts: dict[str, Any] = {"command": f"allhands {shlex.join(sys.argv[1:])}"}
        self.teller = Teller()

    def stopped(self) -> str:
        return f"{len(self._runs)} of {self._plan.rounds * len(self._plan.shapes) * 2} runs"

    def measure(self) -> None:
        from allhands.measure.api.jobs import USERS  # noqa: PLC0415

        on_judged_plane(self.teller, self._test, judged=tuple(USERS.values()))

    async def _test(self, plane: Any) -> None:
        from allhands.measure.api.cluster import BenchCluster  # noqa: PLC0415
        from allhands.measure.api.jobs import JobsTest  # noqa: PLC0415

        async with BenchCluster(plane) as cluster:
            self.teller.tell(f"… creating {self._plan.nodes:,} nodes")
            await cluster.add_nodes(self._plan.nodes)
            test = JobsTest(cluster, self._plan, self._progress, self._sampled)
            await test.prepare()
            self._facts |= {"flight": test.flight, "flight_seconds": test.sweep}
            async for run in test.runs():
                self._runs.append(run)
                reached = f"{run.bound:,} of {run.pods:,} in time" if run.seconds is None else f"{run.seconds:.2f} s"
                self.teller.result(reached)

    def _progress(self, text: str, bound: int, pods: int, seconds: float) -> None:
        self.teller.step(text, f"{bound:,} of {pods:,} bound, {seconds:.0f} s")

    def report(self) -> None:
        """Of what there is."""
        import json  # noqa: PLC0415

        import msgspec  # noqa: PLC0415

        from allhands.measure.api.jobs_report import rows_of, table  # noqa: PLC0415
        from allhands.measure.api.report import machine  # noqa: PLC0415

        plan, rows = self._plan, rows_of(self._plan, self._runs)
        if not rows:
            return
        if self._output == "json":
            facts = {**self._facts, "machine": machine(), "plan": msgspec.to_builtins(plan)}
            click.echo(json.dumps({**facts, "rows": msgspec.to_builtins(rows)}, indent=1))
            return
        hooks = "webhooks on" if plan.webhooks else "webhooks off"
        click.echo(f"{plan.nodes:,} nodes, {hooks}, null system with {self._facts['flight']} in flight\n")
        for line in table(rows):
            click.echo(line)
