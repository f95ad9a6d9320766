"""Who decides about rights: the roles of the cluster, or nobody, which is how it is unless somebody asks for RBAC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from allhands.api.access.grants import ALWAYS, Decision
from allhands.api.access.rules import EVERYTHING, Rule

if TYPE_CHECKING:
    from allhands.api.access.attributes import Attributes
    from allhands.api.access.identity import User


class Authority(Protocol):
    def decide(self, user: User, wanted: Attributes) -> Decision:
        """Whether the user may."""

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """All that the user may there, and what could not be looked up."""


class EverybodyMay:
    """Whoever was let in may do everything."""

    def decide(self, user: User, wanted: Attributes) -> Decision:
        del user, wanted
        return ALWAYS

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        del user, namespace
        return list(EVERYTHING), ""
