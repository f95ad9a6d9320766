"""How long a failed pod of a DaemonSet is left before the next is tried on its node: longer each time it fails.

A node that refuses a pod would refuse the next one as fast. What is remembered may be lost; it only makes pauses right.
"""

from __future__ import annotations

from typing import Final

import msgspec

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 900.0


class Patience(msgspec.Struct, frozen=True):
    """For each node the last pause and when it began, for one generation of the DaemonSet."""

    generation: int = 0
    pauses: dict[str, tuple[float, float]] = {}

    def for_generation(self, generation: int) -> Patience:
        """Who has been given a new template is tried at once."""
        return self if self.generation == generation else Patience(generation)

    def ends_at_seconds(self, node: str) -> float:
        """When the next pod may be tried."""
        seconds, since = self.pauses.get(node, (0.0, 0.0))
        return since + seconds

    def after_failures(self, nodes: list[str], now_seconds: float) -> Patience:
        """With a longer pause for each of them; who has been well for long begins anew."""
        lasting = {node: pause for node, pause in self.pauses.items() if now_seconds - pause[1] <= 2 * LONGEST_SECONDS}
        for node in nodes:
            seconds = min(LONGEST_SECONDS, 2 * lasting[node][0]) if node in lasting else FIRST_SECONDS
            lasting[node] = (seconds, now_seconds)
        return Patience(self.generation, lasting)


NO_PATIENCE: Final = Patience()
