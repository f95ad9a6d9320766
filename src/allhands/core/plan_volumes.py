"""What must be done to volume claims before the first pod of a group is bound, because those pods were placed with it.

Each step is about one claim and can be taken back as long as the claim is not bound. Two pods that share a claim give
the same step twice: it is done once. Carrying a step out again when it is already done changes nothing.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class BindClaim(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Make the claim the owner of an existing volume, and wait until the volume controller says that it is bound.

    Taken back by clearing the volume's owner; or, if `kept` (the volume named this claim before), by clearing no more
    than the owner's uid.
    """

    claim: str
    claim_uid: str
    volume: str
    kept: bool = False


class SelectNode(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Tell the provisioner for which node to make the claim's volume, and wait until it is bound.

    Taken back by removing the annotation, unless it was there before (`selected`).
    """

    claim: str
    claim_uid: str
    node: str
    selected: bool = False


PrepareVolume: TypeAlias = BindClaim | SelectNode
