"""Programs that yield credentials: run when needed, kept until they expire, and their failures told in words."""

from __future__ import annotations

import asyncio
import datetime
import textwrap
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from allhands.api.errors import StatusError
from allhands.kube import kubeconfig
from allhands.kube.access import Access, ExecPlugin
from allhands.kube.credentials import Credentials
from allhands.kube.exec_plugin import ask_plugin
from allhands.kube.objects import KubeObjects
from allhands.kube.transport import Transport
from tests.embedded import EmbeddedInThread
from tests.manifests import CONFIG_MAPS

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"
LATE = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def script(folder: Path, text: str, name: str = "plugin") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    path.chmod(0o755)
    return path


def yields(folder: Path, token: str = "secret", expires: str = "", version: str = V1) -> Path:
    """Writes down each time that it runs, and with what."""
    (folder / "token").write_text(token)
    expiry = f', "expirationTimestamp": "{expires}"' if expires else ""
    return script(
        folder,
        f"""
        echo run >> {folder}/runs
        echo "$KUBERNETES_EXEC_INFO" > {folder}/info
        echo "$GREETING $*" > {folder}/given
        printf '{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": "%s"{expiry}}}}}' \
            "$(cat {folder}/token)"
        """,
    )


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines()) if (folder / "runs").exists() else 0


def plugin(path: Path | str, **more: Any) -> ExecPlugin:
    return ExecPlugin(**{"command": str(path), "api_version": V1, "interactive_mode": "Never", **more})


def access(path: Path | str, **more: Any) -> Access:
    return Access(server="http://nowhere", exec_plugin=plugin(path, **more))


async def failure_of(path: Path | str, **more: Any) -> str:
    entry = access(path, **more)
    assert entry.exec_plugin is not None
    with pytest.raises(StatusError) as caught:
        await ask_plugin(entry, entry.exec_plugin, more.pop("limit", None))
    assert (caught.value.code, caught.value.reason) == (503, "CredentialsUnavailable")
    return caught.value.message


async def test_it_is_run_once_for_all_who_ask(tmp_path: Path) -> None:
    credentials = Credentials(access(yields(tmp_path), args=("a", "b"), environment=(("GREETING", "hello"),)))
    shown = await asyncio.gather(*(credentials.identity() for _ in range(20)))
    assert {it.headers["Authorization"] for it in shown} == {"Bearer secret"}
    assert (tmp_path / "given").read_text() == "hello a b\n"
    info = msgspec.json.decode((tmp_path / "info").read_text())
    assert info == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert runs(tmp_path) == 1


async def test_what_it_yields_is_kept_until_it_expires(tmp_path: Path) -> None:
    now = LATE
    expires = LATE + datetime.timedelta(seconds=0.5)
    path = yields(tmp_path, expires=expires.isoformat())
    credentials = Credentials(access(path), now=lambda: now)
    await credentials.identity()
    await credentials.identity()
    assert runs(tmp_path) == 1
    (tmp_path / "token").write_text("other")
    loop = asyncio.get_running_loop()
    expired = asyncio.Event()
    loop.call_later(0.5, expired.set)
    await expired.wait()
    assert (await credentials.identity()).headers["Authorization"] == "Bearer other"
    assert runs(tmp_path) == 2


async def test_what_has_expired_on_arrival_does_not_make_it_run_for_every_request(tmp_path: Path) -> None:
    credentials = Credentials(access(yields(tmp_path, expires="2001-01-01T00:00:00Z")))
    for _ in range(5):
        await credentials.identity()
    assert runs(tmp_path) == 1


async def test_after_a_refusal_it_is_asked_again_but_not_by_everyone(tmp_path: Path) -> None:
    credentials = Credentials(access(yields(tmp_path)), plugin_pause_seconds=0)
    shown = await credentials.identity()
    (tmp_path / "token").write_text("other")
    others = await asyncio.gather(*(credentials.after_refusal(shown) for _ in range(5)))
    assert {it.headers["Authorization"] for it in others if it} == {"Bearer other"}
    assert runs(tmp_path) == 2
    again = await credentials.identity()
    assert await credentials.after_refusal(again) is None
    patient = Credentials(access(yields(tmp_path)))
    assert await patient.after_refusal(await patient.identity()) is None
    assert runs(tmp_path) == 4


