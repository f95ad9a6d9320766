"""The image, as far as it can be judged without building it: what it copies is there, what it must not have is not."""

from __future__ import annotations

import fnmatch
import re
import shlex
from pathlib import Path

import pytest

from allhands import __version__
from allhands.runtime.installation.workloads import PORT, USER
from tools.image_locks import FOLDER, files

ROOT = Path(__file__).parents[3]
IGNORED = [
    "tests/conftest.py",
    "tests/unit/image/test_dockerfile.py",
    ".git/HEAD",
    ".venv/bin/python",
    ".mypy_cache/x",
    ".pytest_cache/x",
    "build/x",
    "docs/install.md",
    "charts/allhands/Chart.yaml",
    "tools/build",
    "image/notes.txt",
    "examples/first.yaml",
    "src/allhands/__pycache__/ports.pyc",
    "src/allhands/cli/__pycache__/x.pyc",
    "src/stray.pyc",
    "kubeconfig",
]


def instructions() -> list[tuple[str, str]]:
    """Name and text of each, with continued lines joined and comments dropped."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name.upper(), rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for name, rest in instructions():
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append((name, rest))
    return found


def copied() -> list[str]:
    """What is taken from the tree."""
    words = [shlex.split(rest) for name, rest in instructions() if name in ("COPY", "ADD")]
    return [source for it in words if not it[0].startswith("--from") for source in it[:-1]]


def is_ignored(path: str) -> bool:
    """As Docker reads .dockerignore: the last rule that matches the path, or a folder above it, decides."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        keeps, pattern = rule.startswith("!"), rule.lstrip("!")
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        if any(_matches(pattern, it) for it in above):
            verdict = not keeps
    return verdict


def _matches(pattern: str, path: str) -> bool:
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatchcase(part, pattern[3:]) for part in path.split("/"))
    return pattern.count("/") == path.count("/") and fnmatch.fnmatchcase(path, pattern)


def test_everything_that_is_copied_is_there_and_reaches_the_builder() -> None:
    assert copied()
    for source in copied():
        place = ROOT / source
        assert place.exists(), source
        inside = [place] if place.is_file() else [it for it in place.rglob("*.py") if "__pycache__" not in it.parts]
        for file in inside:
            assert not is_ignored(file.relative_to(ROOT).as_posix()), file


@pytest.mark.parametrize("path", IGNORED)
def test_nothing_else_reaches_the_builder(path: str) -> None:
    assert is_ignored(path)


def test_what_the_wheel_is_built_of_is_copied() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in re.findall(r'^(?:readme = |license-files = \[)"([^"]+)"', project, flags=re.MULTILINE):
        assert name in copied()
    section = project.partition("[tool.hatch.build.targets.wheel.force-include]")[2].partition("\n[")[0]
    for source in re.findall(r'^"([^"]+)" = ', section, flags=re.MULTILINE):
        assert source in copied()


def test_python_is_pinned_to_its_patch_release_and_the_same_in_both_stages() -> None:
    arguments = dict(rest.split("=", 1) for name, rest in instructions() if name == "ARG")
    assert re.fullmatch(r"python:3\.11\.\d+-slim-[a-z]+", arguments["PYTHON"])
    assert [stage[0][1].partition(" ")[0] for stage in stages()] == ["${PYTHON}", "${PYTHON}"]


def test_packages_are_locked_by_hash_and_only_pip_in_the_first_stage_installs_them() -> None:
    runs = " ".join(rest for name, rest in stages()[0] if name == "RUN")
    for command in re.findall(r"pip install [^&]*", runs):
        assert "--require-hashes" in command or "--no-index" in command, command
    assert not re.search(r"\b(apt|apt-get|curl|wget|gcc|git)\b", runs)


def test_the_last_stage_only_takes_over_what_was_built_and_runs_as_nobody() -> None:
    last = stages()[-1]
    names = [name for name, _ in last]
    assert "RUN" not in names
    assert "ADD" not in names
    assert [rest for name, rest in last if name == "COPY"] == ["--from=build /opt/allhands /opt/allhands"]
    assert dict(last)["USER"] == f"{USER}:{USER}"
    assert dict(last)["EXPOSE"] == str(PORT)
    assert dict(last)["ENTRYPOINT"] == '["allhands"]'


def test_the_locks_of_the_image_are_parts_of_the_one_lock() -> None:
    """If not: `python tools/image_locks.py`."""
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.lock"))}
    assert found == files()
    for text in found.values():
        for entry in re.split(r"\n(?=\S)", text.strip()):
            assert "--hash=sha256:" in entry, entry
    assert "pytest" not in found["runtime.lock"]


def test_the_version_in_the_example_is_the_present_one() -> None:
    assert f"-t allhands:{__version__} ." in (ROOT / "Dockerfile").read_text(encoding="utf-8")
