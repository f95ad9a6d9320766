"""What is left out of a Volcano Job is filled in as Volcano does it, once; what comes out is a Job that is taken."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.volcano.job_defaults import complete_job
from allhands.api.volcano.job_rules import create_errors
from allhands.api.volcano.plugin_names import JOB_PLUGINS
from tests.depth import examples
from tests.unit.api.volcano.volcano_objects import around, completed, container, job, task, told


def test_what_is_said_of_nothing() -> None:
    spec = completed(job())["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "allhands",
        3,
        2,
    )
    assert spec["tasks"][0] == {
        "name": "worker",
        "replicas": 2,
        "maxRetry": 3,
        "minAvailable": 2,
        "template": {"spec": {"containers": [container()]}},
    }


def test_the_scheduler_is_the_one_that_serves() -> None:
    made = job()
    complete_job(made, "volcano")
    assert made["spec"]["schedulerName"] == "volcano"
    complete_job(made, "other")
    assert made["spec"]["schedulerName"] == "volcano"


def test_tasks_without_names_are_numbered() -> None:
    spec = completed(job(tasks=[task(""), task("b"), {"replicas": 1}]))["spec"]
    assert [it["name"] for it in spec["tasks"]] == ["default0", "b", "default2"]


def test_the_minimum_of_a_job_is_that_of_its_tasks() -> None:
    tasks = [task("a", 4, minAvailable=1), task("b", 3), task("c", 2, minAvailable=0)]
    assert completed(job(tasks=tasks))["spec"]["minAvailable"] == 4
    assert completed(job(tasks=tasks, minAvailable=0))["spec"]["minAvailable"] == 4
    assert completed(job(tasks=tasks, minAvailable=2))["spec"]["minAvailable"] == 2


@pytest.mark.parametrize(
    ("policy", "minimum"),
    [
        ({"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}, 4),
        ({"totalPartitions": 3, "partitionSize": 2, "minPartitions": 0}, 6),
        ({"totalPartitions": 3, "partitionSize": 2}, 6),
    ],
    ids=["of so many parts", "of none", "of all"],
)
def test_the_minimum_of_a_task_in_parts(policy: dict[str, int], minimum: int) -> None:
    spec = completed(job(tasks=[task(replicas=6, partitionPolicy=policy)]))["spec"]
    assert spec["tasks"][0]["minAvailable"] == minimum


@pytest.mark.parametrize(
    ("given_", "filled"),
    [
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
        ({}, None),
    ],
    ids=["on the host's network", "with a policy of its own", "on its own network"],
)
def test_names_are_found_from_the_hosts_network(given_: dict[str, Any], filled: str | None) -> None:
    template = {"spec": {"containers": [container()], **given_}}
    spec = completed(job(tasks=[task(template=template)]))["spec"]
    assert spec["tasks"][0]["template"]["spec"].get("dnsPolicy") == filled


@pytest.mark.parametrize(
    ("named", "present"),
    [
        ({"tensorflow": []}, ("tensorflow", "svc")),
        ({"pytorch": []}, ("pytorch", "svc")),
        ({"ray": []}, ("ray", "svc")),
        ({"mpi": []}, ("mpi", "svc", "ssh")),
        ({"env": []}, ("env",)),
        ({"mpi": [], "svc": ["--disable-network-policy=true"]}, ("mpi", "svc", "ssh")),
    ],
    ids=str,
)
def test_plugins_bring_those_that_they_need(named: dict[str, list[str]], present: tuple[str, ...]) -> None:
    spec = completed(job(plugins=named))["spec"]
    assert set(spec["plugins"]) == set(present)
    assert all(spec["plugins"][name] == flags for name, flags in named.items())


def test_no_retries_are_the_usual_ones_as_upstream_has_it() -> None:
    spec = completed(job(maxRetry=0, tasks=[task(maxRetry=0)]))["spec"]
    assert (spec["maxRetry"], spec["tasks"][0]["maxRetry"]) == (3, 3)


_TASKS = st.builds(
    lambda replicas, least, named, host: (
        {
            "replicas": replicas,
            "template": {"spec": {"containers": [container()], **({"hostNetwork": True} if host else {})}},
        }
        | ({"minAvailable": min(least, replicas)} if least is not None else {})
        | ({"maxRetry": 0} if named else {})
    ),
    st.integers(0, 50),
    st.none() | st.integers(0, 50),
    st.booleans(),
    st.booleans(),
)
_PLUGINS: st.SearchStrategy[dict[str, list[str]]] = st.sets(st.sampled_from(sorted(JOB_PLUGINS - {"mpi"}))).map(
    lambda names: {it: [] for it in sorted(names)}
)
_SPECS = st.fixed_dictionaries(
    {"tasks": st.lists(_TASKS, min_size=1, max_size=4)},
    optional={"plugins": _PLUGINS, "maxRetry": st.integers(0, 5), "minAvailable": st.just(0), "queue": st.just("")},
)


@given(spec=_SPECS)
@settings(max_examples=examples(100))
def test_defaults_are_filled_in_once_and_make_a_job_that_is_taken(spec: dict[str, Any]) -> None:
    once = completed(job(**copy.deepcopy(spec)))
    twice = completed(once)
    assert twice == once
    assert told(create_errors(once, around())) == []
