"""The face of a cluster that looks at rights, without a network: a store with its roles, and people with tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allhands.compose.rights import SubmitterRights, install_roles
from allhands.server.access.account_tokens import AccountTokens, signing_key
from allhands.server.access.gate import Gate
from allhands.server.access.people import People, TokensOfPeople, people_file
from allhands.server.app import build_app
from allhands.store import InProcessObjects, Store
from allhands.store.roles import StoredRoles
from tests.doubles import CountingIds, ManualClock
from tests.unit.server.asgi_client import TOKEN, Client, Reply

if TYPE_CHECKING:
    from pathlib import Path

    from allhands.agents.usage import Usages
    from allhands.server.access.audit import Audit

API = "/apis/rbac.authorization.k8s.io/v1"


class AccessFace:
    """`ask` asks as one of the people, or as the administrator."""

    def __init__(
        self,
        folder: Path,
        *,
        rbac: bool = True,
        audit: Audit | None = None,
        usages: Usages | None = None,
        **store: Any,
    ) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock, CountingIds(), **store)
        self.objects = InProcessObjects(self.store)
        self.people = People(folder)
        self.tokens = {"admin": TOKEN}
        self.accounts = AccountTokens(signing_key(folder / "pki" / "accounts.key"), self.objects, self.clock)
        roles = StoredRoles(self.store)
        if rbac:
            self.store.check_submitter = SubmitterRights(self.store, roles)
        gate = Gate(TOKEN, TokensOfPeople(people_file(folder)), self.accounts, roles if rbac else None)
        app = build_app(
            self.objects, self.store.kinds, token=TOKEN, clock=self.clock, gate=gate, audit=audit, usages=usages
        )
        self.client = Client(app)

    async def begin(self, *people: str) -> None:
        await install_roles(self.objects)
        for name in people:
            self.tokens[name] = self.people.add(name, (f"{name}s",), "")

    async def ask(
        self, who: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        sent = {"authorization": f"Bearer {self.tokens.get(who, who)}"} | (headers or {})
        return await self.client.ask(method, path, None if body is None else msgspec.json.encode(body), sent)

    async def make(self, path: str, body: Any, who: str = "admin") -> dict[str, Any]:
        reply = await self.ask(who, "POST", path, body)
        assert reply.code == 201, reply.body
        return dict(reply.json())

    async def grant(self, who: str, namespace: str, *rules: dict[str, Any]) -> None:
        """A role of exactly these rules, in the namespace or everywhere."""
        name = f"{who}-{len(rules)}-{namespace or 'everywhere'}"
        kind, where = ("Role", f"{API}/namespaces/{namespace}") if namespace else ("ClusterRole", API)
        await self.make(f"{where}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
        subjects = [{"kind": "User", "name": who}]
        binding = {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}, "subjects": subjects}
        await self.make(f"{where}/{kind.lower()}bindings", binding)


def rule(verbs: str, group: str, resources: str, **more: Any) -> dict[str, Any]:
    """Words for lists: `rule("get list", "", "pods pods/log")`."""
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split(), **more}
