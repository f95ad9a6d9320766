"""What is said to those who are evicted, to those for whom it is done, and to those for whom nothing can be done.

Every sentence names who, by which rule, and with which numbers. No other module words an eviction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.charges import accounts_of
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import PODS, text_of_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.actions.rights import Claim
    from allhands.core.quota.bill import Demand
    from allhands.core.quota.book import QuotaBook
    from allhands.core.snapshot import GroupEntry


def by_priority(claim: Claim, victim: GroupEntry, what: str, freed: Demand) -> Explanation:
    preemptor = claim.entry.group
    within = f'in queue "{preemptor.queue}"' if preemptor.queue else "outside of queues"
    return explain(
        Reason.PREEMPTED,
        what=what,
        victim=victim.key,
        preemptor=preemptor.key,
        priority=preemptor.priority,
        victim_priority=victim.group.priority,
        within=within,
        frees=_amounts(freed),
    )


def by_share(claim: Claim, victim: GroupEntry, what: str, freed: Demand, book: QuotaBook) -> Explanation:
    """The book as it was before anything was taken."""
    queue, victim_queue = accounts_of(claim.entry)[0], accounts_of(victim)[0]
    resource = _resource_in_excess(claim, victim_queue, freed, book)
    return explain(
        Reason.RECLAIMED,
        what=what,
        victim=victim.key,
        preemptor=claim.entry.key,
        queue=queue,
        used=text_of_units(resource, book.use(queue, resource)),
        deserved=text_of_units(resource, book.deserved(queue, resource) or 0),
        resource=resource,
        victim_queue=victim_queue,
        victim_used=text_of_units(resource, book.use(victim_queue, resource)),
        victim_deserved=text_of_units(resource, book.deserved(victim_queue, resource) or 0),
        frees=_amounts(freed),
    )


def awaiting(victims: int, evicted: int, nodes: Sequence[str]) -> Explanation:
    """To the group that waits for them."""
    return explain(
        Reason.AWAITING_PREEMPTION,
        victims=victims,
        evicted_now=evicted,
        nodes=len(nodes),
        first_node=nodes[0] if nodes else "",
    )


def with_note(why: Explanation, note: str) -> Explanation:
    """The same reason, with one more sentence."""
    if not note:
        return why
    return Explanation(why.reason, why.message + " {note}", tuple(sorted((*why.numbers, ("note", note)))))


def protected(counts: dict[str, int], of_lower: int, in_part: dict[str, int] | None = None) -> str:
    """Why nobody could be evicted, although there are groups of lower priority or above their share. `in_part`: what
    lets only some pods go, of how many of them."""
    if not of_lower:
        return ""
    some = in_part or {}
    parts = [f"{_gangs(count)} protected by {protection}" for protection, count in sorted(counts.items())]
    parts += [
        f"only a part of {count} {'gang' if count == 1 else 'gangs'} may go by {protection}"
        for protection, count in sorted(some.items())
    ]
    rest = of_lower - sum(counts.values()) - sum(some.values())
    if rest > 0:
        parts.append(f"evicting {_gangs(rest, verb='')} would not make enough room")
    return f"No room can be made: {', '.join(parts)}." if parts else ""


def _gangs(count: int, verb: str = "is are") -> str:
    noun = "gang" if count == 1 else "gangs"
    if not verb:
        return f"{count} other {noun}" if count != 1 else "the one other gang"
    return f"{count} {noun} {'is' if count == 1 else 'are'}"


def _resource_in_excess(claim: Claim, victim_queue: str, freed: Demand, book: QuotaBook) -> str:
    """Of what the claim asks for and the victim frees: that of which the victim's queue has most too much."""
    asked = {book.layout.dimension_names[dimension][1] for dimension, _ in claim.bill.amounts}
    best, name = -1, PODS
    for _, resource, _ in freed:
        deserved = book.deserved(victim_queue, resource)
        if resource not in asked or deserved is None:
            continue
        excess = (book.use(victim_queue, resource) - deserved) * 1_000_000 // max(1, deserved)
        if excess > best:
            best, name = excess, resource
    return name


def _amounts(freed: Demand) -> str:
    """In all flavors together; that each pod frees its slot goes without saying."""
    summed: dict[str, int] = {}
    for _, name, units in freed:
        summed[name] = summed.get(name, 0) + units
    shown = {name: units for name, units in summed.items() if units > 0 and name != PODS} or summed
    return ", ".join(f"{text_of_units(name, units)} {name}" for name, units in sorted(shown.items()))
