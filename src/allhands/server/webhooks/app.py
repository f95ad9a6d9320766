"""The webhooks as an ASGI application: `/mutate`, `/validate`, and whether it is well.

A verdict is an answer with code 200. Whatever keeps us from one (too large, too late, too many at once, a mistake of
ours) is another code: then the API server does what its configuration says for that, and we never let in or refuse by
accident. Time, size and number of what is looked at together are bounded; who comes in between waits for a turn.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError, unsupported_media_type
from allhands.runtime.metrics import Unmeasured
from allhands.server import health
from allhands.server.answers import Answer, deliver, page_not_found, refusal, wrong_method
from allhands.server.bodies import media_type
from allhands.server.face import too_many_requests
from allhands.server.limits import Limits
from allhands.server.request import DisconnectedError, Request
from allhands.server.webhooks.review import answer_text, question_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.ports import Metrics
    from allhands.server.asgi import Receive, Scope, Send
    from allhands.server.health import Checks
    from allhands.server.webhooks.judging import Judge
    from allhands.server.webhooks.review import Question, Verdict

MUTATE: Final = "mutate"
VALIDATE: Final = "validate"
LIMITS: Final = Limits(
    body_bytes=7 * 1024 * 1024,  # a review holds an object twice, and the API server takes none above three MiB
    body_seconds=10.0,
    requests_in_flight=2_000,
    write_seconds=10.0,
    keep_alive_seconds=180,  # API servers drop what they do not use after 90: whoever drops first must not be us
)
AT_ONCE: Final = 32
"""Bodies that are in memory and looked at at the same time."""
MOST_SECONDS: Final = 10.0
MARGIN_SECONDS: Final = 0.2
"""So much earlier than the API server gives up, we do: then it hears why."""
REVIEWS_TOTAL: Final = "allhands_webhook_reviews_total"
REVIEW_SECONDS: Final = "allhands_webhook_review_seconds"
_seconds: Final = re.compile(r"([0-9]{1,4})s").fullmatch
_LOG = logging.getLogger(__name__)


class WebhookApp:
    """`ready` are checks by name."""

    def __init__(
        self,
        judge: Judge,
        *,
        ready: Checks | None = None,
        metrics: Metrics | None = None,
        limits: Limits = LIMITS,
        at_once: int = AT_ONCE,
    ) -> None:
        self._handlers: dict[str, Callable[[Question], Awaitable[Verdict]]] = {
            MUTATE: judge.mutate,
            VALIDATE: judge.validate,
        }
        self._ready = ready or {}
        self._metrics = metrics or Unmeasured()
        self._limits = limits
        self._turns = asyncio.Semaphore(at_once)
        self._in_flight = 0
        self._stopping = False

    def stop(self) -> None:
        """From now on it is not ready; what has begun is answered."""
        self._stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive, self._limits)
        try:
            answer = await self._answer(request)
            await deliver(answer, request, send, self._limits.write_seconds)
        except DisconnectedError:
            return

    async def _answer(self, request: Request) -> Answer:
        try:
            segments = request.segments
            name = segments[0] if len(segments) == 1 else ""
            if name in self._handlers:
                return await self._reviewed(name, request)
            if segments and segments[0] in health.PATHS:
                checks = {"shutdown": lambda: not self._stopping, **self._ready} if segments[0] == "readyz" else {}
                return health.verdict(request, segments, checks) or page_not_found()
            return page_not_found()
        except StatusError as error:
            return refusal(error)
        except DisconnectedError:
            raise
        except Exception:
            _LOG.exception("%s %s failed", request.method, request.raw_path)
            return refusal(StatusError(500, "InternalError", "the review failed; the log of the webhook says why"))

    async def _reviewed(self, name: str, request: Request) -> Answer:
        if request.method != "POST":
            raise wrong_method()
        if media_type(request) != "application/json":
            raise unsupported_media_type("a review is sent as application/json")
        if self._in_flight >= self._limits.requests_in_flight:
            raise too_many_requests()
        seconds = _allowed_seconds(request)
        self._in_flight += 1
        try:
            async with asyncio.timeout(seconds):
                async with self._turns:
                    return await self._judged(name, request)
        except TimeoutError:
            self._metrics.count(REVIEWS_TOTAL, webhook=name, kind="", result="failed")
            raise StatusError(504, "Timeout", f"there was no verdict within {seconds:g}s") from None
        finally:
            self._in_flight -= 1

    async def _judged(self, name: str, request: Request) -> Answer:
        began = asyncio.get_running_loop().time()
        kind, result = "", "failed"
        try:
            question = question_of(await request.body())
            verdict = await self._handlers[name](question)
            kind, result = question.kind.kind, "allowed" if verdict.refusal is None else "refused"
            return Answer(200, answer_text(question, verdict))
        finally:
            self._metrics.count(REVIEWS_TOTAL, webhook=name, kind=kind, result=result)
            self._metrics.observe(REVIEW_SECONDS, asyncio.get_running_loop().time() - began, webhook=name)


def _allowed_seconds(request: Request) -> float:
    """The API server says in its question how long it waits."""
    stated = _seconds(request.parameter("timeout"))
    if stated is None:
        return MOST_SECONDS
    return min(MOST_SECONDS, max(MARGIN_SECONDS, int(stated[1]) - MARGIN_SECONDS))
