"""Keys of the webhooks: when they are made anew, that everybody can trust them at every moment, and that replicas share
them."""

from __future__ import annotations

import asyncio
import base64
import datetime
import itertools
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError, conflict
from allhands.runtime.installation.webhooks import MUTATING, NAME, VALIDATING, by_service, by_url, configurations
from allhands.runtime.metrics import MetricsRegistry
from allhands.server.certificates import is_for
from allhands.server.live_tls import LiveTls
from allhands.server.webhooks.keyring import EXPIRY, Keyring
from allhands.server.webhooks.keys import DEFAULT_TERMS, Keys, Terms, keys_of, renewed
from tests.certificates import Authority
from tests.depth import examples
from tests.virtual import on_virtual_time
from tests.webhook_cluster import SECRETS, WebhookCluster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAMES = ("webhooks.example.svc", "127.0.0.1")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)


def fresh(now: datetime.datetime = NOW, terms: Terms = DEFAULT_TERMS) -> Keys:
    return renewed(None, NAMES, now, terms, is_known=False)


def is_trusted(keys: Keys, bundle: tuple[x509.Certificate, ...], now: datetime.datetime) -> bool:
    """As a client sees it that was given the bundle."""
    server = keys.server.certificate
    good = server.not_valid_before_utc <= now <= server.not_valid_after_utc
    signers = [it for it in bundle if it.not_valid_before_utc <= now <= it.not_valid_after_utc]
    return good and any(is_for(server, it, NAMES) for it in signers)


def test_they_are_kept_in_a_secret_and_come_back_the_same() -> None:
    keys = fresh()
    again = keys_of(keys.data())
    assert again is not None
    assert again.data() == keys.data()
    assert again.since == keys.since
    assert renewed(again, NAMES, NOW + HOUR, DEFAULT_TERMS, is_known=True) is again


@pytest.mark.parametrize("name", sorted(fresh().data()))
def test_what_is_not_whole_is_made_anew(name: str) -> None:
    data = fresh().data()
    other = fresh().data()
    assert keys_of({key: value for key, value in data.items() if key != name}) is None
    for damaged in ("", "!!", base64.b64encode(b"nonsense").decode(), other[name]):
        found = keys_of({**data, name: damaged})
        assert found is None or name in ("tls.crt", "tls.key", "ca.crt")
    assert keys_of({}) is None


def test_a_certificate_is_made_anew_in_time_and_for_other_names_at_once() -> None:
    keys = fresh()
    assert renewed(keys, NAMES, NOW + 59 * DAY, DEFAULT_TERMS, is_known=True) is keys
    later = renewed(keys, NAMES, NOW + 61 * DAY, DEFAULT_TERMS, is_known=True)
    assert later.server != keys.server
    assert later.authority is keys.authority
    other = renewed(keys, (*NAMES, "other"), NOW + HOUR / 2, DEFAULT_TERMS, is_known=False)
    assert is_for(other.server.certificate, keys.authority.certificate, ["other"])


def test_a_new_authority_signs_only_when_everybody_has_learned_of_it() -> None:
    keys = fresh()
    now = NOW + 244 * DAY
    keys = renewed(keys, NAMES, NOW + 200 * DAY, DEFAULT_TERMS, is_known=True)
    both = renewed(keys, NAMES, now, DEFAULT_TERMS, is_known=True)
    assert both.trusted == (both.authority.certificate, keys.authority.certificate)
    assert both.server is keys.server
    assert renewed(both, NAMES, now + HOUR / 2, DEFAULT_TERMS, is_known=True) is both
    assert renewed(both, NAMES, now + HOUR, DEFAULT_TERMS, is_known=False) is both
    signed = renewed(both, NAMES, now + HOUR, DEFAULT_TERMS, is_known=True)
    assert is_for(signed.server.certificate, both.authority.certificate, NAMES)
    assert signed.trusted == both.trusted


