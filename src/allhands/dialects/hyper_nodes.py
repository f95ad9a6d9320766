"""HyperNodes (`topology.volcano.sh/v1alpha1`) as domains of one tree: which nodes are close, as their owner wrote it.

A HyperNode that makes no sense is left out with a reason and disables only itself; those inside it stand alone. So is
one that names a member whose tier is not below its own, and of two in one tier that share a node the one that was made
later. One that two others claim is told so by the core, which sets it aside. As in Volcano, all nodes together are one
domain above the highest tier, so that a group may be allowed to span everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.api.schema.goregex import searcher
from allhands.api.volcano.hyper_node import MemberType
from allhands.api.volcano.hyper_node_rules import hyper_node_errors
from allhands.dialects.decoding import what_is_wrong
from allhands.model.domain import Domain
from allhands.model.selector import LabelSelector, LabelSelectorDocument  # noqa: TC001 (msgspec reads the annotation)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allhands.model.node import Node

TREE: Final = "hypernodes"
EVERYTHING: Final = "(all nodes)"
"""No object can have this name."""


class _Exact(msgspec.Struct, frozen=True):
    name: str = ""


class _Regex(msgspec.Struct, frozen=True):
    pattern: str = ""


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    exact_match: _Exact | None = None
    regex_match: _Regex | None = None
    label_match: LabelSelectorDocument | None = None


class _Member(msgspec.Struct, frozen=True):
    type: str = MemberType.NODE.value
    selector: _Selector | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    tier: int = 0
    tier_name: str = ""
    members: tuple[_Member, ...] | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    creation_timestamp: str | None = None


class _Envelope(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Document(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class MemberRule(msgspec.Struct, frozen=True):
    """Who is meant: by name, by pattern or by labels."""

    is_node: bool
    name: str = ""
    pattern: str = ""
    labels: LabelSelector | None = None


class HyperNodeRecord(msgspec.Struct, frozen=True):
    """One HyperNode. With a `problem` it is not used."""

    name: str
    tier: int = 0
    tier_name: str = ""
    members: tuple[MemberRule, ...] = ()
    problem: str = ""
    created: str = ""
    """When it was made, as the API writes it; who cannot say so was always there."""

    @property
    def looks_at_labels(self) -> bool:
        return any(it.labels is not None for it in self.members)


class HyperTree(NamedTuple):
    """`problems`: by HyperNode, why it is left out."""

    domains: tuple[Domain, ...]
    problems: Mapping[str, str]

    @property
    def tier_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(it.tier_name for it in self.domains if it.tier_name))


NO_HYPER_TREE: Final = HyperTree((), {})
_documents: Final = msgspec.json.Decoder(_Document)
_envelopes: Final = msgspec.json.Decoder(_Envelope)


def read_hyper_node(raw: bytes) -> HyperNodeRecord:
    """What is wrong with it is what admission would say, had it been asked."""
    try:
        document = _documents.decode(raw)
    except msgspec.DecodeError as error:
        return HyperNodeRecord(_envelopes.decode(raw).metadata.name, problem=what_is_wrong(error))
    name, spec = document.metadata.name, document.spec
    if faults := hyper_node_errors(msgspec.json.decode(raw)):
        return HyperNodeRecord(name, spec.tier, spec.tier_name, problem=str(faults[0]))
    members = tuple(_rule(member) for member in spec.members or ())
    created = document.metadata.creation_timestamp or ""
    return HyperNodeRecord(name, spec.tier, spec.tier_name, members, created=created)


def _rule(member: _Member) -> MemberRule:
    """Of a member in which nothing is wrong."""
    chosen, is_node = member.selector or _Selector(), member.type == MemberType.NODE
    if chosen.exact_match is not None:
        return MemberRule(is_node, name=chosen.exact_match.name)
    if chosen.regex_match is not None:
        return MemberRule(is_node, pattern=chosen.regex_match.pattern)
    assert chosen.label_match is not None
    return MemberRule(is_node, labels=chosen.label_match.selector())


def hyper_tree(records: Iterable[HyperNodeRecord], nodes: Iterable[Node]) -> HyperTree:
    """The same for the same objects, in whatever order they come."""
    ordered = sorted(records, key=lambda it: it.name)
    problems = {it.name: it.problem for it in ordered if it.problem}
    sound = {it.name: it for it in ordered if not it.problem}
    problems |= {it.name: found for it in sound.values() if (found := _tier_problem(it, sound))}
    sound = {name: it for name, it in sound.items() if name not in problems}
    if not sound:
        return HyperTree((), problems)
    by_name = {it.name: it for it in nodes}
    names = sorted(by_name)
    homes = {it.name: tuple(_found(it, by_name, names)) for it in sound.values()}
    shared = _sharing_problems(sound.values(), homes)
    problems |= shared
    sound = {name: it for name, it in sound.items() if name not in shared}
    homes = {name: home for name, home in homes.items() if name not in shared}
    parents: dict[str, list[str]] = {}
    for it in sound.values():
        for child in _children(it, sound):
            parents.setdefault(child, []).append(it.name)
    inside = {name for home in homes.values() for name in home}
    top = Domain(
        EVERYTHING,
        max(it.tier for it in sound.values()) + 1,
        None,
        tuple(it for it in names if it not in inside),
        tree=TREE,
    )
    domains = [
        Domain(it.name, it.tier, parent, homes[it.name], it.tier_name, tree=TREE)
        for it in sound.values()
        for parent in parents.get(it.name) or [top.name]
    ]
    return HyperTree((*domains, top), problems)


def _tier_problem(record: HyperNodeRecord, others: Mapping[str, HyperNodeRecord]) -> str:
    """Whoever claims what is as high as itself is wrong, not the one that is claimed."""
    for rule in record.members:
        member = None if rule.is_node or not rule.name else others.get(rule.name)
        if member is not None and member.tier >= record.tier:
            return (
                f'its member "{member.name}" has tier {member.tier}, and it has tier {record.tier} itself: '
                "the tier of a HyperNode must be above those of its members"
            )
    return ""


def _sharing_problems(records: Iterable[HyperNodeRecord], homes: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Two of one tier cannot lie in each other, so a node in both would be in neither. Who was there first stays."""
    problems: dict[str, str] = {}
    taken: dict[tuple[int, str], str] = {}
    for record in sorted(records, key=lambda it: (it.created, it.name)):
        home = homes[record.name]
        shared = [name for name in home if (record.tier, name) in taken]
        if not shared:
            taken |= {(record.tier, name): record.name for name in home}
            continue
        other = taken[record.tier, shared[0]]
        one, many = f'its node "{shared[0]}" is', f'{len(shared)} of its nodes, such as "{shared[0]}", are'
        problems[record.name] = (
            f'{one if len(shared) == 1 else many} in "{other}" already, which has tier '
            f"{record.tier} too and goes first (by age, then by name): a node may be in one HyperNode of a tier"
        )
    return problems


def _found(record: HyperNodeRecord, by_name: Mapping[str, Node], names: list[str]) -> list[str]:
    """Nodes that it names itself, each once, by name."""
    found: set[str] = set()
    for rule in record.members:
        if not rule.is_node:
            continue
        if rule.name:
            found.update({rule.name} & by_name.keys())
        elif rule.pattern:
            found.update(filter(searcher(rule.pattern), names))
        elif rule.labels is not None:
            found.update(name for name, node in by_name.items() if rule.labels.matches(node.labels))
    return sorted(found)


def _children(record: HyperNodeRecord, sound: Mapping[str, HyperNodeRecord]) -> Iterator[str]:
    found: dict[str, None] = {}
    for rule in record.members:
        if rule.is_node:
            continue
        if rule.name:
            found |= {rule.name: None} if rule.name in sound else {}
        else:
            # A pattern that is meant for those inside may well match its own name, and those beside and above it.
            matches = searcher(rule.pattern)
            found |= {name: None for name, it in sound.items() if it.tier < record.tier and matches(name)}
    yield from found
