"""Laws of rights: a kept index decides as a plain reading of the objects does, and nobody grants what they lack."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allhands.api.access.attributes import Attributes
from allhands.api.access.escalation import escalation
from allhands.api.access.grants import Grants
from allhands.api.access.identity import User
from tests.access_worlds import (
    NAMESPACES,
    plainly_allowed,
    random_binding,
    random_question,
    random_role,
)

NAMES = ("a", "b", "c")


def user_of(question: dict[str, Any]) -> User:
    return User(question["user"], groups=tuple(question["groups"]))


def attributes_of(question: dict[str, Any]) -> Attributes:
    return Attributes(**(question.get("nonResourceAttributes") or question["resourceAttributes"]))


def put(grants: Grants, document: dict[str, Any], present: bool = True) -> None:
    metadata = document["metadata"]
    key = (metadata.get("namespace", ""), metadata["name"])
    store = grants.put_binding if document["kind"].endswith("Binding") else grants.put_role
    store(key, document if present else None)


def random_object(rng: random.Random) -> dict[str, Any]:
    namespace = rng.choice(("", *NAMESPACES))
    if rng.random() < 0.5:
        return random_role(rng, rng.choice(NAMES), namespace)
    return random_binding(rng, rng.choice(NAMES), namespace, list(NAMES))


def identity(document: dict[str, Any]) -> tuple[str, str, str]:
    return document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"]


@given(st.integers(0, 2**32))
def test_a_kept_index_decides_as_a_plain_reading_does(seed: int) -> None:
    rng = random.Random(seed)
    grants = Grants()
    present: dict[tuple[str, str, str], dict[str, Any]] = {}
    for _ in range(rng.randint(1, 25)):
        document = random_object(rng)
        gone = rng.random() < 0.3
        put(grants, document, not gone)
        present.pop(identity(document), None)
        if not gone:
            present[identity(document)] = document
    for _ in range(20):
        question = random_question(rng)
        decision = grants.decide(user_of(question), attributes_of(question))
        assert decision.allowed == plainly_allowed(list(present.values()), question), question
        assert not decision.allowed or decision.reason.startswith("RBAC: allowed by ")


@given(st.integers(0, 2**32))
def test_who_may_write_a_role_or_binding_gains_nothing_by_it(seed: int) -> None:
    """Whatever it would grant to its writer, the writer had before."""
    rng = random.Random(seed)
    objects = {identity(it): it for it in (random_object(rng) for _ in range(rng.randint(1, 20)))}
    grants = Grants()
    for document in objects.values():
        put(grants, document)
    asked = random_question(rng)
    user = user_of(asked)
    new = random_object(rng)
    if new["kind"].endswith("Binding"):
        new["subjects"].append({"kind": "User", "name": user.name})
    if escalation(new["kind"], new, objects.get(identity(new)), user, grants) is not None:
        return
    before = list(objects.values())
    after = list((objects | {identity(new): new}).values())
    for _ in range(60):
        question = random_question(rng) | {"user": user.name, "groups": list(user.groups)}
        if plainly_allowed(after, question):
            trusted = _trusted(grants, user, new)
            assert plainly_allowed(before, question) or trusted, (new, question)


def _trusted(grants: Grants, user: User, new: dict[str, Any]) -> bool:
    """Whether the writer holds `escalate` or `bind`; random rules hold them by their stars."""
    namespace = new["metadata"].get("namespace", "")
    plurals = ("roles", "clusterroles")
    verb = "bind" if new["kind"].endswith("Binding") else "escalate"
    names = (new.get("roleRef", {}).get("name", ""), new["metadata"]["name"], "")
    group = "rbac.authorization.k8s.io"
    return any(
        grants.decide(user, Attributes(verb=verb, group=group, resource=it, name=name, namespace=namespace)).allowed
        for it in plurals
        for name in names
    )


def test_members_of_masters_are_never_asked() -> None:
    boss = User("boss", groups=("system:masters",))
    assert Grants().decide(boss, Attributes(verb="get", resource="pods")).allowed
    everything = {
        "kind": "ClusterRole",
        "metadata": {"name": "x"},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    }
    assert escalation("ClusterRole", everything, None, boss, Grants()) is None
