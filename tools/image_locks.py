"""Writes which locked packages go into the image: what allhands needs to run, and what builds its wheel.

Both are parts of requirements.lock, hashes included, so there is one lock and nothing can drift. Run it after
`make lock`, in the environment that has these packages; a test says when it is due.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
FOLDER = ROOT / "image"


def locked() -> dict[str, str]:
    """Name -> its lines in the lock. A package may be there several times, for different Pythons."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", LOCK.read_text(encoding="utf-8").strip()):
        name = canonicalize_name(re.split(r"[=\[ ;]", entry, maxsplit=1)[0])
        found[name] = f"{found.get(name, '')}{entry}\n"
    return found


def needed_by(names: Iterable[str]) -> set[str]:
    """The packages themselves and all that they need, on the image's platform."""
    found: set[str] = set()
    pending = [(name, "") for name in names]
    while pending:
        name, extra = pending.pop()
        key = canonicalize_name(name)
        if key in found and not extra:
            continue
        found.add(key)
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate(
                {"extra": extra, "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
            )
            if wanted:
                pending.append((requirement.name, ""))
                pending += [(requirement.name, it) for it in sorted(requirement.extras)]
    return found


def files() -> dict[str, str]:
    """By name, what each is to hold."""
    entries = locked()
    found = {}
    for name, roots in (("runtime.lock", ("allhands",)), ("build.lock", ("hatchling",))):
        wanted = sorted(needed_by(roots) - {"allhands"})
        missing = [it for it in wanted if it not in entries]
        if missing:
            raise SystemExit(f"not in {LOCK.name}: {', '.join(missing)}")
        found[name] = "".join(entries[it] for it in wanted)
    return found


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
