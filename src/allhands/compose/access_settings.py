"""What a data folder remembers about access: whether rights are looked at, and where requests are logged.

Once somebody has asked for it, it holds until somebody asks for the contrary: a start without the options must not open
a cluster that was closed. A file that cannot be read is an error, never a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.server.tls import write_private

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "access.json"
FORMAT: Final = 1


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How it is."""

    rbac: bool = False
    audit: str = ""
    """The file that requests are logged to; empty if they are not."""


class AccessWish(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants it to be; None leaves it as it was."""

    rbac: bool | None = None
    audit: Path | None = None
    no_audit: bool = False


AS_IT_WAS: Final = AccessWish()


class _File(msgspec.Struct, frozen=True):
    format: int
    rbac: bool
    audit: str = ""


class AccessSettingsError(ValueError):
    """The file cannot be understood."""


def settled(folder: Path, wish: AccessWish) -> AccessSettings:
    """How it is from now on. The folder must be held."""
    path = folder / FILE
    kept = _read(path)
    now = AccessSettings(
        rbac=kept.rbac if wish.rbac is None else wish.rbac,
        audit="" if wish.no_audit else str(wish.audit.absolute()) if wish.audit is not None else kept.audit,
    )
    if now != kept:
        write_private(path, msgspec.json.encode(_File(FORMAT, now.rbac, now.audit)) + b"\n")
    return now


def remembered(folder: Path) -> AccessSettings:
    """How it is in the folder."""
    return _read(folder / FILE)


def _read(path: Path) -> AccessSettings:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return AccessSettings()
    try:
        found = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = f"{path} is damaged ({error}): it says whether users' rights are looked at"
        raise AccessSettingsError(f"{why}; write {_example()} into it for yes") from None
    if found.format != FORMAT:
        raise AccessSettingsError(f"{path} has format {found.format}, this release reads {FORMAT}")
    return AccessSettings(rbac=found.rbac, audit=found.audit)


def _example() -> str:
    return msgspec.json.encode(_File(FORMAT, rbac=True)).decode()
