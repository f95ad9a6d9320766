"""Who asks: a name, groups, and what else was found out about somebody when they were let in.

A `User` is made by who has checked a credential, and by nobody else: nothing in an object can say who submitted it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest

MASTERS: Final = "system:masters"
"""Whose members may do everything, whatever the roles say: else nobody could repair roles."""
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
_ACCOUNT: Final = "system:serviceaccount:"
_ACCOUNTS: Final = "system:serviceaccounts"


class User(msgspec.Struct, frozen=True):
    """One identity."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    def document(self) -> Manifest:
        """As `UserInfo` of the API shows it."""
        shown: Manifest = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in self.extra.items()}
        return shown


ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))


def account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{_ACCOUNT}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    return (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}")


def account_of(user_name: str) -> tuple[str, str] | None:
    """The namespace and name of the service account that a user name means; None if it means none."""
    if not user_name.startswith(_ACCOUNT):
        return None
    namespace, colon, name = user_name.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None
