"""Backup, restore and rescue of the file that a cluster is kept in.

A backup is taken while the cluster runs and is one moment of it. A restore overwrites nothing: what was there is moved
aside. Its versions go on above all that were ever given, and every watch of before is told to list anew, for what it
saw may never have been. A rescue reads what it can from a damaged file and writes only to a new one.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sqlite3
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.store.datafile import (
    UNMARK,
    DamagedError,
    DataFile,
    DataFileError,
    check_format,
    checksum,
    connect,
    head_of,
    refuse_lone_log,
    refuse_lost_log,
    rows,
)
from allhands.store.disk import Batch, Kept
from allhands.store.wal import has_log, log_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESTORE_GAP: Final = 1_000_000
"""So far above everything that is known of do versions go on after a restore."""
ROWS_AT_A_TIME: Final = 500
_COLUMNS: Final = "id, resource, namespace, name, version, checksum, raw"
_SIDES: Final = ("", "-wal", "-shm")


class Copied(msgspec.Struct, frozen=True):
    """What a backup holds."""

    objects: int
    version: int
    lost: tuple[str, ...] = ()
    """What could not be read, as far as its name could be."""


def backup(source: Path, target: Path) -> Copied:
    """A copy of a cluster that may be running, checked object by object. It is there whole or not at all."""
    _refuse_present(target)
    refuse_lost_log(source)
    with _building(target) as unfinished, contextlib.closing(_open_existing(source)) as connection:
        copy = _new(unfinished)
        try:
            connection.backup(copy)
            _finish(copy)
        except sqlite3.DatabaseError as error:
            raise _copy_error(source, target, error) from None
        finally:
            copy.close()
        return checked(unfinished, source)


def _finish(copy: sqlite3.Connection) -> None:
    """A copy is one file, and nobody is using it."""
    copy.execute("PRAGMA journal_mode = DELETE")
    if copy.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'in_use'").fetchone()[0]:
        copy.execute(UNMARK)


def _copy_error(source: Path, target: Path, error: sqlite3.DatabaseError) -> DataFileError:
    name = getattr(error, "sqlite_errorname", "")
    if name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_READONLY", "SQLITE_CANTOPEN"):
        return DataFileError(f"{target} cannot be written: {error}")
    return DamagedError(source, str(error))


def checked(path: Path, blamed: Path | None = None) -> Copied:
    """What a file holds, all of it read and found good. `blamed` is the file that its faults are from."""
    with contextlib.closing(_open_existing(path)) as connection:
        head = head_of(connection, blamed or path)
        count = sum(1 for _ in rows(connection, blamed or path))
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise DamagedError(blamed or path, str(problem))
    return Copied(count, head.version)


def restore(source: Path, target: Path, aside: Path) -> Copied:
    """Makes `target` what `source` holds; what was there is `aside` afterwards. Nobody may be using `target`."""
    try:
        copied = checked(source)
    except DamagedError as error:
        advice = f"allhands backup --rescue --from {shlex.quote(str(source))} FILE"
        raise DamagedError(source, error.why, advice) from None
    _refuse_present(aside)
    with _building(target.with_name(f"{target.name}.restoring"), replaces=True) as unfinished:
        with contextlib.closing(_open_existing(source)) as connection, contextlib.closing(_new(unfinished)) as copy:
            connection.backup(copy)
            _finish(copy)
            above = max(head_of(connection, source).ceiling, _ceiling_of(target)) + RESTORE_GAP
            copy.execute("UPDATE cluster SET version = ?, ceiling = ?, floor = ?", (above, above, above))
        _sync(unfinished)
        _keep(target, aside)
        if has_log(target):
            _keep(log_of(target), log_of(aside))
        for side in _SIDES[1:]:  # a log beside a file that it is not of would ruin it
            _beside(target, side).unlink(missing_ok=True)
        unfinished.replace(target)
        _sync(target.parent)
    return copied


def _beside(path: Path, side: str) -> Path:
    return path.with_name(f"{path.name}{side}")


def _keep(path: Path, aside: Path) -> None:
    """Gives what a file holds a second name, so that it stays when the first one goes."""
    if not path.exists():
        return
    try:
        aside.hardlink_to(path)
    except OSError:  # not every file system can
        shutil.copyfile(path, aside)
        _sync(aside)


def _ceiling_of(path: Path) -> int:
    """Of what is to be replaced; 0 if there is nothing, or nothing can be read."""
    try:
        with contextlib.closing(_open_existing(path)) as connection:
            return head_of(connection, path).ceiling
    except (DataFileError, FileNotFoundError):
        return 0


def rescue(source: Path, target: Path) -> Copied:
    """Everything that can be read from a damaged file, into a new one."""
    _refuse_present(target)
    lost: list[str] = []
    with _building(target) as unfinished, contextlib.closing(connect(source, read_only=True)) as connection:
        _refuse_hopeless(connection, source)
        file = DataFile(unfinished)
        file.begin()
        version = count = 0
        found: list[Kept] = []
        try:
            for kept in _readable(connection, lost):
                count += 1
                version = max(version, kept.version)
                found.append(kept)
                if len(found) == ROWS_AT_A_TIME:
                    file.write(_as_batch(found, version))
                    found = []
            if not count:
                raise _hopeless(source, "none of its objects is whole" if lost else "there are no objects in it")
            version = max(version, _ceiling_of(source))
            file.write(_as_batch(found, version))
        finally:
            file.close(version)
        with contextlib.closing(connect(unfinished)) as copy:
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.execute("UPDATE cluster SET floor = version")
    return Copied(count, version, tuple(lost))


def _refuse_hopeless(connection: sqlite3.Connection, source: Path) -> None:
    try:
        if not check_format(connection, source):
            raise _hopeless(source, "it is empty")
    except DamagedError as error:
        raise _hopeless(source, error.why) from None


def _hopeless(source: Path, why: str) -> DataFileError:
    return DataFileError(
        f"nothing can be rescued from {source}: {why}. It was left as it is. Use a backup with "
        "`allhands restore FILE`, or move the file and its log (-wal) away to begin anew"
    )


def _as_batch(found: list[Kept], version: int) -> Batch:
    return Batch(version, version, tuple(found), (), {kept.resource: version for kept in found})


def _readable(connection: sqlite3.Connection, lost: list[str]) -> Iterator[Kept]:
    """From the front and from the back as far as each goes, then one by one in between. What is lost is named in
    `lost`."""
    front = back = 0
    for direction in ("ASC", "DESC"):
        try:
            for row in connection.execute(f"SELECT {_COLUMNS} FROM objects ORDER BY id {direction}"):  # noqa: S608
                if direction == "DESC" and row[0] <= front:
                    return
                yield from _whole(row, lost)
                if direction == "ASC":
                    front = row[0]
                else:
                    back = row[0]
        except sqlite3.DatabaseError:
            continue
        if direction == "ASC":
            return
    for number in range(front + 1, back):
        try:
            for row in connection.execute(f"SELECT {_COLUMNS} FROM objects WHERE id = ?", (number,)):  # noqa: S608
                yield from _whole(row, lost)
        except sqlite3.DatabaseError:
            lost.append(_name_of(connection, number))


def _whole(row: tuple[int, str, str, str, int, int, bytes], lost: list[str]) -> Iterator[Kept]:
    number, resource, namespace, name, version, written, raw = row
    try:
        good = checksum(resource, namespace, name, version, raw) == written and msgspec.json.decode(raw) is not None
    except (TypeError, ValueError, msgspec.DecodeError):
        good = False
    if good:
        yield Kept(resource, (namespace, name), version, raw)
    else:
        lost.append("/".join(str(part) for part in (resource, namespace, name) if part) or f"object {number}")


def _name_of(connection: sqlite3.Connection, number: int) -> str:
    """The index still knows what the table has lost."""
    query = "SELECT resource, namespace, name FROM objects INDEXED BY sqlite_autoindex_objects_1 WHERE id = ?"
    try:
        found = connection.execute(query, (number,)).fetchone()
    except sqlite3.DatabaseError:
        found = None
    return "/".join(part for part in found if part) if found else f"object {number}"


def _refuse_present(path: Path) -> None:
    if path.exists():
        raise DataFileError(f"{path} is there already; nothing is overwritten")


def _open_existing(path: Path) -> sqlite3.Connection:
    refuse_lone_log(path)
    if not path.exists():
        raise DataFileError(f"{path} is not there")
    connection = connect(path, read_only=True)
    try:
        if not check_format(connection, path):
            raise DataFileError(f"{path} is empty: there is no cluster in it")
    except BaseException:
        connection.close()
        raise
    return connection


def _new(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


@contextlib.contextmanager
def _building(target: Path, *, replaces: bool = False) -> Iterator[Path]:
    """A file to write, which takes its name only when all went well."""
    unfinished = target if replaces else target.with_name(f".{target.name}.unfinished")
    _clear(unfinished)
    try:
        descriptor = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    except OSError as error:
        raise DataFileError(f"{target} cannot be written: {error.strerror}") from None
    os.close(descriptor)
    try:
        yield unfinished
        if not replaces:
            _sync(unfinished)
            unfinished.replace(target)
            _sync(target.parent)
    finally:
        _clear(unfinished)


def _clear(path: Path) -> None:
    for side in (*_SIDES, "-journal"):
        _beside(path, side).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
