"""`python -m tests.judge.record FIRST COUNT`: has that many seeds judged by the real scheduler and keeps the verdicts.

Every case is judged until two judgements in a row agree, so that no verdict rests on a world that had not arrived.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.judge.clusters import Case, random_case
from tests.judge.kube_scheduler import Judge, Judgement
from tests.judge.recorded import RECORDED, recorded, save

if TYPE_CHECKING:
    from pathlib import Path

MOST_JUDGEMENTS = 5


def confirmed(judge: Judge, case: Case) -> Judgement:
    """The judgement that two in a row agree on."""
    last = judge.judge(case)
    for _ in range(MOST_JUDGEMENTS):
        again = judge.judge(case)
        if again.verdicts == last.verdicts:
            return again
        for number, (one, other) in enumerate(zip(last.verdicts, again.verdicts, strict=True)):
            if one != other:
                sys.stderr.write(f"seed {case.seed}, pod {number}: {one} and then {other}\n")
        last = again
    message = f"seed {case.seed} was judged {MOST_JUDGEMENTS} times, each time in another way"
    raise RuntimeError(message)


def record(first: int, count: int, folder: Path) -> None:
    with Judge() as judge:
        for seed in range(first, first + count):
            case = random_case(seed)
            save(recorded(case, confirmed(judge, case)), folder / f"{seed}.json.gz")


if __name__ == "__main__":
    record(int(sys.argv[1]), int(sys.argv[2]), RECORDED)