def test_after_a_long_absence_it_begins_anew() -> None:
    keys = fresh()
    later = renewed(keys, NAMES, NOW + 400 * DAY, DEFAULT_TERMS, is_known=True)
    assert later.trusted == (later.authority.certificate,)
    assert is_trusted(later, later.trusted, NOW + 400 * DAY)


@settings(max_examples=examples(10))
@given(st.lists(st.sampled_from([0.02, 1, 5, 20, 29]), min_size=1, max_size=25))
def test_while_somebody_looks_in_time_what_is_served_is_always_trusted(pauses: Sequence[float]) -> None:
    """Clients trust what they were told at the look before; replicas serve what they found at the look before."""
    now, keys = NOW, fresh()
    told = keys.trusted
    for pause in pauses:
        now += datetime.timedelta(days=pause)
        found = renewed(keys, NAMES, now, DEFAULT_TERMS, is_known=True)
        assert is_trusted(keys, found.trusted, now), "by a replica that has not looked yet"
        assert is_trusted(found, told, now), "by a client that was told nothing yet"
        keys, told = found, found.trusted


def ring(cluster: WebhookCluster, **more: Any) -> Keyring:
    given = {"wanted": configurations("allhands-system", by_url("https://127.0.0.1:1")), "makes_configurations": True}
    return Keyring(cluster, cluster.clock, namespace="default", names=NAMES, **{**given, **more})


async def test_many_replicas_that_begin_at_once_share_the_same_keys() -> None:
    cluster = WebhookCluster()
    found = await asyncio.gather(*(ring(cluster).keys() for _ in range(5)))
    assert len({it.server.certificate.serial_number for it in found}) == 1
    assert (await cluster.get(SECRETS, NAME, "default")).manifest()["data"] == found[0].data()


async def test_a_write_that_crossed_another_is_given_up_for_the_other() -> None:
    cluster = WebhookCluster()
    first, second = ring(cluster), ring(cluster)
    await first.keys()
    cluster.clock.advance(61 * 24 * 3600)
    cluster.refuses["update", SECRETS] = conflict("", "secrets", NAME, "it was changed")
    with pytest.raises(StatusError, match="others write it all the time"):
        await first.keys()
    cluster.refuses.clear()
    renewed_by_second = await second.keys()
    assert (await first.keys()).data() == renewed_by_second.data()


async def test_a_secret_that_was_brought_empty_is_filled_and_keeps_what_else_it_has() -> None:
    cluster = WebhookCluster()
    await cluster.create(SECRETS, {"metadata": {"name": NAME, "labels": {"a": "b"}}}, "default")
    keys = await ring(cluster).keys()
    found = (await cluster.get(SECRETS, NAME, "default")).manifest()
    assert found["data"] == keys.data()
    assert found["metadata"]["labels"] == {"a": "b"}
    assert not [it for it in cluster.calls[1:] if it[0] == "create"]


