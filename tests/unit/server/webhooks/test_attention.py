"""While no queue is restricted the API server is not made to look at every pod; from the first one on it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.errors import conflict
from allhands.api.volcano.queue import QUEUE
from allhands.dialects.annotations import RESTRICTED
from allhands.runtime.installation.webhooks import (
    ANNOTATED_WEBHOOK,
    NAME,
    VALIDATING,
    by_service,
    by_url,
    configurations,
)
from allhands.server.webhooks.attention import EVERYTHING, NOTHING, attentive
from allhands.server.webhooks.keyring import Keyring
from tests.virtual import on_virtual_time
from tests.webhook_cluster import WebhookCluster, cluster_with_copies

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.server.webhooks.others import KnownObjects

(WEBHOOK,) = [it for it in configurations("home", by_service("home"))[1]["webhooks"] if it["name"] == ANNOTATED_WEBHOOK]


def ring(cluster: WebhookCluster, known: KnownObjects) -> Keyring:
    return Keyring(
        cluster,
        cluster.clock,
        namespace="default",
        names=("127.0.0.1",),
        wanted=configurations("home", by_url("https://127.0.0.1:1")),
        makes_configurations=True,
        is_any_restricted=known.is_any_restricted,
    )


def selector(cluster: WebhookCluster) -> Manifest | None:
    webhooks = cluster.configurations[VALIDATING]["webhooks"]
    assert all("objectSelector" not in it for it in webhooks if it["name"] != ANNOTATED_WEBHOOK)
    found: Manifest | None
    (found,) = [it.get("objectSelector") for it in webhooks if it["name"] == ANNOTATED_WEBHOOK]
    return found


async def soon(cluster: WebhookCluster, wanted: Manifest) -> None:
    await asyncio.sleep(2)
    assert selector(cluster) == wanted


def queue(name: str, *, restricted: bool = False) -> Manifest:
    metadata: Manifest = {"name": name}
    if restricted:
        metadata["annotations"] = {RESTRICTED: "true"}
    return {"metadata": metadata, "spec": {"weight": 1}}


async def restrict(cluster: WebhookCluster, name: str, value: str | None) -> None:
    await cluster.patch(QUEUE.resource, name, "merge", {"metadata": {"annotations": {RESTRICTED: value}}})


@pytest.mark.parametrize(
    ("webhook", "restricted", "wanted"),
    [
        pytest.param({}, None, None, id="what is not known changes nothing"),
        pytest.param({"objectSelector": NOTHING}, None, NOTHING, id="nor does it open what others have closed"),
        pytest.param({}, True, None, id="with a restricted queue it is as it was brought"),
        pytest.param({"objectSelector": NOTHING}, True, EVERYTHING, id="or opened again"),
        pytest.param({}, False, NOTHING, id="without one it is closed"),
        pytest.param({"failurePolicy": "Fail"}, False, None, id="but not if it must hold always"),
        pytest.param({"failurePolicy": "Fail", "objectSelector": NOTHING}, False, EVERYTHING, id="which opens it, too"),
    ],
)
def test_it_is_asked_if_something_can_come_of_it(
    webhook: Manifest, restricted: bool | None, wanted: Manifest | None
) -> None:
    found = attentive({**WEBHOOK, **webhook}, is_any_restricted=restricted)
    assert found.get("objectSelector") == wanted
    assert {**found, "objectSelector": 0} == {**WEBHOOK, **webhook, "objectSelector": 0}


@pytest.mark.parametrize("restricted", [True, False, None])
def test_our_own_kinds_are_always_asked_about(restricted: bool | None) -> None:
    for configuration in configurations("home", by_service("home")):
        for webhook in configuration["webhooks"]:
            if webhook["name"] != ANNOTATED_WEBHOOK:
                assert attentive(webhook, is_any_restricted=restricted) is webhook


@on_virtual_time
async def test_it_follows_the_queues_at_once() -> None:
    async with cluster_with_copies() as (cluster, known):
        keyring = ring(cluster, known)
        known.on_restriction(keyring.look_now)
        running = asyncio.create_task(keyring.run(lambda _keys: None))
        await cluster.create(QUEUE.resource, queue("open"))
        await soon(cluster, NOTHING)
        await cluster.create(QUEUE.resource, queue("closed", restricted=True))
        await soon(cluster, EVERYTHING)
        await restrict(cluster, "open", "true")
        await cluster.delete(QUEUE.resource, "closed")
        await asyncio.sleep(200)
        assert selector(cluster) == EVERYTHING, "there is another"
        await restrict(cluster, "open", None)
        await soon(cluster, NOTHING)
        running.cancel()


@on_virtual_time
async def test_a_write_that_crossed_another_is_tried_again_soon() -> None:
    async with cluster_with_copies() as (cluster, known):
        keyring = ring(cluster, known)
        known.on_restriction(keyring.look_now)
        running = asyncio.create_task(keyring.run(lambda _keys: None))
        await soon(cluster, NOTHING)
        cluster.refuses["update", VALIDATING] = conflict("", "x", NAME, "it was changed")
        await cluster.create(QUEUE.resource, queue("closed", restricted=True))
        await asyncio.sleep(3)
        assert selector(cluster) == NOTHING
        cluster.refuses.clear()
        await soon(cluster, EVERYTHING)
        running.cancel()


async def test_before_the_queues_are_seen_nothing_is_closed() -> None:
    cluster = WebhookCluster()
    unsure: Any = type("", (), {"is_any_restricted": staticmethod(lambda: None)})()
    keyring = ring(cluster, unsure)
    assert await keyring.tell(await keyring.keys())
    assert not selector(cluster)
