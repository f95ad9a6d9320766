"""Many pods in memory: what one weighs, whether finding a few depends on how many there are, what a watch costs.

Every round is two fresh processes, one with a tenth of the pods, so that growth is seen and not assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.figures import Figure, Goal, Report, command_line, in_fresh_process
from bench.held import CHANGES, WATCHES, Held

if TYPE_CHECKING:
    from collections.abc import Callable

PODS = 100_000
KIB = 1024


def report(*, quick: bool) -> Report:
    many, rounds = (PODS // 5, 1) if quick else (PODS, 5)
    few = many // 10
    pairs = [(_hold(few), _hold(many)) for _ in range(rounds)]
    return Report(
        name="holding",
        title=f"{many:,} pods in the in-process store",
        command=command_line("holding", quick=quick),
        settings=(
            f"pods of 4.75 KB as sent, {pairs[0][1].stored_bytes:,.0f} bytes as stored (defaults, uid, status)",
            f"{rounds} rounds, each two fresh processes: {few:,} pods and {many:,}; GC frozen after loading",
            "resident: growth of VmRSS per pod, everything included (indexes, journal, jobs)",
            "times within a process are the least of several repeats; a scan is a list whose selector has no index",
            f"a watch from earlier starts {CHANGES:,} changes ago; a page after changes has as many behind it",
        ),
        figures=tuple(_figures(pairs)),
    )


def _hold(count: int) -> Held:
    return in_fresh_process("bench.held", count, answers=Held)


def _figures(pairs: list[tuple[Held, Held]]) -> list[Figure]:
    def of(name: str, unit: str, value: Callable[[Held, Held], float], goal: Goal | None = None) -> Figure:
        return Figure(name=name, unit=unit, rounds=tuple(value(few, many) for few, many in pairs), goal=goal)

    hundredth = Goal("at most", 0.02)
    flat = Goal("at most", 2)
    return [
        of("resident memory per pod", "KiB", lambda _, m: m.resident_bytes_per_pod / KIB, Goal("at most", 12)),
        of("resident ÷ stored JSON", "×", lambda _, m: m.resident_bytes_per_pod / m.stored_bytes),
        of("100 by label ÷ scan of all", "×", lambda _, m: m.by_label_seconds / m.scan_seconds, hundredth),
        of("100 by node ÷ scan of all", "×", lambda _, m: m.by_node_seconds / m.scan_seconds, hundredth),
        of("100 by label ÷ list of all", "×", lambda _, m: m.by_label_seconds / m.list_all_seconds, hundredth),
        of("100 by label, growth at 10 × pods", "×", lambda f, m: m.by_label_seconds / f.by_label_seconds, flat),
        of("100 by node, growth at 10 × pods", "×", lambda f, m: m.by_node_seconds / f.by_node_seconds, flat),
        of("first page of 100, growth", "×", lambda f, m: m.first_page_seconds / f.first_page_seconds, flat),
        of("later page of 100, growth", "×", lambda f, m: m.later_page_seconds / f.later_page_seconds, flat),
        of(
            "later page after changes, growth",
            "×",
            lambda f, m: m.later_page_after_changes_seconds / f.later_page_after_changes_seconds,
            flat,
        ),
        of("opening a watch, growth", "×", lambda f, m: m.watch_seconds / f.watch_seconds, flat),
        of("opening a watch ÷ list of all", "×", lambda _, m: m.watch_seconds / m.list_all_seconds, hundredth),
        of("watch from earlier, growth", "×", lambda f, m: m.watch_earlier_seconds / f.watch_earlier_seconds, flat),
        of("memory per open watch", "KiB", lambda _, m: m.watch_bytes / KIB, Goal("at most", 4)),
        of(f"an event to {WATCHES:,} watches, each", "µs", lambda _, m: m.fan_out_seconds / WATCHES * 1e6),
        of("100 by label", "µs", lambda _, m: m.by_label_seconds * 1e6),
        of("100 by node", "µs", lambda _, m: m.by_node_seconds * 1e6),
        of("list of all", "µs", lambda _, m: m.list_all_seconds * 1e6),
        of("scan of all", "µs", lambda _, m: m.scan_seconds * 1e6),
        of("page of 100, first", "µs", lambda _, m: m.first_page_seconds * 1e6),
        of("page of 100, later", "µs", lambda _, m: m.later_page_seconds * 1e6),
        of("page of 100, later, after changes", "µs", lambda _, m: m.later_page_after_changes_seconds * 1e6),
        of("opening a watch", "µs", lambda _, m: m.watch_seconds * 1e6),
        of("opening a watch from earlier", "µs", lambda _, m: m.watch_earlier_seconds * 1e6),
    ]
