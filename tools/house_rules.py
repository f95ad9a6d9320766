"""House rules that no linter knows: no registry host, no foreign path, no forbidden name, no dead module.

Runs in `make check`. Each rule prints the place and the reason; the exit code is the number of findings, at most 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BANNED_TEXT = {
    r"pypi\.org|pythonhosted|registry\.npmjs|proxy\.golang|sum\.golang|deb\.debian": "names a registry host",
    r"/root/(?!\.ssh\b)|/home/[a-z]+/": "names a path of one machine",  # every container has a home of root
    r"time\.sleep\((?!POLL_SECONDS\))": "sleeps; wait for the condition instead, and look at it every POLL_SECONDS",
}
BANNED_MODULES = {"utils", "helpers", "common", "manager", "misc"}
MAX_MODULE_LINES = 500
LARGE_ON_PURPOSE: set[str] = set()
BINARY_SUFFIXES = {".png", ".ico", ".gz"}


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def findings() -> list[str]:
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in BINARY_SUFFIXES or path == Path(__file__).resolve():
            continue
        text = path.read_text(encoding="utf-8")
        for pattern, reason in BANNED_TEXT.items():
            found += [
                f"{name}:{number}: {reason}"
                for number, line in enumerate(text.splitlines(), 1)
                if re.search(pattern, line)
            ]
        if path.suffix == ".py" and name.startswith("src/"):
            found += module_findings(name, path, text)
    return found


def module_findings(name: str, path: Path, text: str) -> list[str]:
    found = []
    if path.stem in BANNED_MODULES:
        found.append(f"{name}: a module is named after its concept, not '{path.stem}'")
    if text.strip() and not text.lstrip().startswith('"""'):
        found.append(f"{name}: a module opens with why it exists")
    lines = text.count("\n")
    if lines > MAX_MODULE_LINES and name not in LARGE_ON_PURPOSE:
        found.append(f"{name}: {lines} lines; split by concept or state the reason in LARGE_ON_PURPOSE")
    return found


if __name__ == "__main__":
    problems = findings()
    print("\n".join(problems) or "no findings")  # noqa: T201
    sys.exit(bool(problems))
