"""Carries out what must be done to volume claims before the first pod of a group is bound.

Each step can be done again without harm. The group waits until all its claims are bound; if that takes too long, or its
placement does not hold any more, it is refused and decided anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.core.plan_volumes import BindClaim, PrepareVolume, SelectNode
from allhands.model.volume import SELECTED_NODE
from allhands.runtime.scheduling import resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.ports import Objects
    from allhands.runtime.scheduling.watched_world import WatchedWorld

BOUND_WITHIN_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 5.0
"""How often it is looked whether the placement still holds."""


class VolumePreparer:
    def __init__(self, objects: Objects, watched: WatchedWorld) -> None:
        self._objects = objects
        self._watched = watched
        self._changed = asyncio.Event()
        watched.facts.claims.on_change(lambda *_: self._changed.set())

    async def prepare(self, steps: Sequence[PrepareVolume], problem_now: Callable[[], str]) -> None:
        """Raises a StatusError that says what could not be had, or what `problem_now` says. Then what was done is taken
        back as far as it can be: a claim must not be kept for a node on which nobody comes."""
        done: list[PrepareVolume] = []
        try:
            for step in dict.fromkeys(steps):
                done.append(step)
                await self._do(step)
            await self._until_bound(done, problem_now)
        except StatusError:
            for step in reversed(done):
                with contextlib.suppress(StatusError):
                    await self._take_back(step)
            raise

    async def _do(self, step: PrepareVolume) -> None:
        namespace, _, name = step.claim.partition("/")
        if isinstance(step, BindClaim):
            owner = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": step.claim_uid,
            }
            await self._objects.patch(resources.VOLUMES, step.volume, "merge", {"spec": {"claimRef": owner}})
        else:
            await self._select(step, step.node)

    async def _select(self, step: SelectNode, node: str | None) -> None:
        namespace, _, name = step.claim.partition("/")
        chosen = {"metadata": {"uid": step.claim_uid, "annotations": {SELECTED_NODE: node}}}
        document = await self._objects.patch(resources.CLAIMS, name, "merge", chosen, namespace)
        self._watched.facts.claims.observe(document.raw)

    async def _take_back(self, step: PrepareVolume) -> None:
        if self._is_bound(step.claim):
            return
        if isinstance(step, SelectNode):
            if not step.selected:
                await self._select(step, None)
            return
        # Only if the volume is still ours to give: a merge patch that names the version would be refused too often.
        volume = (await self._objects.get(resources.VOLUMES, step.volume)).manifest()
        if (volume["spec"].get("claimRef") or {}).get("uid") == step.claim_uid:
            owner = {"uid": None} if step.kept else None
            await self._objects.patch(resources.VOLUMES, step.volume, "merge", {"spec": {"claimRef": owner}})

    async def _until_bound(self, steps: Sequence[PrepareVolume], problem_now: Callable[[], str]) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + BOUND_WITHIN_SECONDS
        while (waiting := next((step for step in steps if not self._is_bound(step.claim)), None)) is not None:
            if problem := self._was_refused(waiting) or problem_now():
                raise StatusError(409, "Conflict", problem)
            if loop.time() >= give_up:
                message = f"volume claim {waiting.claim} was not bound within {BOUND_WITHIN_SECONDS:.0f} s"
                raise StatusError(504, "Timeout", message)
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()

    def _was_refused(self, step: PrepareVolume) -> str:
        """A provisioner that cannot make a volume for the node removes the node from the claim."""
        if not isinstance(step, SelectNode):
            return ""
        claim = self._watched.facts.claims.get(step.claim)
        if claim is None or claim.selected_node == step.node:
            return ""
        return f"no volume can be made for claim {step.claim} on node {step.node}"

    def _is_bound(self, claim: str) -> bool:
        known = self._watched.facts.claims.get(claim)
        return known is not None and known.is_bound
