"""The names that a Volcano Job may have in `plugins`, and which of them bring others along.

Only words: what a plugin does is in `lifecycle.volcano_job.plugins`, one file for each of these names.
"""

from typing import Final

ENV: Final = "env"
SSH: Final = "ssh"
SVC: Final = "svc"
MPI: Final = "mpi"
PYTORCH: Final = "pytorch"
TENSORFLOW: Final = "tensorflow"
RAY: Final = "ray"
JAX: Final = "jax"
HOROVOD: Final = "horovod"
HCCLRANK: Final = "hcclrank"

JOB_PLUGINS: Final = frozenset({ENV, SSH, SVC, MPI, PYTORCH, TENSORFLOW, RAY, JAX, HOROVOD, HCCLRANK})
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    TENSORFLOW: (SVC,),
    PYTORCH: (SVC,),
    RAY: (SVC,),
    JAX: (SVC,),
    MPI: (SVC, SSH),
    HOROVOD: (SVC, SSH),
}
"""Plugins that a Job gets without naming them, because another one that it names cannot do without."""
DEFAULT_MPI_MASTER: Final = "master"
