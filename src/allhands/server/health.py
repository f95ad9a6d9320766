"""Whether the server lives and is ready, for probes and people. Needs no token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.server.answers import Answer, text_answer

if TYPE_CHECKING:
    from allhands.server.face import Face
    from allhands.server.request import Request

PATHS: Final = frozenset({"livez", "readyz", "healthz"})


def answer(face: Face, request: Request, segments: list[str]) -> Answer | None:
    """`/livez`, `/readyz`, `/healthz`, or one check below them; None if there is no such check."""
    probe = segments[0]
    checks = {"ping": True}
    if probe == "readyz":
        checks["shutdown"] = not face.stopping
    if len(segments) == 2 and segments[1] in checks:
        checks = {segments[1]: checks[segments[1]]}
    elif len(segments) != 1:
        return None
    excluded = set(request.query.get("exclude", ()))
    well = all(passed for name, passed in checks.items() if name not in excluded)
    if well and "verbose" not in request.query:
        return text_answer("ok")
    lines = [f"[+]{name} ok" if passed else f"[-]{name} failed: reason withheld" for name, passed in checks.items()]
    verdict = "passed" if well else "failed"
    return text_answer("\n".join([*lines, f"{probe} check {verdict}", ""]), 200 if well else 500)
