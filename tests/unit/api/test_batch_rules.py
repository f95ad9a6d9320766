"""Laws of the Job and CronJob rules that a table cannot state: grammars over random texts, and what owns what."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.builtin.batch import RULES
from allhands.api.builtin.cron import duration_error, schedule_error
from allhands.api.builtin.fieldchecks import at_most_100_percent, int_or_percent, int_or_percent_value
from allhands.api.builtin.job_policies import IndexesError, count_indexes
from allhands.api.builtin.timezones import ZONES, location_error

JOB = RULES["Job"]
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def _job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"name": "pi", "uid": "u-1"}, "spec": {"template": template, **spec}}
    JOB.default(job)
    JOB.prepare_create(job)
    return job


@st.composite
def _cron_field(draw: st.DrawFn, low: int, high: int) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(1, 99))
    choices = ("*", "?", f"{first}", f"{first}-{last}", f"*/{step}", f"{first}-{last}/{step}", f"{first}/{step}")
    return ",".join(draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3)))


@given(st.tuples(*(_cron_field(low, high) for low, high in BOUNDS)))
def test_a_schedule_made_of_ranges_within_bounds_is_accepted(fields: tuple[str, ...]) -> None:
    assert schedule_error(" ".join(fields)) == ""


@given(st.integers(0, 4), st.integers(1, 10**30))
def test_a_number_above_the_highest_of_its_field_is_refused(position: int, excess: int) -> None:
    fields = ["*"] * 5
    fields[position] = str(BOUNDS[position][1] + excess)
    assert schedule_error(" ".join(fields))


@given(st.text())
def test_any_text_is_either_a_schedule_or_refused_with_words(text: str) -> None:
    assert isinstance(schedule_error(text), str)
    assert isinstance(schedule_error(f"@every {text}"), str)


@pytest.mark.parametrize(
    "schedule",
    [
        *(
            "@yearly",
            "@annually",
            "@monthly",
            "@weekly",
            "@daily",
            "@midnight",
            "@hourly",
            "@every 1h30m",
            "@every 1.5s",
        ),
        *("* * * JAN-mar Mon,fri", "  0   0 1 1 ?  ", "0,,1 * * * *", "+5 * * * *", "TZ=Europe/Berlin 0 0 * * *"),
    ],
)
def test_schedules_that_are_accepted(schedule: str) -> None:
    assert schedule_error(schedule) == ""


@pytest.mark.parametrize("text", ["0", "+0", "1h", "-1.5h", "1h1m1s1ms1us1µs1ns", ".5s", "5.s", "2562047h"])
def test_durations_that_are_accepted(text: str) -> None:
    assert duration_error(text) == ""


@pytest.mark.parametrize("text", ["", "-", "h", ".s", "1", "1x", "1 h", "2562048h", "9" * 5000 + "ns", "1h-1m"])
def test_durations_that_are_refused(text: str) -> None:
    assert duration_error(text).startswith("time: ")


def test_the_zones_hold_the_names_people_use_and_not_the_machine_s_own() -> None:
    assert {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12", "Asia/Calcutta"} <= ZONES
    assert not {"Local", "localtime", "", "europe/berlin"} & ZONES
    assert location_error("europe/berlin") == "unknown time zone europe/berlin"
    assert location_error("../etc/passwd") == "time: invalid location name"


def _intervals(indexes: set[int]) -> str:
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


@given(st.sets(st.integers(0, 200)))
def test_a_list_of_indexes_counts_what_it_names(indexes: set[int]) -> None:
    assert count_indexes(_intervals(indexes), 201) == len(indexes)


@given(st.text(alphabet="0123456789-,+ a", max_size=30))
def test_any_text_is_either_a_list_of_indexes_or_refused(text: str) -> None:
    try:
        count = count_indexes(text, 100)
    except IndexesError:
        return
    assert 0 <= count <= 100


@given(st.one_of(st.integers(-(2**31), 2**31 - 1), st.text(), st.from_regex(r"[0-9]{1,6000}%", fullmatch=True)))
def test_any_number_or_text_is_judged_as_a_share(value: int | str) -> None:
    assert isinstance(int_or_percent_value(value), int)
    valid = not int_or_percent(value, "p") and not at_most_100_percent(value, "p")
    if valid and isinstance(value, str):
        assert 0 <= int_or_percent_value(value) <= 100


def test_the_labels_of_a_job_and_of_its_template_are_not_one_map() -> None:
    job = _job()
    assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]
    job["metadata"]["labels"]["mine"] = "only"
    assert "mine" not in job["spec"]["template"]["metadata"]["labels"]


def test_labels_that_a_job_has_of_its_own_are_kept_even_when_the_template_has_the_same() -> None:
    job: dict[str, Any] = {
        "metadata": {"name": "pi", "uid": "u-1", "labels": {"app": "a"}},
        "spec": {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}},
    }
    JOB.default(job)
    JOB.prepare_create(job)
    assert job["metadata"]["labels"] == {"app": "a"}


def _image_changed(job: dict[str, Any]) -> dict[str, Any]:
    new = copy.deepcopy(job)
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    return new


def test_the_template_of_a_running_job_is_immutable() -> None:
    job = _job()
    (error,) = JOB.validate_update(_image_changed(job), job)
    assert (error.path, error.detail) == ("spec.template", "field is immutable")


def test_the_image_of_a_suspended_job_is_immutable_although_its_place_is_not() -> None:
    job = _job(suspend=True)
    (error,) = JOB.validate_update(_image_changed(job), job)
    assert (error.path, error.detail) == ("spec.template.spec", "field is immutable")


SUSPENDED = [{"type": "Suspended", "status": "True"}]


@pytest.mark.parametrize(
    ("status", "may_move"),
    [
        pytest.param({}, True, id="never started"),
        pytest.param({"startTime": "t", "conditions": SUSPENDED}, True, id="stopped again, and it says so"),
        pytest.param({"startTime": "t"}, False, id="started, and does not say that it is suspended"),
        pytest.param({"startTime": "t", "active": 1, "conditions": SUSPENDED}, False, id="a pod is still running"),
    ],
)
def test_when_a_suspended_job_may_be_given_another_place(status: dict[str, Any], may_move: bool) -> None:
    job = _job(suspend=True)
    job["status"] = status
    new = copy.deepcopy(job)
    new["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "b"}
    assert (JOB.validate_update(new, job) == []) is may_move


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_only_the_node_affinity_of_a_suspended_job_may_change(kind: str) -> None:
    job = _job(suspend=True)
    new = copy.deepcopy(job)
    term = {"topologyKey": "zone", "weight": 1}
    new["spec"]["template"]["spec"]["affinity"] = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    paths = [error.path for error in JOB.validate_update(new, job)]
    assert paths[-1] == "spec.template.spec"
