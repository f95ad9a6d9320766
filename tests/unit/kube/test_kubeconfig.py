"""Kubeconfig files: what administrators hand out is understood, what is missing is named."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allhands.kube.kubeconfig import KubeconfigError, load

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
