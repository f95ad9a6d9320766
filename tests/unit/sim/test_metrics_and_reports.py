"""Numbers about a history are what they say; tables, documents and pages show them, and pages need no network."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from allhands.sim.history import History, Moment, Ran
from allhands.sim.machine import Machine
from allhands.sim.metrics import bounded_slowdown, fairness, percentile, spread, summarise
from allhands.sim.plots import Line, plot
from allhands.sim.report import MOST_POINTS, Result, document, duration_text, page, table_text
from allhands.sim.traces.job import TraceJob


def ran(submit: int, start: int, run: int, width: int = 1, user: str = "", preemptions: int = 0) -> Ran:
    return Ran(TraceJob("j", submit, run, width, user=user), start, start + run, preemptions)


def history(*jobs: Ran, units: int = 10, moments: tuple[Moment, ...] = (), policy: str = "p") -> History:
    return History(Machine(units), policy, jobs, (), (), moments, 7)


def test_times_are_counted_from_submission() -> None:
    summary = summarise(history(ran(0, 0, 100, 10), ran(50, 100, 100, 10)))
    assert summary.jct_mean_seconds == 125
    assert (summary.wait_mean_seconds, summary.wait_max_seconds, summary.wait_p50_seconds) == (25, 50, 0)
    assert (summary.makespan_seconds, summary.lower_bound_seconds, summary.utilisation) == (200, 200, 1.0)


def test_idle_room_counts_as_fragmentation_only_while_somebody_waits() -> None:
    moments = (Moment(0, 4, 1, 8), Moment(10, 4, 0, 0), Moment(20, 0, 0, 0))
    summary = summarise(history(ran(0, 0, 20, 4), moments=moments))
    assert summary.fragmentation == pytest.approx(10 * 6 / (10 * 20))


def test_slowdown_is_bounded_for_very_short_jobs() -> None:
    assert bounded_slowdown(ran(0, 99, 1)) == 10
    assert bounded_slowdown(ran(0, 0, 1)) == 1
    assert bounded_slowdown(ran(0, 100, 100)) == 2


def test_fairness_is_one_if_all_users_are_slowed_alike_and_less_if_one_pays() -> None:
    assert fairness([ran(0, 10, 10, user="a"), ran(0, 20, 20, user="b")]) == pytest.approx(1)
    assert fairness([ran(0, 0, 10, user="a"), ran(0, 90, 10, user="b")]) == pytest.approx(121 / 202)
    assert fairness([]) == 1


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (1, 1), (50, 50), (99, 99), (100, 100)])
def test_a_percentile_is_a_value_that_occurs(percent: int, value: int) -> None:
    assert percentile(range(1, 101), percent) == value
    assert spread([5]).p99 == 5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (7.25, "7.2 s"), (59, "59 s"), (90, "1 min 30 s"), (5000, "1 h 23 min"), (1e6, "11 d 13 h")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def result(policy: str = "fcfs-easy", jobs: int = 3) -> Result:
    made = [ran(number, 2 * number, 10 * number + 1) for number in range(jobs)]
    moments = tuple(Moment(number, number % 7, number % 3, 1) for number in range(jobs))
    found = history(*made, moments=moments, policy=policy)
    return Result(found, summarise(found), 0.5)


def test_a_table_has_a_line_for_each_policy_under_one_heading() -> None:
    lines = table_text([result("a").summary, result("longer").summary]).splitlines()
    assert [line.split()[0] for line in lines] == ["POLICY", "a", "longer"]
    assert len({line.index("3") for line in lines[1:]}) == 1


def test_a_document_is_json_with_the_names_that_scripts_rely_on() -> None:
    read = json.loads(json.dumps(document("t.swf", [result()])))
    names = {
        "jobs_succeeded",
        "jobs_failed",
        "makespan_seconds",
        "lower_bound_seconds",
        "jct_mean_seconds",
        "wait_p99_seconds",
        "utilisation",
    }
    assert names <= set(read["results"][0])
    assert read["results"][0]["jobs_per_wall_second"] == 6
    assert read["machine"] == {"units": 10, "nodes": 1, "resource": "cpu"}


class _References(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "action", "data")]


def test_a_page_refers_to_nothing_outside_itself_and_its_drawings_are_sound() -> None:
    text = page("<script>alert(1)</script>.swf", [result("a<b"), result("c", jobs=2000)])
    references = _References()
    references.feed(text)
    assert references.found == []
    assert "url(" not in text
    assert "@import" not in text
    assert "<script>alert" not in text
    assert "a&lt;b" in text
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    data = re.search(r'<script type="application/json" id="results">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["results"][0]["policy"] == "a<b"


def test_a_page_about_nothing_is_a_page() -> None:
    assert "Nothing was simulated" in page("t", [])


def test_a_long_line_is_thinned_and_keeps_its_peaks() -> None:
    moments = tuple(Moment(number, 10 if number == 54_321 else 1, 0, 0) for number in range(100_000))
    found = history(ran(0, 0, 1), moments=moments)
    text = page("t", [Result(found, summarise(found), 1)])
    path = re.search(r'<path stroke="[^"]*" d="([^"]*)"', text)
    assert path is not None
    assert path[1].count("H") < 1.1 * MOST_POINTS
    assert "V12.0" in path[1]


@pytest.mark.parametrize("points", [(), ((0.0, 0.0),), ((5.0, 0.0), (5.0, 0.0)), ((0.001, 1e9), (1e12, 3.0))])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_any_points_can_be_drawn(points: tuple[tuple[float, float], ...], *, logarithmic: bool) -> None:
    drawing = plot([Line("one", points), Line("two", points)], "x", "y", logarithmic=logarithmic)
    numbers = [float(it) for it in re.findall(r' [xy]\d?="(-?[\d.]+)"', ElementTree.tostring(
        ElementTree.fromstring(drawing), encoding="unicode"))]  # fmt: skip
    assert all(-1 <= number <= 1000 for number in numbers)
    assert drawing.count("<line") < 60
