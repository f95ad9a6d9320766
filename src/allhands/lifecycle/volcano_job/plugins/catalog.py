"""The one list of job plugins, in the order in which they complete a pod; and a Job's plugins, read from its flags.

Nothing here looks into a plugin. The order is fixed: who reads what another has written comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import FieldError, not_supported
from allhands.lifecycle.volcano_job.plugins.env import Env
from allhands.lifecycle.volcano_job.plugins.flags import Flag, flags_of, read
from allhands.lifecycle.volcano_job.plugins.hcclrank import Hcclrank
from allhands.lifecycle.volcano_job.plugins.horovod import Horovod
from allhands.lifecycle.volcano_job.plugins.jax import Jax
from allhands.lifecycle.volcano_job.plugins.mpi import Mpi
from allhands.lifecycle.volcano_job.plugins.pytorch import Pytorch
from allhands.lifecycle.volcano_job.plugins.ray import Ray
from allhands.lifecycle.volcano_job.plugins.ssh import DEFAULT_PORT, Ssh
from allhands.lifecycle.volcano_job.plugins.svc import Svc
from allhands.lifecycle.volcano_job.plugins.tensorflow import Tensorflow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import JobPlugin
    from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

PLUGINS: Final[dict[str, type[PlainPlugin]]] = {
    "env": Env,
    "svc": Svc,
    "ssh": Ssh,
    "pytorch": Pytorch,
    "tensorflow": Tensorflow,
    "jax": Jax,
    "mpi": Mpi,
    "horovod": Horovod,
    "ray": Ray,
    "hcclrank": Hcclrank,
}
_PATH: Final = "spec.plugins"


def names() -> tuple[str, ...]:
    return tuple(PLUGINS)


def flags(name: str) -> tuple[Flag, ...]:
    """For whoever tells people what a plugin takes."""
    return flags_of(PLUGINS[name])


def plugins_of(job: JobDocument) -> tuple[JobPlugin, ...]:
    """Those that the Job names and those that they need, in their order. Unknown ones and flags that make no sense are
    passed over: `plugin_errors` tells them."""
    found = {name: read(PLUGINS[name], arguments, "")[0] for name, arguments in _known(job).items()}
    for needed in [name for plugin in found.values() for name in plugin.needs()]:
        found.setdefault(needed, PLUGINS[needed]())
    return tuple(_agreed(found)[name] for name in PLUGINS if name in found)


def plugin_errors(job: JobDocument) -> list[FieldError]:
    """Everything that is wrong with the plugins of a Job, for admission."""
    named = job.spec.plugins or {}
    errors = [not_supported(f"{_PATH}[{name}]", name, names()) for name in named if name not in PLUGINS]
    for name, arguments in _known(job).items():
        path = f"{_PATH}[{name}]"
        plugin, wrong = read(PLUGINS[name], arguments, path)
        errors += wrong or plugin.problems(job, path)
    for name in PLUGINS:
        if name not in named and name in _needed(job):
            errors += PLUGINS[name]().problems(job, f"{_PATH}[{name}]")
    return errors


def _known(job: JobDocument) -> Mapping[str, Sequence[str]]:
    named = job.spec.plugins or {}
    return {name: named[name] or () for name in PLUGINS if name in named}


def _needed(job: JobDocument) -> set[str]:
    return {it for name, flags in _known(job).items() for it in read(PLUGINS[name], flags, "")[0].needs()}


def _agreed(found: dict[str, PlainPlugin]) -> dict[str, PlainPlugin]:
    """sshd listens where the mpi plugin was told that it does, unless the ssh plugin was told otherwise."""
    ssh, mpi = found.get("ssh"), found.get("mpi")
    if isinstance(ssh, Ssh) and isinstance(mpi, Mpi) and ssh.ssh_port == DEFAULT_PORT:
        return {**found, "ssh": msgspec.structs.replace(ssh, ssh_port=mpi.port)}
    return found
