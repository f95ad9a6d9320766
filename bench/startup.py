"""How long a person waits: `allhands up` to its ready line, and `allhands --help`.

Both run as a user runs them, in a process of their own. The first start of a data folder makes certificates; it is
shown apart, because the promise is about warm starts.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.figures import Figure, Goal, Report, command_line

HEAVY = (
    "aiohttp",
    "cryptography",
    "httptools",
    "msgspec",
    "numpy",
    "rich",
    "sortedcontainers",
    "starlette",
    "uvicorn",
    "uvloop",
    "yaml",
)
"""Libraries that `--help` must not import."""
READY_WORDS = "is ready at"
STOP_SECONDS = 20
_COMMAND = (str(Path(sys.executable).with_name("allhands")),)
_MODULES_OF_HELP = """
import io, json, sys
from contextlib import redirect_stdout
from allhands.cli import main
try:
    with redirect_stdout(io.StringIO()):
        main(["--help"])
except SystemExit:
    pass
print(json.dumps(sorted(name for name in sys.modules)))
"""


def report(*, quick: bool) -> Report:
    rounds = 3 if quick else 7
    ups: dict[int, list[float]] = {3: [], 1000: []}
    helps: list[float] = []
    passes: list[float] = []
    with tempfile.TemporaryDirectory(prefix="allhands-bench-") as folder:
        cold, _ = (_up_seconds(Path(folder) / f"data-{nodes}", nodes) for nodes in ups)
        for _ in range(rounds):
            for nodes, seconds in ups.items():
                seconds.append(_up_seconds(Path(folder) / f"data-{nodes}", nodes))
            passes.append(_run_seconds(sys.executable, "-c", "pass"))
            helps.append(_run_seconds(*_COMMAND, "--help"))
    modules = _modules_of_help()
    heavy = sorted({name for name in modules if name in HEAVY})
    ratios = tuple(one / two for one, two in zip(helps, passes, strict=True))
    return Report(
        name="startup",
        title="seconds from the command to the ready line",
        command=command_line("startup", quick=quick),
        settings=(
            f"{rounds} interleaved rounds in processes of their own, each on its data folder of before",
            f"`allhands --help` imports {len(modules)} modules; of the heavy libraries: {', '.join(heavy) or 'none'}",
            f"heavy libraries are {', '.join(HEAVY)}",
        ),
        figures=(
            Figure(name="up, 3 nodes, warm", unit="s", rounds=tuple(ups[3]), goal=Goal("at most", 2)),
            Figure(name="up, 1000 nodes, warm", unit="s", rounds=tuple(ups[1000]), goal=Goal("at most", 2)),
            Figure(name="up, 3 nodes, first start of a folder", unit="s", rounds=(cold,)),
            Figure(name="up, 1000 nodes ÷ 3 nodes", unit="×", rounds=_ratios(ups[1000], ups[3])),
            Figure(name="up, 3 nodes ÷ python -c pass", unit="×", rounds=_ratios(ups[3], passes)),
            Figure(name="--help ÷ python -c pass", unit="×", rounds=ratios),
            Figure(name="--help", unit="s", rounds=tuple(helps)),
            Figure(name="heavy libraries imported by --help", unit="", rounds=(len(heavy),), goal=Goal("at most", 0)),
        ),
    )


def _ratios(ones: list[float], others: list[float]) -> tuple[float, ...]:
    return tuple(one / other for one, other in zip(ones, others, strict=True))


def _up_seconds(folder: Path, nodes: int) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        [*_COMMAND, "up", "--nodes", str(nodes), "--data", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        try:
            line = child.stdout.readline()
            seconds = time.perf_counter() - began
        finally:
            child.send_signal(signal.SIGINT)
            _, complaints = child.communicate(timeout=STOP_SECONDS)
    if READY_WORDS not in line or child.returncode != 0:
        raise RuntimeError(f"`allhands up` said {line!r} and ended with code {child.returncode}: {complaints}")
    return seconds


def _run_seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _modules_of_help() -> list[str]:
    answer = subprocess.run([sys.executable, "-c", _MODULES_OF_HELP], check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(answer.stdout, type=list[str])
