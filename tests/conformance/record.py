"""Prints what a server answers to each scenario, for people: `python -m tests.conformance.record [words of the name]`.

Without further options a fresh real control plane is started and answers. `--url --token --ca` ask another server.
A step whose status is not the one the scenario wants is marked, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from typing import TYPE_CHECKING

import yaml

from tests.conformance.client import Server
from tests.conformance.runner import Exchange, run_scenario
from tests.conformance.scenario import Scenario, load_scenarios
from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator


def render(exchange: Exchange) -> str:
    """An exchange as YAML text, the form in which people read and tests compare it."""
    answer = exchange.answer
    shown = {"status": answer.status, "headers": answer.headers, "body": answer.body}
    text: str = yaml.dump(shown, Dumper=yaml.CSafeDumper, sort_keys=True, width=1000, allow_unicode=True)
    return text


def difference(real: Exchange, embedded: Exchange) -> str:
    """The lines of two answers that differ, under the request."""
    lines = difflib.unified_diff(
        render(real).splitlines(), render(embedded).splitlines(), "real", "embedded", n=4, lineterm=""
    )
    return f"{real.request}\n" + "\n".join(lines)


def _print(scenario: Scenario, server: Server, namespace: str, quiet: bool) -> bool:
    good = True
    lines = [f"# {scenario.topic}: {scenario.name}"]
    try:
        for exchange in run_scenario(scenario, server, namespace):
            fits = exchange.answer.status == exchange.wanted_status
            good &= fits
            mark = "" if fits else f"   <-- WANTED {exchange.wanted_status}"
            lines.append(f"## {exchange.request}{mark}\n{render(exchange)}")
    except (LookupError, TimeoutError, OSError, RuntimeError) as error:
        good = False
        lines.append(f"## BROKEN: {type(error).__name__}: {error}")
    if not (quiet and good):
        sys.stdout.write("\n".join(lines) + "\n\n")
    return good


@contextlib.contextmanager
def _server(options: argparse.Namespace) -> Iterator[Server]:
    if options.url:
        yield Server("asked", options.url, options.token, options.ca)
        return
    with ControlPlane() as plane:
        yield Server("real", plane.url, plane.token, str(plane.ca_file))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only scenarios whose topic and name contain all of these")
    parser.add_argument("--quiet", action="store_true", help="print only scenarios that do not go as they say")
    parser.add_argument("--url", default=os.environ.get("ALLHANDS_EMBEDDED_URL", ""))
    parser.add_argument("--token", default=os.environ.get("ALLHANDS_EMBEDDED_TOKEN", ""))
    parser.add_argument("--ca", default=os.environ.get("ALLHANDS_EMBEDDED_CA", ""))
    options = parser.parse_args()
    wanted = [each for each in load_scenarios() if all(word in f"{each.topic} {each.name}" for word in options.words)]
    with _server(options) as server:
        run = os.urandom(3).hex()
        bad = [each for n, each in enumerate(wanted) if not _print(each, server, f"t{n:03d}-{run}", options.quiet)]
    sys.stdout.write(f"{len(wanted) - len(bad)} of {len(wanted)} scenarios go as they say\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
