"""Named ways to replay a trace: a scheduling policy, the order of its queue, and what is done with the first in line.

Each is a SchedulingPolicy document like any other (docs/policy.md) and could be written by a user; the names only save
typing. Nothing here decides: the core does, by these documents.
"""

import enum
from typing import Any, Final

import msgspec

from allhands.api.policy import API_VERSION, KIND, MAX_SECONDS
from allhands.core.configuration.building import load_policy
from allhands.core.policy import Policy
from allhands.model.queue import QueueOrder


class Redecides(enum.StrEnum):
    """What a cycle may change about what it decided before."""

    WAITING = "waiting"
    """Who waits; what runs, runs to its end."""
    COMMITTED = "committed"
    """Who waits, but for the first that did not fit: it stays the first until it starts (RLScheduler's rule)."""
    EVERYTHING = "everything"
    """Who waits and who runs: jobs may be taken back at no cost and keep their progress (ideal preemption)."""


class Discipline(msgspec.Struct, frozen=True, eq=False):
    name: str
    policy: Policy
    order: QueueOrder = QueueOrder.FIFO_BEST_EFFORT
    redecides: Redecides = Redecides.WAITING
    passing: Policy | None = None
    """Who may pass the first while somebody is committed to; None: nobody."""


PLAIN: Final[dict[str, Any]] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    # Jobs ask for a count of processors and nothing else, so one node is as good as another.
    "scores": [],
    "preempts": False,
    "reclaims": False,
    # Reservations are by what jobs say, however long the first has waited: the textbook's EASY.
    "drainAfterSeconds": MAX_SECONDS,
    "startTimeoutSeconds": MAX_SECONDS,
    "maxReservations": 1,
    "explains": False,
}
"""What all of them have in common."""

STRICT: Final = {"backfill": "everyone"}
EASY: Final = {"backfill": "easy"}
GREEDY: Final = {"backfill": "everyone"}

ORDERS: Final[dict[str, list[dict[str, Any]]]] = {
    "fcfs": [{"name": "creation"}],
    "sjf": [{"name": "shortest"}, {"name": "creation"}],
    "saf": [{"name": "smallestarea"}, {"name": "creation"}],
    "f1": [{"name": "f1"}, {"name": "creation"}],
    "f2": [{"name": "f2"}, {"name": "creation"}],
    "wfp3": [{"name": "wfp3"}, {"name": "creation"}],
    "unicep": [{"name": "unicep"}, {"name": "creation"}],
    "wfp3-slip": [{"name": "wfp3", "arguments": {"waitOfUnscheduled": True}}, {"name": "creation"}],
    "unicep-slip": [{"name": "unicep", "arguments": {"waitOfUnscheduled": True}}, {"name": "creation"}],
}
"""Who goes first; the slips are those of RLScheduler's published table (docs/traces.md)."""

WAYS: Final = ("strict", "easy", "greedy", "commit", "commit-backfill", "preempt")


def discipline(name: str) -> Discipline:
    """Of a name such as `sjf-easy`; a ValueError lists those there are."""
    order_name, _, way = name.partition("-")
    if way.startswith("slip-"):
        order_name, way = f"{order_name}-slip", way.removeprefix("slip-")
    if order_name not in ORDERS or way not in WAYS:
        raise ValueError(
            f"no policy named {name}: it is one of {', '.join(ORDERS)}, a dash, and one of {', '.join(WAYS)}"
        )
    orders = ORDERS[order_name]
    if way == "strict":
        return Discipline(name, _policy(orders, STRICT), QueueOrder.FIFO_STRICT)
    if way == "commit":
        policy = _policy([{"name": "priority"}, *orders], EASY)
        return Discipline(name, policy, QueueOrder.FIFO_STRICT, Redecides.COMMITTED)
    if way == "commit-backfill":
        choosing = _policy([{"name": "priority"}, *orders], {**EASY, "gates": [{"name": "inorder"}]})
        first_come = [{"name": "priority"}, {"name": "creation"}]
        passing = _policy(first_come, {**GREEDY, "gates": [{"name": "beforepromised"}]})
        return Discipline(name, choosing, redecides=Redecides.COMMITTED, passing=passing)
    if way == "preempt":
        return Discipline(name, _policy(orders, GREEDY), redecides=Redecides.EVERYTHING)
    return Discipline(name, _policy(orders, EASY if way == "easy" else GREEDY))


def names() -> list[str]:
    """All of them, but for those that only a published table needs."""
    return [f"{order}-{way}" for order in ORDERS for way in WAYS if not order.endswith("-slip") or "commit" in way]


def _policy(orders: list[dict[str, Any]], more: dict[str, Any]) -> Policy:
    return load_policy({**PLAIN, **more, "orders": orders})
