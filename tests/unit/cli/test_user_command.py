"""`allhands user` and the options of `up` about access, as their users call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from allhands.cli.up import command as up
from allhands.cli.user import command as user
from allhands.compose.access_settings import AccessSettings, AccessSettingsError, AccessWish, remembered, settled
from tests.conformance.client import Answer, Client, Server
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from pathlib import Path

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(user, [str(it) for it in arguments])


def ask(kubeconfig: Path, ca_file: Path, method: str, path: str, body: bytes | None = None) -> Answer:
    config = yaml.safe_load(kubeconfig.read_bytes())
    url, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
    with Client(Server("embedded", url, token, str(ca_file))) as client:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return client.request(method, path, headers, body)


def test_people_come_and_go_while_the_cluster_runs(tmp_path: Path) -> None:
    with EmbeddedInThread(tmp_path, AccessWish(rbac=True)) as cluster:
        made = run("add", "ada", "--group", "team", "--data", tmp_path)
        assert made.exit_code == 0, made.output
        assert "kubectl create rolebinding ada --clusterrole=edit --user=ada" in made.output
        theirs = tmp_path / "users" / "ada.kubeconfig"
        assert theirs.stat().st_mode & 0o777 == 0o600
        answer = ask(theirs, cluster.ca_file, "POST", WHOAMI, b"{}")
        assert answer.body["status"]["userInfo"]["groups"] == ["team", "system:authenticated"]
        assert ask(theirs, cluster.ca_file, "GET", "/api/v1/secrets").status == 403
        old = theirs.read_bytes()
        assert run("token", "ada", "--data", tmp_path).exit_code == 0
        assert ask(theirs, cluster.ca_file, "POST", WHOAMI, b"{}").status == 201
        (tmp_path / "old").write_bytes(old)
        assert ask(tmp_path / "old", cluster.ca_file, "POST", WHOAMI, b"{}").status == 401
        listed = run("list", "--data", tmp_path).output
        assert [line.split()[:2] for line in listed.splitlines()[1:]] == [["admin", "system:masters"], ["ada", "team"]]
        copy = tmp_path / "copy"
        copy.write_bytes(theirs.read_bytes())
        assert run("remove", "ada", "--data", tmp_path).exit_code == 0
        assert not theirs.exists()
        assert ask(copy, cluster.ca_file, "POST", WHOAMI, b"{}").status == 401
        gone = run("remove", "ada", "--data", tmp_path)
        assert (gone.exit_code, "there is no user 'ada'" in gone.output) == (1, True)
    assert run("add", "bob", "--data", tmp_path).exit_code == 0, "it does not run any more"


def test_who_gets_a_token_of_an_open_cluster_is_told_so(tmp_path: Path) -> None:
    with EmbeddedInThread(tmp_path):
        made = run("add", "ada", "--data", tmp_path, "--kubeconfig", tmp_path / "ada")
        assert "Whoever has a token may do everything there" in made.output
        assert (tmp_path / "ada").exists()


@pytest.mark.parametrize("arguments", [("add", "ada"), ("token", "ada"), ("list",), ("remove", "ada")])
def test_a_folder_without_a_cluster_is_told_of(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    told = run(*arguments, "--data", tmp_path / "none")
    assert told.exit_code == 1
    assert "start" in told.output
    assert "`allhands up`" in told.output
    assert not (tmp_path / "none").exists()


def test_a_kubeconfig_that_cannot_be_written_is_told_of_with_what_to_do(tmp_path: Path) -> None:
    with EmbeddedInThread(tmp_path):
        (tmp_path / "file").write_text("")
        told = run("add", "ada", "--data", tmp_path, "--kubeconfig", tmp_path / "file" / "ada")
        assert told.exit_code == 1
        assert "`allhands user token ada --kubeconfig FILE` writes another" in told.output


def test_what_was_asked_for_holds_until_the_contrary_is(tmp_path: Path) -> None:
    assert settled(tmp_path, AccessWish()) == AccessSettings()
    assert not list(tmp_path.iterdir()), "nothing asked for, nothing written"
    log = tmp_path / "audit.log"
    closed = AccessSettings(rbac=True, audit=str(log))
    assert settled(tmp_path, AccessWish(rbac=True, audit=log)) == closed
    assert settled(tmp_path, AccessWish()) == closed == remembered(tmp_path)
    assert settled(tmp_path, AccessWish(no_audit=True)) == AccessSettings(rbac=True)
    assert settled(tmp_path, AccessWish(rbac=False)) == AccessSettings()


@pytest.mark.parametrize("text", ["", "{}", '{"format":1,"rbac":"yes"}', '{"format":9,"rbac":true}'])
def test_a_damaged_memory_is_never_taken_for_an_open_cluster(tmp_path: Path, text: str) -> None:
    (tmp_path / "access.json").write_text(text)
    with pytest.raises(AccessSettingsError):
        settled(tmp_path, AccessWish())
    told = CliRunner().invoke(up, ["--data", str(tmp_path), "--port", "0"])
    assert told.exit_code == 1
    assert "access.json" in told.output
    assert (tmp_path / "access.json").read_text() == text


def test_a_cluster_that_was_closed_is_closed_the_next_time(tmp_path: Path) -> None:
    for wish in (AccessWish(rbac=True, audit=tmp_path / "audit.log"), AccessWish()):
        with EmbeddedInThread(tmp_path, wish) as cluster:
            assert cluster.access.rbac
            if not (tmp_path / "users.json").exists():
                run("add", "ada", "--data", tmp_path)
            run("token", "ada", "--data", tmp_path)
            theirs = tmp_path / "users" / "ada.kubeconfig"
            assert ask(theirs, cluster.ca_file, "GET", "/api/v1/secrets").status == 403
    assert (tmp_path / "audit.log").read_text().count('"/api/v1/secrets"') == 2


def test_contradicting_options_are_told_of(tmp_path: Path) -> None:
    told = CliRunner().invoke(up, ["--data", str(tmp_path), "--audit", "x", "--no-audit"])
    assert told.exit_code == 2
    assert "contradict" in told.output
