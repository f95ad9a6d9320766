"""Which of the domains that users and discovery wrote can be trusted.

A broken domain is set aside together with what hangs on it, with a reason; the rest goes on as if it were not there.
Nothing here raises, and the order in which domains come changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.model.reason import Explanation, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.model.domain import Domain

TIER_LIMIT: Final = 2**63
"""Tiers are kept in 64 bits."""


class SoundDomains(NamedTuple):
    """`ordered` is canonical: tree by tree, each domain before those inside it, siblings by name."""

    ordered: tuple[Domain, ...]
    set_aside: Mapping[str, Explanation]


def sound_domains(domains: Iterable[Domain]) -> SoundDomains:
    """The domains that form trees, and why the others do not."""
    copies: dict[str, list[Domain]] = {}
    for domain in domains:
        copies.setdefault(domain.name, []).append(domain)
    copies = dict(sorted(copies.items()))
    faults = {name: fault for name, same in copies.items() if (fault := _own_fault(same))}
    single = {name: same[0] for name, same in copies.items() if name not in faults}
    faults |= _missing_parents(single, copies)
    faults |= _cycles(single)
    faults |= _false_steps(single, faults)
    ordered = _in_canonical_order(single, faults)
    placed = {domain.name for domain in ordered}
    for name in copies:
        if name not in placed and name not in faults:
            faults[name] = f'domain "{name}" lies in "{single[name].parent}", which is set aside'
    return SoundDomains(ordered, {name: broken(faults[name]) for name in sorted(faults)})


def broken(problem: str) -> Explanation:
    return explain(Reason.INVALID, problem=f"{problem[:1].upper()}{problem[1:]}.")


def _own_fault(same: list[Domain]) -> str | None:
    domain = same[0]
    if not domain.name:
        return "a domain must have a name"
    if len(same) > 1:
        if len(parents := sorted({copy.parent for copy in same if copy.parent is not None})) > 1:
            return f'domain "{domain.name}" has {len(parents)} parents: ' + ", ".join(f'"{name}"' for name in parents)
        return f'domain "{domain.name}" is defined {len(same)} times'
    if not -TIER_LIMIT <= domain.tier < TIER_LIMIT:
        return f'domain "{domain.name}" has a tier beyond 64 bits'
    return None


def _missing_parents(single: Mapping[str, Domain], copies: Mapping[str, object]) -> dict[str, str]:
    return {
        name: f'domain "{name}" has the parent "{domain.parent}", which does not exist'
        for name, domain in single.items()
        if domain.parent is not None and domain.parent not in copies
    }


def _cycles(single: Mapping[str, Domain]) -> dict[str, str]:
    faults: dict[str, str] = {}
    seen: set[str] = set()
    for start in single:
        walk: dict[str, None] = {}
        current: str | None = start
        while current is not None and current in single and current not in seen:
            seen.add(current)
            walk[current] = None
            current = single[current].parent
        if current is not None and current in walk:
            path = list(walk)
            cycle = path[path.index(current) :]
            turn = cycle.index(min(cycle))
            text = " -> ".join(f'"{name}"' for name in [*cycle[turn:], *cycle[: turn + 1]])
            faults |= dict.fromkeys(cycle, f"the parents of domains form a cycle: {text}")
    return faults


def _false_steps(single: Mapping[str, Domain], faults: Mapping[str, str]) -> dict[str, str]:
    """Domains that cannot lie in their parent: its tier is not higher, or it belongs to another tree."""
    found: dict[str, str] = {}
    for name, domain in single.items():
        around = single.get(domain.parent) if domain.parent is not None else None
        if around is None or name in faults:
            continue
        if around.tier <= domain.tier:
            found[name] = (
                f'domain "{name}" of tier {domain.tier} cannot lie in "{around.name}" of tier {around.tier}: '
                "tiers must rise towards the root"
            )
        elif domain.tree != around.tree:
            found[name] = (
                f'domain "{name}" of tree "{domain.tree}" cannot lie in "{around.name}" of tree "{around.tree}"'
            )
    return found


def _in_canonical_order(single: Mapping[str, Domain], faults: Mapping[str, str]) -> tuple[Domain, ...]:
    inside: dict[str, list[Domain]] = {}
    roots: list[Domain] = []
    for name, domain in reversed(list(single.items())):
        if name in faults:
            continue
        if domain.parent is None:
            roots.append(domain)
        else:
            inside.setdefault(domain.parent, []).append(domain)
    # Taken from the end, so that the first tree and the first name come out first.
    pending = sorted(roots, key=lambda root: root.tree, reverse=True)
    ordered: list[Domain] = []
    while pending:
        domain = pending.pop()
        ordered.append(domain)
        pending.extend(inside.get(domain.name, ()))
    return tuple(ordered)
