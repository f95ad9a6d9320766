"""Every scenario on the real API server and on the embedded one: the answers are the same after normalisation.

The status codes that a scenario names are those of the real server: they keep the scenario true to its sentence.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.conformance.record import difference, render
from tests.conformance.runner import run_scenario
from tests.conformance.scenario import Scenario, load_scenarios

if TYPE_CHECKING:
    from tests.conformance.client import Server

SCENARIOS = load_scenarios()
_numbers = itertools.count()
_run = os.urandom(3).hex()


def _namespace() -> str:
    """The same on both servers, and new for each use, so that runs against a long-lived server do not meet."""
    return f"t{next(_numbers):03d}-{_run}"


def _id(scenario: Scenario) -> str:
    return f"{scenario.topic}: {scenario.name}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=_id)
def test_both_servers_answer_the_same(scenario: Scenario, real: Server, embedded: Server) -> None:
    compare(scenario, real, embedded)


def compare(scenario: Scenario, real: Server, embedded: Server) -> None:
    """Fails with every answer that differs."""
    namespace = _namespace()
    theirs = list(run_scenario(scenario, real, namespace))
    wrong = [
        f"the real server does otherwise: {step.request}, the scenario wants {step.wanted_status}\n{render(step)}"
        for step in theirs
        if step.answer.status != step.wanted_status
    ]
    assert not wrong, "\n\n".join(wrong)
    ours = list(run_scenario(scenario, embedded, namespace))
    different = [difference(*pair) for pair in zip(theirs, ours, strict=True) if pair[0].answer != pair[1].answer]
    assert not different, "\n\n".join(different)


def test_no_two_scenarios_have_the_same_name() -> None:
    names = [_id(scenario) for scenario in SCENARIOS]
    assert len(names) == len(set(names))
