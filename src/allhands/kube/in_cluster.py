"""The way into the cluster that this process runs in: a pod's service account. Its token and the cluster's authority
are files that the kubelet keeps fresh; they are read again when they change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from allhands.kube.access import Access
from allhands.kube.kubeconfig_fields import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environment: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT) -> bool:
    """Whether there is such a way."""
    environment = os.environ if environment is None else environment
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def load(environment: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT) -> Access:
    environment = os.environ if environment is None else environment
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("KUBERNETES_SERVICE_HOST is not set: this process does not run in a pod")
    token, authority = _read(folder / "token"), _read(folder / "ca.crt")
    namespace = folder / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca_pem=authority,
        ca_file=str(folder / "ca.crt"),
        token=token.decode().strip(),
        token_file=str(folder / "token"),
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise KubeconfigError(
            f"{file}: cannot be read: {error.strerror}; has the pod automountServiceAccountToken: false?"
        ) from None
