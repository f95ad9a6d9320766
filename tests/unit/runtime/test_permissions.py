"""Which rights are missing: asked for all at once first, then one by one, and never believed too much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from allhands.api.errors import StatusError
from allhands.ports import Document
from allhands.runtime.installation.permissions import REVIEWS, RULES, Right, missing

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.ports import Objects

MANY = [
    *(Right("", "pods", verb) for verb in ("get", "list", "watch", "patch", "delete")),
    *(Right("apps", "replicasets", verb) for verb in ("list", "watch")),
    Right("", "pods/binding", "create"),
    Right("", "pods/status", "patch"),
    Right("policy", "poddisruptionbudgets", "list"),
]


class Server:
    """Grants by rules, and knows what it grants beyond them."""

    def __init__(self, rules: list[Manifest] | None, allowed: frozenset[Right] = frozenset()) -> None:
        self.rules = rules
        self.allowed = allowed
        self.asked: list[Right] = []

    @property
    def objects(self) -> Objects:
        return cast("Objects", self)

    async def create(self, resource: Resource, body: Manifest) -> Document:
        if resource == RULES:
            if self.rules is None:
                raise StatusError(404, "NotFound", "there are no such reviews")
            return Document(msgspec.json.encode({"status": {"resourceRules": self.rules, "incomplete": True}}))
        assert resource == REVIEWS
        wanted: dict[str, Any] = body["spec"]["resourceAttributes"]
        name = "/".join(filter(None, (wanted["resource"], wanted["subresource"])))
        right = Right(wanted["group"], name, wanted["verb"])
        self.asked.append(right)
        return Document(msgspec.json.encode({"status": {"allowed": right in self.allowed}}))


def rule(groups: str, resources: str, verbs: str, **more: Any) -> Manifest:
    return {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(","), **more}


async def test_what_goes_without_saying_is_not_asked_for() -> None:
    server = Server([rule("*", "*", "*")])
    assert await missing(server.objects, MANY) == []
    assert server.asked == []


async def test_what_the_rules_leave_out_is_asked_for_one_by_one() -> None:
    server = Server(
        [rule(",apps", "pods,replicasets", "list,watch"), rule("", "*/binding", "create")],
        frozenset({Right("", "pods", "get"), Right("", "pods", "patch")}),
    )
    lacking = [Right("", "pods", "delete"), Right("", "pods/status", "patch"), MANY[-1]]
    assert await missing(server.objects, MANY) == lacking
    assert set(server.asked) == {*lacking, Right("", "pods", "get"), Right("", "pods", "patch")}


async def test_a_rule_for_named_objects_or_for_subresources_grants_no_more_than_that() -> None:
    server = Server([rule("", "pods", "*", resourceNames=["one"]), rule("", "*/status", "*")])
    assert Right("", "pods", "get") in await missing(server.objects, MANY)
    assert Right("", "pods/status", "patch") not in server.asked


async def test_a_server_that_cannot_tell_its_rules_is_asked_for_each_right() -> None:
    server = Server(None, frozenset(MANY))
    assert await missing(server.objects, MANY) == []
    assert server.asked == MANY
