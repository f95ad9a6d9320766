"""Order plugins, one file each: who goes first among the waiting groups of a queue. A line here for each."""

from __future__ import annotations

from typing import Final

from allhands.core.orders.ageing import Ageing
from allhands.core.orders.creation import Creation
from allhands.core.orders.deadline import Deadline
from allhands.core.orders.f1 import F1
from allhands.core.orders.f2 import F2
from allhands.core.orders.priority import Priority
from allhands.core.orders.shortest import Shortest
from allhands.core.orders.smallestarea import SmallestArea
from allhands.core.orders.unicep import Unicep
from allhands.core.orders.wfp3 import Wfp3

ORDERS: Final = {
    "priority": Priority,
    "creation": Creation,
    "ageing": Ageing,
    "deadline": Deadline,
    "shortest": Shortest,
    "smallestarea": SmallestArea,
    "f1": F1,
    "f2": F2,
    "wfp3": Wfp3,
    "unicep": Unicep,
}
"""Every order plugin by its registered name."""

__all__ = ["ORDERS", "Ageing", "Creation", "Deadline", "Priority"]
