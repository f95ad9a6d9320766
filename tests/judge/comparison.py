"""Where we and the real scheduler differ: found, confirmed, made small, kept as a file, and told to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.judge.clusters import Case, random_case
from tests.judge.kube_scheduler import RefusedError
from tests.judge.ours import differing
from tests.judge.recorded import recorded, save
from tests.judge.replay import shown
from tests.judge.shrink import shrunk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.judge.kube_scheduler import Judge

MOST_SHRUNK = 2
"""More than this in one run is one mistake seen many times; the rest are only counted."""


def kept_differences(judge: Judge, seeds: Iterable[int], folder: Path) -> list[str]:
    """One text for each case that differs; the first few are shrunk and written to the folder."""
    found: list[str] = []
    for seed in seeds:
        case = random_case(seed)
        positions = confirmed_differences(judge, case)
        if not positions:
            continue
        if len(found) < MOST_SHRUNK:
            found.append(_kept(judge, case, positions[0], folder))
        else:
            themes = sorted({case.themes[position] for position in positions})
            found.append(f"seed {seed} differs too, in {len(positions)} pods: {', '.join(themes)}")
    return found


def confirmed_differences(judge: Judge, case: Case) -> list[int]:
    """The pods on which we differ from two judgements of the real scheduler, so not from a late world."""
    first = differing(recorded(case, judge.judge(case)))
    if not first:
        return []
    again = set(differing(recorded(case, judge.judge(case))))
    return [position for position in first if position in again]


def _kept(judge: Judge, case: Case, position: int, folder: Path) -> str:
    def fails(smaller: Case) -> bool:
        try:
            return bool(differing(recorded(smaller, judge.judge(smaller))))
        except RefusedError:
            return False

    small = shrunk(case, position, fails)
    kept = recorded(small, judge.judge(small))
    path = folder / f"{case.seed}.json"
    save(kept, path)
    texts = [shown(kept, number) for number in differing(kept)]
    world = ", ".join(f"{len(objects)} {kind}" for kind, objects in kept.world.items())
    return "\n".join([f"kept as {path.name}, with {world}:", *texts])
