"""Where the API server is and who we are there, read from a kubeconfig file.

Understands what a cluster administrator hands out: certificate authorities and client certificates as files or inline,
tokens and token files. A file that does not say enough is refused with the path of what is missing.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

if TYPE_CHECKING:
    from pathlib import Path


class KubeconfigError(ValueError):
    """The file cannot be used; the message says which part and why."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """One way into one cluster."""

    server: str
    ca_pem: bytes = b""
    token: str = ""
    token_file: str = ""
    client_certificate_pem: bytes = b""
    client_key_pem: bytes = b""
    insecure: bool = False
    namespace: str = "default"


def load(path: Path, context: str = "") -> Access:
    """The access that a context of the file describes, by default its current one."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: must hold a mapping with clusters, users and contexts")
    name = context or document.get("current-context") or ""
    if not name:
        raise KubeconfigError(f"{path}: current-context: is not set; name a context")
    chosen = _named(document, "contexts", name, path).get("context") or {}
    cluster = _named(document, "clusters", str(chosen.get("cluster") or ""), path).get("cluster") or {}
    user = _named(document, "users", str(chosen.get("user") or ""), path).get("user") or {}
    if not cluster.get("server"):
        raise KubeconfigError(f"{path}: clusters[{chosen.get('cluster')}].cluster.server: is not set")
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        ca_pem=_pem(cluster, "certificate-authority", path),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        token=str(user.get("token") or ""),
        token_file=str(user.get("tokenFile") or ""),
        client_certificate_pem=_pem(user, "client-certificate", path),
        client_key_pem=_pem(user, "client-key", path),
        namespace=str(chosen.get("namespace") or "default"),
    )


def _named(document: dict[str, Any], section: str, name: str, path: Path) -> dict[str, Any]:
    entries = document.get(section) or []
    for entry in entries:
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry
    known = ", ".join(sorted(str(entry.get("name")) for entry in entries if isinstance(entry, dict))) or "none"
    raise KubeconfigError(f"{path}: {section}: has no entry named {name!r}; it has: {known}")


def _pem(section: dict[str, Any], name: str, path: Path) -> bytes:
    inline = section.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except binascii.Error:
            raise KubeconfigError(f"{path}: {name}-data: is not base64") from None
    file = section.get(name)
    if not file:
        return b""
    try:
        return (path.parent / str(file)).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{path}: {name}: {file}: cannot be read: {error.strerror}") from None
