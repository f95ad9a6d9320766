"""All roles and bindings of a cluster, indexed by whom they speak of, and the decision: allowed, or no opinion.

It is kept up to date object by object. A decision looks only at bindings that name the asker, and in a role only at
rules about the resource that is asked for; how many other bindings there are does not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.access.identity import account_name
from allhands.api.access.rules import ALL, EVERYTHING, Rule, rules_of
from allhands.api.errors import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.access.attributes import Attributes
    from allhands.api.access.identity import User
    from allhands.api.document import Manifest

Key = tuple[str, str]
"""Namespace and name; of what has no namespace it is empty."""

GROUP: Final = "rbac.authorization.k8s.io"


class Decision(msgspec.Struct, frozen=True):
    """Allowed or no opinion, and why."""

    allowed: bool
    reason: str = ""


ALWAYS: Final = Decision(allowed=True)


class _Role:
    """The rules of a role, found by what they are about."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._by_part: dict[Key, list[Rule]] = {}
        self._of_paths = tuple(rule for rule in rules if rule.urls)
        for rule in rules:
            for group in rule.api_groups:
                for resource in rule.resources:
                    self._by_part.setdefault((group, resource), []).append(rule)

    def allows(self, wanted: Attributes, places: tuple[Key, ...]) -> bool:
        """`places` is where rules about what is wanted can be."""
        if wanted.path is not None:
            return any(rule.allows(wanted) for rule in self._of_paths)
        for place in places:
            for rule in self._by_part.get(place, ()):
                if rule.allows_there(wanted):
                    return True
        return False


def _places(wanted: Attributes) -> tuple[Key, ...]:
    if wanted.path is not None:
        return ()
    part = wanted.part
    parts = (part, f"*/{wanted.subresource}", ALL) if wanted.subresource else (part, ALL)
    return tuple((group, it) for group in (wanted.group, ALL) for it in parts)


class _Binding:
    """A binding as far as decisions need it. Subjects are what a user is known by: `u` and a name, `g` and a group."""

    def __init__(self, kind: str, key: Key, manifest: Manifest) -> None:
        reference = manifest.get("roleRef") or {}
        self.kind = kind
        self.key = key
        self.role_kind: str = reference.get("kind") or ""
        self.role_name: str = reference.get("name") or ""
        self.role_key = ("" if self.role_kind == "ClusterRole" else key[0], self.role_name)
        self.subjects: dict[str, str] = {}
        for subject in manifest.get("subjects") or ():
            known_by, words = _subject(subject, key[0])
            if known_by:
                self.subjects.setdefault(known_by, words)

    def __str__(self) -> str:
        name = "/".join(part for part in reversed(self.key) if part)
        return f"{self.kind} {go_quote(name)} of {self.role_kind} {go_quote(self.role_name)}"


def _subject(subject: Manifest, namespace: str) -> Key:
    """What it is known by, and how reasons name it."""
    kind, name = subject.get("kind"), subject.get("name") or ""
    if kind == "User":
        return f"u{name}", f"User {go_quote(name)}"
    if kind == "Group":
        return f"g{name}", f"Group {go_quote(name)}"
    home = subject.get("namespace") or namespace
    if kind != "ServiceAccount" or not home:
        return "", ""
    return f"u{account_name(home, name)}", f"ServiceAccount {go_quote(f'{name}/{home}')}"


def _known_by(user: User) -> list[str]:
    return [f"u{user.name}", *(f"g{group}" for group in user.groups)]


class Grants:
    """Everything that is granted at one moment."""

    def __init__(self) -> None:
        self._roles: dict[Key, _Role] = {}
        self._bindings: dict[Key, _Binding] = {}
        self._by_subject: dict[Key, dict[Key, _Binding]] = {}
        """By the namespace of the binding and what the subject is known by."""

    def put_role(self, key: Key, manifest: Manifest | None) -> None:
        """A Role, or a ClusterRole whose namespace is empty, as it is now; None if it is gone."""
        if manifest is None:
            self._roles.pop(key, None)
        else:
            self._roles[key] = _Role(rules_of(manifest))

    def put_binding(self, key: Key, manifest: Manifest | None) -> None:
        """The same for bindings."""
        before = self._bindings.pop(key, None)
        for known_by in before.subjects if before is not None else ():
            bucket = self._by_subject[key[0], known_by]
            del bucket[key]
            if not bucket:
                del self._by_subject[key[0], known_by]
        if manifest is None:
            return
        kind = "RoleBinding" if key[0] else "ClusterRoleBinding"
        binding = self._bindings[key] = _Binding(kind, key, manifest)
        for known_by in binding.subjects:
            self._by_subject.setdefault((key[0], known_by), {})[key] = binding

    def decide(self, user: User, wanted: Attributes) -> Decision:
        """Whether the roles that are bound to the user allow it."""
        if user.is_master:
            return ALWAYS
        problems: list[str] = []
        places, silent = _places(wanted), set[Key]()
        namespace = "" if wanted.path is not None else wanted.namespace
        for binding, known_by in self._bindings_of(user, namespace):
            if binding.role_key in silent:
                continue  # many bindings are of few roles
            silent.add(binding.role_key)
            role = self._roles.get(binding.role_key)
            if role is None:
                problems.append(_no_role(binding))
            elif role.allows(wanted, places):
                return Decision(True, f"RBAC: allowed by {binding} to {binding.subjects[known_by]}")
        return Decision(False, f"RBAC: {_aggregate(problems)}" if problems else "")

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """All rules that hold for the user there, and what could not be looked up."""
        rules: list[Rule] = list(EVERYTHING) if user.is_master else []
        problems: list[str] = []
        for binding, _ in self._bindings_of(user, namespace):
            role = self._roles.get(binding.role_key)
            if role is None:
                problems.append(_no_role(binding))
            else:
                rules += role.rules
        return rules, _aggregate(problems)

    def rules_of_role(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...] | None:
        """Those of a role that a binding in the namespace refers to; None if there is none."""
        found = self._roles.get(("" if kind == "ClusterRole" else namespace, name))
        return None if found is None or kind not in ("Role", "ClusterRole") else found.rules

    def _bindings_of(self, user: User, namespace: str) -> Iterator[tuple[_Binding, str]]:
        known_by = _known_by(user)
        for home in ("", namespace) if namespace else ("",):
            seen: set[Key] = set()
            for name in known_by:
                for key, binding in self._by_subject.get((home, name), {}).items():
                    if key not in seen:
                        seen.add(key)
                        yield binding, name


def _no_role(binding: _Binding) -> str:
    return f"{binding.role_kind.lower()}.{GROUP} {go_quote(binding.role_name)} not found"


def _aggregate(problems: list[str]) -> str:
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
