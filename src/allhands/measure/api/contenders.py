"""Who takes part: each scheduler is a small YAML file that says how to start it and how its gangs are written.

Ours and kube-scheduler are such files too, in `schedulers/`; others are read from a folder that the user names. A file
that cannot be used is refused with its field. docs/benchmarks.md shows every field.
"""

import shutil
import string
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import yaml
from msgspec import Meta

from allhands.measure.api.workload import Gangs

BUILT_IN: Final = Path(__file__).parent / "schedulers"
NULL: Final = "null"
OURS: Final = "allhands"
PLACES: Final = ("kubeconfig", "folder", "home", "tools", "python", "flight")
"""What `$name` stands for in commands, files and environment: see `Places`."""


class ContenderError(ValueError):
    """A scheduler's file cannot be used, or the scheduler cannot be started; the text says which, where and why."""


class Contender(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One scheduler. `plain`: takes part where there are no gangs; with `gangs`, also (or only) where there are."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,22}[a-z0-9])?$")]
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    scheduler_name: Annotated[str, Meta(min_length=1)] = "default-scheduler"
    gangs: Gangs = Gangs.NONE
    plain: bool = True
    files: Mapping[str, str] = {}
    """Written into `$folder` before the start."""
    environment: Mapping[str, str] = {}
    objects: tuple[str, ...] = ()
    """YAML files beside this one, created once before the first start, in this order: CRDs, queues, …"""
    home: str = ""
    """The folder that this was read from."""

    def takes_part(self, *, with_gangs: bool) -> bool:
        return self.gangs is not Gangs.NONE if with_gangs else self.plain


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """kubeconfig: of the user that is judged. folder: the run's own. tools: kube-scheduler and others. flight: of the
    null scheduler."""

    kubeconfig: Path
    folder: Path
    tools: Path
    flight: int

    def fill_in(self, text: str, contender: Contender, field: str) -> str:
        values = {
            "kubeconfig": self.kubeconfig, "folder": self.folder, "home": contender.home, "tools": self.tools,
            "python": sys.executable, "flight": self.flight,
        }  # fmt: skip
        try:
            return string.Template(text).substitute(values)
        except (KeyError, ValueError) as error:
            known = ", ".join(f"${name}" for name in PLACES)
            what = f"${error.args[0]}" if isinstance(error, KeyError) else "a $ without a name"
            raise ContenderError(
                f"{contender.name}: {field}: {what} stands for nothing; there are {known}, and $$ for a dollar sign"
            ) from None


class Start(msgspec.Struct, frozen=True):
    """A command with everything filled in, and its files written."""

    command: tuple[str, ...]
    environment: dict[str, str]


def prepared(contender: Contender, places: Places) -> Start:
    """Writes the scheduler's files; refuses a program that is not there."""
    for name, text in contender.files.items():
        path = places.folder / name
        if not path.resolve().is_relative_to(places.folder.resolve()):
            raise ContenderError(f"{contender.name}: files: {name!r} leads out of the run's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(places.fill_in(text, contender, f"files[{name}]"), encoding="utf-8")
    command = tuple(places.fill_in(word, contender, "command") for word in contender.command)
    if shutil.which(command[0]) is None:
        hint = ": run `make tools`" if command[0].startswith(str(places.tools)) else ""
        raise ContenderError(f"{contender.name}: command: {command[0]} is not there or cannot be run{hint}")
    given = {
        name: places.fill_in(value, contender, f"environment[{name}]") for name, value in contender.environment.items()
    }
    return Start(command, given)


def read_contender(path: Path) -> Contender:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ContenderError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ContenderError(f"{path}: is not YAML: {error}") from None
    try:
        contender = msgspec.convert(document, Contender)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        raise ContenderError(f"{path}: {where.rstrip('`') + ': ' if where else ''}{problem}") from None
    for name in contender.objects:
        if not (path.parent / name).is_file():
            raise ContenderError(f"{path}: objects: there is no file {name} beside it")
    return msgspec.structs.replace(contender, home=str(path.parent.resolve()))


def contenders_in(folder: Path) -> list[Contender]:
    """Of every file `*.yaml` that has a command: the others are objects of theirs."""
    if not folder.is_dir():
        raise ContenderError(f"{folder}: is not a folder")
    found = [
        read_contender(path) for path in sorted(folder.glob("*.yaml"), key=lambda it: it.stem) if _is_contender(path)
    ]
    if not found:
        raise ContenderError(f"{folder}: holds no scheduler: a YAML file with `name` and `command`")
    return found


def _is_contender(path: Path) -> bool:
    """Objects of Kubernetes have a kind; what cannot be read is looked at, so that it is complained of."""
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return True
    return not any(isinstance(document, dict) and "kind" in document for document in documents)


def all_contenders(more: Path | None = None) -> list[Contender]:
    """The built-in ones, the null scheduler first and ours last, and between them those of a folder."""
    built_in = {it.name: it for it in contenders_in(BUILT_IN)}
    others = contenders_in(more) if more is not None else []
    by_name = {**built_in, **{it.name: it for it in others}}
    first, last = by_name.pop(NULL), by_name.pop(OURS)
    return [first, *by_name.values(), last]


def chosen(known: Sequence[Contender], names: Sequence[str]) -> list[Contender]:
    """Those of the names, all without names; always with the null scheduler, which everybody is divided by."""
    if unknown := sorted(set(names) - {it.name for it in known}):
        there_are = ", ".join(it.name for it in known)
        raise ContenderError(f"no scheduler named {', '.join(unknown)}; there are {there_are}")
    return [it for it in known if not names or it.name in names or it.name == NULL]


def objects_of(contender: Contender) -> list[dict[str, Any]]:
    """What is created once, in order."""
    found: list[dict[str, Any]] = []
    for name in contender.objects:
        text = (Path(contender.home) / name).read_text(encoding="utf-8")
        found += [document for document in yaml.safe_load_all(text) if document]
    return found
