"""A stock kubectl, at the real API server or at an embedded one of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from allhands.measure.processes import wait_until
from tests.unit.server.background import Background

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from allhands.api.definitions import Definition
    from tests.controlplane import ControlPlane


class Kubectl:
    def __init__(self, binary: Path, config: Path, home: Path) -> None:
        self.config = config
        self._command = [str(binary), f"--kubeconfig={config}"]
        self._environment = os.environ | {"HOME": str(home)}

    def attempt(self, *arguments: str, manifest: dict[str, Any] | None = None) -> tuple[int, str]:
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            input=json.dumps(manifest) if manifest else "",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout + done.stderr

    def __call__(self, *arguments: str, manifest: dict[str, Any] | None = None) -> str:
        code, output = self.attempt(*arguments, manifest=manifest)
        assert code == 0, output
        return output


@contextlib.contextmanager
def kubectl_at(
    server: str, control_plane: ControlPlane, tools: Path, home: Path, kinds: Sequence[Definition]
) -> Iterator[Kubectl]:
    """`kinds` are taken from the real server afterwards: others use it too, and compare what it serves."""
    if server != "real":
        with Background(home / "server") as embedded:
            yield Kubectl(tools / "kubectl", embedded.kubeconfig, home)
        return
    kubectl = Kubectl(tools / "kubectl", control_plane.kubeconfig, home)
    yield kubectl
    # A kind that has objects ends late: the server looks again only after a while whether they are gone.
    for kind in kubectl("get", "crd", "-o", "name").split():
        if (name := kind.partition("/")[2]) in {it.name for it in kinds}:
            kubectl("delete", name, "--all", "--all-namespaces", "--wait=false")
    kubectl("delete", "crd", *(it.name for it in kinds), "--wait=false", "--ignore-not-found")
    wait_until(lambda: not _served(kubectl, kinds), 300, "the end of the kinds")


def _served(kubectl: Kubectl, kinds: Sequence[Definition]) -> bool:
    """Whether the server still knows one of them, or their groups."""
    defined, groups = kubectl("get", "crd", "-o", "name"), kubectl("get", "--raw", "/apis")
    return any(f"/{it.name}\n" in defined or it.group in groups for it in kinds)
