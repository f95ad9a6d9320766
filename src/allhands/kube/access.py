"""One way into one cluster: where its API server is, and who we are there. Values only; they are read from kubeconfig
files (`kubeconfig`) or a pod's service account (`in_cluster`). Its text form never shows a secret."""

from __future__ import annotations

from typing import Literal

import msgspec

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that yields credentials, spoken to by `client.authentication.k8s.io`."""

    command: str
    """A bare name is looked for on the PATH; a path is absolute."""
    api_version: str
    args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    interactive_mode: InteractiveMode = "IfAvailable"
    install_hint: str = ""
    provide_cluster_info: bool = False
    cluster_config: bytes = b""
    """The cluster's extension for exec plugins, as JSON: handed on as it is."""

    def __repr__(self) -> str:
        return f"ExecPlugin(command={self.command!r})"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What is given both as a file and inline is the file's content when it was read; files are read again when they
    change."""

    server: str
    ca_pem: bytes = b""
    ca_file: str = ""
    tls_server_name: str = ""
    insecure: bool = False
    proxy_url: str = ""
    disable_compression: bool = False
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    client_certificate_pem: bytes = b""
    client_certificate_file: str = ""
    client_key_pem: bytes = b""
    client_key_file: str = ""
    exec_plugin: ExecPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers that say as whom to act."""
    namespace: str = "default"

    def __repr__(self) -> str:
        return f"Access(server={self.server!r}, namespace={self.namespace!r})"
