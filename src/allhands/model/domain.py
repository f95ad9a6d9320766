"""Topology as nested domains: a rack in a row in a hall. The lower the tier, the closer its nodes are.

A tree is checked once, when it is built; nobody after that meets a cycle, a stranger or a node in two places.
"""

from collections.abc import Iterable, Mapping

import msgspec

from allhands.model.tree import TreeError, children_by_name, parents_by_name, path_to_root, roots_first


class Domain(msgspec.Struct, frozen=True, omit_defaults=True):
    """`nodes` are those directly in it; those of the domains below it are not repeated. `tree` names the tree."""

    name: str
    tier: int
    parent: str | None = None
    nodes: tuple[str, ...] = ()
    tier_name: str = ""
    healthy: bool = True
    tree: str = ""


class DomainTree(msgspec.Struct, frozen=True):
    """All domains, wider before closer, in one or more trees. Make it with `build`."""

    domains: Mapping[str, Domain]
    children: Mapping[str, tuple[str, ...]]
    home_by_node: Mapping[str, str]

    @staticmethod
    def build(domains: Iterable[Domain]) -> "DomainTree":
        rows = tuple(domains)
        parents = parents_by_name("domain", ((domain.name, domain.parent) for domain in rows))
        by_name = {domain.name: domain for domain in rows}
        ordered = {name: by_name[name] for name in roots_first("domain", parents)}
        _check_tiers(ordered)
        return DomainTree(ordered, children_by_name(parents), _home_by_node(ordered))

    @property
    def roots(self) -> tuple[str, ...]:
        return tuple(name for name, domain in self.domains.items() if domain.parent is None)

    def path(self, name: str) -> tuple[str, ...]:
        """The domain and all around it, the widest last."""
        if name not in self.domains:
            raise TreeError(f'domain "{name}" does not exist')
        return path_to_root(lambda inner: self.domains[inner].parent, name)

    def nodes_under(self, name: str) -> tuple[str, ...]:
        """All nodes in the domain, at any depth, in the order of the tree."""
        found: list[str] = []
        pending = [name]
        while pending:
            current = pending.pop()
            found.extend(self.domains[current].nodes)
            pending.extend(reversed(self.children[current]))
        return tuple(found)

    def domain_of(self, node: str, tier: int) -> str | None:
        """The domain of this tier that holds the node, if there is one."""
        if (home := self.home_by_node.get(node)) is None:
            return None
        return next((name for name in self.path(home) if self.domains[name].tier == tier), None)

    def closest_common(self, nodes: Iterable[str]) -> str | None:
        """The closest domain that holds all of these nodes, if there is one."""
        common: list[str] | None = None
        for node in nodes:
            if (home := self.home_by_node.get(node)) is None:
                return None
            path = self.path(home)
            common = list(path) if common is None else [name for name in common if name in path]
        return common[0] if common else None


def _check_tiers(domains: Mapping[str, Domain]) -> None:
    for domain in domains.values():
        if domain.parent is None:
            continue
        around = domains[domain.parent]
        if around.tier <= domain.tier:
            raise TreeError(
                f'domain "{domain.name}" of tier {domain.tier} cannot lie in "{around.name}" of tier {around.tier}: '
                "tiers must rise towards the root"
            )


def _home_by_node(domains: Mapping[str, Domain]) -> dict[str, str]:
    homes: dict[str, str] = {}
    for domain in domains.values():
        for node in domain.nodes:
            if node in homes:
                raise TreeError(f'node "{node}" is in the domains "{homes[node]}" and "{domain.name}"')
            homes[node] = domain.name
    return homes
