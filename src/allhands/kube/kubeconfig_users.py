"""Who we are, by a user entry of a kubeconfig: token, certificate, password, exec plugin, impersonation. Ways that no
client has any more are refused with the name of what took their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args
from urllib.parse import quote

import msgspec

from allhands.kube.access import ExecPlugin, InteractiveMode

if TYPE_CHECKING:
    from allhands.kube.kubeconfig_fields import Section

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
GONE_PROVIDERS: Final = {
    "gcp": "was removed from Kubernetes in 1.26; use the exec plugin gke-gcloud-auth-plugin "
    "(gcloud container clusters get-credentials writes it)",
    "azure": "was removed from Kubernetes in 1.26; use the exec plugin kubelogin "
    "(kubelogin convert-kubeconfig writes it)",
    "openstack": "was removed from Kubernetes in 1.20; use the exec plugin client-keystone-auth",
    "oidc": "is not supported; use the exec plugin kubectl oidc-login (int128/kubelogin)",
}


def identity_fields(user: Section, exec_config: Any) -> dict[str, Any]:
    """The fields of `Access` that say who we are."""
    _refuse_provider(user)
    certificate, certificate_file = user.pem("client-certificate")
    key, key_file = user.pem("client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.complaint(missing, "is not set; a certificate and its key belong together")
    token, token_file = user.text("token"), ""
    if user.text("tokenFile"):
        token, token_file = user.text_of_file("tokenFile")
    username, password = user.text("username"), user.text("password")
    if username and token:
        raise user.complaint("username", "and a token are set; only one of them can be used")
    return {
        "token": token,
        "token_file": token_file,
        "username": username,
        "password": password,
        "client_certificate_pem": certificate,
        "client_certificate_file": certificate_file,
        "client_key_pem": key,
        "client_key_file": key_file,
        "exec_plugin": _exec_plugin(user.section("exec"), exec_config) if user.values.get("exec") else None,
        "impersonation": _impersonation(user),
    }


def _refuse_provider(user: Section) -> None:
    if user.values.get("auth-provider"):
        provider = user.section("auth-provider").text("name")
        why = GONE_PROVIDERS.get(provider, "is not supported; use an exec plugin")
        raise user.complaint("auth-provider", f"{provider!r} {why}")


def _impersonation(user: Section) -> tuple[tuple[str, str], ...]:
    name, uid, groups = user.text("as"), user.text("as-uid"), user.texts("as-groups")
    extra = user.section("as-user-extra")
    if not name and (uid or groups or extra.values):
        raise user.complaint("as", "is not set; as-uid, as-groups and as-user-extra need a user to act as")
    headers = [("Impersonate-User", name)] if name else []
    headers += [("Impersonate-Uid", uid)] if uid else []
    headers += [("Impersonate-Group", group) for group in groups]
    for key in extra.values:
        headers += [(f"Impersonate-Extra-{quote(str(key), safe='')}", value) for value in extra.texts(key)]
    return tuple(headers)


def _exec_plugin(plugin: Section, exec_config: Any) -> ExecPlugin:
    version, command = plugin.text("apiVersion"), plugin.text("command")
    if version not in EXEC_VERSIONS:
        wrong = f"{version!r} is not supported" if version else "is not set"
        raise plugin.complaint("apiVersion", f"{wrong}; allowed: {', '.join(EXEC_VERSIONS)}")
    if not command:
        raise plugin.complaint("command", "is not set; it names the program that yields credentials")
    mode = plugin.text("interactiveMode")
    if not mode and version == EXEC_VERSIONS[0]:
        raise plugin.complaint("interactiveMode", f"is not set; allowed: {', '.join(get_args(InteractiveMode))}")
    if mode and mode not in get_args(InteractiveMode):
        raise plugin.complaint("interactiveMode", f"{mode!r}: allowed: {', '.join(get_args(InteractiveMode))}")
    provides = plugin.flag("provideClusterInfo")
    return ExecPlugin(
        command=_program(command, plugin.folder),
        api_version=version,
        args=tuple(plugin.texts("args")),
        environment=tuple((it.text("name"), it.text("value")) for it in plugin.mappings("env")),
        interactive_mode=cast("InteractiveMode", mode or "IfAvailable"),
        install_hint=plugin.text("installHint"),
        provide_cluster_info=provides,
        cluster_config=_encoded(plugin, exec_config) if provides and exec_config is not None else b"",
    )


def _encoded(plugin: Section, exec_config: Any) -> bytes:
    try:
        return msgspec.json.encode(exec_config)
    except (TypeError, ValueError, RecursionError) as error:
        raise plugin.complaint("provideClusterInfo", f"the cluster's extension cannot be handed on: {error}") from None


def _program(command: str, folder: Path) -> str:
    """A path is relative to the file; a bare name is looked for when it is run, for it may be installed later."""
    if os.sep in command and not Path(command).is_absolute():
        return str((folder / command).absolute())
    return command
