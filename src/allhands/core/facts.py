"""All of a cluster that is neither node, pod nor pod-group, as one frozen value: what quota, topology and time need.

It changes seldom and is compared by identity: as long as a world hands out the same Facts, what was derived from it
holds.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from allhands.core.quota.usage import EMPTY_LEDGER, UsageLedger
from allhands.model.domain import Domain
from allhands.model.flavor import Flavor
from allhands.model.queue import Account, Queue
from allhands.model.resources import EMPTY, ResourceVector
from allhands.model.selector import LabelSelector
from allhands.model.volume import VolumeFacts


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Room kept for somebody, or for nobody (an outage), from a time to a time.

    Either whole nodes by name, or an amount of resources on any nodes.
    """

    name: str
    start_seconds: int
    end_seconds: int
    nodes: tuple[str, ...] = ()
    resources: ResourceVector = EMPTY
    groups: tuple[str, ...] = ()
    """Keys of the pod-groups that may use it; empty is an outage: nobody may."""
    queues: tuple[str, ...] = ()


class DisruptionBudget(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    selector: LabelSelector
    allowed: int
    """How many pods may still be disturbed, as its status says."""


class PastRuns(msgspec.Struct, frozen=True):
    """How long runs that are named alike have taken: the median of the last ones."""

    median_seconds: int
    count: int


class Facts(msgspec.Struct, frozen=True, eq=False):
    accounts: tuple[Account | Queue, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    domains: tuple[Domain, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """Namespace -> its labels."""
    volumes: VolumeFacts = VolumeFacts()
    reservations: tuple[Reservation, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    past_usage: UsageLedger = EMPTY_LEDGER
    """What queues, users and namespaces used before, fading: in millionths of the cluster; see `charges.fold_usage`."""
    past_runs: Mapping[str, PastRuns] = msgspec.field(default_factory=dict)
    """Queue -> how long its groups have run."""


NO_FACTS: Final = Facts()
