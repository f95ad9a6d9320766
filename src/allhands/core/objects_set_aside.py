"""Everything that a cycle could not use, each with the reason: nodes and pods, queues, domains. The rest went on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.snapshot import SetAside
from allhands.model.queue import Queue

if TYPE_CHECKING:
    from allhands.core.quota.book import QuotaBook
    from allhands.core.work import Work


def objects_set_aside(work: Work, book: QuotaBook) -> tuple[SetAside, ...]:
    if not (work.snapshot.set_aside or book.set_aside or work.snapshot.facts.domains):
        return ()
    found = list(work.snapshot.set_aside)
    if book.set_aside:
        queues = {account.name for account in work.snapshot.facts.accounts if isinstance(account, Queue)}
        found += (SetAside("Queue" if name in queues else "Account", name, why) for name, why in book.set_aside.items())
    if work.snapshot.facts.domains:
        topology = work.topology
        found += (SetAside("Domain", name, why) for name, why in topology.set_aside.items())
        found += (SetAside("Node", name, why) for name, why in topology.nodes_set_aside.items())
    return tuple(sorted(found, key=lambda it: (it.kind, it.name, str(it.why))))
