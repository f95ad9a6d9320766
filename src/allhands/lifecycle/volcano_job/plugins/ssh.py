"""Lets pods of a Job log in to each other: one key for all of them, in a Secret of the Job, and no questions asked.

Volcano makes an RSA key and accepts whatever host answers. Here the key is ed25519, and so is the host key, which all
pods of the Job share: it lies where sshd looks for it, and the client's configuration takes no other from a host of the
Job. Other hosts are taken as they first answer. Keys are found under `id_rsa` too, the name that scripts know.

Files are readable by their owner alone. Elsewhere than in root's home, who logs in is not root, to whom the files
belong: unless the pod has an fsGroup they are then readable by all, and, since such an sshd reads a configuration of
its own, the host key is checked only if `--host-keys=pinned` says that it was given that one.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from allhands.api.errors import FieldError, forbidden, invalid, required
from allhands.lifecycle.volcano_job.extension import Companion
from allhands.lifecycle.volcano_job.plugins.additions import add_mounts, add_volume
from allhands.lifecycle.volcano_job.plugins.beside import SECRETS, beside
from allhands.lifecycle.volcano_job.plugins.flags import Port  # noqa: TC001 (msgspec reads it)
from allhands.lifecycle.volcano_job.plugins.hosts import all_hosts
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import KeyPair

DEFAULT_PATH: Final = "/root/.ssh"
DEFAULT_PORT: Final = 22
HOST_KEY: Final = "ssh_host_ed25519_key"
HOST_KEY_PATH: Final = f"/etc/ssh/{HOST_KEY}"
MOST_LISTED: Final = 1_000
"""Hosts beyond this are only found by the pattern of their names; all of them would not fit a Secret."""
OWNER_ONLY: Final = 0o400
EVERYBODY: Final = 0o444
_FOLDER: Final = ".ssh"
_OLD_NAME: Final = "id_rsa"
_NAME: Final = "id_ed25519"


class Ssh(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    ssh_key_file_path: Annotated[str, Meta(description="The folder that containers find the keys in.")] = DEFAULT_PATH
    ssh_private_key: Annotated[
        str, Meta(description="The key to use instead of a new one. Whoever may read the Job may read it.")
    ] = ""
    ssh_public_key: Annotated[str, Meta(description="The public part of that key.")] = ""
    ssh_port: Annotated[Port, Meta(description="The port that sshd listens at.")] = DEFAULT_PORT
    host_keys: Annotated[
        Literal["", "pinned", "any"],
        Meta(
            description="pinned: only the host key of the Job is taken from its hosts; any: whatever answers. Without "
            "it, pinned in root's home and any elsewhere."
        ),
    ] = ""

    @property
    def is_pinned(self) -> bool:
        return self.host_keys == "pinned" or (not self.host_keys and self.ssh_key_file_path == DEFAULT_PATH)

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:  # noqa: ARG002
        errors = []
        place = self.ssh_key_file_path
        if not place.startswith("/") or place == "/" or ":" in place or any(it.isspace() for it in place):
            told = "--ssh-key-file-path must be an absolute path without ':' and spaces"
            errors.append(invalid(path, place, told))
        if self.ssh_private_key and not self.ssh_public_key:
            errors.append(required(path, "--ssh-public-key must be given with --ssh-private-key"))
        if self.ssh_public_key and not self.ssh_private_key:
            errors.append(forbidden(path, "--ssh-public-key is of no use without --ssh-private-key"))
        return errors

    def companions(self, job: JobDocument, new_keys: Callable[[], KeyPair]) -> tuple[Companion, ...]:
        if self.ssh_private_key:
            private, public = _line(self.ssh_private_key), _line(self.ssh_public_key)
        else:
            private, public = map(_line, new_keys())
        host = new_keys()
        data = {
            self._key_name: private,
            f"{self._key_name}.pub": public,
            "authorized_keys": public,
            "config": self._config(job),
            HOST_KEY: _line(host.private),
            f"{HOST_KEY}.pub": _line(host.public),
            "known_hosts": f"{_alias(job)} {_line(host.public)}",
        }
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        return (Companion(SECRETS, beside(job, "v1", "Secret", _secret_name(job), type="Opaque", data=encoded)),)

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:  # noqa: ARG002
        name = _secret_name(job)
        secret = {"secretName": name, "items": _items(self._key_name), "defaultMode": self._mode(pod)}
        add_volume(pod, {"name": name, "secret": secret})
        mounts = [{"name": name, "mountPath": self.ssh_key_file_path, "subPath": _FOLDER}]
        if self.is_pinned and self.ssh_key_file_path == DEFAULT_PATH:
            mounts.append({"name": name, "mountPath": HOST_KEY_PATH, "subPath": f"{_FOLDER}/{HOST_KEY}"})
        add_mounts(pod, mounts)

    @property
    def _key_name(self) -> str:
        return _OLD_NAME if self.ssh_private_key else _NAME

    def _mode(self, pod: Manifest) -> int:
        group = ((pod.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
        return OWNER_ONLY if self.ssh_key_file_path == DEFAULT_PATH or group is not None else EVERYBODY

    def _config(self, job: JobDocument) -> str:
        """What the client is told: a block for each host, by both of its names; a pattern for those that come later;
        and what holds for all."""
        blocks: list[str] = []
        listed = 0
        for hosts in all_hosts(job):
            for index in range(min(hosts.number, MOST_LISTED - listed)):
                short, full = hosts.name(index), hosts.full_name(index)
                blocks += self._block(job, f"{short} {full}", full)
                listed += 1
        for hosts in all_hosts(job):
            if not hosts.hostname:
                pattern = f"{hosts.job}-{hosts.task}-*"
                blocks += self._block(job, f"{pattern}.{hosts.subdomain}", "%h")
                blocks += self._block(job, pattern, f"%h.{hosts.subdomain}")
        blocks += ["Host *", f"  IdentityFile {self.ssh_key_file_path}/{self._key_name}"]
        known = f"{self.ssh_key_file_path}/known_hosts" if self.is_pinned else "/dev/null"
        blocks += [
            f"  StrictHostKeyChecking {'accept-new' if self.is_pinned else 'no'}",
            f"  UserKnownHostsFile {known}",
        ]
        return "\n".join(blocks) + "\n"

    def _block(self, job: JobDocument, names: str, address: str) -> list[str]:
        lines = [f"Host {names}", f"  HostName {address}", f"  Port {self.ssh_port}"]
        if self.is_pinned:
            lines += [f"  HostKeyAlias {_alias(job)}", "  StrictHostKeyChecking yes"]
        return lines


@lru_cache(maxsize=4)
def _items(key_name: str) -> list[Manifest]:
    """Which file shows which key of the Secret; the same for all pods."""
    files = []
    for name in dict.fromkeys((key_name, _OLD_NAME)):
        files += [(key_name, name), (f"{key_name}.pub", f"{name}.pub")]
    files += [(it, it) for it in ("authorized_keys", "config", "known_hosts", HOST_KEY, f"{HOST_KEY}.pub")]
    return [{"key": key, "path": f"{_FOLDER}/{path}"} for key, path in files]


def _line(text: str) -> str:
    """With an end: OpenSSH reads no key without one."""
    return text if text.endswith("\n") else f"{text}\n"


def _alias(job: JobDocument) -> str:
    """The one name that all hosts of the Job are known by."""
    return f"{job.metadata.name}.{job.metadata.namespace or 'default'}"


def _secret_name(job: JobDocument) -> str:
    return f"{job.metadata.name}-ssh"
