"""The file that a cluster is kept in: SQLite, in WAL mode, every commit synced to the disk before it returns.

A batch is one statement, unpacked by a trigger inside the file: a thread that asks for the interpreter again after
every row would wait for a busy server each time. Every object carries a checksum, because SQLite does not see a bit
that flipped in a value. A file that cannot be read whole is refused and never written to; so is one whose log is lost,
and a log whose file is.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.store.disk import DiskError, Head, Kept
from allhands.store.wal import commits_behind_a_break, has_log, log_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from allhands.store.disk import Batch

FORMAT: Final = 1
"""Of the tables below; goes up when they change."""
APPLICATION: Final = 0x416C6C48
"""Marks an SQLite file as ours."""
CHECKPOINT_BYTES: Final = 16 * 1024 * 1024
"""After so much was written, the log is folded into the file."""
_LOG_BYTES_KEPT: Final = 64 * 1024 * 1024
_PAGE_BYTES: Final = 4096
_BUSY_SECONDS: Final = 10.0

_TABLES: Final = """
BEGIN;
CREATE TABLE cluster (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, ceiling INTEGER NOT NULL, floor INTEGER NOT NULL);
INSERT INTO cluster VALUES (1, 1, 1, 1);
CREATE TABLE collections (resource TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (
    id INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    version INTEGER NOT NULL, checksum INTEGER NOT NULL, raw BLOB NOT NULL, UNIQUE (resource, namespace, name));
CREATE VIEW batch AS
    SELECT NULL AS version, NULL AS ceiling, NULL AS puts, NULL AS texts, NULL AS removals, NULL AS touched;
CREATE TRIGGER take_in INSTEAD OF INSERT ON batch BEGIN
    DELETE FROM objects WHERE id IN (
        SELECT kept.id FROM json_each(NEW.removals) AS gone JOIN objects AS kept
        ON kept.resource = json_extract(gone.value, '$[0]') AND kept.namespace = json_extract(gone.value, '$[1]')
        AND kept.name = json_extract(gone.value, '$[2]'));
    INSERT INTO objects (resource, namespace, name, version, checksum, raw)
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
            json_extract(value, '$[3]'), json_extract(value, '$[4]'),
            substr(NEW.texts, json_extract(value, '$[5]'), json_extract(value, '$[6]'))
        FROM json_each(NEW.puts) WHERE true
        ON CONFLICT (resource, namespace, name)
        DO UPDATE SET version = excluded.version, checksum = excluded.checksum, raw = excluded.raw;
    INSERT INTO collections SELECT key, value FROM json_each(NEW.touched) WHERE true
        ON CONFLICT (resource) DO UPDATE SET version = excluded.version;
    UPDATE cluster SET version = NEW.version, ceiling = NEW.ceiling;
END;
"""
_MARK: Final = (
    "CREATE TABLE IF NOT EXISTS in_use (id INTEGER PRIMARY KEY CHECK (id = 1))",
    "INSERT OR IGNORE INTO in_use VALUES (1)",
)
"""From `begin` to `close` there is a row. It comes into the file itself only after the log is on disk under its name,
and is gone from it before the log is: a file with this mark and without a log has lost its log."""
UNMARK: Final = "DELETE FROM in_use"
_SETTINGS: Final = ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "cell_size_check = ON")
_WRITE: Final = "INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)"
_READ: Final = (
    "SELECT resource, namespace, name, version, checksum, raw FROM objects ORDER BY resource, namespace, name"
)


class DataFileError(Exception):
    """A file that cannot be used. The text says which, why, and what can be done."""


class DamagedError(DataFileError):
    """A file whose content is not what was written."""

    def __init__(self, path: Path, why: str, rescue: str = "allhands backup --rescue FILE") -> None:
        super().__init__(
            f"{path} is damaged: {why}. Nothing in it was changed. Save what can still be read with "
            f"`{rescue}`, then use it, or an older backup, with `allhands restore FILE`"
        )
        self.why = why


def checksum(resource: str, namespace: str, name: str, version: int, raw: bytes) -> int:
    """Of an object and of where it belongs."""
    return zlib.crc32(raw, zlib.crc32(f"{resource}\0{namespace}\0{name}\0{version}".encode()))


def refuse_lone_log(path: Path) -> None:
    """SQLite deletes the log of a file with nothing in it. No crash leaves these two: the file is on disk before its
    log is begun."""
    is_there = path.exists()
    if has_log(path) and not (is_there and path.stat().st_size):
        log = log_of(path)
        raise DataFileError(
            f"{path} is {'empty' if is_there else 'missing'}, but its log {log} is there, with changes that were "
            "acknowledged. Both were left as they are. Put the file back that the log is of, or use a backup with "
            f"`allhands restore FILE`; to begin anew, move {log.name} away"
        )


def refuse_lost_log(path: Path) -> None:
    """A file that was in use when its process ended needs its log. Looks at the file alone, and leaves nothing beside
    it."""
    if has_log(path) or not path.exists():
        return
    try:
        alone = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        with contextlib.closing(alone):
            was_in_use = alone.execute("SELECT count(*) FROM in_use").fetchone()[0] > 0
    except sqlite3.Error:
        return  # no mark yet, or what is wrong with it is found when it is read
    if was_in_use and not has_log(path):  # a cluster may just have begun
        raise DamagedError(
            path, f"it was not closed, and its log {log_of(path).name} is gone, with the last changes that it took"
        )


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection on which every statement is a transaction of its own."""
    refuse_lone_log(path)
    mode = "ro" if read_only else "rw"
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_SECONDS,
        )
    except sqlite3.Error as error:
        raise DataFileError(f"{path} cannot be opened: {error}") from None


