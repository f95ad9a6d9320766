"""`allhands scheduler` and `allhands controllers` say in one sentence why they cannot begin, and end with code 1."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from allhands.cli import root
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from allhands.compose.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedInThread(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def refused(*arguments: str, part: str = "scheduler") -> str:
    result = CliRunner().invoke(root, [part, *arguments])
    assert result.exit_code == 1, result.output
    lines = result.output.strip().splitlines()
    assert len(lines) == 1, result.output
    assert lines[0].startswith("Error: ")
    return lines[0]


def changed(cluster: EmbeddedCluster, folder: Path, **fields: str) -> Path:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    if "token" in fields:
        config["users"][0]["user"] = {"token": fields["token"]}
    if "server" in fields:
        config["clusters"][0]["cluster"]["server"] = fields["server"]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("part", ["scheduler", "controllers"])
def test_a_kubeconfig_that_is_not_there(part: str, tmp_path: Path) -> None:
    assert "No such file" in refused("--kubeconfig", str(tmp_path / "none"), part=part)


def test_a_kubeconfig_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("- 1\n")
    assert str(tmp_path / "config") in refused("--kubeconfig", str(tmp_path / "config"))


def test_a_server_that_nobody_answers_at(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens, and nobody else can
        path = changed(cluster, tmp_path, server=f"https://127.0.0.1:{held.getsockname()[1]}")
        assert "cannot be reached" in refused("--kubeconfig", str(path))


def test_a_token_that_is_not_accepted(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    path = changed(cluster, tmp_path, token="old")
    assert f"the server does not accept the credentials in {path}" in refused("--kubeconfig", str(path))


def test_a_port_that_is_taken(cluster: EmbeddedCluster) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        address = f"127.0.0.1:{held.getsockname()[1]}"
        said = refused("--kubeconfig", str(cluster.kubeconfig), "--metrics-address", address, "--log-level", "error")
        assert address in said
        assert "in use" in said


def test_a_policy_that_makes_no_sense(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("apiVersion: allhands.dev/v1\nkind: Nonsense\n")
    result = CliRunner().invoke(
        root, ["scheduler", "--kubeconfig", str(cluster.kubeconfig), "--policy", str(tmp_path / "policy.yaml")]
    )
    assert result.exit_code == 1
    assert "cannot use the policy" in result.output


@pytest.mark.parametrize("text", ["8080", "127.0.0.1:", "127.0.0.1:http", ":99999", "host:99999"])
def test_an_address_that_is_none(text: str) -> None:
    result = CliRunner().invoke(root, ["scheduler", "--metrics-address", text])
    assert result.exit_code == 2
    assert "is not HOST:PORT" in result.output
