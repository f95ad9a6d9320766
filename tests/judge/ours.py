"""Our own verdict on the same cases, from the objects exactly as the API server returned them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.judge.recorded import Recorded

Manifest = dict[str, Any]


def feasible_sets(world: Mapping[str, list[Manifest]], pods: list[Manifest]) -> list[frozenset[str]]:
    """For each of the unbound pods, the nodes our core finds feasible, each pod alone against the same world."""
    from allhands.core.feasibility.judge import feasible_nodes  # noqa: PLC0415  (the generator works without the core)

    return feasible_nodes(world, pods)


def differing(kept: Recorded) -> list[int]:
    """The positions of the pods on which we and the real scheduler differ."""
    ours = feasible_sets(kept.world, kept.pods)
    assert len(ours) == len(kept.pods), f"{len(ours)} verdicts on {len(kept.pods)} pods"
    return [number for number, nodes in enumerate(ours) if nodes != frozenset(kept.expected[number])]
