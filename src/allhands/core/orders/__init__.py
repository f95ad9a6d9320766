"""Order plugins, one file each: who goes first among the waiting groups of a queue. A line here for each."""

from __future__ import annotations

from typing import Final

from allhands.core.orders.ageing import Ageing
from allhands.core.orders.creation import Creation
from allhands.core.orders.deadline import Deadline
from allhands.core.orders.priority import Priority

ORDERS: Final = {"priority": Priority, "creation": Creation, "ageing": Ageing, "deadline": Deadline}
"""Every order plugin by its registered name."""

__all__ = ["ORDERS", "Ageing", "Creation", "Deadline", "Priority"]
