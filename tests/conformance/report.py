"""Both servers side by side, for people: `python -m tests.conformance.report [FILE]` writes a Markdown report.

One row per scenario: how many requests, the status codes of each server, and whether every answer was the same after
normalisation. Answers that differ follow in full. The exit code is the number of scenarios that differ, at most 1.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.conformance.client import Server
from tests.conformance.record import difference
from tests.conformance.runner import Exchange, run_scenario
from tests.conformance.scenario import Scenario, load_scenarios
from tests.controlplane import ControlPlane
from tests.embedded import EmbeddedInThread


class Row(msgspec.Struct, frozen=True):
    """What one scenario showed."""

    scenario: Scenario
    real: list[Exchange]
    embedded: list[Exchange]

    @property
    def differences(self) -> list[str]:
        pairs = zip(self.real, self.embedded, strict=True)
        return [difference(first, second) for first, second in pairs if first.answer != second.answer]


def _codes(exchanges: list[Exchange]) -> str:
    return " ".join(str(exchange.answer.status) for exchange in exchanges)


def render_report(rows: list[Row]) -> str:
    equal = sum(not row.differences for row in rows)
    requests = sum(len(row.real) for row in rows)
    lines = [
        "# Conformance report",
        "",
        (
            f"{requests} requests in {len(rows)} scenarios on a real kube-apiserver v1.36.3 and on the embedded one: "
            f"{equal} scenarios are answered the same, {len(rows) - equal} are not."
        ),
        "",
        "| scenario | real | embedded | |",
        "|---|---|---|---|",
    ]
    for row in rows:
        verdict = f"{len(row.differences)} differ" if row.differences else "same"
        name = f"{row.scenario.topic}: {row.scenario.name}".replace("|", "\\|")
        lines.append(f"| {name} | {_codes(row.real)} | {_codes(row.embedded)} | {verdict} |")
    for row in rows:
        for text in row.differences:
            lines += ["", f"## {row.scenario.topic}: {row.scenario.name}", "", "```diff", text, "```"]
    return "\n".join(lines) + "\n"


def compare_all(real: Server, embedded: Server) -> list[Row]:
    run = os.urandom(3).hex()
    rows = []
    for number, scenario in enumerate(load_scenarios()):
        namespace = f"r{number:03d}-{run}"
        answers = [list(run_scenario(scenario, server, namespace)) for server in (real, embedded)]
        rows.append(Row(scenario, *answers))
        sys.stderr.write(f"\r{number + 1} scenarios")
    sys.stderr.write("\n")
    return rows


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as plane, EmbeddedInThread(Path(folder)) as cluster:
        real = Server("real", plane.url, plane.token, str(plane.ca_file))
        embedded = Server("embedded", cluster.url, cluster.token, str(cluster.ca_file))
        rows = compare_all(real, embedded)
    text = render_report(rows)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        sys.stdout.write(text)
    return int(any(row.differences for row in rows))


if __name__ == "__main__":
    sys.exit(main())
