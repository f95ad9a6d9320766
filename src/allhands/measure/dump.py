"""`python -m allhands.measure.dump NAME FILE`: decides one cluster and writes the cycle as a recording for `replay`.

NAME is `busy-cluster`, or a case of `allhands bench core` in its quick size. It is for trying replay out and for tests
that replay on another machine; a running scheduler records its own cycles. With `--again FILE...` files that are named
after their cluster are written anew, for when decisions or sentences have changed on purpose.
"""

from __future__ import annotations

import sys
from pathlib import Path

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.core.recording import encode, record
from allhands.measure import busy_cluster
from allhands.measure.core_bench import NOW_SECONDS
from allhands.measure.core_cases import QUICK, cases

BUSY_CLUSTER = "busy-cluster"


def dump_of(name: str) -> bytes:
    """The recording of one cycle; a KeyError if there is no cluster of that name."""
    if name == BUSY_CLUSTER:
        snapshot, now = busy_cluster.busy_cluster(), busy_cluster.NOW_SECONDS
    else:
        # Of the cases with that name, the one with most shapes is the last.
        case = {case.name: case for case in cases(QUICK)}[name]
        snapshot, now = case.build(case), NOW_SECONDS
    plan, _ = cycle(snapshot, DEFAULT, Memo(), now)
    return encode(record(snapshot, DEFAULT, now, plan=plan))


def known_names() -> tuple[str, ...]:
    return (BUSY_CLUSTER, *dict.fromkeys(case.name for case in cases(QUICK)))


def main(arguments: list[str]) -> int:
    wanted = _wanted(arguments)
    if not wanted or any(name not in known_names() for name, _ in wanted):
        sys.stderr.write(
            "usage: python -m allhands.measure.dump NAME FILE\n"
            "       python -m allhands.measure.dump --again FILE...   (named NAME.dump.gz)\n"
            f"NAME is {', '.join(known_names())}\n"
        )
        return 2
    for name, file in wanted:
        try:
            file.write_bytes(dump_of(name))
        except OSError as error:
            sys.stderr.write(f"cannot write {file}: {error.strerror or error}\n")
            return 1
    return 0


def _wanted(arguments: list[str]) -> list[tuple[str, Path]]:
    """The name of each cluster and the file that it goes to."""
    match arguments:
        case ["--again", *files]:
            return [(Path(file).name.partition(".")[0], Path(file)) for file in files]
        case [name, file]:
            return [(name, Path(file))]
    return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
