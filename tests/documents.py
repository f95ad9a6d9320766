"""Tables in the documentation that say what the code says: made here, compared by tests.

`python -m tests.documents` writes them anew, between the two comments that mark each one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from allhands.api.volcano import compatibility, key_compatibility
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.core.plugins import PLUGINS, Plugin, Point
from allhands.dialects import volcano_actions, volcano_plugins
from allhands.dialects.volcano_rows import Row, Verdict
from allhands.lifecycle.volcano_job.plugins import catalog
from allhands.lifecycle.volcano_job.transitions import transition_table
from tests import volcano_proofs
from tests.volcano_proofs import KINDS

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


def kinds_table() -> str:
    rows = (
        (it.kind, f"`{it.api_version}`", ", ".join(f"`{name}`" for name in it.short_names), _test(KINDS[it.kind]))
        for it in VOLCANO_KINDS
    )
    return table(("kind", "version", "short names", "test"), rows)


def fields_table() -> str:
    rows = (
        (it.kind, f"`{it.path}`", it.state.value, it.note, _test(volcano_proofs.of_field(it.kind, it.path)))
        for it in compatibility.rows()
    )
    return table(("kind", "field", "state", "what is different", "test"), rows)


def words_table() -> str:
    tests = {("action", name): test for name, test in volcano_proofs.ACTIONS.items()}
    tests |= {("event", name): test for name, test in volcano_proofs.EVENTS.items()}
    rows = (
        (it.kind, f"`{it.path}`", it.state.value, it.note, _test(tests[it.kind, it.path]))
        for it in compatibility.words()
    )
    return table(("what", "word", "state", "what is different", "test"), rows)


def keys_table() -> str:
    rows = (
        (f"`{it.key}`", it.where, it.state.value, it.note, _test(volcano_proofs.of_key(it.key)))
        for it in key_compatibility.KEYS
    )
    return table(("annotation or label", "on", "state", "what is different", "test"), rows)


def plugin_states_table() -> str:
    ours = ("jax", "horovod")
    rows = (
        (f"`{name}`", "ours" if name in ours else "more", _test(volcano_proofs.JOB_PLUGINS[name]))
        for name in catalog.names()
    )
    return table(("plugin", "state", "test"), rows)


def _test(name: str) -> str:
    return f"`{name.removeprefix('tests/')}`"


def transitions_table() -> str:
    rows = (
        (it.source.value, it.cause.value, it.target.value, it.when, "yes" if it.retry else "")
        for it in transition_table()
    )
    return table(("from", "by", "to", "when", "counts as a retry"), rows)


def transitions_diagram() -> str:
    """One arrow for all that leads from one phase to another."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for it in transition_table():
        arrows.setdefault((it.source.value, it.target.value), []).append(it.cause.value)
    ends = sorted({target for _, target in arrows} - {source for source, _ in arrows})
    lines = [
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> Pending",
        *(f"    {source} --> {target}: {', '.join(causes)}" for (source, target), causes in arrows.items()),
        *(f"    {end} --> [*]" for end in ends),
        "```",
    ]
    return "\n".join(lines)


def job_plugins_table() -> str:
    return table(("plugin", "flag", "without it", "what it says"), _job_plugin_rows())


def _job_plugin_rows() -> Iterator[tuple[str, ...]]:
    for name in catalog.names():
        flags = catalog.flags(name)
        if not flags:
            yield (f"`{name}`", "", "", "")
        for it in flags:
            default = str(it.default).lower() if isinstance(it.default, bool) else str(it.default)
            yield (f"`{name}`", f"`--{it.name}`", f"`{default}`" if default else "", it.meaning)


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
    "volcano kinds": ("docs/volcano-compatibility.md", kinds_table),
    "volcano words": ("docs/volcano-compatibility.md", words_table),
    "volcano job plugins by test": ("docs/volcano-compatibility.md", plugin_states_table),
    "volcano annotations": ("docs/volcano-compatibility.md", keys_table),
    "volcano fields": ("docs/volcano-compatibility.md", fields_table),
    "volcano job diagram": ("docs/from-volcano.md", transitions_diagram),
    "volcano job transitions": ("docs/from-volcano.md", transitions_table),
    "volcano job plugins": ("docs/from-volcano.md", job_plugins_table),
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
