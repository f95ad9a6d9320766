"""What is counted comes out as Prometheus reads it, whatever users name their queues; what nobody declared is told."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.runtime.metric_families import FAMILIES, Family, Sort
from allhands.runtime.metrics import MOST_SERIES, MetricsRegistry, Unmeasured
from tests.depth import examples

SAMPLE = re.compile(r'^([a-z0-9_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """An independent reader of the text format, which refuses what it does not know."""
    assert text.endswith("\n")
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            assert re.match(r"# (HELP|TYPE) [a-z0-9_]+ \S", line), line
            continue
        parsed = SAMPLE.match(line)
        assert parsed, line
        pairs = LABEL.findall(parsed[2] or "")
        labels = tuple((name, re.sub(r"\\.", lambda it: ESCAPES[it[0]], value)) for name, value in pairs)
        assert (parsed[1], labels) not in found, f"twice: {line}"
        found[parsed[1], labels] = math.inf if parsed[3] == "+Inf" else float(parsed[3])
    return found


def test_a_counter_a_gauge_and_a_histogram_come_out_as_prometheus_reads_them() -> None:
    metrics = MetricsRegistry()
    metrics.count("allhands_binds_total", 3, result="bound")
    metrics.count("allhands_binds_total", result="bound")
    metrics.set("allhands_ledger_entries", 2.5)
    metrics.observe("scheduler_preemption_victims", 3, 2)
    metrics.observe("scheduler_preemption_victims", 1000)
    text = metrics.text()
    assert '# TYPE allhands_binds_total counter\nallhands_binds_total{result="bound"} 4\n' in text
    found = samples(text)
    assert found["allhands_ledger_entries", ()] == 2.5
    assert found["scheduler_preemption_victims_bucket", (("le", "2"),)] == 0
    assert found["scheduler_preemption_victims_bucket", (("le", "4"),)] == 2
    assert found["scheduler_preemption_victims_bucket", (("le", "+Inf"),)] == 3
    assert found["scheduler_preemption_victims_sum", ()] == 1006
    assert found["scheduler_preemption_victims_count", ()] == 3


def test_what_has_no_labels_is_there_from_the_beginning() -> None:
    assert samples(MetricsRegistry().text())["scheduler_preemption_attempts_total", ()] == 0


@settings(max_examples=examples(100))
@given(st.dictionaries(st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_any_name_of_a_queue_and_any_number_survive(values: dict[str, float]) -> None:
    metrics = MetricsRegistry()
    metrics.replace("volcano_queue_pod_group_pending_count", {(name,): value for name, value in values.items()})
    found = samples(metrics.text())
    shown = {labels[0][1]: value for (name, labels), value in found.items() if name.startswith("volcano_queue_pod")}
    assert shown == values


@settings(max_examples=examples(50))
@given(st.lists(st.floats(0, 1e9), max_size=20))
def test_a_histogram_has_seen_each_value_once(values: list[float]) -> None:
    metrics = MetricsRegistry()
    for value in values:
        metrics.observe("allhands_cycle_step_seconds", value, step="decide")
    if not values:
        return
    found = samples(metrics.text())
    buckets = [value for (name, _), value in found.items() if name == "allhands_cycle_step_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert buckets[-1] == len(values)
    for (name, labels), count in found.items():
        if name == "allhands_cycle_step_seconds_bucket":
            bound = float(dict(labels)["le"].replace("+Inf", "inf"))
            assert count == sum(value <= bound for value in values)


@settings(max_examples=examples(50))
@given(st.lists(st.floats(0, 1e9), max_size=20))
def test_many_values_together_are_many_values(values: list[float]) -> None:
    alone, together = MetricsRegistry(), MetricsRegistry()
    for value in values:
        alone.observe("allhands_cycle_step_seconds", value, step="decide")
    together.observe_all("allhands_cycle_step_seconds", values, step="decide")
    assert together.text() == alone.text()


@pytest.mark.parametrize(
    ("attempt", "problem"),
    [
        (lambda it: it.count("allhands_nonsense"), "there is no such metric"),
        (lambda it: it.count("allhands_binds_total"), "labels"),
        (lambda it: it.count("allhands_binds_total", outcome="bound"), "labels"),
        (lambda it: it.count("allhands_binds_total", -1, result="bound"), "only grows"),
        (lambda it: it.set("scheduler_preemption_victims", 1), "histogram"),
        (lambda it: it.observe("allhands_ledger_entries", 1), "not a histogram"),
        (lambda it: it.observe_all("allhands_ledger_entries", [1.0]), "not a histogram"),
        (lambda it: it.replace("scheduler_pending_pods", {("a", "b"): 1}), "labels"),
    ],
)
def test_what_nobody_declared_is_a_mistake(attempt: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        attempt(MetricsRegistry())  # type: ignore[operator]


def test_a_flood_of_names_is_dropped_and_counted() -> None:
    metrics = MetricsRegistry()
    for number in range(MOST_SERIES + 7):
        metrics.count("workqueue_adds_total", name=f"{number}")
    metrics.replace("scheduler_pending_pods", {(f"{number}",): 1.0 for number in range(MOST_SERIES + 3)})
    assert metrics.value("allhands_metrics_dropped_total") == 10
    metrics.count("workqueue_adds_total", name="0")
    assert metrics.value("workqueue_adds_total", name="0") == 2


def test_what_is_replaced_is_gone() -> None:
    metrics = MetricsRegistry()
    metrics.replace("scheduler_pending_pods", {("active",): 3})
    metrics.replace("scheduler_pending_pods", {("gated",): 1})
    assert metrics.value("scheduler_pending_pods", queue="active") == 0
    assert 'queue="active"' not in metrics.text()


def test_sources_are_asked_when_somebody_reads_and_one_that_fails_hides_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = MetricsRegistry()
    asked = []

    def broken() -> None:
        raise RuntimeError("no snapshot")

    metrics.refresh_with("broken", broken)
    metrics.refresh_with("queue", lambda: asked.append("old"))
    metrics.refresh_with("queue", lambda: asked.append("new"))
    metrics.text()
    assert asked == ["new"], "who comes back takes the place of who went"
    assert "no snapshot" in caplog.text


def test_where_nobody_reads_anything_may_be_counted() -> None:
    nobody = Unmeasured()
    nobody.count("x", y="z")
    nobody.observe("x", 1)
    nobody.set("x", 1)
    nobody.replace("x", {})
    nobody.refresh_with("x", lambda: None)


def test_names_are_distinct_and_counters_say_that_they_are() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.sort is Sort.COUNTER), family.name
        assert bool(family.buckets) == (family.sort is Sort.HISTOGRAM)
        assert list(family.buckets) == sorted(set(family.buckets))
        assert not {"pod", "group", "job", "uid"} & set(family.labels), "there are too many of them"


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.sort.value} | {labels} | {family.help} |"


def test_the_document_has_a_row_for_each() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(_row(family) for family in FAMILIES)
