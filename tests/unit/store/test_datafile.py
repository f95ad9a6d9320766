"""The file of a cluster: what is in it after a power cut at any byte, when it is damaged, foreign, old or full."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from allhands.store.datafile import APPLICATION, DamagedError, DataFile, DataFileError
from allhands.store.disk import Batch, DiskError, Kept
from allhands.store.safekeeping import backup, checked, rescue, restore
from tests.depth import SOAK

if TYPE_CHECKING:
    from pathlib import Path

    from allhands.store.record import Key

State = dict[tuple[str, "Key"], tuple[int, bytes]]
PAGE_BYTES = 4096
SECTOR_BYTES = 512
"""What a disk writes whole or not at all."""
STEP_BYTES = 509 if SOAK else 2039


def kept(name: str, version: int, size: int = 50) -> Kept:
    text = f'{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"text":"{"x" * size}"}}'
    return Kept("configmaps", ("default", name), version, text.encode())


def batch(version: int, *puts: Kept, gone: tuple[str, ...] = ()) -> Batch:
    removals = tuple(("configmaps", ("default", name)) for name in gone)
    return Batch(version, version + 100, puts, removals, {"configmaps": version})


def written(path: Path, *batches: Batch) -> None:
    """Writes, and ends in good order."""
    file = DataFile(path)
    file.begin()
    for each in batches:
        file.write(each)
    file.close(batches[-1].version if batches else None)


def state_of(path: Path) -> State:
    file = DataFile(path)
    try:
        return {(it.resource, it.key): (it.version, it.raw) for it in file.rows()}
    finally:
        file.close()


def after(state: State, each: Batch) -> State:
    put = {(it.resource, it.key): (it.version, it.raw) for it in each.puts}
    return {where: what for where, what in (state | put).items() if where not in each.removals}


def copied(source: Path, folder: Path, name: str) -> Path:
    """What a killed process leaves: the file and its log, as they are at this moment."""
    target = folder / name
    shutil.copyfile(source, target)
    log = source.with_name(f"{source.name}-wal")
    if log.exists():
        shutil.copyfile(log, target.with_name(f"{name}-wal"))
    return target


BATCHES = (
    batch(10, kept("a", 9), kept("b", 10)),
    batch(20, kept("a", 20, size=9000), gone=("b",)),
    batch(30, *(kept(f"c{number}", 21 + number, size=700) for number in range(9)), kept("b", 30)),
    batch(40, kept("c3", 40), gone=("c1", "c2", "a")),
)


def test_what_was_written_is_read_again_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    written(path, *BATCHES)
    state: State = {}
    for each in BATCHES:
        state = after(state, each)
    assert state_of(path) == state
    head = DataFile(path).head()
    assert (head.version, head.ceiling, head.touched) == (40, 40, {"configmaps": 40})


def test_odd_names_and_texts_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = Kept('a"b\\c.é', ("näme", 'q"\\\u2028'), 2, '{"x":"\\u0000 \U0001f600 é\u2028"}'.encode())
    written(tmp_path / "state.db", Batch(2, 2, (odd,), (), {odd.resource: 2}))
    file = DataFile(tmp_path / "state.db")
    assert list(file.rows()) == [odd]
    assert file.head().touched == {odd.resource: 2}
    file.close()


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    file.write(BATCHES[0])
    for each in tmp_path.iterdir():
        assert each.stat().st_mode & 0o077 == 0, each.name
    file.close()


@pytest.mark.parametrize("number", range(len(BATCHES)))
@pytest.mark.parametrize("folded", [False, True], ids=["a log that grows", "a log that begins anew"])
def test_power_cut_at_any_place_of_a_write_keeps_all_that_was_acknowledged(
    tmp_path: Path, number: int, folded: bool
) -> None:
    """The log is written from front to back: of a batch that is under way any beginning may be on disk, with what was
    there before behind it, or rubbish."""
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    acknowledged: State = {}
    for each in BATCHES[:number]:
        file.write(each)
        acknowledged = after(acknowledged, each)
    if folded:
        file.checkpoint()
    log = path.with_name("state.db-wal")
    before, database = log.read_bytes(), path.read_bytes()
    file.write(BATCHES[number])
    whole = after(acknowledged, BATCHES[number])
    now = log.read_bytes()
    file.close()
    first = next((at for at, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), len(before))
    cuts = {*range(first, len(now), STEP_BYTES), *range(32, len(now), PAGE_BYTES + 24), len(now) - 1, len(now)}
    outcomes = set()
    for cut in sorted(cut for cut in cuts | {0} if (cut >= first and cut >= SECTOR_BYTES) or cut == 0):
        for rest in (before[cut:], b"", b"\xa5" * (len(now) - cut)) if cut else (before,):
            torn = tmp_path / "torn.db"
            for side in ("", "-wal", "-shm"):
                torn.with_name(f"torn.db{side}").unlink(missing_ok=True)
            torn.write_bytes(database)
            torn.with_name("torn.db-wal").write_bytes(now[:cut] + rest)
            found = state_of(torn)
            assert found in (acknowledged, whole), f"cut at {cut}"
            outcomes.add(found == whole)
            if cut == len(now):
                assert found == whole
    assert outcomes == {True, False}


def test_power_cut_while_the_log_is_folded_keeps_all(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    state: State = {}
    for each in BATCHES:
        file.write(each)
        state = after(state, each)
    before, log = path.read_bytes(), path.with_name("state.db-wal").read_bytes()
    file.checkpoint()
    folded = path.read_bytes()
    file.close()
    pages = range(0, len(folded), PAGE_BYTES)
    for number in range(len(pages)):
        for written_pages in (set(pages[:number]), set(pages[number:]), {pages[number]}):
            torn = tmp_path / f"torn{number}.db"
            mixed = bytearray(before.ljust(len(folded), b"\0"))
            for at in written_pages:
                mixed[at : at + PAGE_BYTES] = folded[at : at + PAGE_BYTES]
            torn.write_bytes(mixed)
            torn.with_name(f"{torn.name}-wal").write_bytes(log)
            assert state_of(torn) == state


def test_log_is_folded_beside_the_writing_and_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    state: State = {}
    for each in BATCHES:
        file.write(each)
        state = after(state, each)
    log = path.with_name("state.db-wal")
    file.checkpoint_aside()
    late = batch(50, kept("late", 50))
    file.write(late)
    file.checkpoint()
    size = log.stat().st_size
    last = batch(60, kept("last", 60))
    file.write(last)
    assert log.stat().st_size == size, "the log goes on from its beginning"
    file.close()
    assert state_of(path) == after(after(state, late), last)


def test_process_killed_before_anything_was_written_leaves_a_new_cluster(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    assert state_of(path) == {}
    written(path, BATCHES[0])
    assert state_of(path) == after({}, BATCHES[0])


def test_full_disk_refuses_a_batch_whole_and_takes_the_next_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    file.write(BATCHES[0])
    pages = file._connection.execute("PRAGMA page_count").fetchone()[0]
    file._connection.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(3):
        with pytest.raises(DiskError, match=r"state.db: database or disk is full") as refused:
            file.write(batch(20, kept("small", 19), kept("large", 20, size=100_000)))
        assert refused.value.is_full
        assert state_of(copied(path, tmp_path, "seen.db")) == after({}, BATCHES[0])
    file._connection.execute("PRAGMA max_page_count = 100000")
    file.write(batch(30, kept("large", 30, size=100_000)))
    file.close()
    assert ("configmaps", ("default", "large")) in state_of(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no database at all, and long enough to be taken for one" * 100, "is damaged: file is not a database"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "is damaged"),
    ],
    ids=["something else", "a header and rubbish"],
)
def test_file_that_is_no_database_is_told_of_and_left_alone(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=says) as refused:
        DataFile(path)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("pragma", "says"),
    [
        ("application_id = 7", "not one of allhands"),
        ("user_version = 99", r"written by a newer allhands \(format 99, this one reads 1\)"),
        ("user_version = 0", "has the format 0, which this allhands does not read"),
    ],
)
def test_file_of_another_program_or_release_is_told_of_and_left_alone(tmp_path: Path, pragma: str, says: str) -> None:
    path = tmp_path / "state.db"
    written(path, BATCHES[0])
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA {pragma}")
    content = path.read_bytes()
    with pytest.raises(DataFileError, match=says):
        DataFile(path)
    assert path.read_bytes() == content
    assert APPLICATION > 0


def damage(path: Path, needle: bytes) -> None:
    content = bytearray(path.read_bytes())
    at = content.index(needle)
    content[at] ^= 0x01
    path.write_bytes(content)


def many(count: int = 400) -> Batch:
    return batch(count + 1, *(kept(f"object-{number:04}", number + 2, size=300) for number in range(count)))


def test_flipped_bit_in_an_object_is_noticed_and_the_others_are_rescued(tmp_path: Path) -> None:
    path, saved = tmp_path / "state.db", tmp_path / "saved.db"
    written(path, many())
    damage(path, b'{"metadata":{"name":"object-0123"')
    content = path.read_bytes()
    file = DataFile(path)
    with pytest.raises(DamagedError, match="the object configmaps/default/object-0123 is not what was written"):
        list(file.rows())
    file.close()
    with pytest.raises(DamagedError, match="object-0123"):
        backup(path, tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()
    result = rescue(path, saved)
    assert result.lost == ("configmaps/default/object-0123",)
    assert result.objects == 399
    assert path.read_bytes() == content, "a damaged file is never written to"
    assert len(state_of(saved)) == 399
    assert checked(saved).objects == 399


def test_pages_that_are_rubbish_cost_only_what_was_on_them(tmp_path: Path) -> None:
    path, saved = tmp_path / "state.db", tmp_path / "saved.db"
    written(path, many())
    content = bytearray(path.read_bytes())
    place = content.index(b'{"metadata":{"name":"object-0200"') // PAGE_BYTES * PAGE_BYTES
    content[place : place + PAGE_BYTES] = b"\xff" * PAGE_BYTES
    path.write_bytes(content)
    file = DataFile(path)
    with pytest.raises(DamagedError, match="allhands backup --rescue"):
        list(file.rows())
    file.close()
    result = rescue(path, saved)
    assert result.objects + len(result.lost) == 400
    assert len(result.lost) < 20
    assert "configmaps/default/object-0200" in result.lost
    assert path.read_bytes() == bytes(content)


def test_damage_in_the_middle_of_the_log_is_not_taken_for_a_power_cut(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    for each in BATCHES:
        file.write(each)
    torn = copied(path, tmp_path, "torn.db")
    file.close()
    log = torn.with_name("torn.db-wal")
    content = bytearray(log.read_bytes())
    content[32 + 24 + 4000] ^= 0xFF
    log.write_bytes(content)
    with pytest.raises(DamagedError, match="in its log"):
        DataFile(torn)
    assert log.read_bytes() == bytes(content), "the log is still there, for whoever can read it"


def test_backup_of_a_cluster_that_is_written_to_is_one_moment_of_it(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    state: State = {}
    for number, each in enumerate(BATCHES):
        file.write(each)
        state = after(state, each)
        copy = tmp_path / f"backup{number}.db"
        result = backup(path, copy)
        assert (result.objects, result.version) == (len(state), each.version)
        assert state_of(copy) == state
    file.close()
    assert sorted(it.name for it in tmp_path.iterdir() if "unfinished" in it.name) == []


def test_backup_overwrites_nothing(tmp_path: Path) -> None:
    written(tmp_path / "state.db", BATCHES[0])
    (tmp_path / "there").write_text("precious")
    with pytest.raises(DataFileError, match="is there already; nothing is overwritten"):
        backup(tmp_path / "state.db", tmp_path / "there")
    with pytest.raises(DataFileError, match="is not there"):
        backup(tmp_path / "nowhere.db", tmp_path / "new")
    assert (tmp_path / "there").read_text() == "precious"
    assert not (tmp_path / "new").exists()


def test_restore_keeps_what_was_there_and_goes_on_above_every_version(tmp_path: Path) -> None:
    path, copy, aside = tmp_path / "state.db", tmp_path / "backup.db", tmp_path / "aside.db"
    written(path, BATCHES[0])
    backup(path, copy)
    file = DataFile(path)
    file.begin()
    file.write(BATCHES[1])
    later = after(after({}, BATCHES[0]), BATCHES[1])
    file.close()
    result = restore(copy, path, aside)
    assert result.objects == 2
    assert state_of(path) == after({}, BATCHES[0])
    assert state_of(aside) == later
    head = DataFile(path).head()
    assert head.ceiling > 20 + 100
    assert head.floor == head.ceiling == head.version, "watchers of before must list anew"


def test_restore_of_a_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    path, copy = tmp_path / "state.db", tmp_path / "backup.db"
    written(path, many())
    backup(path, copy)
    damage(copy, b'{"metadata":{"name":"object-0123"')
    content = path.read_bytes()
    with pytest.raises(DamagedError, match="object-0123"):
        restore(copy, path, tmp_path / "aside.db")
    assert path.read_bytes() == content
    assert not (tmp_path / "aside.db").exists()


def test_restore_takes_the_place_of_a_damaged_file_and_keeps_it(tmp_path: Path) -> None:
    path, copy, aside = tmp_path / "state.db", tmp_path / "backup.db", tmp_path / "aside.db"
    written(path, BATCHES[0])
    backup(path, copy)
    path.write_bytes(b"rubbish" * 1000)
    restore(copy, path, aside)
    assert state_of(path) == after({}, BATCHES[0])
    assert aside.read_bytes() == b"rubbish" * 1000


def killed(folder: Path, name: str = "state.db") -> Path:
    """A file whose process was killed: all but the first batch is in the log alone."""
    source = folder / "source"
    source.mkdir()
    file = DataFile(source / "state.db")
    file.begin()
    file.write(BATCHES[0])
    file.checkpoint()
    for each in BATCHES[1:]:
        file.write(each)
    path = copied(source / "state.db", folder, name)
    file.close()
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in path.parent.glob(f"{path.name}*")}


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_log_without_its_file_is_told_of_and_left_alone(tmp_path: Path, how: str) -> None:
    path, good = killed(tmp_path), tmp_path / "good.db"
    written(good, BATCHES[0])
    path.unlink()
    if how == "empty":
        path.touch()
    before = contents(path)
    for use in (DataFile, lambda it: backup(it, tmp_path / "new"), lambda it: rescue(it, tmp_path / "new")):
        with pytest.raises(DataFileError, match=f"state.db is {how}, but its log") as refused:
            use(path)
        assert "state.db-wal" in str(refused.value)
        assert "allhands restore FILE" in str(refused.value)
        assert "--rescue" not in str(refused.value), "there is nothing to rescue"
        assert contents(path) == before
    restore(good, path, tmp_path / "aside.db")
    assert state_of(path) == after({}, BATCHES[0])
    assert (tmp_path / "aside.db-wal").read_bytes() == before["state.db-wal"]


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_file_that_was_not_closed_is_refused_without_its_log(tmp_path: Path, how: str) -> None:
    path = killed(tmp_path)
    log = path.with_name("state.db-wal")
    log.unlink()
    if how == "empty":
        log.touch()
    before = contents(path)
    for use in (DataFile, lambda it: backup(it, tmp_path / "new")):
        with pytest.raises(DamagedError, match=r"was not closed, and its log state\.db-wal is gone"):
            use(path)
        assert contents(path) == before
    rescue(path, tmp_path / "saved.db")
    restore(tmp_path / "saved.db", path, tmp_path / "aside.db")
    assert state_of(path) == after({}, BATCHES[0]), "whoever asks for it goes on with what is there"


def test_file_whose_process_was_killed_again_and_again_goes_on(tmp_path: Path) -> None:
    path = killed(tmp_path)
    for number in range(3):
        file = DataFile(path)
        state = {(it.resource, it.key): (it.version, it.raw) for it in file.rows()}
        file.begin()
        path = copied(path, tmp_path, f"again{number}.db")
        file.close()
        assert state_of(path) == state


def test_file_that_could_not_be_marked_as_closed_keeps_its_log(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file = DataFile(path)
    file.begin()
    file.write(BATCHES[0])
    file._connection.execute("PRAGMA query_only = ON")
    file.close(10)
    assert path.with_name("state.db-wal").stat().st_size > 0
    assert state_of(path) == after({}, BATCHES[0])


def test_process_killed_while_it_makes_its_file_leaves_a_new_cluster(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        shutil.copyfile(path, tmp_path / "killed.db")
    assert (tmp_path / "killed.db").stat().st_size == PAGE_BYTES
    assert state_of(tmp_path / "killed.db") == {}
    written(tmp_path / "killed.db", BATCHES[0])
    assert state_of(tmp_path / "killed.db") == after({}, BATCHES[0])


@pytest.mark.parametrize("content", [b"rubbish" * 1000, b"", b"SQLite format 3\0" + b"\xff" * 5000])
def test_rescue_of_what_cannot_be_read_at_all_does_not_advise_a_rescue(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match="othing") as refused:
        rescue(path, tmp_path / "saved.db")
    assert "--rescue" not in str(refused.value)
    assert "allhands restore FILE" in str(refused.value)
    assert not (tmp_path / "saved.db").exists()
    assert path.read_bytes() == content


@pytest.mark.parametrize("pages", [1, 2, 5, 8])
def test_rescue_of_a_file_that_was_cut_off_saves_something_or_says_that_there_is_nothing(
    tmp_path: Path, pages: int
) -> None:
    path, saved = tmp_path / "state.db", tmp_path / "saved.db"
    written(path, many())
    path.write_bytes(path.read_bytes()[: pages * PAGE_BYTES])
    try:
        assert rescue(path, saved).objects > 0
    except DataFileError as refusal:
        assert "--rescue" not in str(refusal)
        assert "othing" in str(refusal)
        assert not saved.exists()


def test_damaged_backup_is_rescued_from_its_own_place(tmp_path: Path) -> None:
    path, copy = tmp_path / "state.db", tmp_path / "backup.db"
    written(path, many())
    backup(path, copy)
    damage(copy, b'{"metadata":{"name":"object-0123"')
    with pytest.raises(DamagedError, match=r"allhands backup --rescue --from \S*backup.db FILE"):
        restore(copy, path, tmp_path / "aside.db")


def test_restore_keeps_no_empty_log(tmp_path: Path) -> None:
    path, copy = tmp_path / "state.db", tmp_path / "backup.db"
    written(path, BATCHES[0])
    backup(path, copy)
    restore(copy, path, tmp_path / "aside.db")
    assert sorted(it.name for it in tmp_path.iterdir() if it.name.startswith("aside")) == ["aside.db"]