async def test_a_failure_is_not_repeated_for_every_request_and_ends_with_it(tmp_path: Path) -> None:
    path = script(tmp_path, f"echo run >> {tmp_path}/runs; exit 1")
    credentials = Credentials(access(path))
    for _ in range(3):
        with pytest.raises(StatusError, match="failed with exit code 1"):
            await credentials.identity()
    assert runs(tmp_path) == 1
    impatient = Credentials(access(path), plugin_pause_seconds=0)
    with pytest.raises(StatusError):
        await impatient.identity()
    yields(tmp_path)
    assert (await impatient.identity()).headers["Authorization"] == "Bearer secret"


async def test_while_it_fails_what_has_not_expired_is_used_on(tmp_path: Path) -> None:
    path = yields(tmp_path)
    credentials = Credentials(access(path), plugin_pause_seconds=0)
    shown = await credentials.identity()
    script(tmp_path, "exit 1")
    assert await credentials.after_refusal(shown) is None
    assert (await credentials.identity()).headers["Authorization"] == "Bearer secret"


async def test_a_missing_program_is_named_with_the_hint(tmp_path: Path) -> None:
    told = await failure_of(tmp_path / "none", install_hint="Get it from\n  the shop.")
    assert told == f"exec plugin {tmp_path}/none: is not installed, or may not be executed. Get it from the shop."


async def test_a_failure_is_told_with_its_last_words(tmp_path: Path) -> None:
    told = await failure_of(script(tmp_path, "echo 'token expired, log in' >&2; exit 3"))
    assert told.endswith("failed with exit code 3: token expired, log in")


async def test_one_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    path = script(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    entry = access(path)
    assert entry.exec_plugin is not None
    with pytest.raises(StatusError, match=r"has not answered within 0\.5 seconds"):
        await ask_plugin(entry, entry.exec_plugin, 0.5)


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("hello", "did not write an ExecCredential"),
        ('{"kind": "Secret"}', "wrote Secret of no version; the kubeconfig expects ExecCredential of"),
        (
            '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1"}',
            "expects ExecCredential of",
        ),
        (f'{{"kind": "ExecCredential", "apiVersion": "{V1}"}}', "wrote neither a token nor a certificate"),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {{"clientKeyData": "x"}}}}',
            "a key without a certificate",
        ),
    ],
)
async def test_output_that_is_no_credential_says_why(tmp_path: Path, output: str, complaint: str) -> None:
    assert complaint in await failure_of(script(tmp_path, f"echo '{output}'"))


async def test_output_without_end_is_given_up(tmp_path: Path) -> None:
    assert "wrote more than 1,048,576 bytes" in await failure_of(script(tmp_path, "yes"))


async def test_one_that_must_have_a_terminal_says_so(tmp_path: Path) -> None:
    assert "needs a terminal (interactiveMode: Always)" in await failure_of(yields(tmp_path), interactive_mode="Always")


async def test_a_whole_kubeconfig_with_a_plugin_opens_a_cluster(tmp_path: Path) -> None:
    with EmbeddedInThread(tmp_path / "cluster") as cluster:
        document = yaml.safe_load(cluster.kubeconfig.read_text())
        yields(tmp_path, "wrong", version="client.authentication.k8s.io/v1beta1")
        entry = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "./plugin",
            "provideClusterInfo": True,
        }
        document["users"][0]["user"] = {"exec": entry}
        document["clusters"][0]["cluster"]["extensions"] = [
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}
        ]
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
        opened = kubeconfig.load(tmp_path / "kubeconfig")
        transport = Transport(opened, credentials=Credentials(opened, plugin_pause_seconds=0))
        async with KubeObjects(opened, transport=transport) as client:
            with pytest.raises(StatusError) as caught:
                await client.list(CONFIG_MAPS)
            assert caught.value.code == 401
            (tmp_path / "token").write_text(cluster.token)
            await client.list(CONFIG_MAPS)
        info = msgspec.json.decode((tmp_path / "info").read_text())["spec"]["cluster"]
        assert (info["server"], info["config"]) == (cluster.url, {"audience": "us"})
        assert info["certificate-authority-data"]
