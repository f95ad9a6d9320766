"""The port `Metrics`, kept in dictionaries and shown as Prometheus' text format. It reads no clock and has no globals.

It is written here because the usual library stamps each series with the machine's time and locks on each count: then no
simulation would repeat, and hot paths would pay. It belongs to one event loop and is not for threads.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from allhands.runtime.metric_families import FAMILIES, Family, Sort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES: Final = 5_000
"""Of one family: what users name (queues) becomes labels, and must not become all of our memory."""
_DROPPED: Final = "allhands_metrics_dropped_total"
_LOG = logging.getLogger(__name__)
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Unmeasured:
    """The port where nobody reads."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        pass

    def observe(self, name: str, value: float, times: int = 1, /, **labels: str) -> None:
        pass

    def observe_all(self, name: str, values: Sequence[float], /, **labels: str) -> None:
        pass

    def set(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def replace(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        pass

    def refresh_with(self, source: str, refresh: Callable[[], None]) -> None:
        pass


class _Distribution:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class _Series:
    """Those of one family, by the values of their labels."""

    __slots__ = ("distributions", "family", "numbers")

    def __init__(self, family: Family) -> None:
        self.family = family
        self.numbers: dict[tuple[str, ...], float] = {}
        self.distributions: dict[tuple[str, ...], _Distribution] = {}
        if not family.labels:
            if family.sort is Sort.HISTOGRAM:
                self.distributions[()] = _Distribution(len(family.buckets))
            else:
                self.numbers[()] = 0.0

    def key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        wanted = self.family.labels
        if len(labels) != len(wanted):
            raise ValueError(f"metric {self.family.name}: it has the labels {wanted}, not {tuple(labels)}")
        try:
            return tuple([labels[name] for name in wanted])
        except KeyError:
            raise ValueError(f"metric {self.family.name}: it has the labels {wanted}, not {tuple(labels)}") from None


class MetricsRegistry:
    """Everything that was counted. `text` is what a scrape is answered with."""

    def __init__(self, families: Iterable[Family] = FAMILIES) -> None:
        self._series = {family.name: _Series(family) for family in families}
        self._refreshers: dict[str, Callable[[], None]] = {}

    # -- the port

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        if amount < 0:
            raise ValueError(f"metric {name}: it only grows, and cannot change by {amount}")
        numbers, key = self._numbers(name, labels)
        if key in numbers or self._has_room(numbers):
            numbers[key] = numbers.get(key, 0.0) + amount

    def observe(self, name: str, value: float, times: int = 1, /, **labels: str) -> None:
        buckets, found = self._distribution(name, labels)
        if found is not None:
            found.counts[bisect_left(buckets, value)] += times
            found.total += value * times

    def observe_all(self, name: str, values: Sequence[float], /, **labels: str) -> None:
        if not values:
            return
        buckets, found = self._distribution(name, labels)
        if found is not None:
            counts, total = found.counts, found.total
            for value in values:
                counts[bisect_left(buckets, value)] += 1
                total += value  # in the order in which they came, so that the sum is the one of single values
            found.total = total

    def set(self, name: str, value: float, /, **labels: str) -> None:
        numbers, key = self._numbers(name, labels)
        if key in numbers or self._has_room(numbers):
            numbers[key] = value

    def replace(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        series = self._family(name)
        for key in values:
            if len(key) != len(series.family.labels):
                raise ValueError(f"metric {name}: it has the labels {series.family.labels}, not the values {key}")
        series.numbers = dict(sorted(values.items())[:MOST_SERIES])
        if len(values) > MOST_SERIES and _DROPPED in self._series:
            self.count(_DROPPED, len(values) - MOST_SERIES)

    def refresh_with(self, source: str, refresh: Callable[[], None]) -> None:
        self._refreshers[source] = refresh

    # -- reading

    def value(self, name: str, /, **labels: str) -> float:
        """Of one series: its number, or how many values it has seen; 0 if there is none."""
        series = self._family(name)
        key = series.key(labels)
        if series.family.sort is Sort.HISTOGRAM:
            found = series.distributions.get(key)
            return 0.0 if found is None else float(sum(found.counts))
        return series.numbers.get(key, 0.0)

    def refresh(self) -> None:
        for source, refresh in list(self._refreshers.items()):
            try:
                refresh()
            except Exception:  # a scrape shows what there is: one source that fails must not hide the others
                _LOG.exception("the metrics of %s cannot be brought up to date", source)

    def text(self) -> str:
        """Prometheus' text format, in a fixed order."""
        self.refresh()
        lines: list[str] = []
        for name in sorted(self._series):
            series = self._series[name]
            if series.numbers or series.distributions:
                lines.extend(_lines(series))
        return "\n".join([*lines, ""])

    def _family(self, name: str) -> _Series:
        found = self._series.get(name)
        if found is None:
            raise ValueError(f"metric {name}: there is no such metric")
        return found

    def _numbers(self, name: str, labels: Mapping[str, str]) -> tuple[dict[tuple[str, ...], float], tuple[str, ...]]:
        series = self._family(name)
        if series.family.sort is Sort.HISTOGRAM:
            raise ValueError(f"metric {name}: it is a histogram, which only observes")
        return series.numbers, series.key(labels)

    def _distribution(self, name: str, labels: Mapping[str, str]) -> tuple[tuple[float, ...], _Distribution | None]:
        """Its buckets, and where to count; None if there are too many already."""
        series = self._family(name)
        buckets = series.family.buckets
        if series.family.sort is not Sort.HISTOGRAM:
            raise ValueError(f"metric {name}: it is a {series.family.sort}, not a histogram")
        key = series.key(labels)
        found = series.distributions.get(key)
        if found is None and self._has_room(series.distributions):
            found = series.distributions[key] = _Distribution(len(buckets))
        return buckets, found

    def _has_room(self, kept: Mapping[tuple[str, ...], object]) -> bool:
        if len(kept) < MOST_SERIES:
            return True
        if _DROPPED in self._series:
            self.count(_DROPPED)
        return False


def _lines(series: _Series) -> Iterator[str]:
    family = series.family
    yield f"# HELP {family.name} {family.help.translate(_HELP_ESCAPES)}"
    yield f"# TYPE {family.name} {family.sort.value}"
    for key, number in sorted(series.numbers.items()):
        yield f"{family.name}{_labels(family.labels, key)} {_number(number)}"
    for key, found in sorted(series.distributions.items(), key=lambda item: item[0]):
        seen = 0
        for bound, count in zip((*family.buckets, math.inf), found.counts, strict=True):
            seen += count
            labels = _labels((*family.labels, "le"), (*key, _number(bound)))
            yield f"{family.name}_bucket{labels} {seen}"
        labels = _labels(family.labels, key)
        yield f"{family.name}_sum{labels} {_number(found.total)}"
        yield f"{family.name}_count{labels} {seen}"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
