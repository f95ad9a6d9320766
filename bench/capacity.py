"""A whole simulated cluster that runs: what 10,000 nodes and 100,000 running pods weigh, and what they cost at rest.

Every size is a fresh process. A run of the full size takes a quarter of an hour of one core; `--quick` runs a tenth of
it, and what it says of the full size is reckoned from the growth between two smaller ones.
"""

from __future__ import annotations

from bench.figures import Figure, Goal, Report, command_line, in_fresh_process
from bench.running import PODS_PER_JOB, PODS_PER_NODE, QUIET_SECONDS, Ran

PODS = 100_000
GIB = 1024**3
KIB = 1024


def report(*, quick: bool) -> Report:
    few, many = (PODS // 50, PODS // 10) if quick else (PODS // 10, PODS)
    small, large = _run(few), _run(many)
    per_pod = (large.resident_bytes - small.resident_bytes) / (large.pods - small.pods)
    whole = large.resident_bytes + per_pod * (PODS - large.pods)
    reckoned = f"reckoned from {large.pods:,}" if quick else "measured"
    parts = "scheduler, controllers and kubelets in one process"
    return Report(
        name="capacity",
        title=f"{PODS // PODS_PER_NODE:,} nodes and {PODS:,} running pods in a simulated cluster",
        command=command_line("capacity", quick=quick),
        settings=(
            f"{small.pods:,} and {large.pods:,} pods in gangs of {PODS_PER_JOB}, {PODS_PER_NODE} on each node; {parts}",
            f"memory: VmRSS when all have run for {QUIET_SECONDS:,} s of the simulation; {reckoned}",
            "at rest: processor time for each second of the simulation, heartbeats of all nodes included",
        ),
        figures=(
            _figure(f"resident memory, {PODS:,} pods", "GiB", whole / GIB, Goal("at most", 3)),
            _figure("growth per pod and its share of a node", "KiB", per_pod / KIB),
            _figure(f"resident memory, {large.pods:,} pods", "GiB", large.resident_bytes / GIB),
            _figure("processor time until a pod runs", "ms", large.start_seconds / large.pods * 1e3),
            _figure(f"processor time at rest, {large.nodes:,} nodes", "%", large.quiet_seconds_per_second * 100),
        ),
    )


def _figure(name: str, unit: str, value: float, goal: Goal | None = None) -> Figure:
    return Figure(name=name, unit=unit, rounds=(value,), goal=goal)


def _run(pods: int) -> Ran:
    return in_fresh_process("bench.running", pods, answers=Ran)
