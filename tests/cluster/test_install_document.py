"""docs/install.md, as a person follows it: every block of commands, in its order, against the real API server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allhands import __version__
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.measure.processes import Reaper, Service, wait_until
from tests.controlplane import ControlPlane
from tests.helm import helm_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(900)  # a document's worth of commands, and some machines are slow
ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "install.md"
WITHIN_SECONDS = 300
LASTING = ("allhands scheduler", "allhands controllers")
"""These run until they are stopped."""


def blocks() -> list[str]:
    """What is between fences that are marked `sh`."""
    return re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


class Terminal:
    """A shell beside a cluster, in a copy of what the document uses."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        for name, target in (("kubectl", plane.kubectl), ("helm", helm_binary())):
            (programs / name).symlink_to(target)
        (programs / "allhands").symlink_to(Path(sys.executable).with_name("allhands"))
        shutil.copytree(ROOT / "charts", folder / "charts")
        homes = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self._environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(plane.kubeconfig),
            **homes,
        }
        self._folder = folder
        (folder / "reaped").mkdir()
        self._reaper = Reaper(folder / "reaped")
        self._lasting: list[Service] = []

    def run(self, block: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_SECONDS,
        )
        logs = "".join(it.log_tail() for it in self._lasting) if done.returncode else ""
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}{logs}"
        return done.stdout

    def begin(self, line: str) -> None:
        name = f"process-{len(self._lasting)}"
        command = ["bash", "-c", f"exec {line}"]
        self._lasting.append(Service(name, command, self._folder, self._reaper, self._environment))

    def end(self) -> None:
        while self._lasting:
            self._lasting.pop().stop(grace_seconds=60)

    def close(self) -> None:
        self.end()
        self._reaper.close()


async def _add_node(plane: ControlPlane) -> None:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        await add_node(objects, node_manifest("only", NodeSize(), "2026-01-01T00:00:00Z"))


@pytest.fixture
def terminal(real_tools: Path, tmp_path: Path) -> Iterator[Terminal]:
    del real_tools
    with ControlPlane(controllers=("job-controller", "namespace-controller"), kwok=True) as plane:
        asyncio.run(_add_node(plane))
        terminal = Terminal(plane, tmp_path)
        try:
            yield terminal
        finally:
            terminal.close()


def test_every_command_works(terminal: Terminal) -> None:
    before = terminal.run("kubectl get namespaces,crd,clusterroles,clusterrolebindings -o name")
    # In place of the Deployments, whose image nobody has built here.
    for line in LASTING:
        terminal.begin(line)
    for block in blocks():
        if "allhands uninstall" in block:
            terminal.end()
        if "allhands queues" in block:
            wait_until(lambda: "default" in terminal.run("kubectl get queues -o name || true"), 120, "the first queues")
        lasting = [line for line in block.splitlines() if line.startswith(LASTING)]
        terminal.run("\n".join(line for line in block.splitlines() if line not in lasting))
        for line in lasting:
            terminal.begin(line)
    after = terminal.run("kubectl get namespaces,crd,clusterroles,clusterrolebindings -o name")
    assert after == before, "something was left behind"


def test_the_document_names_every_option_and_the_present_version() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    shown = subprocess.run(
        [sys.executable, "-c", "from allhands.cli import main; main()", "install", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    options = set(re.findall(r"--[a-z][a-z-]+", shown.partition("Options:")[2])) - {"--help", "--context", "--output"}
    assert {it for it in options if it not in text} == set()
    assert f"allhands:{__version__}" in text
