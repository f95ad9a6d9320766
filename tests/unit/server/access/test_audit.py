"""The audit log: what a line says, what it never says, and what becomes of it when the disk does not play along."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from allhands.server.access.audit import Audit, AuditFile
from tests.access_face import AccessFace
from tests.doubles import ManualClock

SECRETS = "/api/v1/namespaces/default/secrets"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_every_request_is_a_line_without_tokens_and_bodies(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"
    file = AuditFile(path)
    face = AccessFace(tmp_path, audit=Audit(file, ManualClock()))
    await face.begin("ada")
    await face.make(SECRETS, {"metadata": {"name": "s"}, "stringData": {"key": "very-secret"}})
    await face.ask("ada", "GET", f"{SECRETS}/s?pretty=true")
    await face.ask("admin", "GET", f"{SECRETS}/s", headers={"impersonate-user": "eve", "user-agent": "tests"})
    await face.ask("nonsense-token", "GET", SECRETS)
    await face.ask(
        "admin", "POST", SECRETS, {"metadata": {"name": "very_secret_name"}, "stringData": {"k": "very-secret"}}
    )
    await face.ask("admin", "GET", "/version")
    file.close()
    made, refused, acted, stranger, invalid, version = lines_of(path)
    assert made["verb"] == "create"
    assert made["objectRef"] == {"resource": "secrets", "namespace": "default", "apiVersion": "v1"}
    assert made["user"]["username"] == "admin"
    assert made["responseStatus"] == {"metadata": {}, "code": 201}
    assert made["annotations"] == {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}
    assert (made["kind"], made["apiVersion"], made["level"]) == ("Event", "audit.k8s.io/v1", "Metadata")
    assert made["stage"] == "ResponseComplete"
    assert made["stageTimestamp"] >= made["requestReceivedTimestamp"]
    assert refused["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert (refused["responseStatus"]["code"], refused["requestURI"]) == (403, f"{SECRETS}/s?pretty=true")
    assert refused["objectRef"]["name"] == "s"
    assert (acted["user"]["username"], acted["impersonatedUser"]["username"]) == ("admin", "eve")
    assert acted["userAgent"] == "tests"
    assert (stranger["responseStatus"]["code"], stranger["user"]["username"]) == (401, "system:anonymous")
    assert "annotations" not in stranger
    assert invalid["responseStatus"] == {"metadata": {}, "code": 422, "status": "Failure"}
    assert "objectRef" not in version
    text = path.read_text()
    assert "very-secret" not in text
    assert "very_secret" not in text
    assert all(token not in text for token in (*face.tokens.values(), "nonsense-token"))


def test_a_file_is_turned_over_by_its_size_and_old_ones_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(path, file_bytes=100, old_files=2)
    for number in range(100):
        file.add(b"%09d\n" % number)
    file.close()
    kept = [path.with_name("audit.log.2"), path.with_name("audit.log.1"), path]
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    numbers = [int(line) for each in kept for line in each.read_text().splitlines()]
    assert numbers == list(range(100 - len(numbers), 100)), "the last ones, in their order"
    assert all(each.stat().st_size <= 100 for each in kept)


def test_it_goes_on_with_the_file_that_is_there(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        file = AuditFile(tmp_path / "audit.log")
        file.add(text)
        file.close()
    assert (tmp_path / "audit.log").read_bytes() == b"one\ntwo\n"
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


def test_a_disk_that_takes_nothing_is_said_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    file = AuditFile(Path("/dev/full"))  # takes no byte, as a full disk does
    with caplog.at_level(logging.ERROR):
        for _ in range(50):
            file.add(b"line\n")
        file.close()
    assert file.lost_count == 50
    assert len([it for it in caplog.records if "No space left" in it.getMessage()]) == 1


def test_a_disk_that_is_too_slow_loses_lines_and_holds_nobody_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # nobody reads: a writer fills it and waits
    file = AuditFile(pipe, most_waiting=10)
    line = b"x" * 16_000 + b"\n"
    for _ in range(200):
        file.add(line)
    assert file.lost_count > 100
    os.set_blocking(reader, True)
    received = 0
    while received < (200 - file.lost_count) * len(line):
        received += len(os.read(reader, 1 << 20))
    file.close()
    os.close(reader)
    assert received == (200 - file.lost_count) * len(line), "what was not lost is whole"


def test_a_file_that_cannot_be_is_told_of_at_once(tmp_path: Path) -> None:
    (tmp_path / "audit.log").mkdir()
    with pytest.raises(IsADirectoryError):
        AuditFile(tmp_path / "audit.log")
