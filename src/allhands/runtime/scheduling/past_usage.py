"""Counts what queues, users and namespaces use over time, for fairness by past use: at every event, in whole seconds.

It folds what was in use *until* now, so it is asked before a cycle, with what the cycle before had charged. It is not
kept where nobody compares it: one queue, in which nobody takes turns, or a policy that remembers nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.core.charges import fold_usage
from allhands.core.quota.usage import EMPTY_LEDGER, Usage, UsageLedger
from allhands.core.quota.usage import decode as decode_ledger
from allhands.core.quota.usage import encode as encode_ledger
from allhands.model.queue import Queue, QueueOrder, ShareBy

if TYPE_CHECKING:
    from allhands.core.charges import Charges
    from allhands.core.facts import Facts
    from allhands.core.memo import Memo
    from allhands.core.policy import Policy
    from allhands.core.snapshot import Snapshot

MOST_BYTES: Final = 700_000
"""So that it fits into one object of the API; the least amounts are forgotten first."""


def compares_past_use(policy: Policy, facts: Facts) -> bool:
    """Whether the core would decide anything by past use: between queues, or between users or namespaces of one."""
    if policy.half_life_seconds <= 0:
        return False
    above = {account.parent for account in facts.accounts}
    queues = [it for it in facts.accounts if isinstance(it, Queue) and it.name not in above]
    return len(queues) > 1 or any(it.share_by is not ShareBy.NONE or it.order is QueueOrder.FAIR for it in queues)


class PastUsage:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.ledger: UsageLedger = EMPTY_LEDGER
        self._held: tuple[Snapshot | None, Charges] | None = None
        """What the last cycle saw, if that is ever asked for, and what it had charged."""
        self._compared: tuple[Facts, bool] | None = None
        self._folded_at = 0

    def fold(self, now: int) -> bool:
        """Until now, if a second has passed; whether the ledger is different."""
        if self._held is None or now <= self._folded_at:
            return False
        snapshot, charges = self._held
        self._folded_at = now
        if snapshot is None:
            return False
        # The facts that were handed out are behind what was folded since.
        facts = msgspec.structs.replace(snapshot.facts, past_usage=self.ledger)
        before = self.ledger
        self.ledger = fold_usage(msgspec.structs.replace(snapshot, facts=facts), self._policy, charges, now)
        return self.ledger.entries != before.entries

    def decided(self, snapshot: Snapshot, memo: Memo) -> None:
        """A cycle has ended: from now on what it charged is in use."""
        kept = memo.charges_for(snapshot)
        if kept is not None:
            self._held = (snapshot if self._is_compared(snapshot.facts) else None, kept.charges)

    def _is_compared(self, facts: Facts) -> bool:
        if self._compared is None or self._compared[0] is not facts:
            self._compared = (facts, compares_past_use(self._policy, facts))
        return self._compared[1]

    def encode(self) -> bytes:
        ledger = self.ledger
        while len(text := encode_ledger(ledger)) > MOST_BYTES:
            most = sorted(ledger.entries, key=lambda it: (-it.amount, it.key))[: len(ledger.entries) * 3 // 4]
            ledger = UsageLedger(tuple(sorted(most, key=lambda it: it.key)))
        return text

    def decode(self, text: bytes, now: int) -> None:
        """What an earlier process had folded. Times that are yet to come are those of a clock that was wrong."""
        found = decode_ledger(text)
        self.ledger = UsageLedger(
            tuple(Usage(it.key, it.amount, min(max(it.folded_at_seconds, 0), now)) for it in found.entries)
        )
