"""Certificates and the kubeconfig: private, reused while good, renewed in time."""

from __future__ import annotations

import base64
import ssl
import stat
from typing import TYPE_CHECKING

import pytest
import yaml
from cryptography import x509

from allhands.server.kubeconfig import write_kubeconfig
from allhands.server.tls import server_tls

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doubles import ManualClock

DAY = 24 * 3600


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_for_their_owner_only(tmp_path: Path, clock: ManualClock) -> None:
    server_tls(tmp_path / "tls", clock)
    assert set(contents(tmp_path / "tls")) == {"ca.crt", "ca.key", "server.crt", "server.key"}
    for path in (tmp_path / "tls").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_still_good_is_used_again(tmp_path: Path, clock: ManualClock) -> None:
    server_tls(tmp_path, clock)
    before = contents(tmp_path)
    clock.advance(300 * DAY)
    server_tls(tmp_path, clock)
    assert contents(tmp_path) == before


def test_a_certificate_is_renewed_in_time_and_its_authority_stays(tmp_path: Path, clock: ManualClock) -> None:
    server_tls(tmp_path, clock)
    before = contents(tmp_path)
    clock.advance(340 * DAY)
    tls = server_tls(tmp_path, clock)
    after = contents(tmp_path)
    assert (after["ca.crt"], after["ca.key"]) == (before["ca.crt"], before["ca.key"])
    assert after["server.crt"] != before["server.crt"]
    certificate = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(tls.authority_pem()))


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "server.crt", "server.key"])
@pytest.mark.parametrize("damage", [b"", b"garbage", None], ids=["empty", "garbage", "absent"])
def test_what_is_damaged_is_made_anew(tmp_path: Path, clock: ManualClock, name: str, damage: bytes | None) -> None:
    server_tls(tmp_path, clock)
    if damage is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(damage)
    tls = server_tls(tmp_path, clock)
    certificate = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(tls.authority_pem()))
    assert tls.context().minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_key_of_somebody_else_is_not_used(tmp_path: Path, clock: ManualClock) -> None:
    server_tls(tmp_path / "a", clock)
    server_tls(tmp_path / "b", clock)
    (tmp_path / "a" / "server.key").write_bytes((tmp_path / "b" / "server.key").read_bytes())
    server_tls(tmp_path / "a", clock).context()


def test_another_name_needs_another_certificate(tmp_path: Path, clock: ManualClock) -> None:
    server_tls(tmp_path, clock)
    before = contents(tmp_path)
    tls = server_tls(tmp_path, clock, ["cluster.example", "127.0.0.7"])
    assert contents(tmp_path)["server.crt"] != before["server.crt"]
    certificate = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "cluster.example"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "::1", "127.0.0.7"} <= {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}


def test_the_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:1234", b"PEM", "secret")
    write_kubeconfig(path, "https://127.0.0.1:4321", b"PEM", "secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["kubeconfig"]
    document = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:4321"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert document["users"][0]["user"] == {"token": "secret"}
    assert document["current-context"] == document["contexts"][0]["name"]
