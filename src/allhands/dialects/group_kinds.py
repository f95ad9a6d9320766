"""The kinds that declare gangs, one row each: adding a kind is a dialect and a row here.

Groups of all kinds live in one space of names, so each kind but the native one has a prefix; names of objects hold no
colon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.dialects import coscheduling, native_groups, volcano_groups
from allhands.dialects.groups import read_pod_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.dialects.group_progress import Progress
    from allhands.dialects.groups import GroupRecord


class GroupKind(msgspec.Struct, frozen=True):
    """`status_of` says what its status lacks. `is_builtin`: the API server itself knows the kind, and how to merge its
    lists. `is_enqueued`: its pods may be made only after its status says so."""

    prefix: str
    resource: Resource
    read: Callable[[bytes], GroupRecord]
    status_of: Callable[[GroupRecord, Progress, str], Manifest]
    is_builtin: bool = False
    is_enqueued: bool = False
    kind: str = "PodGroup"


NATIVE: Final = GroupKind(
    "",
    Resource("scheduling.k8s.io", "v1alpha2", "podgroups"),
    read_pod_group,
    native_groups.status_of,
    is_builtin=True,
)
COSCHEDULING: Final = GroupKind(
    coscheduling.PREFIX, coscheduling.RESOURCE, coscheduling.read_group, coscheduling.status_of
)
VOLCANO: Final = GroupKind(
    volcano_groups.PREFIX,
    volcano_groups.RESOURCE,
    volcano_groups.read_group,
    volcano_groups.status_of,
    is_enqueued=True,
)
GROUP_KINDS: Final = (NATIVE, COSCHEDULING, VOLCANO)
