"""The real helm, for tests of the chart: where `tools/build` left it, and a home of its own for what it caches."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import ToolsMissingError, tools_folder

CHART = Path(__file__).parents[1] / "charts" / "allhands"
WITHIN_SECONDS = 120


def helm_binary() -> Path:
    """The newest one beside the control plane."""
    found = sorted((tools_folder().parent / "helm").glob("*/helm"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ToolsMissingError("helm is not built: run `make tools`")
    return found[-1]


class Helm:
    def __init__(self, home: Path, kubeconfig: Path | None = None) -> None:
        self._binary = helm_binary()
        config = {"KUBECONFIG": str(kubeconfig)} if kubeconfig is not None else {}
        homes = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self._environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), **homes, **config}

    def attempt(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(self._binary), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_SECONDS,
        )
        return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def __call__(self, *arguments: str) -> str:
        code, output = self.attempt(*arguments)
        assert code == 0, output
        return output

    def rendered(self, *arguments: str, values: Path | None = None) -> list[dict[str, Any]]:
        """The objects of the chart."""
        more = [f"--values={values}"] if values is not None else []
        text = self("template", "allhands", str(CHART), *more, *arguments)
        return [it for it in yaml.safe_load_all(text) if it]
