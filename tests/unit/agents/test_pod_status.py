"""The status of a pod: phase and conditions that follow from its containers, by a kubelet's rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.agents.pod_status import (
    CREATING,
    FINISHED,
    ContainerReport,
    PodReport,
    Running,
    State,
    Waiting,
    ended,
    phase_of,
    rejection,
    status_of,
)

NOW, LATER = "2026-01-31T12:00:00Z", "2026-01-31T12:00:09Z"
GOOD, BAD, UP = ended(0, NOW, NOW), ended(1, NOW, NOW), Running(NOW)
WAITS_AGAIN = Waiting("CrashLoopBackOff")


def container(state: State, *, again: bool = False, **more: Any) -> ContainerReport:
    return ContainerReport("main", "image", state, BAD if again else None, ready=isinstance(state, Running), **more)


@pytest.mark.parametrize(
    ("states", "policy", "phase"),
    [
        ([CREATING], "Never", "Pending"),
        ([UP, CREATING], "Never", "Pending"),
        ([UP, UP], "Never", "Running"),
        ([GOOD, UP], "Never", "Running"),
        ([GOOD, GOOD], "Never", "Succeeded"),
        ([GOOD, BAD], "Never", "Failed"),
        ([BAD], "OnFailure", "Running"),
        ([GOOD], "OnFailure", "Succeeded"),
        ([GOOD], "Always", "Running"),
    ],
)
def test_the_phase_follows_from_the_containers(states: list[State], policy: str, phase: str) -> None:
    assert phase_of([container(state) for state in states], [], policy) == phase


def test_a_container_that_waits_for_its_restart_has_been_running() -> None:
    assert phase_of([container(WAITS_AGAIN, again=True)], [], "OnFailure") == "Running"


@pytest.mark.parametrize(
    ("init", "policy", "phase"),
    [
        (container(UP), "Never", "Pending"),
        (container(BAD), "Never", "Failed"),
        (container(BAD), "OnFailure", "Pending"),
        (container(GOOD), "Never", "Running"),
        (container(UP, sidecar=True), "Never", "Running"),
        (container(CREATING, sidecar=True), "Never", "Pending"),
    ],
)
def test_init_containers_come_first(init: ContainerReport, policy: str, phase: str) -> None:
    assert phase_of([container(UP)], [init], policy) == phase


def test_a_pod_is_not_over_before_its_sidecars_are() -> None:
    assert phase_of([container(GOOD)], [container(UP, sidecar=True)], "Never") == "Running"
    assert phase_of([container(GOOD)], [container(BAD, sidecar=True)], "Never") == "Succeeded"


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    before = status_of(PodReport([container(UP)]), (), NOW)["conditions"]
    same = status_of(PodReport([container(UP)]), before, LATER)["conditions"]
    assert same == before
    over = status_of(PodReport([container(GOOD)], phase="Succeeded"), before, LATER)["conditions"]
    turned = {it["type"]: it for it in over}
    assert turned["Ready"]["lastTransitionTime"] == LATER
    assert turned["PodScheduled"]["lastTransitionTime"] == NOW


def test_a_pod_that_was_refused_says_why_and_has_no_containers() -> None:
    status = rejection("OutOfcpu", "too large", (), NOW)
    assert (status["phase"], status["reason"], status["message"]) == (
        "Failed",
        "OutOfcpu",
        "Pod was rejected: too large",
    )
    assert "containerStatuses" not in status


STATES: st.SearchStrategy[State] = st.sampled_from([CREATING, WAITS_AGAIN, UP, GOOD, BAD])


@given(
    st.lists(st.builds(container, STATES, again=st.booleans()), min_size=1, max_size=4),
    st.lists(st.builds(container, STATES, again=st.booleans(), sidecar=st.booleans()), max_size=3),
    st.sampled_from(["Never", "OnFailure", "Always"]),
)
def test_laws_of_a_status(mains: list[ContainerReport], inits: list[ContainerReport], policy: str) -> None:
    others = [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": NOW}]
    status = status_of(PodReport(mains, inits, policy), others, NOW)
    conditions = {it["type"]: it for it in status["conditions"]}
    assert len(conditions) == len(status["conditions"]) == 6
    assert conditions["DisruptionTarget"] is others[0]
    if conditions["Ready"]["status"] == "True":
        assert all(isinstance(it.state, Running) for it in mains)
    if status["phase"] in FINISHED:
        assert not any(isinstance(it.state, Running) for it in [*mains, *(it for it in inits if it.sidecar)]) or any(
            it.state is BAD and not it.sidecar for it in inits
        )
        assert conditions["Ready"]["status"] == "False"
    if policy == "Always":
        assert status["phase"] not in FINISHED
