"""Nodes that were kept from before and that no agent of this process serves: nobody would run what is bound to them.

They are shown as a cluster shows a node that has fallen silent, at once and before anybody schedules. An agent
elsewhere that does serve one finds it so and sets it right. Never touches a node that is served here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from allhands.agents.agent import is_simulated
from allhands.compose.nodes import NODES
from allhands.lifecycle.instructions import Patch
from allhands.lifecycle.node import reconcile
from allhands.lifecycle.observed import Node

if TYPE_CHECKING:
    from allhands.compose.system import SystemOptions
    from allhands.ports import Clock, Objects
    from allhands.store import Store

_MOST_LOOKS: Final = 4
"""Conditions, then taints; each look sees what the one before has written."""


async def silence_unserved(store: Store, objects: Objects, clock: Clock, system: SystemOptions) -> tuple[str, ...]:
    """Makes them unknown and keeps pods away; returns their names."""
    served_by_process = None if system.process_node is None else system.process_node.name
    records = list(store.collection(store.kind(NODES)))
    unserved = sorted(
        record.key[1]
        for record in records
        if record.key[1] != served_by_process
        and not (system.simulates_nodes and is_simulated(record.key[1], record.labels))
    )
    nobody_is_well = len(unserved) == len(records)
    for name in unserved:
        await _silence(objects, clock, name, nobody_is_well=nobody_is_well)
    return tuple(unserved)


async def _silence(objects: Objects, clock: Clock, name: str, *, nobody_is_well: bool) -> None:
    document = await objects.get(NODES, name)
    for _ in range(_MOST_LOOKS):
        # Looks at the answer: reads show only what is on disk, which the write before is not yet.
        now = clock.now().timestamp()
        outcome = reconcile(document.decode(Node), (), math.inf, now, nobody_is_well=nobody_is_well)
        patches = [it for it in outcome.instructions if isinstance(it, Patch)]
        if not patches:
            return
        for patch in patches:
            document = await objects.patch(NODES, name, "merge", patch.patch, subresource=patch.subresource)
