"""What is shown to the server is kept fresh: tokens and certificates that change on disk, names, proxies, headers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.kube import in_cluster
from allhands.kube.access import Access
from allhands.kube.credentials import Credentials
from allhands.kube.kubeconfig import KubeconfigError
from allhands.kube.objects import KubeObjects
from allhands.kube.transport import Settings, Transport
from tests.certificates import Authority, server_tls
from tests.manifests import CONFIG_MAPS

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

EMPTY = b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[]}'


class Listener:
    """A server that knows who asks, and accepts only some tokens."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.accepted: set[str] | None = None
        self.heads: list[str] = []
        self.certificates: list[str] = []
        self._serving: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Host and port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        async with server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await asyncio.gather(*self._serving)  # a client that is left has closed its connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                shown = writer.get_extra_info("peercert") or {}
                self.certificates.append(dict(it[0] for it in shown.get("subject", ())).get("commonName", ""))
                is_known = self.accepted is None or any(f"Bearer {it}\r\n" in head for it in self.accepted)
                code, body = (200, EMPTY) if is_known else (401, b'{"kind":"Status","code":401}')
                answer = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(answer.encode() + body)
                await writer.drain()
        writer.close()


async def ask(client: KubeObjects) -> None:
    async with asyncio.timeout(30):
        await client.list(CONFIG_MAPS)


def client_of(access: Access, **more: Any) -> KubeObjects:
    return KubeObjects(access, transport=Transport(access, credentials=Credentials(access, **more)))


async def test_a_token_that_changed_is_read_after_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    listener = Listener()
    async with listener.serving() as address:
        access = Access(server=f"http://{address}", token_file=str(tmp_path / "token"))
        async with client_of(access) as client:
            await ask(client)
            (tmp_path / "token").write_text("new")
            await ask(client)
            assert [it.count("Bearer old") for it in listener.heads] == [1, 1]
            listener.accepted = {"new"}
            await asyncio.gather(*(ask(client) for _ in range(10)))
            listener.accepted = {"newest"}
            with pytest.raises(StatusError) as caught:
                await ask(client)
            assert caught.value.code == 401


async def test_files_are_looked_at_again_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    credentials = Credentials(Access(server="http://nowhere", token_file=str(tmp_path / "token")), look_again_seconds=0)
    assert (await credentials.identity()).headers["Authorization"] == "Bearer old"
    (tmp_path / "token").write_text("new")
    assert (await credentials.identity()).headers["Authorization"] == "Bearer new"
    (tmp_path / "token").unlink()
    assert (await credentials.identity()).headers["Authorization"] == "Bearer new"
    (tmp_path / "token").write_text("")
    assert (await credentials.identity()).headers["Authorization"] == "Bearer new"


async def test_a_file_that_was_never_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StatusError, match="token: holds no token, or cannot be read"):
        await Credentials(Access(server="http://x", token_file=str(tmp_path / "token"))).identity()


async def test_a_token_in_two_lines_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\nEvil: two")
    with pytest.raises(StatusError, match="Authorization holds a line break"):
        await Credentials(Access(server="http://x", token_file=str(tmp_path / "token"))).identity()


async def test_a_renewed_client_certificate_is_shown_to_the_server(tmp_path: Path) -> None:
    authority = Authority()
    listener = Listener(server_tls(authority, "127.0.0.1", clients=True))

    def write(name: str) -> None:
        certificate, key = authority.sign(name)
        (tmp_path / "tls.crt").write_bytes(certificate)
        (tmp_path / "tls.key").write_bytes(key)

    write("first")
    async with listener.serving() as address:
        access = Access(
            server=f"https://{address}",
            ca_pem=authority.pem,
            client_certificate_file=str(tmp_path / "tls.crt"),
            client_key_file=str(tmp_path / "tls.key"),
        )
        async with client_of(access, look_again_seconds=0) as client:
            await ask(client)
            write("second")
            await ask(client)
            other, _ = authority.sign("no key for it yet")
            (tmp_path / "tls.crt").write_bytes(other)
            await ask(client)
            write("third")
            await ask(client)
    assert listener.certificates == ["first", "second", "second", "third"]


