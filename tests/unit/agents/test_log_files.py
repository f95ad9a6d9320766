"""Logs of containers: bounded on disk, chosen by line, time and size, followed while they grow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.agents.log_files import LogFile
from allhands.agents.logs import LogOptions
from tests.depth import examples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NOON = "2026-01-31T12:00:00.000000000Z"
LATER = "2026-01-31T12:00:05.000000000Z"


async def text(log: LogFile, since: str = "", **options: object) -> bytes:
    return b"".join([piece async for piece in log.read(LogOptions(**options), since)])  # type: ignore[arg-type]


async def test_lines_of_both_streams_come_in_the_order_they_were_written(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    log.write("stdout", b"one\ntw", NOON)
    log.write("stderr", b"oops\n", NOON)
    log.write("stdout", b"o\nlast", LATER)
    log.close(LATER)
    assert await text(log) == b"one\noops\ntwo\nlast"
    assert (await text(log, timestamps=True)).startswith(f"{NOON} one\n".encode())


async def test_a_reader_may_choose(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    log.write("stdout", b"a\nb\n", NOON)
    log.write("stdout", b"c\nd\n", LATER)
    assert await text(log, tail_lines=3) == b"b\nc\nd\n"
    assert await text(log, tail_lines=0) == b""
    assert await text(log, since=LATER) == b"c\nd\n"
    assert await text(log, limit_bytes=3) == b"a\nb"
    assert await text(log, tail_lines=10**9) == b"a\nb\nc\nd\n"
    log.close(LATER)


async def test_endless_logs_keep_the_newest_within_their_bound(tmp_path: Path) -> None:
    log = LogFile(tmp_path, most_bytes=64_000)
    for number in range(20_000):
        log.write("stdout", f"line {number}\n".encode(), NOON)
    log.close(NOON)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 70_000
    kept = (await text(log)).split(b"\n")
    assert kept[-2] == b"line 19999"
    numbers = [int(line.split()[1]) for line in kept[:-1]]
    assert numbers == list(range(numbers[0], 20_000))
    assert len(numbers) > 500


async def test_a_line_without_end_is_cut_into_parts_and_shown_as_one(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    log.write("stdout", b"x" * 100_000, NOON)
    log.write("stdout", b"y\n", NOON)
    log.close(NOON)
    assert await text(log) == b"x" * 100_000 + b"y\n"


async def test_following_shows_what_comes_until_the_end(tmp_path: Path) -> None:
    log = LogFile(tmp_path, most_bytes=4_000)
    log.write("stdout", b"first\n", NOON)
    reading = asyncio.create_task(text(log, follow=True))
    await asyncio.sleep(0)
    for number in range(100):
        log.write("stdout", b"%d\n" % number, NOON)
        for _ in range(3):
            await asyncio.sleep(0)
    log.close(NOON)
    assert await reading == b"first\n" + b"".join(b"%d\n" % number for number in range(100))


async def test_a_full_disk_costs_the_log_and_nothing_else(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    (tmp_path / "0.log").unlink()
    log.write("stdout", b"a\n", NOON)
    assert await text(log) == b""
    log.close(NOON)


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40)), max_size=30))
@settings(max_examples=examples(60))
def test_what_a_stream_wrote_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bytes]]
) -> None:
    async def story() -> bytes:
        log = LogFile(tmp_path_factory.mktemp("log"))
        for stream, chunk in writes:
            log.write(stream, chunk, NOON)  # type: ignore[arg-type]
        log.close(NOON)
        return await text(log)

    shown = asyncio.run(story())
    only = [chunk for stream, chunk in writes if stream == "stdout"]
    if len(only) == len(writes):
        assert shown == b"".join(only)
    assert len(shown) == sum(len(chunk) for _, chunk in writes)
