"""Sorts out which accounts form trees, so that one broken row costs only itself and what hangs below it.

Nothing here raises: a row that cannot be used is set aside with an explanation, whatever order the rows come in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.model.reason import Explanation, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.model.queue import Account, Queue

NO_PARENT: Final = -1


class Forest(NamedTuple):
    """The sound accounts, parents before children and siblings by name, and what is wrong with the others."""

    accounts: tuple[Account | Queue, ...]
    parents: tuple[int, ...]
    set_aside: Mapping[str, Explanation]


def plant(rows: Iterable[Account | Queue]) -> Forest:
    """Sets aside names that are empty or used twice, unknown parents, cycles, and everything below any of these."""
    by_name: dict[str, Account | Queue] = {}
    problems: dict[str, str] = {}
    for account in rows:
        if not account.name:
            problems[""] = "an account must have a name"
        elif account.name in by_name:
            problems[account.name] = f'account "{account.name}" is defined twice'
        by_name[account.name] = account
    depths: dict[str, int] = {}
    for name in sorted(by_name):
        _walk_up(name, by_name, problems, depths)
    sound = tuple(sorted(depths, key=lambda name: (depths[name], name)))
    row_by_name = {name: row for row, name in enumerate(sound)}
    parents = tuple(_parent_row(by_name[name], row_by_name) for name in sound)
    set_aside = {name: explain(Reason.INVALID, problem=problems[name]) for name in sorted(problems)}
    return Forest(tuple(by_name[name] for name in sound), parents, set_aside)


def _parent_row(account: Account | Queue, row_by_name: Mapping[str, int]) -> int:
    return NO_PARENT if account.parent is None else row_by_name[account.parent]


def _walk_up(
    name: str, by_name: Mapping[str, Account | Queue], problems: dict[str, str], depths: dict[str, int]
) -> None:
    """Settles this account and all above it: each gets a depth or a problem."""
    branch: dict[str, None] = {}
    current: str | None = name
    while current is not None and current not in depths and current not in problems:
        if current in branch:
            _refuse_cycle(list(branch), current, problems)
            break
        branch[current] = None
        parent = by_name[current].parent
        if parent is not None and parent not in by_name:
            problems[current] = f'account "{current}" has the parent "{parent}", which does not exist'
            break
        current = parent
    for below in reversed(branch):
        if below in problems:
            continue
        parent = by_name[below].parent
        if parent is None:
            depths[below] = 0
        elif parent in depths:
            depths[below] = depths[parent] + 1
        else:
            problems[below] = f'account "{below}" is below "{parent}", which is set aside'


def _refuse_cycle(branch: list[str], repeated: str, problems: dict[str, str]) -> None:
    members = branch[branch.index(repeated) :]
    first = members.index(min(members))
    cycle = [*members[first:], *members[: first + 1]]
    text = "account parents form a cycle: " + " -> ".join(f'"{name}"' for name in cycle)
    problems.update(dict.fromkeys(members, text))