async def test_a_server_of_another_authority_is_not_spoken_to() -> None:
    listener = Listener(server_tls(Authority("theirs"), "127.0.0.1"))
    async with listener.serving() as address:
        access = Access(server=f"https://{address}", ca_pem=Authority("ours").pem, token="secret")
        async with KubeObjects(access) as client:
            with pytest.raises(StatusError) as caught:
                await ask(client)
        assert f"https://{address} cannot be reached: TLS does not come about" in caught.value.message
        assert "certificate" in caught.value.message
        assert not listener.heads
        careless = msgspec.structs.replace(access, ca_pem=b"", insecure=True)
        async with KubeObjects(careless) as client:
            await ask(client)
        assert len(listener.heads) == 1


async def test_the_server_may_have_another_name_in_its_certificate() -> None:
    authority = Authority()
    listener = Listener(server_tls(authority, "api.internal"))
    async with listener.serving() as address:
        access = Access(server=f"https://{address}", ca_pem=authority.pem)
        async with KubeObjects(access) as client:
            with pytest.raises(StatusError, match="TLS does not come about"):
                await ask(client)
        async with KubeObjects(msgspec.structs.replace(access, tls_server_name="api.internal")) as client:
            await ask(client)


async def test_a_bundle_may_hold_more_than_certificates_but_must_hold_one() -> None:
    authority = Authority()
    listener = Listener(server_tls(authority, "127.0.0.1"))
    async with listener.serving() as address:
        bundle = "# Prüfstelle\n".encode() + authority.pem + b"\n# end\n" + Authority("other").pem
        async with KubeObjects(Access(server=f"https://{address}", ca_pem=bundle)) as client:
            await ask(client)
    with pytest.raises(KubeconfigError, match="holds no certificate"):
        async with KubeObjects(Access(server="https://x", ca_pem=b"nothing")):
            pass


async def test_passwords_and_impersonation_are_headers() -> None:
    listener = Listener()
    async with listener.serving() as address:
        access = Access(
            server=f"http://{address}/prefix",
            username="me",
            password="it",
            impersonation=(("Impersonate-User", "her"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")),
        )
        async with KubeObjects(access, settings=Settings(component="test")) as client:
            await ask(client)
    (head,) = listener.heads
    assert head.startswith("GET /prefix/api/v1/configmaps HTTP/1.1\r\n")
    assert f"Authorization: Basic {base64.b64encode(b'me:it').decode()}\r\n" in head
    assert "Impersonate-User: her\r\nImpersonate-Group: a\r\nImpersonate-Group: b\r\n" in head


async def test_the_kubeconfigs_proxy_is_used() -> None:
    listener = Listener()
    async with listener.serving() as address:
        access = Access(server="http://api.example:1", proxy_url=f"http://{address}")
        async with KubeObjects(access) as client:
            await ask(client)
    assert listener.heads[0].startswith("GET http://api.example:1/api/v1/configmaps HTTP/1.1\r\n")


async def test_a_pod_finds_its_way_by_its_service_account(tmp_path: Path) -> None:
    authority = Authority()
    listener = Listener(server_tls(authority, "127.0.0.1"))
    (tmp_path / "token").write_text("from the kubelet")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "namespace").write_text("team")
    async with listener.serving() as address:
        host, _, port = address.partition(":")
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        assert in_cluster.is_in_cluster(environment, tmp_path)
        access = in_cluster.load(environment, tmp_path)
        async with KubeObjects(access) as client:
            await ask(client)
    assert access.namespace == "team"
    assert "Authorization: Bearer from the kubelet\r\n" in listener.heads[0]
    assert "from the kubelet" not in repr(access)


def test_who_is_not_in_a_pod_is_told_so(tmp_path: Path) -> None:
    assert not in_cluster.is_in_cluster({}, tmp_path)
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster.load({}, tmp_path)
    with pytest.raises(KubeconfigError, match="automountServiceAccountToken"):
        in_cluster.load({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)


def test_an_address_of_six_is_written_in_brackets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("c")
    assert in_cluster.load({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).server == "https://[fd00::1]:443"
