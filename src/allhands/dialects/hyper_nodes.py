"""HyperNodes (`topology.volcano.sh/v1alpha1`) as domains of one tree: which nodes are close, as their owner wrote it.

A HyperNode that makes no sense is left out with a reason and disables only itself; those inside it stand alone. One
that two others claim is told so by the core, which sets it aside. As in Volcano, all nodes together are one domain
above the highest tier, so that a group may be allowed to span everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.api.schema.goregex import searcher, why_not
from allhands.dialects.decoding import what_is_wrong
from allhands.model.domain import Domain
from allhands.model.selector import LabelSelector, LabelSelectorDocument  # noqa: TC001 (msgspec reads the annotation)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allhands.model.node import Node

TREE: Final = "hypernodes"
EVERYTHING: Final = "(all nodes)"
"""No object can have this name."""
LONGEST_PATTERN: Final = 1024
NODE, HYPER_NODE = "Node", "HyperNode"
ONE_WAY: Final = "exactly one of exactMatch, regexMatch and labelMatch must be given"


class _Exact(msgspec.Struct, frozen=True):
    name: str = ""


class _Regex(msgspec.Struct, frozen=True):
    pattern: str = ""


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    exact_match: _Exact | None = None
    regex_match: _Regex | None = None
    label_match: LabelSelectorDocument | None = None


class _Member(msgspec.Struct, frozen=True):
    type: str = NODE
    selector: _Selector | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    tier: int = 0
    tier_name: str = ""
    members: tuple[_Member, ...] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


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
    try:
        document = _documents.decode(raw)
    except msgspec.DecodeError as error:
        return HyperNodeRecord(_envelopes.decode(raw).metadata.name, problem=what_is_wrong(error))
    spec = document.spec
    rules: list[MemberRule] = []
    problem = "" if spec.members else "spec.members: there must be at least one"
    for index, member in enumerate(spec.members or ()):
        rule, fault = _rule(member)
        if rule is not None:
            rules.append(rule)
        problem = problem or (f"spec.members[{index}]{fault}" if fault else "")
    return HyperNodeRecord(document.metadata.name, spec.tier, spec.tier_name, tuple(rules), problem)


def _rule(member: _Member) -> tuple[MemberRule | None, str]:
    """The rule, or where it is wrong and what."""
    if member.type not in (NODE, HYPER_NODE):
        return None, f'.type: "{member.type}" is neither {NODE} nor {HYPER_NODE}'
    chosen = member.selector or _Selector()
    ways = [it for it in (chosen.exact_match, chosen.regex_match, chosen.label_match) if it is not None]
    if len(ways) != 1:
        return None, f".selector: {ONE_WAY}"
    is_node = member.type == NODE
    if chosen.exact_match is not None:
        name = chosen.exact_match.name
        return (MemberRule(is_node, name=name), "") if name else (None, ".selector.exactMatch.name: must be set")
    if chosen.regex_match is not None:
        pattern = chosen.regex_match.pattern
        if not pattern or len(pattern) > LONGEST_PATTERN:
            return None, f".selector.regexMatch.pattern: must have 1 to {LONGEST_PATTERN} characters"
        if fault := why_not(pattern):
            return None, f".selector.regexMatch.pattern: {fault}"
        return MemberRule(is_node, pattern=pattern), ""
    if not is_node:
        return None, f".selector.labelMatch: is only for members of type {NODE}"
    assert chosen.label_match is not None
    try:
        return MemberRule(is_node, labels=chosen.label_match.selector()), ""
    except ValueError as error:
        return None, f".selector.labelMatch: {error}"


def hyper_tree(records: Iterable[HyperNodeRecord], nodes: Iterable[Node]) -> HyperTree:
    """The same for the same objects, in whatever order they come."""
    ordered = sorted(records, key=lambda it: it.name)
    problems = {it.name: it.problem for it in ordered if it.problem}
    sound = {it.name: it for it in ordered if not it.problem}
    if not sound:
        return HyperTree((), problems)
    by_name = {it.name: it for it in nodes}
    names = sorted(by_name)
    parents: dict[str, list[str]] = {}
    homes: dict[str, tuple[str, ...]] = {}
    for it in sound.values():
        homes[it.name] = tuple(_found(it, by_name, names))
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
            # A pattern that is meant for those inside may well match its own name.
            matches = searcher(rule.pattern)
            found |= {name: None for name in sound if name != record.name and matches(name)}
    yield from found
