"""A flavor: a kind of nodes that quotas are counted over, such as one generation of accelerators or a price.

It says which nodes belong to it and nothing about how many there are or who may use them.
"""

from collections.abc import Mapping

import msgspec

from allhands.model.node import Toleration


class Flavor(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node belongs to it that has all `node_labels` (sorted). `tolerations` are added to pods that start in it."""

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a flavor must have a name")
        keys = [key for key, _ in self.node_labels]
        if keys != sorted(set(keys)):
            raise ValueError(f'flavor "{self.name}": labels must be sorted and distinct, got {", ".join(keys)}')

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels belongs to it; a flavor without labels holds all nodes."""
        return all(labels.get(key) == value for key, value in self.node_labels)
