"""Kube-scheduler's filters about other pods, read from its source and written as plain loops over pods and nodes.

Slow and obvious on purpose: what the columns compute must be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.model.affinity import PodTerm, SpreadConstraint
    from allhands.model.node import Node
    from allhands.model.pod import Pod


class PlainRules:
    def __init__(
        self,
        nodes: Sequence[Node],
        bound: Sequence[Pod],
        namespaces: Mapping[str, Mapping[str, str]],
        nominated: Sequence[Pod] = (),
    ) -> None:
        self._nodes = {it.name: it for it in nodes}
        self._bound = [it for it in bound if it.node_name in self._nodes and not it.is_finished]
        self._nominated = nominated
        self._namespaces = namespaces

    def where(self, pod: Pod) -> set[str]:
        affinity_is_skipped = self._affinity_is_skipped(pod)
        found = set()
        for node in self._nodes.values():
            added = [it for it in self._nominated if it.nominated_node == node.name]
            if self._allows(pod, node, (), skip=affinity_is_skipped) and (
                not added or self._allows(pod, node, added, skip=affinity_is_skipped)
            ):
                found.add(node.name)
        return found

    def _affinity_is_skipped(self, pod: Pod) -> bool:
        if pod.pod_affinity.required_together or pod.pod_affinity.required_apart:
            return False
        return all(self._is_kept_away_by_nobody(pod, node) for node in self._nodes.values())

    def _allows(self, pod: Pod, node: Node, added: Sequence[Pod], *, skip: bool) -> bool:
        known = self._bound
        self._bound = [*known, *(msgspec.structs.replace(it, node_name=node.name) for it in added)]
        self._added = {it.uid for it in added}
        try:
            return (
                self._ports_are_free(pod, node)
                and (skip or self._is_near(pod, node))
                and (skip or self._keeps_away(pod, node))
                and (skip or self._is_kept_away_by_nobody(pod, node))
                and all(self._is_even(pod, node, it) for it in pod.spread if it.hard)
            )
        finally:
            self._bound = known

    def _ports_are_free(self, pod: Pod, node: Node) -> bool:
        held = [port for other in self._bound if other.node_name == node.name for port in other.host_ports]
        return not any(mine.conflicts_with(theirs) for mine in pod.host_ports for theirs in held)

    def _means(self, term: PodTerm, other: Pod) -> bool:
        """A term of the incoming pod."""
        selector = term.namespace_selector
        named = set(term.namespaces)
        if selector is not None:
            named |= {name for name, labels in self._namespaces.items() if selector.matches(labels)}
        if other.namespace not in named and not (selector is not None and selector.matches({})):
            return False
        return term.selector is not None and term.selector.matches(other.labels)

    def _is_near(self, pod: Pod, node: Node) -> bool:
        terms = pod.pod_affinity.required_together
        if not all(term.topology_key in node.labels for term in terms):
            return False
        pairs = set()
        for other in self._bound:
            if terms and all(self._means(term, other) for term in terms):
                labels = self._nodes[other.node_name].labels
                pairs |= {(it.topology_key, labels[it.topology_key]) for it in terms if it.topology_key in labels}
        if all((it.topology_key, node.labels[it.topology_key]) in pairs for it in terms):
            return True
        return not pairs and all(self._means(term, pod) for term in terms)

    def _keeps_away(self, pod: Pod, node: Node) -> bool:
        for term in pod.pod_affinity.required_apart:
            for other in self._bound:
                if self._means(term, other) and self._same_domain(term.topology_key, other, node):
                    return False
        return True

    def _is_kept_away_by_nobody(self, pod: Pod, node: Node) -> bool:
        for other in self._bound:
            for term in other.pod_affinity.required_apart:
                if not self._same_domain(term.topology_key, other, node):
                    continue
                if term.matches_pod(pod.namespace, pod.labels, self._namespaces.get(pod.namespace, {})):
                    return False
        return True

    def _same_domain(self, key: str, other: Pod, node: Node) -> bool:
        labels = self._nodes[other.node_name].labels
        return key in node.labels and key in labels and node.labels[key] == labels[key]

    def _is_even(self, pod: Pod, node: Node, constraint: SpreadConstraint) -> bool:
        key = constraint.topology_key
        if key not in node.labels:
            return False
        keys = {it.topology_key for it in pod.spread if it.hard}
        counts: dict[str, int] = {}
        for candidate in self._nodes.values():
            if keys <= candidate.labels.keys() and _is_looked_at(pod, candidate, constraint):
                found = sum(
                    self._is_like(pod, other, constraint) for other in self._bound if other.node_name == candidate.name
                )
                counts[candidate.labels[key]] = counts.get(candidate.labels[key], 0) + found
        lowest = 0 if len(counts) < (constraint.min_domains or 1) else min(counts.values())
        itself = constraint.selector is not None and constraint.selector.matches(pod.labels)
        return counts.get(node.labels[key], 0) + itself - lowest <= constraint.max_skew

    def _is_like(self, pod: Pod, other: Pod, constraint: SpreadConstraint) -> bool:
        selector = constraint.selector
        if selector is None or other.namespace != pod.namespace:
            return False
        if other.uid not in self._added and (selector.is_empty or other.deleting):
            return False
        return selector.matches(other.labels)


def _is_looked_at(pod: Pod, node: Node, constraint: SpreadConstraint) -> bool:
    if constraint.honor_node_affinity:
        if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
            return False
        if not pod.node_affinity.matches(node.labels, node.name):
            return False
    if constraint.honor_node_taints:
        for taint in node.taints:
            if taint.repels and not any(it.tolerates(taint) for it in pod.tolerations):
                return False
    return True
