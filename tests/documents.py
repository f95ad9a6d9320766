"""Tables in the documentation that say what the code says: made here, compared by tests.

`python -m tests.documents` writes them anew, between the two comments that mark each one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from allhands.core.plugins import PLUGINS, Plugin, Point
from allhands.dialects import volcano_actions, volcano_plugins
from allhands.dialects.volcano_rows import Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
SECTION_BY_POINT = {
    Point.SCORE: "`scores`",
    Point.STATIC_SCORE: "`scores`",
    Point.NEIGHBOUR_SCORE: "always on",
    Point.FILTER: "`filters`",
    Point.ORDER: "`orders`",
    Point.GATE: "`gates`",
    Point.LIMIT: "`gates`",
    Point.GUARD: "`guards`",
}


def plugins_table() -> str:
    rows = (
        (f"`{it.name}`", it.point.value, SECTION_BY_POINT[it.point], _arguments(it), it.description) for it in PLUGINS
    )
    return table(("name", "extension point", "written in", "arguments (default)", "what it does"), rows)


def _arguments(plugin: Plugin) -> str:
    return "<br>".join(f"`{it.name}`: {it.type} (`{it.default}`)" for it in plugin.arguments) or "none"


def actions_table() -> str:
    return table(("action", "argument", "verdict", "what becomes of it"), _action_rows())


def _action_rows() -> Iterator[tuple[str, ...]]:
    for action in volcano_actions.ACTIONS:
        yield (f"`{action.name}`", "", action.verdict.value, action.note)
        for row in action.arguments:
            yield (f"`{action.name}`", f"`{row.name}`: {row.type.value}", *verdict(row))
    for name, note in volcano_actions.REMOVED_ACTIONS.items():
        yield (f"`{name}`", "", Verdict.REFUSED.value, note)


def arguments_table() -> str:
    return table(("plugin", "argument", "verdict", "what becomes of it"), _argument_rows())


def _argument_rows() -> Iterator[tuple[str, ...]]:
    for plugin in volcano_plugins.PLUGINS:
        yield (f"`{plugin.name}`", "", plugin.verdict.value, plugin.note)
        for row in plugin.arguments:
            yield (f"`{plugin.name}`", f"`{row.name}`: {row.type.value}", *verdict(row))


def switches_table() -> str:
    rows = (
        (f"`{plugin.name}`", f"`{row.name}`", row.verdict.value, row.note)
        for plugin in volcano_plugins.PLUGINS
        if plugin.verdict is not Verdict.REFUSED
        for row in plugin.switches
    )
    return table(("plugin", "switch", "verdict when off", "what becomes of it"), rows)


def verdict(row: Row) -> tuple[str, str]:
    neutral = " or ".join("none" if value == [] else f"`{str(value).lower()}`" for value in row.neutral)
    if row.verdict is Verdict.REFUSED and not row.neutral and row.unless_off:
        neutral = f"`enable: false`, or `{row.unless_off}: false`"
    return (f"{neutral}: same; else {row.verdict.value}" if neutral else row.verdict.value), row.note


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "plugins": ("docs/plugins.md", plugins_table),
    "volcano actions": ("docs/volcano-configuration.md", actions_table),
    "volcano plugins": ("docs/volcano-configuration.md", arguments_table),
    "volcano switches": ("docs/volcano-configuration.md", switches_table),
}


def written(name: str) -> str:
    """The table as the document has it."""
    return _around(name)[1].strip("\n")


def write(name: str) -> None:
    before, _, after = _around(name)
    (ROOT / TABLES[name][0]).write_text(f"{before}\n{TABLES[name][1]()}\n{after}", encoding="utf-8")


def _around(name: str) -> tuple[str, str, str]:
    """The document up to the table, the table, and the rest."""
    text = (ROOT / TABLES[name][0]).read_text(encoding="utf-8")
    begin, end = f"<!-- table: {name} -->", "<!-- end of table -->"
    before, found, rest = text.partition(begin)
    inside, also_found, after = rest.partition(end)
    assert also_found, f"{TABLES[name][0]} has no place for the table {name}"
    return before + found, inside, also_found + after


if __name__ == "__main__":
    for each in TABLES:
        write(each)
