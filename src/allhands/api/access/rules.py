"""What one rule of a role allows, and which rights it holds: matching and covering as the real server does both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allhands.api.access.attributes import Attributes
    from allhands.api.document import Manifest

ALL: Final = "*"


class Rule(
    msgspec.Struct,
    frozen=True,
    rename={"api_groups": "apiGroups", "resource_names": "resourceNames", "urls": "nonResourceURLs"},
):
    """A `PolicyRule`."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, wanted: Attributes) -> bool:
        """Whether this rule alone is enough."""
        if ALL not in self.verbs and wanted.verb not in self.verbs:
            return False
        if wanted.path is not None:
            return any(_url_holds(url, wanted.path) for url in self.urls)
        if ALL not in self.api_groups and wanted.group not in self.api_groups:
            return False
        if not self._names_part(wanted):
            return False
        return not self.resource_names or wanted.name in self.resource_names

    def allows_there(self, wanted: Attributes) -> bool:
        """The same of what is known to be about the resource that is wanted."""
        if ALL not in self.verbs and wanted.verb not in self.verbs:
            return False
        return not self.resource_names or wanted.name in self.resource_names

    def _names_part(self, wanted: Attributes) -> bool:
        if ALL in self.resources or wanted.part in self.resources:
            return True
        return bool(wanted.subresource) and f"*/{wanted.subresource}" in self.resources

    def __str__(self) -> str:
        """As refusals show it."""
        shown = {
            "APIGroups": self.api_groups,
            "Resources": self.resources,
            "NonResourceURLs": self.urls,
            "ResourceNames": self.resource_names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in shown.items() if values) + "}"


def _url_holds(rule: str, path: str) -> bool:
    return rule in (ALL, path) or (rule.endswith("*") and path.startswith(rule.rstrip("*")))


def quoted(values: Iterable[str]) -> str:
    """A list of texts as Go's %q writes it."""
    return "[" + " ".join(go_quote(value) for value in values) + "]"


def rules_of(role: Manifest) -> tuple[Rule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(msgspec.convert(rule, Rule) for rule in role.get("rules") or ())


EVERYTHING: Final = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))


def missing(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The rights in `wanted`, each alone, that no single rule in `held` holds."""
    atoms = (atom for rule in wanted for atom in _atoms(rule))
    return [atom for atom in atoms if not any(_covers(rule, atom) for rule in held)]


def _atoms(rule: Rule) -> Iterator[Rule]:
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                yield from (Rule((verb,), (group,), (resource,), (name,)) for name in rule.resource_names)
                if not rule.resource_names:
                    yield Rule((verb,), (group,), (resource,))
    for url in rule.urls:
        for verb in rule.verbs:
            yield Rule((verb,), urls=(url,))


def _covers(holder: Rule, atom: Rule) -> bool:
    """Whether `holder` has the one right `atom`."""
    if ALL not in holder.verbs and atom.verbs[0] not in holder.verbs:
        return False
    if atom.urls:
        return any(own == atom.urls[0] or _url_covers(own, atom.urls[0]) for own in holder.urls)
    if ALL not in holder.api_groups and atom.api_groups[0] not in holder.api_groups:
        return False
    if not _resource_covered(holder.resources, atom.resources[0]):
        return False
    if not atom.resource_names:
        return not holder.resource_names
    return not holder.resource_names or atom.resource_names[0] in holder.resource_names


def _url_covers(holder: str, url: str) -> bool:
    return holder.endswith("*") and url.startswith(holder.rstrip("*"))


def _resource_covered(held: Sequence[str], resource: str) -> bool:
    if ALL in held or resource in held:
        return True
    _, slash, part = resource.partition("/")
    return bool(slash) and f"*/{part}" in held


def compacted(rules: Iterable[Rule]) -> list[Rule]:
    """Single rights on one resource that differ by their verb alone, as one rule."""
    others: list[Rule] = []
    simple: dict[tuple[str, str, tuple[str, ...]], Rule] = {}
    for rule in rules:
        if rule.urls or len(rule.api_groups) != 1 or len(rule.resources) != 1 or len(rule.resource_names) > 1:
            others.append(rule)
            continue
        key = (rule.api_groups[0], rule.resources[0], rule.resource_names)
        known = simple.get(key)
        simple[key] = rule if known is None else msgspec.structs.replace(known, verbs=known.verbs + rule.verbs)
    return [*others, *simple.values()]
