"""`python -m tests.judge.replay [SEED] [THEME]`: our verdicts on the recorded cases, and where they differ.

Without arguments it counts, for each theme, the pods on which we differ; with a seed it shows them.
"""

from __future__ import annotations

import collections
import sys
from typing import TYPE_CHECKING

import yaml

from tests.judge.ours import differing, feasible_sets
from tests.judge.recorded import Recorded, load, recorded_files

if TYPE_CHECKING:
    from collections.abc import Iterable


def shown(kept: Recorded, number: int) -> str:
    """One differing pod, for a person: seed, manifest, both sets."""
    pod = kept.pods[number]
    (ours,) = feasible_sets(kept.world, [pod])
    expected = set(kept.expected[number])
    lines = [
        f"seed {kept.seed}, pod {number}, theme {kept.themes[number]!r}",
        f"  the real scheduler: {sorted(expected)} {kept.why[number]}",
        f"  ours:               {sorted(ours)}",
        f"  only ours: {sorted(ours - expected)}; only theirs: {sorted(expected - ours)}",
        yaml.safe_dump({"metadata": pod["metadata"], "spec": pod["spec"]}, sort_keys=True),
    ]
    return "\n".join(lines)


def table(cases: Iterable[Recorded]) -> str:
    wrong: collections.Counter[str] = collections.Counter()
    asked: collections.Counter[str] = collections.Counter()
    for kept in cases:
        asked.update(kept.themes)
        wrong.update(kept.themes[number] for number in differing(kept))
    return "\n".join(f"{wrong[theme]:5} of {asked[theme]:5} differ: {theme}" for theme in sorted(asked))


def main(words: list[str]) -> str:
    cases = [load(path) for path in recorded_files()]
    if not words:
        return table(cases)
    chosen = [kept for kept in cases if kept.seed == int(words[0])]
    themes = words[1:]
    return "\n".join(
        shown(kept, number)
        for kept in chosen
        for number in differing(kept)
        if not themes or kept.themes[number] in themes
    )


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]) + "\n")
