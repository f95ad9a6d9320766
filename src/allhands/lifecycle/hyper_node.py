"""A HyperNode's status: how many nodes are in it, and whether it makes sense among the others.

Written only when it is different, and at most once in a while, however fast nodes come and go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.lifecycle.changes import judged_conditions, time_text
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome, Patch
from allhands.lifecycle.observed import Metadata

if TYPE_CHECKING:
    from allhands.api.document import Manifest

ACCEPTED: Final = "Accepted"
PAUSE_SECONDS: Final = 1.0
"""At least so long between two writes of one status."""


class HyperNodeDocument(msgspec.Struct, frozen=True):
    """`status` may be anything: nobody's mistake may stop the machine."""

    metadata: Metadata = Metadata()
    status: Any = None


class HyperNodeFacts(msgspec.Struct, frozen=True):
    """With a `problem` it is set aside: groups are placed as if it were not there."""

    node_count: int = 0
    problem: str = ""


def reconcile(
    hyper_node: HyperNodeDocument,
    facts: HyperNodeFacts,
    now_seconds: float,
    *,
    written_at_seconds: float | None = None,
    pause_seconds: float = PAUSE_SECONDS,
) -> Outcome:
    metadata = hyper_node.metadata
    patch = {} if metadata.is_going else _patch(hyper_node, facts, now_seconds)
    if not patch:
        return NOTHING_TO_DO
    since = None if written_at_seconds is None else now_seconds - written_at_seconds
    if since is not None and 0 <= since < pause_seconds:
        return Outcome(wake_at_seconds=now_seconds + pause_seconds - since)
    return Outcome((Patch(HYPER_NODE.resource, "", metadata.name, {"status": patch}, subresource="status"),))


def _patch(hyper_node: HyperNodeDocument, facts: HyperNodeFacts, now_seconds: float) -> Manifest:
    before = hyper_node.status if isinstance(hyper_node.status, dict) else {}
    patch: Manifest = {}
    if before.get("nodeCount") != facts.node_count:
        patch["nodeCount"] = facts.node_count
    accepted = {"type": ACCEPTED, "status": "True", "reason": "Valid", "message": "The HyperNode makes sense."}
    if facts.problem:
        accepted |= {"status": "False", "reason": "Invalid", "message": facts.problem}
    now, generation = time_text(now_seconds), hyper_node.metadata.generation
    conditions = judged_conditions(before.get("conditions"), accepted, generation, now)
    if conditions is not None:
        patch["conditions"] = conditions
    return patch
