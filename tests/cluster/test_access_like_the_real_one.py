"""The same random roles and bindings on both servers: every SubjectAccessReview gets the same answer."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.access.default_roles import cluster_role_bindings, cluster_roles
from allhands.compose.access_settings import AccessWish
from allhands.measure.processes import wait_until
from tests.access_worlds import NAMESPACES, plainly_allowed, random_binding, random_question, random_role
from tests.conformance.client import Client, Server
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.controlplane import ControlPlane

API = "/apis/rbac.authorization.k8s.io/v1"
PLURALS = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}
QUESTIONS = 250


class Side:
    """One of the two servers, spoken to as its administrator."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = Client(server)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.server.token}", "Content-Type": "application/json"}
        answer = self.client.request(method, path, headers, None if body is None else json.dumps(body).encode())
        assert answer.status < 300, (method, path, answer)
        return answer.body

    def create(self, document: dict[str, Any]) -> None:
        namespace = document["metadata"].get("namespace")
        where = f"{API}/namespaces/{namespace}" if namespace else API
        self.ask("POST", f"{where}/{PLURALS[document['kind']]}", document)

    def review(self, spec: dict[str, Any]) -> dict[str, Any]:
        return dict(self.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})["status"])


@pytest.fixture(scope="module")
def sides(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    real = Server("real", control_plane.url, control_plane.token, str(control_plane.ca_file))
    with EmbeddedInThread(tmp_path_factory.mktemp("rbac"), AccessWish(rbac=True)) as cluster:
        ours = Server("embedded", cluster.url, cluster.token, str(cluster.ca_file))
        both = [Side(real), Side(ours)]
        yield both
        for side in both:
            side.client.__exit__()


def settle(side: Side, mark: str) -> None:
    """The real server's authorizer hears of roles a moment later; it has heard all when it knows the last."""
    metadata = {"name": mark}
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["marks"]}]
    side.create({"kind": "ClusterRole", "metadata": metadata, "rules": rules})
    subjects = [{"kind": "User", "name": mark}]
    reference = {"kind": "ClusterRole", "name": mark}
    side.create({"kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": reference, "subjects": subjects})
    wanted = {"user": mark, "resourceAttributes": {"verb": "get", "resource": "marks"}}
    wait_until(lambda: bool(side.review(wanted)["allowed"]), 20, "the authorizer")


@pytest.mark.parametrize("seed", range(4))
def test_both_servers_allow_the_same(sides: list[Side], seed: int) -> None:
    rng = random.Random(seed)
    prefix = f"s{seed}-"
    named = {name: f"{prefix}{name}" for name in NAMESPACES}
    roles = [f"{prefix}{number}" for number in range(5)]
    objects = [random_role(rng, name, rng.choice(("", *NAMESPACES))) for name in roles]
    objects += [random_binding(rng, f"{prefix}b{n}", rng.choice(("", *NAMESPACES)), roles) for n in range(12)]
    users = {"ada": f"{prefix}ada", "bob": f"{prefix}bob", "team": f"{prefix}team", "ops": f"{prefix}ops"}
    text = json.dumps(objects)
    questions = [random_question(rng) for _ in range(QUESTIONS)]
    asked = json.dumps(questions)
    for old, new in (named | users).items():
        text, asked = (it.replace(f'"{old}"', f'"{new}"').replace(f":{old}:", f":{new}:") for it in (text, asked))
    objects, questions = json.loads(text), json.loads(asked)
    for side in sides:
        for namespace in named.values():
            side.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for document in objects:
            side.create(document)
        settle(side, f"{prefix}mark")
    allowed = 0
    for question in questions:
        real, ours = (side.review(question) for side in sides)
        assert real["allowed"] == ours["allowed"], (question, real, ours)
        if "system:authenticated" not in question["groups"]:
            assert ours["allowed"] == plainly_allowed(objects, question), question
        assert bool(real.get("reason")) == bool(ours.get("reason")), (question, real, ours)
        allowed += ours["allowed"]
    assert 0 < allowed < len(questions), "the questions show nothing"
    for side in sides:
        for document in reversed(objects):
            if not document["metadata"].get("namespace"):
                side.ask("DELETE", f"{API}/{PLURALS[document['kind']]}/{document['metadata']['name']}")


def test_the_roles_of_a_new_cluster_are_those_of_a_real_one(sides: list[Side]) -> None:
    def rules(role: dict[str, Any]) -> set[str]:
        return {
            json.dumps({name: sorted(values) for name, values in rule.items()}, sort_keys=True)
            for rule in role.get("rules") or ()
        }

    real, ours = (
        {it["metadata"]["name"]: it for it in side.ask("GET", f"{API}/clusterroles")["items"]} for side in sides
    )
    for role in cluster_roles():
        name = role["metadata"]["name"]
        if name.startswith("allhands:"):
            assert name not in real
            continue
        assert ours[name].get("aggregationRule") == real[name].get("aggregationRule")
        assert ours[name]["metadata"]["labels"] == real[name]["metadata"]["labels"]
        if "aggregationRule" not in role:
            assert rules(ours[name]) == rules(real[name]), name
    for binding in cluster_role_bindings():
        name = binding["metadata"]["name"]
        if not name.startswith("allhands:"):
            shown = sides[0].ask("GET", f"{API}/clusterrolebindings/{name}")
            assert (shown["subjects"], shown["roleRef"]) == (binding["subjects"], binding["roleRef"])
