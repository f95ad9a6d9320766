"""Who gets through the gate, as whom, and what their rights keep them from when they write."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.server.access.account_tokens import Reference, signing_key
from tests.access_face import API, AccessFace, rule
from tests.manifests import pod
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from pathlib import Path

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def face(tmp_path: Path) -> AccessFace:
    made = AccessFace(tmp_path)
    await made.begin("ada", "grace")
    return made


async def whoami(face: AccessFace, who: str, **headers: str) -> dict[str, Any]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await face.ask(who, "POST", WHOAMI, {}, sent)
    assert reply.code == 201, reply.body
    return dict(reply.json()["status"]["userInfo"])


async def test_everybody_is_who_their_token_says(face: AccessFace) -> None:
    assert await whoami(face, "admin") == {
        "username": "admin",
        "uid": "admin",
        "groups": ["system:masters", "system:authenticated"],
    }
    ada = await whoami(face, "ada")
    assert (ada["username"], ada["groups"]) == ("ada", ["adas", "system:authenticated"])


@pytest.mark.parametrize("credential", ["", "Bearer", "Bearer ", "Bearer x", "Basic YWRtaW46YQ==", "Bearer a.b.c"])
async def test_without_a_token_nobody_gets_in_but_to_health_and_version(face: AccessFace, credential: str) -> None:
    reply = await face.client.ask("GET", MAPS, headers={"authorization": credential})
    assert (reply.code, reply.json()["message"]) == (401, "Unauthorized")
    open_code = 200 if not credential else 401
    for path in ("/version", "/readyz", "/livez"):
        assert (await face.client.ask("GET", path, headers={"authorization": credential})).code == open_code


async def test_a_removed_token_is_worth_nothing_at_the_next_request(face: AccessFace) -> None:
    await whoami(face, "ada")
    face.people.remove("ada")
    assert (await face.ask("ada", "POST", WHOAMI, {})).code == 401


async def test_acting_as_others_takes_each_right(face: AccessFace) -> None:
    assert (await whoami(face, "admin", impersonate_user="eve"))["groups"] == ["system:authenticated"]
    assert (await face.ask("ada", "POST", WHOAMI, {}, {"impersonate-user": "eve"})).code == 403
    await face.grant("ada", "", rule("impersonate", "", "users", resourceNames=["eve"]))
    assert (await whoami(face, "ada", impersonate_user="eve"))["username"] == "eve"
    for more in ({"impersonate-group": "system:masters"}, {"impersonate-uid": "1"}, {"impersonate-extra-a": "b"}):
        reply = await face.ask("ada", "POST", WHOAMI, {}, {"impersonate-user": "eve"} | more)
        assert reply.code == 403, more
        assert (await face.ask("admin", "POST", WHOAMI, {}, more)).code == 400, "without a user"


async def test_a_role_changed_by_any_kind_of_patch_is_looked_at(face: AccessFace) -> None:
    roles = f"{API}/namespaces/default/roles"
    await face.grant(
        "ada", "default", rule("*", "", "pods"), rule("get create patch update", "rbac.authorization.k8s.io", "roles")
    )
    await face.make(roles, {"metadata": {"name": "mine"}, "rules": [rule("get", "", "pods")]}, "ada")
    grown = [rule("get", "", "secrets")]
    for media, patch in {
        "application/merge-patch+json": {"rules": grown},
        "application/strategic-merge-patch+json": {"rules": grown},
        "application/json-patch+json": [{"op": "replace", "path": "/rules/0/resources", "value": ["secrets"]}],
    }.items():
        reply = await face.ask("ada", "PATCH", f"{roles}/mine", patch, {"content-type": media})
        assert reply.code == 403, media
        assert "is attempting to grant RBAC permissions not currently held" in reply.json()["message"]
    gathering = {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{}]}}
    await face.grant("grace", "", rule("create", "rbac.authorization.k8s.io", "clusterroles"))
    reply = await face.ask("grace", "POST", f"{API}/clusterroles", gathering)
    assert "must have cluster-admin privileges to use the aggregationRule" in reply.json()["message"]


async def token_of(face: AccessFace, name: str = "bot", **spec: Any) -> str:
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    return str((await face.make(path, {"spec": spec}))["status"]["token"])


async def test_a_token_of_an_account_is_for_a_time_an_audience_and_one_account(face: AccessFace) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await face.make(accounts, {"metadata": {"name": "bot"}})
    token = await token_of(face, expirationSeconds=600)
    found = await whoami(face, token)
    assert found["username"] == "system:serviceaccount:default:bot"
    assert found["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    elsewhere = await token_of(face, audiences=["elsewhere"])
    assert (await face.ask(elsewhere, "POST", WHOAMI, {})).code == 401
    review = {"spec": {"token": elsewhere, "audiences": ["elsewhere"]}}
    assert (await face.make("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]["authenticated"]
    face.clock.advance(599)
    assert (await face.ask(token, "POST", WHOAMI, {})).code == 201
    face.clock.advance(1)
    assert (await face.ask(token, "POST", WHOAMI, {})).code == 401
    fresh = await token_of(face)
    await face.ask("admin", "DELETE", f"{accounts}/bot")
    await face.make(accounts, {"metadata": {"name": "bot"}})
    assert (await face.ask(fresh, "POST", WHOAMI, {})).code == 401, "another account of that name"


async def test_a_token_that_is_bound_ends_with_its_pod(face: AccessFace) -> None:
    await face.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bot"}})
    await face.make("/api/v1/namespaces/default/pods", pod("p", serviceAccountName="bot"))
    token = await token_of(face, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    assert "authentication.kubernetes.io/pod-name" in (await whoami(face, token))["extra"]
    await face.ask("admin", "DELETE", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0")
    assert (await face.ask(token, "POST", WHOAMI, {})).code == 401


def _part(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


async def test_tokens_that_we_have_not_signed_are_nobodys(face: AccessFace, tmp_path: Path) -> None:
    made = await face.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bot"}})
    token = await token_of(face)
    head, claims, signature = token.split(".")
    others = type(face.accounts)(signing_key(tmp_path / "other.key"), face.objects, face.clock)
    foreign = others.issue(
        "default", Reference("bot", made["metadata"]["uid"]), ["https://kubernetes.default.svc"], 600
    )
    stretched = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"exp": 9999999999}
    unsigned = _part({"alg": "none"})
    hashed = _part({"alg": "HS256"})
    forged = [
        foreign,
        f"{head}.{_part(stretched)}.{signature}",
        f"{unsigned}.{claims}.",
        f"{unsigned}.{claims}.{signature}",
        f"{hashed}.{claims}.{signature}",
        f"{head}.{claims}.{signature[:-4]}",
        f"{head}.{claims}.",
        f"{head}.{claims}.!!!!",
        f"{head}.{claims}.{'A' * 86}",
        f"{token}.x",
        "." * 2,
        f"{head}.{claims}.{'A' * 20_000}",
    ]
    for one in forged:
        assert (await face.ask(one, "POST", WHOAMI, {})).code == 401, one[:200]
    assert (await face.ask(token, "POST", WHOAMI, {})).code == 201


async def served(face: AccessFace) -> None:
    for definition in VOLCANO_KINDS:
        await face.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition.manifest())
    face.store.housekeeper.run_pending()


JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


async def test_a_job_gets_nobody_what_they_could_not_get_without_it(face: AccessFace) -> None:
    """The same functions that webhooks of a real cluster ask."""
    await served(face)
    volcano = "batch.volcano.sh"
    await face.grant("ada", "default", rule("create update patch get", volcano, "jobs"))
    reply = await face.ask("ada", "POST", JOBS, job("train", task("worker", 1)))
    assert reply.code == 403
    assert 'user "ada" may not create pods in namespace "default"' in reply.json()["message"]
    await face.grant("ada", "default", rule("create", "", "pods"), rule("get", "", "pods"))
    await face.make(JOBS, job("train", task("worker", 1)), "ada")
    queues = "/apis/scheduling.volcano.sh/v1beta1/queues"
    restricted = {"allhands.dev/restricted": "true"}
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    await face.make(queues, {**kind, "metadata": {"name": "vip", "annotations": restricted}, "spec": {}})
    reply = await face.ask("ada", "POST", JOBS, job("vip", task("worker", 1), queue="vip"))
    assert 'user "ada" may not use queues.scheduling.volcano.sh "vip"' in reply.json()["message"]
    patch = {"spec": {"queue": "vip"}}
    headers = {"content-type": "application/merge-patch+json"}
    assert (await face.ask("ada", "PATCH", f"{JOBS}/train", patch, headers)).code == 403
    await face.grant("ada", "", rule("use", "scheduling.volcano.sh", "queues"))
    await face.make(JOBS, job("vip", task("worker", 1), queue="vip"), "ada")


async def test_a_pod_that_names_a_restricted_queue_is_looked_at_however_it_says_so(face: AccessFace) -> None:
    await served(face)
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    restricted = {"name": "vip", "annotations": {"allhands.dev/restricted": "true"}}
    await face.make("/apis/scheduling.volcano.sh/v1beta1/queues", {**kind, "metadata": restricted, "spec": {}})
    await face.grant("ada", "default", rule("*", "", "pods"))
    pods, wanted = "/api/v1/namespaces/default/pods", {"allhands.dev/queue": "vip"}
    made = await face.make(pods, pod("p"), "ada")
    named = pod("q")
    named["metadata"]["annotations"] = wanted
    assert (await face.ask("ada", "POST", pods, named)).code == 403
    for media in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        patch = {"metadata": {"annotations": wanted}}
        assert (await face.ask("ada", "PATCH", f"{pods}/p", patch, {"content-type": media})).code == 403, media
    made["metadata"]["annotations"] = wanted
    assert (await face.ask("ada", "PUT", f"{pods}/p", made)).code == 403, "an update of nothing but metadata"


async def test_a_command_to_a_queue_takes_the_right_to_change_the_queue(face: AccessFace) -> None:
    await served(face)
    await face.grant("ada", "default", rule("*", "bus.volcano.sh", "commands"))
    path = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "default", "uid": "u"}
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c"},
        "action": "CloseQueue",
    }
    reply = await face.ask("ada", "POST", path, command | {"target": target})
    assert reply.code == 403
    assert "may not update queues.scheduling.volcano.sh" in reply.json()["message"]
    await face.make(
        path, command | {"target": target | {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}}, "ada"
    )


APPLY = {"content-type": "application/apply-patch+yaml"}


async def test_nobody_creates_by_applying_what_they_may_only_patch(face: AccessFace) -> None:
    await face.grant("ada", "default", rule("patch", "", "configmaps"))
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    reply = await face.ask("ada", "PATCH", f"{MAPS}/a?fieldManager=ada", config, APPLY)
    assert reply.code == 403
    assert 'cannot create resource "configmaps"' in reply.json()["message"]
    await face.make(MAPS, {"metadata": {"name": "a"}})
    assert (await face.ask("ada", "PATCH", f"{MAPS}/a?fieldManager=ada", config, APPLY)).code == 200
    await face.grant("grace", "default", rule("create patch", "", "configmaps"))
    config["metadata"] = {"name": "b"}
    assert (await face.ask("grace", "PATCH", f"{MAPS}/b?fieldManager=grace", config, APPLY)).code == 201


async def test_nobody_applies_a_role_that_grants_more_than_they_have(face: AccessFace) -> None:
    await face.grant("ada", "default", rule("create patch", "rbac.authorization.k8s.io", "roles"))
    roles = f"{API}/namespaces/default/roles"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
    wide = role | {"rules": [rule("*", "", "secrets")]}
    assert (await face.ask("ada", "PATCH", f"{roles}/r?fieldManager=ada", wide, APPLY)).code == 403
    assert (await face.ask("ada", "PATCH", f"{roles}/r?fieldManager=ada", role | {"rules": []}, APPLY)).code == 201
    assert (await face.ask("ada", "PATCH", f"{roles}/r?fieldManager=ada&force=true", wide, APPLY)).code == 403
