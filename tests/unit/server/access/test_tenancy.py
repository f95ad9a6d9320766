"""The tenancy matrix: two users, every verb, every kind and part that is served, in every namespace and in none.

What each of them may is written down here word by word; whatever is not, must be refused. The authorizer is not asked
what to expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.access_face import AccessFace, rule
from tests.unit.server.test_face_over_store import DEFINITION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from allhands.api.kinds import Kind

EVERYWHERE = ("", "a", "b")
ALL = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
READ = ("get", "list", "watch")
Right = tuple[str, str, str, str, str]
"""User, namespace, group, resource with its part, verb."""


def rights(user: str, namespaces: tuple[str, ...], group: str, resources: str, verbs: tuple[str, ...]) -> set[Right]:
    return {(user, where, group, it, verb) for where in namespaces for it in resources.split() for verb in verbs}


def expected() -> set[Right]:
    granted: set[Right] = set()
    for user in ("ada", "grace"):  # what everybody has who was let in
        granted |= rights(user, ("",), "authentication.k8s.io", "selfsubjectreviews", ("create",))
        mine = "selfsubjectaccessreviews selfsubjectrulesreviews"
        granted |= rights(user, ("",), "authorization.k8s.io", mine, ("create",))
        granted |= rights(user, ("",), "scheduling.k8s.io", "priorityclasses", READ)
        granted |= rights(user, ("",), "", "nodes", READ)
    granted |= rights("ada", ("a",), "", "pods", ("get", "list", "create"))
    granted |= rights("ada", ("a",), "", "pods/log", ("get",))
    granted |= rights("ada", ("a",), "batch", "jobs", ALL)
    granted |= rights("ada", ("a",), "example.com", "widgets", ("create", "deletecollection"))
    scaled = "deployments/scale replicasets/scale statefulsets/scale"
    granted |= rights("ada", ("a",), "apps", scaled, ("update",))
    granted |= rights("grace", EVERYWHERE, "", "configmaps", ("watch",))
    granted |= rights("grace", ("a", "b"), "", "configmaps", ("patch",))
    granted |= rights("grace", ("b",), "", "secrets", ("list",))
    granted |= rights("grace", ("",), "storage.k8s.io", "storageclasses volumeattachments/status", ("patch",))
    return granted


async def given(face: AccessFace) -> None:
    await face.begin("ada", "grace")
    for namespace in ("a", "b"):
        await face.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await face.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    face.store.housekeeper.run_pending()
    await face.grant(
        "ada",
        "a",
        rule("get list create", "", "pods"),
        rule("get", "", "pods/log"),
        rule("*", "batch", "jobs"),
        rule("create deletecollection", "example.com", "widgets"),
        rule("update", "apps", "*/scale"),
        rule("get", "", "nodes"),  # means nothing in a namespace
    )
    await face.grant(
        "grace",
        "",
        rule("watch patch", "", "configmaps"),
        rule("patch", "storage.k8s.io", "storageclasses volumeattachments/status"),
    )
    await face.grant("grace", "b", rule("list", "", "secrets"))


METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


def requests_on(kind: Kind, namespace: str) -> Iterator[tuple[str, str, str, str]]:
    """Verb, resource with its part, method, path: every way to ask for something of the kind there."""
    group, version, plural = kind.resource.group, kind.resource.version, kind.resource.plural
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    where = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
    bad_limit = "limit=none-such"  # who is let in is refused for this, and no watch begins
    yield "list", plural, "GET", f"{where}?{bad_limit}"
    yield "watch", plural, "GET", f"{where}?watch=true&{bad_limit}"
    yield "watch", plural, "GET", f"{where.replace(root, f'{root}/watch')}?{bad_limit}"
    yield "create", plural, "POST", where
    yield "deletecollection", plural, "DELETE", f"{where}?labelSelector=none%3Dsuch"
    if kind.namespaced and not namespace:
        return
    for verb, method in METHODS.items():
        if verb != "create":
            yield verb, plural, method, f"{where}/none-such"
        for part in (*kind.subresources, "none-such"):
            yield verb, f"{plural}/{part}", method, f"{where}/none-such/{part}"


async def test_nobody_may_more_or_less_than_was_granted(tmp_path: Path) -> None:
    face = AccessFace(tmp_path)
    await given(face)
    granted, asked = expected(), set()
    wrong: list[str] = []
    for kind in face.store.kinds.all():
        group = kind.resource.group
        for namespace in EVERYWHERE if kind.namespaced else ("",):
            for verb, part, method, path in requests_on(kind, namespace):
                for user in ("ada", "grace"):
                    may = (user, namespace, group, part, verb) in granted
                    asked.add((user, namespace, group, part, verb))
                    reply = await face.ask(user, method, path, {} if method in ("POST", "PUT", "PATCH") else None)
                    refused = reply.code == 403 and f'User "{user}" cannot ' in reply.json()["message"]
                    if refused == may or reply.code == 401 or (reply.code >= 500 and reply.code != 501):
                        wrong.append(f"{user} {method} {path}: {reply.code} {reply.body[:200]!r}, granted: {may}")
    assert not wrong, f"{len(wrong)} answers are wrong:\n" + "\n".join(wrong[:20])
    assert granted <= asked, f"never asked for: {sorted(granted - asked)[:5]}"
    assert len(asked) > 2_000


async def test_without_rbac_everybody_with_a_token_may_everything(tmp_path: Path) -> None:
    face = AccessFace(tmp_path, rbac=False)
    await given(face)
    for kind in face.store.kinds.all():
        for namespace in ("a",) if kind.namespaced else ("",):
            for _, _, method, path in requests_on(kind, namespace):
                reply = await face.ask("ada", method, path, {} if method in ("POST", "PUT", "PATCH") else None)
                assert reply.code not in (401, 403), (method, path, reply.body)


async def test_paths_that_are_no_resources_are_refused_too(tmp_path: Path) -> None:
    face = AccessFace(tmp_path)
    await given(face)
    for path, code in {"/metrics": 403, "/api": 200, "/apis/apps/v1": 200, "/openapi/v2": 200, "/version": 200}.items():
        assert (await face.ask("ada", "GET", path)).code == code, path
    odd = ("/api/v1//secrets", "/api/v1/namespaces/b%2Fsecrets", "/api/v1/namespaces//secrets", "/API/v1/secrets")
    for path in odd:
        assert (await face.ask("ada", "GET", path)).code in (403, 404), path
