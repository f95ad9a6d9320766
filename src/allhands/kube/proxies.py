"""Through which proxy the server is reached: the kubeconfig's, else the environment's, as other Kubernetes clients have
it. A server on this machine is never asked through a proxy that only the environment names."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from allhands.kube.kubeconfig_fields import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.kube.access import Access


def proxy_for(access: Access, environment: Mapping[str, str] | None = None) -> str:
    """The proxy's URL, empty for none."""
    if access.proxy_url:
        return access.proxy_url
    environment = os.environ if environment is None else environment
    server = urlsplit(access.server)
    host, port = server.hostname or "", server.port or (443 if server.scheme == "https" else 80)
    variable = f"{server.scheme.upper()}_PROXY"
    proxy = environment.get(variable) or environment.get(variable.lower()) or ""
    if not proxy or is_loopback(host) or _is_exempt(host, port, environment):
        return ""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise KubeconfigError(f"{variable}: {urlsplit(proxy).scheme}:// is not supported; http:// and https:// are")
    return proxy


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _is_exempt(host: str, port: int, environment: Mapping[str, str]) -> bool:
    """NO_PROXY holds names (with all below them), addresses, networks, each with or without a port, or `*`."""
    listed = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    for entry in (part.strip().lower() for part in listed.split(",")):
        if entry == "*":
            return True
        name, _, only_port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if only_port and only_port != str(port):
            continue
        if name and (_matches_name(host, name) or _is_within(host, name)):
            return True
    return False


def _matches_name(host: str, name: str) -> bool:
    bare = name.removeprefix("*").removeprefix(".")
    return bool(bare) and (host.endswith(f".{bare}") or (host == bare and not name.startswith(".")))


def _is_within(host: str, network: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    return False
