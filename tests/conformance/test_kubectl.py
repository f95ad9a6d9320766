"""The stock kubectl gives the same commands to both servers: exit code, output and complaints are the same.

Times, ages, uids, versions, generated names, the server's address and the width of columns are replaced before the
comparison. Whatever else may differ is a row of ACCEPTED, with its reason.
"""

from __future__ import annotations

import datetime
import difflib
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from tests.conformance.normalise import Normaliser

if TYPE_CHECKING:
    from allhands.compose.embedded import EmbeddedCluster
    from tests.controlplane import ControlPlane

PATIENCE_SECONDS = 60
OWNERS_SHOWN = "-o yaml --show-managed-fields"
EDITOR = "sed -i -e s/: v$/:\\ edited/ -e s/size:\\ .*/size:\\ 7/"
"""What `kubectl edit` does with an object."""


class Accepted(msgspec.Struct, frozen=True):
    """Lines of the output of commands that start like this are left out on the side that is named, and why."""

    command: str
    side: str
    line: str
    reason: str


_NOT_SERVED = (
    r"\b(admissionregistration|apiregistration|certificates|flowcontrol\.apiserver|resource)\.k8s\.io\b"
    r"|\bautoscaling/v|\bcomponentstatuses\b"
    r"|\b(ingresses|ingressclasses|ipaddresses|servicecidrs|volumeattributesclasses)\b"
)
ACCEPTED = (
    Accepted("api-resources", "real", _NOT_SERVED, "ours serves the kinds that a batch system touches"),
    Accepted("api-versions", "real", _NOT_SERVED, "ours serves the kinds that a batch system touches"),
    Accepted("patch pod a --type=json", "both", "^The request is invalid: ", "ours says why a patch does not apply"),
    Accepted(
        "auth can-i --list",
        "embedded",
        r"^(nodes|priorityclasses\.|queues\.|hypernodes\.)",
        "everybody who was let in may see what a job waits for",
    ),
    Accepted("explain", "both", r"^ *enum: ", "ours publishes the schemas without the lists of allowed words"),
)


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Commands in order; `name` is a sentence."""

    name: str
    commands: list[str]


class _Commands(msgspec.Struct, frozen=True):
    files: dict[str, Any]
    groups: list[Group]


COMMANDS = msgspec.convert(
    yaml.safe_load((Path(__file__).parent / "kubectl_commands.yaml").read_text(encoding="utf-8")), _Commands
)

_DESCRIBED_TIME = re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
_AGE = re.compile(r"(?<![\w.-])(\d+m)?\d+s(?![\w-])")
"""No test is older than an hour; amounts like `100m` stay."""
_VERSION = re.compile(r'(resourceVersion"?: ?"?|Resource Version: +)\d+')
_LOGGED = re.compile(r"^([EWI])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", re.MULTILINE)
_GENERATED = re.compile(r"\b(made-)[a-z0-9]{5}\b")
_COMPARED_FILE = re.compile(r"(?:/\S+/)?(LIVE|MERGED)-\d+/(\S+)(\t.*)?")
_DIFF_COMMAND = re.compile(r"^diff -u -N .*$", re.MULTILINE)
_SPACES = re.compile(r"(?<=\S)[ \t]{2,}")


class Kubectl:
    """A kubectl for one server and one namespace, with caches of its own."""

    def __init__(self, side: str, program: Path, kubeconfig: Path, url: str, namespace: str, folder: Path) -> None:
        self.side, self._url, self._namespace, self._folder = side, url, namespace, folder
        self._home = folder / side
        self._home.mkdir()
        self._normalise = Normaliser(datetime.datetime.now(datetime.UTC))
        self._begin = [str(program), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]

    def start(self, command: str) -> subprocess.Popen[str]:
        filled = command.replace("{ns}", self._namespace).replace("{folder}", str(self._folder))
        environment = {**os.environ, "HOME": str(self._home), "KUBECTL_KUBERC": "false", "TMPDIR": str(self._home)}
        environment |= {"KUBE_EDITOR": EDITOR}
        return subprocess.Popen(
            [*self._begin, *shlex.split(filled)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def finish(self, command: str, running: subprocess.Popen[str]) -> str:
        """Exit code, output and complaints as one text that can be compared."""
        output, complaint = running.communicate(timeout=PATIENCE_SECONDS)
        if OWNERS_SHOWN in command and output:  # their order depends on the second in which they wrote
            output = yaml.safe_dump(self._normalise(yaml.safe_load(output), ""))
        texts = (f"-- {name}\n{self._normal(text)}" for name, text in (("stdout", output), ("stderr", complaint)))
        text = f"exit {running.returncode}\n" + "".join(texts)
        dropped = [row.line for row in ACCEPTED if row.side in (self.side, "both") and command.startswith(row.command)]
        return "\n".join(line for line in text.splitlines() if not any(re.search(each, line) for each in dropped))

    def _normal(self, text: str) -> str:
        text = self._normalise.text(text).replace(self._url, "<server>").replace(str(self._folder), "<folder>")
        text = _LOGGED.sub(r"\1 <logged> ", text)
        text = _DESCRIBED_TIME.sub("<time>", text)
        text = _VERSION.sub(r"\1<version>", text)
        text = _GENERATED.sub(r"\1<generated>", text)
        text = _COMPARED_FILE.sub(r"\1/\2", text)
        text = _DIFF_COMMAND.sub("diff -u -N", text)
        text = _AGE.sub("<age>", text)
        return _SPACES.sub("  ", text)


def _write_files(folder: Path, namespace: str) -> None:
    for name, content in COMMANDS.files.items():
        documents = content if isinstance(content, list) else [content]
        text = content if isinstance(content, str) else yaml.safe_dump_all(documents)
        (folder / name).write_text(text.replace("{ns}", namespace), encoding="utf-8")


def _difference(command: str, theirs: str, ours: str) -> str:
    lines = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "real", "embedded", n=2, lineterm="")
    return f"$ kubectl {command}\n" + "\n".join(lines)


@pytest.mark.parametrize("group", COMMANDS.groups, ids=lambda group: group.name)
def test_kubectl_cannot_tell_the_servers_apart(
    group: Group, control_plane: ControlPlane, embedded_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    namespace = f"k-{os.urandom(4).hex()}"
    _write_files(tmp_path, namespace)
    program = control_plane.kubectl
    pair = (
        Kubectl("real", program, control_plane.kubeconfig, control_plane.url, namespace, tmp_path),
        Kubectl("embedded", program, embedded_cluster.kubeconfig, embedded_cluster.url, namespace, tmp_path),
    )
    different = []
    for command in ["create namespace {ns}", *group.commands]:
        running = [kubectl.start(command) for kubectl in pair]
        theirs, ours = (kubectl.finish(command, each) for kubectl, each in zip(pair, running, strict=True))
        if theirs != ours:
            different.append(_difference(command, theirs, ours))
    assert not different, f"{len(different)} commands differ\n\n" + "\n\n".join(different)
