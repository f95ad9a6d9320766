"""Acting as somebody else (`kubectl --as`): whom the headers name, and which rights that takes.

Each part of the identity is a right of its own; who lacks one gets none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from allhands.api.access.attributes import Attributes, refused
from allhands.api.access.identity import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    account_groups,
    account_of,
)
from allhands.api.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allhands.server.access.authority import Authority

_PREFIX: Final = b"impersonate-"
_EXTRA: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
MOST_PARTS: Final = 256
"""Each is a decision."""

Headers = list[tuple[str, str]]


def is_asked(headers: Iterable[bytes]) -> bool:
    """Whether any of these names of headers speaks of it; nearly always none does."""
    return any(name.startswith(_PREFIX) for name in headers)


def asked_in(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The headers that speak of it."""
    return [
        (name.decode("latin-1"), value.decode("utf-8", "replace"))
        for name, value in headers
        if name.startswith(_PREFIX)
    ]


def impersonated(headers: Headers, asker: User, authority: Authority) -> User:
    """Who the asker acts as, if they may."""
    name = next((value for header, value in headers if header == "impersonate-user"), "")
    groups = tuple(value for header, value in headers if header == "impersonate-group")
    uid = next((value for header, value in headers if header == "impersonate-uid"), "")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers:
        if header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    if not name:
        raise bad_request("requested groups, extra or uid without impersonating a user")
    if len(headers) > MOST_PARTS:
        raise bad_request(f"an identity of more than {MOST_PARTS} parts is not impersonated")
    for wanted in _rights(name, groups, extra, uid):
        decision = authority.decide(asker, wanted)
        if not decision.allowed:
            raise refused(asker.name, wanted, decision.reason)
    account = account_of(name)
    if account is not None and not groups:
        groups = account_groups(account[0])
    return User(name, uid, _completed(name, groups), extra)


def _rights(name: str, groups: tuple[str, ...], extra: dict[str, tuple[str, ...]], uid: str) -> Iterator[Attributes]:
    verb, account = "impersonate", account_of(name)
    if account is not None:
        yield Attributes(verb=verb, version="v1", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes(verb=verb, resource="users", name=name)
    for group in groups:
        yield Attributes(verb=verb, resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield Attributes(verb=verb, group=_GROUP, version="v1", resource="userextras", subresource=key, name=value)
    if uid:
        yield Attributes(verb=verb, group=_GROUP, version="v1", resource="uids", name=uid)


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The group that says whether somebody was let in, unless the asker has said so themselves."""
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if {AUTHENTICATED, UNAUTHENTICATED} & set(groups) else (*groups, AUTHENTICATED)
