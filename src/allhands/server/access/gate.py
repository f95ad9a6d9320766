"""The gate: every request comes through it, is somebody's when it leaves it, and is allowed.

Without a known token nobody gets past it but to health and version. What the token's owner may do is asked only where
there are rights to ask about.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from allhands.api.access.attributes import refused
from allhands.api.access.grants import ALWAYS
from allhands.api.access.identity import ANONYMOUS
from allhands.api.errors import StatusError
from allhands.server import health
from allhands.server.access.account_tokens import ISSUER
from allhands.server.access.asking import attributes_of
from allhands.server.access.authority import EverybodyMay
from allhands.server.access.impersonation import asked_in, impersonated, is_asked
from allhands.server.access.people import ADMIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.access.identity import User
    from allhands.server.access.account_tokens import AccountTokens
    from allhands.server.access.authority import Authority
    from allhands.server.access.people import TokensOfPeople
    from allhands.server.request import Request

OPEN_PATHS: Final = health.PATHS | {"version"}


class Gate:
    """Of one server. `token` is the administrator's. With an `authority` everybody may do what it allows, else all."""

    def __init__(
        self,
        token: str,
        people: TokensOfPeople | None = None,
        accounts: AccountTokens | None = None,
        authority: Authority | None = None,
    ) -> None:
        if not token:
            raise ValueError("the server needs a token: an empty one would let everybody in")
        self._token = token.encode()
        self._credential = b"Bearer " + self._token
        self._people = people
        self.accounts = accounts
        self.has_rights = authority is not None
        self.authority: Authority = authority or EverybodyMay()

    async def admit(self, request: Request) -> None:
        """Finds out who asks, and lets them through or refuses."""
        request.user = await self._authenticated(request)
        asked = asked_in(request.raw_headers) if is_asked(request.headers) else []
        if asked:
            request.impersonator = request.user
            request.user = impersonated(asked, request.user, self.authority)
        if not self.has_rights or _is_open(request):
            request.decision = ALWAYS
            return
        self._authorize(request)

    def admit_at_once(self, request: Request) -> bool:
        """The same for the administrator as such, where there are no rights to look at: nearly every request of a
        cluster that one person uses."""
        given = request.headers.get(b"authorization")
        if self.has_rights or given is None or is_asked(request.headers):
            return False
        if not hmac.compare_digest(given, self._credential):
            return False
        request.user = ADMIN
        request.decision = ALWAYS
        return True

    def _authorize(self, request: Request) -> None:
        wanted = request.attributes = attributes_of(request)
        request.decision = decision = self.authority.decide(request.user, wanted)
        if not decision.allowed:
            raise refused(request.user.name, wanted, decision.reason)
        if not request.user.is_master:
            request.submitter = request.user

    async def _authenticated(self, request: Request) -> User:
        given = request.headers.get(b"authorization")
        if given is not None:
            scheme, _, token = given.strip().partition(b" ")
            token = token.strip()
            if scheme.lower() == b"bearer" and token:
                if hmac.compare_digest(token, self._token):
                    return ADMIN
                known = await self.user_of(token)
                if known is not None:
                    return known[0]
        elif _is_open(request):
            return ANONYMOUS
        raise StatusError(401, "Unauthorized", "Unauthorized")

    async def user_of(self, token: bytes, audiences: Sequence[str] = (ISSUER,)) -> tuple[User, tuple[str, ...]] | None:
        """Whose token it is, and for which of the audiences; None if it is nobody's."""
        meant = tuple(it for it in audiences if it == ISSUER)
        if meant:
            if hmac.compare_digest(token, self._token):
                return ADMIN, meant
            person = self._people.user_of(token) if self._people is not None else None
            if person is not None:
                return person, meant
        return None if self.accounts is None else await self.accounts.user_of(token, audiences)


def _is_open(request: Request) -> bool:
    first = request.segments[:1]
    return bool(first) and first[0] in OPEN_PATHS