def check_format(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is one of ours; False if there is nothing in it at all. Any other file is refused."""
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    except sqlite3.OperationalError as error:
        raise DataFileError(f"{path} cannot be read: {error}") from None
    except sqlite3.DatabaseError as error:
        raise DamagedError(path, str(error)) from None
    if is_empty and not application and not version:
        return False
    if application != APPLICATION:
        raise DataFileError(f"{path} is an SQLite file, but not one of allhands; it was left as it is")
    if version > FORMAT:
        raise DataFileError(
            f"{path} was written by a newer allhands (format {version}, this one reads {FORMAT}); it was left as it is"
        )
    if version < FORMAT:
        raise DataFileError(f"{path} has the format {version}, which this allhands does not read; it was left as it is")
    return True


def make(path: Path) -> None:
    """An empty file for a new cluster, readable by its owner alone."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    _sync_names(path.parent)


def _sync_names(folder: Path) -> None:
    """The names of files must survive a power cut too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rows(connection: sqlite3.Connection, path: Path) -> Iterator[Kept]:
    """All objects, each resource in the order of its keys. The first one that is damaged ends it."""
    try:
        for resource, namespace, name, version, written, raw in connection.execute(_READ):
            if checksum(resource, namespace, name, version, raw) != written:
                where = "/".join(part for part in (resource, namespace, name) if part)
                raise DamagedError(path, f"the object {where} is not what was written")
            yield Kept(resource, (namespace, name), version, raw)
    except sqlite3.DatabaseError as error:
        raise DamagedError(path, str(error)) from None


def head_of(connection: sqlite3.Connection, path: Path) -> Head:
    try:
        found = connection.execute("SELECT version, ceiling, floor FROM cluster").fetchone()
        touched = dict(connection.execute("SELECT resource, version FROM collections"))
    except sqlite3.DatabaseError as error:
        raise DamagedError(path, str(error)) from None
    if found is None:
        raise DamagedError(path, "it does not say which version comes next")
    version, ceiling, floor = found
    return Head(version, max(version, ceiling), floor, touched)


class DataFile:
    """The file of one cluster. Whoever opens it must know that nobody else writes to it. It is first read, whole, and
    nothing in it changes meanwhile; `begin` makes it ready to be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written_bytes = 0
        self._is_begun = False
        refuse_lone_log(path)
        refuse_lost_log(path)
        if not path.exists():
            make(path)
        self._connection = connect(path, read_only=True)
        try:
            self._is_new = not check_format(self._connection, path)
            lost = commits_behind_a_break(path)
            if lost > 1:
                raise DamagedError(path, f"{lost} batches of changes in its log (-wal) cannot be read")
        except BaseException:
            self._connection.close()
            raise

    def head(self) -> Head:
        return Head(1, 1, 1, {}) if self._is_new else head_of(self._connection, self.path)

    def rows(self) -> Iterator[Kept]:
        return iter(()) if self._is_new else rows(self._connection, self.path)

    def begin(self, ceiling: int = 1) -> None:
        """From now on it is written to, and versions up to `ceiling` may be given."""
        self._connection.close()
        connection = self._connection = connect(self.path)
        self._is_begun = True
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise DataFileError(f"{self.path} cannot be kept safe on this file system: it allows no WAL")
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES_KEPT}")
            if self._is_new:
                marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
                connection.executescript(_TABLES + marks)
            for statement in _MARK:
                connection.execute(statement)
            connection.execute("UPDATE cluster SET ceiling = max(ceiling, ?)", (ceiling,))
        except sqlite3.Error as error:
            raise DataFileError(f"{self.path} cannot be written: {error}") from None
        _sync_names(self.path.parent)
        self.checkpoint()  # brings the mark into the file itself

    def write(self, batch: Batch) -> None:
        """Returns when the batch is on disk."""
        puts, texts, offset = [], [], 1
        for kept in batch.puts:
            namespace, name = kept.key
            mark = checksum(kept.resource, namespace, name, kept.version, kept.raw)
            puts.append((kept.resource, namespace, name, kept.version, mark, offset, len(kept.raw)))
            texts.append(kept.raw)
            offset += len(kept.raw)
        removals = [(resource, *key) for resource, key in batch.removals]
        encode = msgspec.json.encode
        values = (
            batch.version,
            batch.ceiling,
            encode(puts).decode(),
            b"".join(texts),
            encode(removals).decode(),
            encode(batch.touched).decode(),
        )
        try:
            self._connection.execute(_WRITE, values)
        except sqlite3.Error as error:
            raise self._refusal(error) from None
        self._written_bytes += offset + 3 * _PAGE_BYTES * (len(puts) + len(removals) + 1)

    def _refusal(self, error: sqlite3.Error) -> DiskError:
        if self._connection.in_transaction:
            self._connection.rollback()
        name = getattr(error, "sqlite_errorname", "")
        is_full = name == "SQLITE_FULL"
        return DiskError(f"{self.path}: {error}", is_full=is_full, may_be_kept=name == "SQLITE_IOERR_FSYNC")

    @property
    def is_checkpoint_due(self) -> bool:
        return self._written_bytes >= CHECKPOINT_BYTES

    def checkpoint(self) -> None:
        """Folds the log into the file, as far as nobody reads it. What fails is done the next time."""
        self._written_bytes = 0
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def checkpoint_aside(self) -> None:
        """The same from another thread, while batches are written: all but what they add meanwhile."""
        self._written_bytes = 0
        with contextlib.suppress(sqlite3.Error, DataFileError), contextlib.closing(connect(self.path)) as connection:
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self, version: int | None = None) -> None:
        """With the last `version` that was given to anybody, no more are set apart. Errors lose nothing: the log is
        read when the file is next opened."""
        is_marked = self._is_begun
        try:
            if version is not None:
                self._connection.execute("UPDATE cluster SET ceiling = max(version, ?)", (version,))
            if is_marked:
                self._connection.execute(UNMARK)
                is_marked = False
            if version is not None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error:
            pass
        finally:
            self._close(keeps_log=is_marked)

    def _close(self, *, keeps_log: bool) -> None:
        """The last connection folds the log and deletes it, unless it is one that only reads."""
        with contextlib.ExitStack() as last:
            if keeps_log:
                with contextlib.suppress(sqlite3.Error, DataFileError):
                    reader = last.enter_context(contextlib.closing(connect(self.path, read_only=True)))
                    reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            self._connection.close()