async def test_configurations_are_made_where_there_is_no_installation_and_kept_as_wanted() -> None:
    cluster = WebhookCluster()
    keyring = ring(cluster)
    keys = await keyring.keys()
    assert await keyring.tell(keys)
    bundle = base64.b64encode(keys.bundle()).decode()
    for resource in (MUTATING, VALIDATING):
        for webhook in cluster.configurations[resource]["webhooks"]:
            assert webhook["clientConfig"]["caBundle"] == bundle
            assert webhook["clientConfig"]["url"].startswith("https://127.0.0.1:1/")
    calls = len(cluster.calls)
    assert await keyring.tell(keys)
    assert [it[0] for it in cluster.calls[calls:]] == ["get", "get"]
    moved = ring(cluster, wanted=configurations("allhands-system", by_url("https://127.0.0.1:2")))
    assert await moved.tell(keys)
    assert cluster.configurations[MUTATING]["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:2/mutate"


async def test_in_an_installation_only_whom_to_trust_is_written() -> None:
    cluster = WebhookCluster()
    wanted = configurations("allhands-system", by_service("allhands-system"))
    keyring = ring(cluster, wanted=wanted, makes_configurations=False)
    keys = await keyring.keys()
    assert await keyring.tell(keys), "nobody asks us, so nobody has to be told"
    assert cluster.configurations == {}
    for resource, manifest in ((MUTATING, wanted[0]), (VALIDATING, wanted[1])):
        stranger = {"name": "x.example.com", "clientConfig": {"url": "https://example.com"}}
        webhooks = [{**it, "timeoutSeconds": 29} for it in manifest["webhooks"]]
        await cluster.create(resource, {**manifest, "webhooks": [*webhooks, stranger]})
    assert await keyring.tell(keys)
    for resource in (MUTATING, VALIDATING):
        *ours, other = cluster.configurations[resource]["webhooks"]
        assert all(it["timeoutSeconds"] == 29 and it["clientConfig"]["caBundle"] for it in ours)
        assert all(it["clientConfig"]["service"]["name"] == NAME for it in ours)
        assert other["clientConfig"] == {"url": "https://example.com"}
    cluster.configurations[MUTATING]["webhooks"][0]["clientConfig"].pop("caBundle")
    cluster.refuses["update", MUTATING] = conflict("", "x", NAME, "it was changed")
    assert not await keyring.tell(keys)


@on_virtual_time
async def test_a_replica_that_runs_for_years_rotates_everything_and_says_when_it_ends() -> None:
    cluster = WebhookCluster()
    metrics = MetricsRegistry()
    keyring = ring(cluster, look_seconds=3600.0, metrics=metrics)
    assert not keyring.is_ready()
    used: list[Keys] = []

    def use(keys: Keys) -> None:
        used.append(keys)
        cluster.clock.advance(2 * 24 * 3600)

    running = asyncio.create_task(keyring.run(use))
    await asyncio.sleep(3600 * 400)
    running.cancel()
    assert keyring.is_ready()
    authorities = {it.authority.certificate.serial_number for it in used}
    servers = {it.server.certificate.serial_number for it in used}
    assert len(authorities) >= 3
    assert len(servers) >= 12
    for earlier, later in itertools.pairwise(used):
        assert later.server is earlier.server or is_for(
            later.server.certificate, earlier.authority.certificate, NAMES
        ), "what signs was trusted at the look before"
    ends = later.server.certificate.not_valid_after_utc.timestamp()
    assert f'{EXPIRY}{{certificate="server"}}' in metrics.text()
    assert ends > cluster.clock.now().timestamp()


def shaken_hands(server: ssl.SSLContext, bundle: bytes, own: Path | None = None) -> bytes:
    """The certificate that a client is shown who trusts the bundle, and shows its own if it has one."""
    client = ssl.create_default_context(cadata=bundle.decode())
    if own is not None:
        client.load_cert_chain(own)
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = client.wrap_bio(a, b, server_hostname="127.0.0.1")
    ours = server.wrap_bio(b, a, server_side=True)
    for _ in range(4):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = theirs.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def test_new_connections_get_the_new_certificate_without_a_restart() -> None:
    now = datetime.datetime.now(datetime.UTC)
    first, second = fresh(now), fresh(now)
    tls = LiveTls(first.server)
    context = tls.context()
    expected = x509.load_der_x509_certificate
    assert expected(shaken_hands(context, first.bundle())) == first.server.certificate
    tls.use(second.server)
    assert expected(shaken_hands(context, second.bundle())) == second.server.certificate
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(context, first.bundle())


def test_where_callers_must_show_who_they_are_others_are_not_let_in(tmp_path: Path) -> None:
    keys = fresh(datetime.datetime.now(datetime.UTC))
    authority = Authority("callers")
    context = LiveTls(keys.server, authority.pem.decode()).context()
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        shaken_hands(context, keys.bundle())
    certificate, key = authority.sign("api-server")
    (tmp_path / "own.pem").write_bytes(key + certificate)
    assert shaken_hands(context, keys.bundle(), tmp_path / "own.pem")
