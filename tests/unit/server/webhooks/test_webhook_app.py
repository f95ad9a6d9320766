"""What an API server is answered: reviews there and back, and everything that is no review."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.api.patch.json_patch import json_patch
from allhands.api.volcano.queue import QUEUE
from allhands.runtime.metrics import MetricsRegistry
from allhands.server.limits import Limits
from allhands.server.webhooks.app import WebhookApp
from allhands.server.webhooks.judging import Judge
from allhands.server.webhooks.review import ALLOWED
from allhands.server.webhooks.submitters import REVIEWS, Submitters
from tests.unit.server.asgi_client import Client, Reply
from tests.webhook_cluster import cluster_with_copies, job, review

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.document import Manifest
    from allhands.server.webhooks.others import KnownObjects
    from allhands.server.webhooks.review import Question, Verdict
    from tests.webhook_cluster import WebhookCluster


@pytest.fixture
async def world() -> AsyncIterator[tuple[WebhookCluster, KnownObjects]]:
    async with cluster_with_copies() as world:
        world[0].grants.add(("bob", "create", "pods", ""))
        yield world


class Asking(Client):
    def __init__(self, app: Any) -> None:
        super().__init__(app)

    async def post(self, path: str, value: Any, **headers: str) -> Reply:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        return await self.ask("POST", path, body, {name.replace("_", "-"): it for name, it in headers.items()} or None)


@pytest.fixture
def client(world: tuple[WebhookCluster, KnownObjects]) -> Asking:
    cluster, known = world
    return Asking(WebhookApp(Judge(known, Submitters(cluster), scheduler_name="allhands")))


def patched(before: Manifest, reply: Reply) -> Manifest:
    response = reply.json()["response"]
    assert response["patchType"] == "JSONPatch"
    result: Manifest = json_patch(before, msgspec.json.decode(base64.b64decode(response["patch"])))
    return result


async def test_a_job_is_completed_by_a_patch_and_the_answer_carries_the_uid(client: Asking) -> None:
    reply = await client.post("/mutate?timeout=5s", review(job()))
    assert reply.code == 200
    answer = reply.json()
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "the-uid"
    assert answer["response"]["allowed"] is True
    spec = patched(job(), reply)["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["minAvailable"]) == ("default", "allhands", 2)


async def test_a_complete_object_gets_no_patch(client: Asking) -> None:
    complete = patched(job(), await client.post("/mutate", review(job())))
    assert (await client.post("/mutate", review(complete))).json()["response"] == {"uid": "the-uid", "allowed": True}


async def test_a_refusal_is_a_status_with_the_path_of_the_field(client: Asking) -> None:
    wrong = job(plugins={"nope": []}, queue="default", minAvailable=1)
    wrong["spec"]["tasks"][0]["name"] = "a"
    response = (await client.post("/validate", review(wrong))).json()["response"]
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["message"].startswith(
        'Job.batch.volcano.sh "train" is invalid: spec.plugins[nope]: Unsupported value'
    )
    assert [it["field"] for it in status["details"]["causes"]] == ["spec.plugins[nope]"]


async def test_what_is_right_is_allowed_and_a_dry_run_is_answered_the_same(
    client: Asking, world: tuple[WebhookCluster, KnownObjects]
) -> None:
    complete = patched(job(), await client.post("/mutate", review(job())))
    calls = len([it for it in world[0].calls if it[0] in ("create", "update") and it[1] != REVIEWS])
    for dry in (False, True):
        response = (await client.post("/validate", review(complete, dryRun=dry))).json()["response"]
        assert response == {"uid": "the-uid", "allowed": True}
    assert len([it for it in world[0].calls if it[0] in ("create", "update") and it[1] != REVIEWS]) == calls


async def test_an_object_that_its_schema_refuses_is_left_to_the_server(client: Asking) -> None:
    wrong = job()
    wrong["spec"]["tasks"] = "many"
    assert (await client.post("/mutate", review(wrong))).json()["response"] == {"uid": "the-uid", "allowed": True}
    response = (await client.post("/validate", review(wrong))).json()["response"]
    assert response["allowed"] is False
    assert response["status"]["details"]["causes"][0]["field"] == "spec.tasks"


async def test_a_queue_that_others_need_is_not_deleted(client: Asking) -> None:
    queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
    question = review(None, queue, operation="DELETE", plural="queues", namespace="")
    status = (await client.post("/validate", question)).json()["response"]["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith('queues.scheduling.volcano.sh "default" is forbidden: ')


async def test_the_deletion_of_a_whole_collection_is_asked_about_object_by_object(client: Asking) -> None:
    question = review(None, None, operation="DELETE", plural="queues")
    question["request"]["kind"] = {"group": QUEUE.group, "version": "v1beta1", "kind": "Queue"}
    assert (await client.post("/validate", question)).json()["response"]["allowed"] is True


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is no AdmissionReview"),
        (b"{", "the body is no AdmissionReview"),
        (b"[]", "the body is no AdmissionReview"),
        (b"\xff\xfe", "the body is no AdmissionReview"),
        (b"[" * 100_000, "the body is no AdmissionReview"),
        (b'{"kind":"AdmissionReview"}', "of admission.k8s.io/v1"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', "of admission.k8s.io/v1"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "request: Required value"),
    ],
)
async def test_what_is_no_review_is_refused_with_what_is_wrong(client: Asking, body: bytes, said: str) -> None:
    for path in ("/mutate", "/validate"):
        reply = await client.post(path, body)
        assert reply.code == 400
        assert reply.json()["kind"] == "Status"
        assert said in reply.json()["message"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"uid": ""}, "request.uid"),
        ({"uid": "x" * 300}, "request.uid"),
        ({"uid": 7}, "request.uid"),
        ({"operation": "PATCH"}, "request.operation"),
        ({"subResource": "status"}, "request.subResource"),
        ({"object": "text"}, "request.object"),
        ({"kind": {"group": "example.com", "version": "v1", "kind": "Widget"}}, "request.kind: 'Widget'"),
        ({"kind": None}, "request.kind"),
        ({"userInfo": {"groups": "all"}}, "request.userInfo.groups"),
    ],
)
async def test_a_question_that_makes_no_sense_is_neither_allowed_nor_refused(
    client: Asking, change: Manifest, said: str
) -> None:
    reply = await client.post("/validate", review(job(), **change))
    assert reply.code == 400
    assert said in reply.json()["message"]


async def test_other_ways_to_ask(client: Asking) -> None:
    assert (await client.ask("GET", "/mutate")).code == 405
    assert (await client.post("/validate", review(job()), content_type="text/plain")).code == 415
    assert (await client.post("/nothing", review(job()))).code == 404
    assert (await client.post("/validate/more", review(job()))).code == 404


async def test_a_body_that_is_too_large_is_not_read(world: tuple[WebhookCluster, KnownObjects]) -> None:
    app = WebhookApp(Judge(world[1], scheduler_name="allhands"), limits=Limits(body_bytes=1000))
    reply = await Asking(app).post("/validate", b"x" * 1001)
    assert reply.code == 413
    assert reply.header("connection") == "close"
    reply = await Asking(app).post("/validate", b"x" * 1001, content_length="10000000000000000000000000")
    assert reply.code == 413


class Slow:
    """A judge who takes as long as the test wants."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.mistake: Exception | None = None

    async def mutate(self, _question: Question) -> Verdict:
        self.asked += 1
        await self.go.wait()
        if self.mistake is not None:
            raise self.mistake
        return ALLOWED

    validate = mutate


