"""Kubeconfig files: what administrators hand out is understood, what is missing is named."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allhands.kube.kubeconfig import KubeconfigError, default_paths, load

if TYPE_CHECKING:
    from pathlib import Path


def document(**changes: Any) -> dict[str, Any]:
    ca = base64.b64encode(b"PEM").decode()
    return {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1/", "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        **changes,
    }


def written(folder: Path, content: object) -> Path:
    path = folder / "kubeconfig"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_inline_data_and_a_token_are_read(tmp_path: Path) -> None:
    access = load(written(tmp_path, document()))
    assert (access.server, access.ca_pem, access.token, access.namespace) == (
        "https://127.0.0.1:1",
        b"PEM",
        "secret",
        "team",
    )


def test_files_are_looked_for_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"FROM FILE")
    cluster = {"name": "c", "cluster": {"server": "https://x", "certificate-authority": "ca.crt"}}
    assert load(written(tmp_path, document(clusters=[cluster]))).ca_pem == b"FROM FILE"


def test_another_context_can_be_named(tmp_path: Path) -> None:
    contexts = [{"name": "other", "context": {"cluster": "c", "user": "u"}}]
    assert load(written(tmp_path, document(contexts=contexts)), "other").namespace == "default"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("a: [", "is not YAML", id="broken YAML"),
        pytest.param("- a", "must hold a mapping", id="a list"),
        pytest.param(document(**{"current-context": ""}), "current-context: is not set", id="no current context"),
        pytest.param(document(contexts=[]), "contexts: has no entry named 'main'; it has: none", id="missing context"),
        pytest.param(document(users=[{"name": "v"}]), "users: has no entry named 'u'; it has: v", id="missing user"),
        pytest.param(
            document(clusters=[{"name": "c", "cluster": {}}]), "clusters[c].cluster.server: is not set", id="no server"
        ),
        pytest.param(
            document(clusters=[{"name": "c", "cluster": {"server": "s", "certificate-authority-data": "%"}}]),
            "certificate-authority-data: is not base64",
            id="broken certificate data",
        ),
        pytest.param(
            document(clusters=[{"name": "c", "cluster": {"server": "s", "certificate-authority": "none.crt"}}]),
            "certificate-authority: none.crt: cannot be read",
            id="missing certificate file",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, content: object, complaint: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        load(written(tmp_path, content))
    assert complaint in str(caught.value)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be read"):
        load(tmp_path / "none")


def user(**fields: Any) -> dict[str, Any]:
    return document(users=[{"name": "u", "user": fields}])


def cluster(**fields: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return document(clusters=[{"name": "c", "cluster": {"server": "https://x"} | named}])


PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "tool", "interactiveMode": "Never"}


def test_of_several_files_the_first_that_names_a_thing_has_said_all_about_it(tmp_path: Path) -> None:
    first = {
        "current-context": "main",
        "users": [{"name": "u", "user": {"token": "first"}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
    }
    second = document(
        **{"current-context": "other"}, users=[{"name": "u", "user": {"username": "second", "password": "x"}}]
    )
    for name, content in (("a", first), ("b", second)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, content)
    (tmp_path / "b" / "ca.crt").write_bytes(b"OF B")
    second["clusters"][0]["cluster"] = {"server": "https://b", "certificate-authority": "ca.crt"}
    written(tmp_path / "b", second)
    access = load([tmp_path / "none", tmp_path / "a" / "kubeconfig", tmp_path / "b" / "kubeconfig"])
    assert (access.token, access.username, access.namespace) == ("first", "", "default")
    assert (access.server, access.ca_pem) == ("https://b", b"OF B")


def test_files_of_which_none_exists_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"one:.*two: none of these files exists"):
        load([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(KubeconfigError, match="no kubeconfig file is named"):
        load([])


def test_the_environment_lists_files(tmp_path: Path) -> None:
    assert default_paths({"KUBECONFIG": f"{tmp_path}/a::{tmp_path}/b:{tmp_path}/a"}) == (tmp_path / "a", tmp_path / "b")
    assert [path.name for path in default_paths({"KUBECONFIG": ""})] == ["config"]


def test_everything_that_a_cluster_says_is_read(tmp_path: Path) -> None:
    access = load(
        written(
            tmp_path,
            cluster(
                tls_server_name="api", insecure_skip_tls_verify=True, proxy_url="http://p:1", disable_compression=True
            ),
        )
    )
    assert (access.tls_server_name, access.insecure, access.proxy_url) == ("api", True, "http://p:1")
    assert access.disable_compression


def test_a_token_file_is_read_and_kept_in_mind(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" fresh\n")
    access = load(written(tmp_path, user(tokenFile="token", token="stale")))
    assert (access.token, access.token_file) == ("fresh", str(tmp_path / "token"))


def test_certificates_in_files_are_kept_in_mind(tmp_path: Path) -> None:
    (tmp_path / "crt").write_bytes(b"C")
    (tmp_path / "key").write_bytes(b"K")
    access = load(written(tmp_path, user(**{"client-certificate": "crt", "client-key": "key"})))
    assert (access.client_certificate_pem, access.client_key_pem) == (b"C", b"K")
    assert (access.client_certificate_file, access.client_key_file) == (str(tmp_path / "crt"), str(tmp_path / "key"))


def test_one_may_act_as_somebody_else(tmp_path: Path) -> None:
    fields = {"as": "her", "as-uid": "1", "as-groups": ["a", "b"], "as-user-extra": {"example.com/x": ["y"]}}
    assert load(written(tmp_path, user(**fields))).impersonation == (
        ("Impersonate-User", "her"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2Fx", "y"),
    )


def test_a_plugin_is_read_whole(tmp_path: Path) -> None:
    entry = PLUGIN | {"args": ["a", 1], "env": [{"name": "N", "value": "V"}], "installHint": "get it"}
    plugin = load(written(tmp_path, user(exec=entry))).exec_plugin
    assert plugin is not None
    assert (plugin.command, plugin.args, plugin.environment) == ("tool", ("a", "1"), (("N", "V"),))
    assert (plugin.interactive_mode, plugin.install_hint) == ("Never", "get it")
    beside = load(written(tmp_path, user(exec=PLUGIN | {"command": "./tool"}))).exec_plugin
    assert beside is not None
    assert beside.command == str(tmp_path / "tool")


def test_a_user_may_be_nobody_and_a_server_without_a_scheme(tmp_path: Path) -> None:
    content = document(contexts=[{"name": "main", "context": {"cluster": "c"}}])
    content["clusters"][0]["cluster"] = {"server": "localhost:8080"}
    access = load(written(tmp_path, content))
    assert (access.server, access.token) == ("http://localhost:8080", "")


def test_no_secret_is_shown(tmp_path: Path) -> None:
    assert "secret" not in repr(load(written(tmp_path, document())))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (document(clusters={"a": 1}), "clusters: must be a list"),
        (document(users=[{"name": "u", "user": "me"}]), "users[u].user: must be a mapping"),
        (user(token=["a"]), "users[u].user.token: must be a text"),
        (user(tokenFile="a\0b"), "users[u].user.tokenFile: 'a\\x00b' is not a path"),
        (user(tokenFile="none"), "users[u].user.tokenFile: none: cannot be read"),
        (user(username="a", token="b"), "users[u].user.username: and a token are set"),
        (user(**{"client-key-data": "QQ=="}), "users[u].user.client-certificate: is not set"),
        (user(**{"as-groups": ["a"]}), "users[u].user.as: is not set"),
        (
            user(**{"auth-provider": {"name": "gcp"}}),
            "'gcp' was removed from Kubernetes in 1.26; use the exec plugin gke",
        ),
        (user(**{"auth-provider": {"name": "oidc"}}), "kubectl oidc-login"),
        (user(exec=PLUGIN | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}), "exec.apiVersion: 'client.auth"),
        (user(exec=PLUGIN | {"command": ""}), "exec.command: is not set"),
        (user(exec=PLUGIN | {"interactiveMode": ""}), "exec.interactiveMode: is not set; allowed: Never, IfAvailable"),
        (user(exec=PLUGIN | {"interactiveMode": "Sometimes"}), "exec.interactiveMode: 'Sometimes': allowed"),
        (user(exec=PLUGIN | {"env": {"a": "b"}}), "exec.env: must be a list of mappings"),
        (cluster(server="ftp://x"), "clusters[c].cluster.server: ftp:// is not supported; https:// and http:// are"),
        (cluster(server="https://"), "names no host"),
        (cluster(server="https://x:port"), "is not a URL"),
        (cluster(proxy_url="socks5://p"), "proxy-url: socks5:// is not supported"),
        (cluster(insecure_skip_tls_verify="yes"), "must be true or false, not 'yes'"),
        (cluster(insecure_skip_tls_verify=True, certificate_authority_data="QQ=="), "remove one of them"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_path(tmp_path: Path, content: object, complaint: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        load(written(tmp_path, content))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "kubeconfig"))


def test_of_several_files_one_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    assert load([tmp_path / "empty", written(tmp_path, document())]).token == "secret"
    with pytest.raises(KubeconfigError, match="must hold a mapping"):
        load(tmp_path / "empty")
