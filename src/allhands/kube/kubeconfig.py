"""Where the API server is and who we are there, read from kubeconfig files.

Several files are merged as kubectl does it: whoever names a thing first has said all about it. Paths inside are
relative to the file they stand in. What does not say enough, or asks for what is gone, is refused with its path and
what to do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from allhands.kube.access import Access
from allhands.kube.kubeconfig_fields import KubeconfigError, Section
from allhands.kube.kubeconfig_users import identity_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Access", "KubeconfigError", "default_paths", "load"]

MOST_BYTES: Final = 16 * 1024 * 1024
SECTIONS: Final = ("clusters", "users", "contexts")
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


def default_paths(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The files of $KUBECONFIG, or ~/.kube/config."""
    listed = (os.environ if environment is None else environment).get("KUBECONFIG", "")
    paths = tuple(dict.fromkeys(Path(part).expanduser() for part in listed.split(os.pathsep) if part))
    return paths or (Path("~/.kube/config").expanduser(),)


def load(paths: Path | Sequence[Path], context: str = "") -> Access:
    """The access that a context of the file, or of several together, describes; by default their current one."""
    merged = _Merged([paths] if isinstance(paths, Path) else paths)
    name = context or merged.current_context
    if not name:
        raise KubeconfigError(f"{merged.source}: current-context: is not set; name a context")
    chosen = merged.named("contexts", name).section("context")
    cluster = merged.named("clusters", chosen.text("cluster")).section("cluster")
    user_name = chosen.text("user")
    user = merged.named("users", user_name).section("user") if user_name else Section({}, Path(), "users")
    server = cluster.text("server")
    if not server:
        raise cluster.complaint("server", "is not set")
    fields = _cluster_fields(cluster) | identity_fields(user, _exec_config(cluster))
    uses_tls = any(fields.get(key) for key in ("ca_pem", "client_certificate_pem", "insecure"))
    return Access(
        server=_server_url(cluster, server, uses_tls=uses_tls),
        namespace=chosen.text("namespace") or "default",
        **fields,
    )


class _Merged:
    """The entries of all files, by section and name, each with the file it came from."""

    def __init__(self, paths: Sequence[Path]) -> None:
        if not paths:
            raise KubeconfigError("no kubeconfig file is named")
        self.source = os.pathsep.join(str(path) for path in paths)
        self.current_context = ""
        self._entries: dict[str, dict[str, Section]] = {section: {} for section in SECTIONS}
        # As with kubectl one of several may be missing, but not the only one, and not all.
        present = [path for path in paths if path.exists()] if len(paths) > 1 else list(paths)
        if not present:
            raise KubeconfigError(f"{self.source}: none of these files exists")
        for path in present:
            document = _document(path)
            if document is not None or len(paths) == 1:
                self._add(path, document)

    def _add(self, path: Path, document: Any) -> None:
        if not isinstance(document, dict):
            raise KubeconfigError(f"{path}: must hold a mapping with clusters, users and contexts")
        self.current_context = self.current_context or str(document.get("current-context") or "")
        for section, known in self._entries.items():
            entries = document.get(section) or []
            if not isinstance(entries, list):
                raise KubeconfigError(f"{path}: {section}: must be a list of entries with a name")
            for entry in entries:
                if isinstance(entry, dict) and entry.get("name") is not None:
                    name = str(entry["name"])
                    known.setdefault(name, Section(entry, path.parent, f"{path}: {section}[{name}]"))

    def named(self, section: str, name: str) -> Section:
        entries = self._entries[section]
        if name in entries:
            return entries[name]
        known = ", ".join(sorted(entries)) or "none"
        raise KubeconfigError(f"{self.source}: {section}: has no entry named {name!r}; it has: {known}")


def _document(path: Path) -> Any:
    """None for an empty file."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise KubeconfigError(f"{path}: is larger than {MOST_BYTES:,} bytes, which no kubeconfig is")
        return yaml.safe_load(raw.decode("utf-8"))
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        if isinstance(error, KubeconfigError):
            raise
        raise KubeconfigError(f"{path}: is not YAML: {error}") from None


def _cluster_fields(cluster: Section) -> dict[str, Any]:
    ca_pem, ca_file = cluster.pem("certificate-authority")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and ca_pem:
        raise cluster.complaint(
            "insecure-skip-tls-verify", "says not to verify, while certificate-authority says how; remove one of them"
        )
    return {
        "ca_pem": ca_pem,
        "ca_file": ca_file,
        "insecure": insecure,
        "tls_server_name": cluster.text("tls-server-name"),
        "proxy_url": cluster.url("proxy-url", ("http", "https")) if cluster.text("proxy-url") else "",
        "disable_compression": cluster.flag("disable-compression"),
    }


def _exec_config(cluster: Section) -> Any:
    """What the cluster has to say to exec plugins."""
    for extension in cluster.mappings("extensions"):
        if extension.text("name") == EXEC_EXTENSION:
            return extension.values.get("extension")
    return None


def _server_url(cluster: Section, server: str, *, uses_tls: bool) -> str:
    if "://" not in server:
        cluster.values["server"] = f"{'https' if uses_tls else 'http'}://{server}"
    return cluster.url("server", ("https", "http")).rstrip("/")
