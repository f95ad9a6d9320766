"""`python -m bench [names...] [-o json] [--quick]`: runs the benchmarks and prints what they found."""

from __future__ import annotations

import argparse
import importlib
import sys

from bench.figures import Report, as_json, as_table, machine

BENCHMARKS = {
    "agents": "simulated kubelets: what a pod from bound to Succeeded costs",
    "jobs": "10,000 Volcano Jobs through their whole life, simulated",
    "capacity": "10,000 nodes and 100,000 running pods, simulated: memory, and cost at rest",
    "durable": "acknowledged writes with a synced disk, against the real ones; start with 100,000 objects",
    "quality": "plans of the core and the best possible ones on small clusters",
    "startup": "from the command to a ready cluster, and what --help imports",
    "holding": "100,000 pods in memory: what they weigh, finding a few, watching",
    "syncing": "100,000 pods of an API server at the start: list, watch, informer",
    "writes": "create and update of pods against the real kube-apiserver",
}
"""Every benchmark and what it measures. Adding one is a file with a function `report` and a line here."""


def main() -> int:
    arguments = _parse()
    reports: list[Report] = []
    for name in arguments.names or BENCHMARKS:
        print(f"… {name}: {BENCHMARKS[name]}", file=sys.stderr, flush=True)
        report: Report = importlib.import_module(f"bench.{name}").report(quick=arguments.quick)
        reports.append(report)
        if arguments.output == "table":
            print(as_table(report), end="\n\n", flush=True)
    if arguments.output == "json":
        print(as_json(reports).decode())
    else:
        print("   ".join(f"{name}: {value}" for name, value in machine().items()))
    missed = [figure for report in reports for figure in report.figures if figure.verdict == "MISSED"]
    for figure in missed:
        print(f"missed: {figure.name}: {figure.median:.2f} {figure.unit}, goal {figure.goal}", file=sys.stderr)
    return 1 if missed else 0


def _parse() -> argparse.Namespace:
    listing = "\n".join(f"  {name:<9} {purpose}" for name, purpose in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmarks as ratios within one run.",
        epilog=f"benchmarks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help="which to run; all by default")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument(
        "--quick", action="store_true", help="fewer and smaller rounds: a check, not a figure to publish"
    )
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
