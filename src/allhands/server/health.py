"""Whether the server lives and is ready, for probes and people, without a token; and what it counted, with one.

A check is a name and a question that is asked anew each time. Why one fails is for the log, not for strangers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from allhands.runtime.metrics import CONTENT_TYPE
from allhands.server.answers import Answer, text_answer, wrong_method

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.server.face import Face
    from allhands.server.request import Request

    Checks: TypeAlias = Mapping[str, Callable[[], bool]]

PATHS: Final = frozenset({"livez", "readyz", "healthz"})
METRICS: Final = "metrics"


def answer(face: Face, request: Request, segments: list[str]) -> Answer | None:
    """`/livez`, `/readyz`, `/healthz`, or one check below them; None if there is no such check."""
    checks: Checks = {}
    if segments[0] == "readyz":
        checks = {"shutdown": lambda: not face.stopping, **face.ready}
    return verdict(request, segments, checks)


def verdict(request: Request, segments: list[str], checks: Checks) -> Answer | None:
    """What a probe is told: that it was answered at all is the first check."""
    probe = segments[0]
    results = {"ping": True} | {name: check() for name, check in checks.items()}
    if len(segments) == 2 and segments[1] in results:
        results = {segments[1]: results[segments[1]]}
    elif len(segments) != 1:
        return None
    excluded = set(request.query.get("exclude", ()))
    well = all(passed for name, passed in results.items() if name not in excluded)
    if well and "verbose" not in request.query:
        return text_answer("ok")
    lines = [f"[+]{name} ok" if passed else f"[-]{name} failed: reason withheld" for name, passed in results.items()]
    end = "passed" if well else "failed"
    return text_answer("\n".join([*lines, f"{probe} check {end}", ""]), 200 if well else 500)


def metrics_answer(request: Request, text: Callable[[], str]) -> Answer:
    """All that was counted, in Prometheus' text format."""
    if request.method not in ("GET", "HEAD"):
        raise wrong_method()
    return Answer(200, text().encode(), CONTENT_TYPE.encode())
