"""Whether the submitter of an object may do what it needs, by asking the API server: SubjectAccessReview.

The identity is the one that the API server gave with its question, whole: name, uid, groups and extra. Answers are kept
for a few seconds, so that a thousand Jobs of one user are one question; what cannot be asked is not taken for allowed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError, forbidden, not_allowed
from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.api.document import Manifest
    from allhands.ports import Objects
    from allhands.server.webhooks.asks import Ask
    from allhands.server.webhooks.review import Question, Submitter

REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews")
ALLOWED_SECONDS: Final = 5.0
DENIED_SECONDS: Final = 1.0
"""Short: who was just granted a right tries again."""
MOST_KEPT: Final = 4096


class _Access(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Access = _Access()


class Submitters:
    """Answers for all submitters. `trusted` are user names of our own processes: they act for others, whose rights were
    looked at before."""

    def __init__(self, objects: Objects, trusted: Iterable[str] = ()) -> None:
        self._objects = objects
        self._trusted = frozenset(trusted)
        self._kept: OrderedDict[tuple[Any, ...], tuple[float, bool]] = OrderedDict()
        self._asking: dict[tuple[Any, ...], asyncio.Task[bool]] = {}

    async def refusal(self, question: Question, asks: Sequence[Ask]) -> StatusError | None:
        """Why this submitter may not have it, with every right that is missing; None if none is."""
        submitter = question.user_info
        if submitter.username in self._trusted:
            return None
        answers = await asyncio.gather(*(self.may(submitter, ask) for ask in asks))
        lacking = [ask for ask, allowed in zip(asks, answers, strict=True) if not allowed]
        return refusal_of(question, lacking) if lacking else None

    async def may(self, submitter: Submitter, ask: Ask) -> bool:
        key = (submitter.key(), msgspec.structs.replace(ask, path=""))
        now = asyncio.get_running_loop().time()
        kept = self._kept.get(key)
        if kept is not None and now < kept[0]:
            if kept[1] and kept[0] - now < ALLOWED_SECONDS / 2:
                self._begin(key, submitter, ask)  # whoever submits all the time never waits for the answer
            return kept[1]
        return await asyncio.shield(self._begin(key, submitter, ask))  # others may wait for the same

    def _begin(self, key: tuple[Any, ...], submitter: Submitter, ask: Ask) -> asyncio.Task[bool]:
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(submitter, ask), name="subject access review")
            asking.add_done_callback(lambda done: self._keep(key, done))
        return asking

    async def _ask(self, submitter: Submitter, ask: Ask) -> bool:
        spec: Manifest = {"user": submitter.username, "resourceAttributes": _attributes(ask)}
        if submitter.uid:
            spec["uid"] = submitter.uid
        if submitter.groups:
            spec["groups"] = list(submitter.groups)
        if submitter.extra:
            spec["extra"] = {name: list(values) for name, values in submitter.extra.items()}
        body = {"apiVersion": REVIEWS.api_version, "kind": "SubjectAccessReview", "spec": spec}
        access = (await self._objects.create(REVIEWS, body)).decode(_Review).status
        return access.allowed and not access.denied

    def _keep(self, key: tuple[Any, ...], done: asyncio.Task[bool]) -> None:
        del self._asking[key]
        if done.cancelled() or done.exception() is not None:
            return
        allowed = done.result()
        seconds = ALLOWED_SECONDS if allowed else DENIED_SECONDS
        self._kept[key] = (asyncio.get_running_loop().time() + seconds, allowed)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def _attributes(ask: Ask) -> Manifest:
    stated = {
        "verb": ask.verb,
        "group": ask.group,
        "resource": ask.resource,
        "namespace": ask.namespace,
        "name": ask.name,
    }
    return {name: value for name, value in stated.items() if value}


def refusal_of(question: Question, lacking: Sequence[Ask]) -> StatusError:
    """What a submitter is told who lacks these rights."""
    who = question.user_info.username or "somebody without a name"
    errors = [forbidden(ask.path, f'user "{who}" may not {ask}') for ask in lacking]
    name = question.name or str((question.object or {}).get("metadata", {}).get("generateName") or "")
    refusal = not_allowed(
        question.resource.group, question.resource.resource, name, "; ".join(str(error) for error in errors)
    )
    refusal.details = {**(refusal.details or {}), "causes": [error.cause() for error in errors]}
    return refusal
