"""`allhands bench api`, `jobs`, `kwok` and `latency` before anything starts: wrong usage, and no binaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from allhands.cli import root

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["api", "--shapes", "500x20,many"], "--shapes: 'many' is not GROUPSxPODS, such as 500x20"),
        (["api", "--nodes", "10"], "10000x1, 500x20, 20x500, 1x10000: more pods than fit on 10 nodes, which hold 160"),
        (["api", "--schedulers", "mine"], "no scheduler named mine; there are null, kube-scheduler"),
        (["api", "--schedulers-from", "no/such/folder"], "no/such/folder: is not a folder"),
        (["jobs", "--shapes", "500x20,many"], "--shapes: 'many' is not GROUPSxPODS, such as 500x20"),
        (["jobs", "--sampled", "nothing.py,out"], "--sampled: 'nothing.py,out' is not PROGRAM,DIR with a program"),
        (["jobs", "--nodes", "10"], "500x20: 10,000 pods do not fit on 10 nodes, which hold 160: add nodes"),
        (["kwok", "--schedulers", "mine"], "no scheduler named mine; there are null, kube-scheduler"),
        (["latency", "--schedulers", "mine"], "no scheduler named mine; there are null, kube-scheduler"),
        (["latency", "--nodes", "1"], "200 pods do not fit on 1 nodes, which hold 16: add nodes"),
    ],
)
def test_wrong_usage_is_told_before_anything_starts(arguments: list[str], complaint: str) -> None:
    shown = CliRunner().invoke(root, ["bench", *arguments])
    assert shown.exit_code == 2
    assert complaint in shown.stderr


@pytest.mark.parametrize("name", ["api", "jobs", "kwok", "latency"])
def test_without_binaries_it_says_what_builds_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLHANDS_TOOLS", str(tmp_path))
    shown = CliRunner().invoke(root, ["bench", name])
    assert shown.exit_code == 1
    assert "Error: the real control plane is not built" in shown.stderr
    assert "run `make tools`" in shown.stderr
    assert shown.stdout == ""
