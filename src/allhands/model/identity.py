"""Who asks: the user name and groups that quota, fairness and access are decided by. Never a credential."""

from __future__ import annotations

import msgspec


class Identity(msgspec.Struct, frozen=True):
    user: str = ""
    groups: tuple[str, ...] = ()


NOBODY = Identity()
"""Where the submitter is not known."""
