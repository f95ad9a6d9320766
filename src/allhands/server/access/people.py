"""People and their tokens, in one small file of the data folder. Of a token only a digest is kept.

Tokens are 256 random bits, so a plain digest tells nobody anything; and who finds the file cannot use it. The file is
replaced in one step by the command line, and looked at anew with every request that somebody but the administrator
makes: what changes there holds from the next request on, and a removed token is worth nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import uuid
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.access.identity import AUTHENTICATED, MASTERS, User
from allhands.server.tls import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT: Final = 1
PEOPLE_FILE: Final = "users.json"
LOCK_FILE: Final = "users.lock"
ADMIN: Final = User("admin", "admin", (MASTERS, AUTHENTICATED))
"""Whoever has the token of the data folder."""
MOST_PEOPLE: Final = 10_000
MOST_GROUPS: Final = 100
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@:-]{0,251}[A-Za-z0-9])?")
_LOG = logging.getLogger(__name__)


class Person(msgspec.Struct, frozen=True):
    """One who may come in. `sha256` is the digest of their token."""

    name: str
    uid: str
    sha256: str
    groups: tuple[str, ...] = ()
    since: str = ""

    def user(self) -> User:
        return User(self.name, self.uid, (*self.groups, AUTHENTICATED))


class _File(msgspec.Struct, frozen=True):
    format: int
    users: tuple[Person, ...] = ()


class PeopleError(ValueError):
    """What is wrong with a name, a group or the file, in a sentence."""


def people_file(folder: Path) -> Path:
    return folder / PEOPLE_FILE


def digest_of(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def read_people(path: Path) -> tuple[Person, ...]:
    """Everybody in the file; nobody if there is none."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return ()
    try:
        found = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeopleError(f"{path} is damaged ({error}); move it away and add the users anew") from None
    if found.format != FORMAT:
        raise PeopleError(f"{path} has format {found.format}, this release reads {FORMAT}")
    return found.users


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_', '@', ':' and '-', beginning and ending with a letter or digit"
        raise PeopleError(f"{name!r} is no name of a user: it has 1 to 253 {allowed}")
    if name.startswith("system:") or name == ADMIN.name:
        whose = "the owner of the data folder" if name == ADMIN.name else "the cluster itself"
        raise PeopleError(f"the name {name!r} is taken: it is {whose}")


def check_groups(groups: tuple[str, ...]) -> None:
    if len(groups) > MOST_GROUPS:
        raise PeopleError(f"a user is in at most {MOST_GROUPS} groups, not in {len(groups)}")
    for group in groups:
        if not _NAME.fullmatch(group):
            raise PeopleError(f"{group!r} is no name of a group")
        if group.startswith("system:") and group != MASTERS:
            raise PeopleError(f"nobody is put into {group!r}: of the groups 'system:' only '{MASTERS}' can be given")


class People:
    """The file, to be changed. Two who change it at the same time do so one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = people_file(folder)

    def all(self) -> tuple[Person, ...]:
        return read_people(self._path)

    def add(self, name: str, groups: tuple[str, ...], since: str) -> str:
        """Lets somebody in. Returns their token, which nobody can ask for again."""
        check_name(name)
        check_groups(groups)
        with self._changing():
            people = self.all()
            if any(it.name == name for it in people):
                raise PeopleError(f"there is a user {name!r} already; `user token {name}` gives them a new token")
            if len(people) >= MOST_PEOPLE:
                raise PeopleError(f"there are {len(people)} users, which is the most there can be")
            token = _new_token()
            person = Person(name, str(uuid.uuid4()), digest_of(token.encode()), tuple(dict.fromkeys(groups)), since)
            self._write((*people, person))
        return token

    def renew(self, name: str) -> str:
        """A new token in the place of the old one."""
        with self._changing():
            people = self._with(name)
            token = _new_token()
            digest = digest_of(token.encode())
            self._write(tuple(msgspec.structs.replace(it, sha256=digest) if it.name == name else it for it in people))
        return token

    def remove(self, name: str) -> None:
        with self._changing():
            self._write(tuple(it for it in self._with(name) if it.name != name))

    def _with(self, name: str) -> tuple[Person, ...]:
        people = self.all()
        if all(it.name != name for it in people):
            if name == ADMIN.name:
                raise PeopleError(
                    "the token of 'admin' is the file `token` of the data folder: delete it and start anew"
                )
            known = ", ".join(it.name for it in people[:10])
            raise PeopleError(
                f"there is no user {name!r}; " + (f"there are: {known}" if known else "there is none yet")
            )
        return people

    def _write(self, people: tuple[Person, ...]) -> None:
        write_private(self._path, msgspec.json.format(msgspec.json.encode(_File(FORMAT, people))) + b"\n")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        descriptor = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _new_token() -> str:
    return secrets.token_urlsafe(32)


class TokensOfPeople:
    """Knows people by their tokens. While the file cannot be read nobody is known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, ...] | None = None
        self._known: dict[str, tuple[str, User]] = {}

    def user_of(self, token: bytes) -> User | None:
        self._look()
        digest = digest_of(token)
        kept, user = self._known.get(digest[:16], ("", None))
        return user if hmac.compare_digest(kept, digest) else None

    def _look(self) -> None:
        try:
            found = self._path.stat()
            state: tuple[int, ...] | None = (found.st_mtime_ns, found.st_ino, found.st_size)
        except FileNotFoundError:
            state = None
        except OSError:
            state = (-1,)
        if state == self._state:
            return
        self._state, self._known = state, {}
        try:
            self._known = {it.sha256[:16]: (it.sha256, it.user()) for it in read_people(self._path)}
        except (OSError, PeopleError):
            _LOG.exception("the users' file cannot be read: nobody but the administrator is let in")