async def test_no_more_than_a_few_are_looked_at_at_once_and_the_others_wait_for_their_turn() -> None:
    judge: Any = Slow()
    client = Asking(WebhookApp(judge, at_once=2))
    asking = [asyncio.create_task(client.post("/mutate", review(job()))) for _ in range(5)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert judge.asked == 2
    judge.go.set()
    assert [it.code for it in await asyncio.gather(*asking)] == [200] * 5


async def test_beyond_a_bound_who_asks_is_told_to_come_back() -> None:
    judge: Any = Slow()
    client = Asking(WebhookApp(judge, limits=Limits(requests_in_flight=1)))
    first = asyncio.create_task(client.post("/mutate", review(job())))
    for _ in range(20):
        await asyncio.sleep(0)
    reply = await client.post("/mutate", review(job()))
    assert reply.code == 429
    assert reply.header("retry-after") == "1"
    judge.go.set()
    assert (await first).code == 200


async def test_who_waits_is_told_before_it_gives_up() -> None:
    judge: Any = Slow()
    reply = await Asking(WebhookApp(judge)).post("/mutate?timeout=0s", review(job()))
    assert reply.code == 504
    assert reply.json()["reason"] == "Timeout"


async def test_a_mistake_is_an_error_and_neither_a_verdict_nor_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    judge: Any = Slow()
    judge.go.set()
    judge.mistake = ZeroDivisionError("a secret of the house")
    reply = await Asking(WebhookApp(judge)).post("/validate", review(job()))
    assert reply.code == 500
    assert b"secret of the house" not in reply.body
    assert b"Traceback" not in reply.body
    assert "a secret of the house" in caplog.text


async def test_a_right_that_cannot_be_asked_for_is_not_taken_for_granted(
    client: Asking, world: tuple[WebhookCluster, KnownObjects]
) -> None:
    complete = patched(job(), await client.post("/mutate", review(job())))
    world[0].refuses["create", REVIEWS] = StatusError(500, "InternalError", "not now")
    assert (await client.post("/validate", review(complete))).code == 500


async def test_probes_and_counts(world: tuple[WebhookCluster, KnownObjects]) -> None:
    well = False
    metrics = MetricsRegistry()
    app = WebhookApp(Judge(world[1], scheduler_name="allhands"), ready={"keys": lambda: well}, metrics=metrics)
    client = Asking(app)
    assert (await client.get("/healthz")).code == 200
    assert (await client.get("/readyz")).code == 500
    well = True
    assert (await client.get("/readyz")).code == 200
    await client.post("/mutate", review(job()))
    await client.post("/validate", b"{")
    text = metrics.text()
    assert 'allhands_webhook_reviews_total{webhook="mutate",kind="Job",result="allowed"} 1' in text
    assert 'allhands_webhook_reviews_total{webhook="validate",kind="",result="failed"} 1' in text
    app.stop()
    assert (await client.get("/readyz")).code == 500
