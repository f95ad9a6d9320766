"""Writes the file with which kubectl finds the server: address, authority and token, for its owner's eyes only."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml

from allhands.server.tls import write_private

if TYPE_CHECKING:
    from pathlib import Path


def kubeconfig_document(server: str, authority_pem: bytes, token: str, *, name: str = "allhands") -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority_pem).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, server: str, authority_pem: bytes, token: str, *, name: str = "allhands") -> None:
    """`server` is the whole URL. The file is replaced in one step, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = kubeconfig_document(server, authority_pem, token, name=name)
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
