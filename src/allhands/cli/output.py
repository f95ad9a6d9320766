"""How results are printed: tables for people, JSON and YAML for programs, names for scripts; once or again and again.

A watch on a terminal shows the present state in place; into a file or a pipe it writes a line for whatever changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
import msgspec
import yaml

from allhands.cli.grid_text import control, grid_lines, is_terminal, say, width_of_output
from allhands.cli.looking import LivePictures, look

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.cli.cluster import Session
    from allhands.cli.grid_text import Cell
    from allhands.cli.looking import Part
    from allhands.views.picture import Picture

REDRAW_SECONDS = 1.0
"""How often ages are counted on while nothing changes."""
_CLEAR = "\033[H\033[2J\033[3J"


R_contra = TypeVar("R_contra", contravariant=True)


class TableOf(Protocol[R_contra]):
    """How one kind of rows is laid out."""

    def heading(self, *, wide: bool) -> Sequence[str]: ...

    def cells(self, row: R_contra, *, wide: bool) -> Sequence[Cell | str]: ...

    def name(self, row: R_contra) -> str:
        """As `-o name` prints it, and unique."""

    @property
    def long_heading(self) -> str:
        """The column that gives way if there is too little room; "" for none."""


def plain(value: Any) -> Any:
    """As JSON would have it."""
    return msgspec.to_builtins(value)


def value_text(value: Any, output: str) -> str:
    """A whole document, as JSON or YAML."""
    if output == "yaml":
        return str(yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True)).rstrip("\n")
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def print_rows(rows: Sequence[Any], table: TableOf[Any], output: str, nothing: Callable[[], str]) -> None:
    """All rows; `nothing` is told to people if there are none."""
    if output in ("json", "yaml"):
        say(value_text({"items": list(rows)}, output))
    elif output == "name":
        for row in rows:
            say(table.name(row))
    elif not rows:
        click.echo(nothing(), err=True)
    else:
        for line in table_lines(rows, table, wide=output == "wide"):
            say(line)


def table_lines(rows: Sequence[Any], table: TableOf[Any], *, wide: bool) -> list[str]:
    heading = table.heading(wide=wide)
    long = heading.index(table.long_heading) if table.long_heading in heading else None
    cells = [table.cells(row, wide=wide) for row in rows]
    return grid_lines(heading, cells, width=None if wide else width_of_output(), long=long)


async def show_rows(
    session: Session,
    parts: Sequence[Part],
    rows_of: Callable[[Picture], Sequence[Any]],
    table_at: Callable[[], TableOf[Any]],
    *,
    output: str,
    watch: bool,
    nothing: Callable[[], str],
    namespace: str | None = None,
) -> None:
    """Once, or until Ctrl-C. `table_at` gives the table of the present moment."""
    scope = session.scope if namespace is None else namespace
    if not watch:
        print_rows(rows_of(await look(session.objects, parts, scope)), table_at(), output, nothing)
        return
    async with LivePictures(session.objects, parts, scope) as live:
        if is_terminal() and output in ("table", "wide"):
            await _redraw(live, lambda picture: _screen(rows_of(picture), table_at(), output, nothing))
        else:
            await _append(live, rows_of, table_at, output)


def _screen(rows: Sequence[Any], table: TableOf[Any], output: str, nothing: Callable[[], str]) -> str:
    return "\n".join(table_lines(rows, table, wide=output == "wide")) if rows else nothing()


async def _redraw(live: LivePictures, screen: Callable[[Picture], str]) -> None:
    picture = live.first
    while True:
        shown = screen(picture)
        control(_CLEAR)
        say(shown)
        picture = await live.next(REDRAW_SECONDS)


async def _append(
    live: LivePictures,
    rows_of: Callable[[Picture], Sequence[Any]],
    table_at: Callable[[], TableOf[Any]],
    output: str,
) -> None:
    shown: dict[str, Any] = {}
    picture, is_first = live.first, True
    while True:
        rows = rows_of(picture)
        table = table_at()
        changed = [row for row in rows if shown.get(table.name(row)) != row]
        shown = {table.name(row): row for row in rows}
        for row in changed if output in ("json", "yaml", "name") else ():
            _print_one(row, table, output)
        if output in ("table", "wide") and changed:
            lines = table_lines(changed, table, wide=output == "wide")
            for line in lines if is_first else lines[1:]:
                say(line)
            is_first = False
        picture = await live.next()


def _print_one(row: Any, table: TableOf[Any], output: str) -> None:
    if output == "name":
        say(table.name(row))
    elif output == "json":
        say(msgspec.json.encode(row).decode())
    else:
        say(f"---\n{value_text(row, output)}")


async def show_screen(
    session: Session,
    parts: Sequence[Part],
    screen: Callable[[Picture], str],
    *,
    namespace: str,
    is_news: Callable[[Picture], Any],
) -> None:
    """A text that is no table, whenever it is different, until Ctrl-C; `is_news` says what of a picture counts."""
    async with LivePictures(session.objects, parts, namespace) as live:
        if is_terminal():
            await _redraw(live, screen)
        picture, before = live.first, None
        while True:
            news = is_news(picture)
            if news != before:
                say(screen(picture) if before is None else f"\n{screen(picture)}")
                before = news
            picture = await live.next()
