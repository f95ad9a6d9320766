"""Bodies of sub-resources and warnings with refusals, as the real server answers them, over a real store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.server.app import App, build_app
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock
from tests.unit.server.asgi_client import TOKEN, Client

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = {"content-type": "application/merge-patch+json"}
POD: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
WEB = {
    "metadata": {"name": "web", "labels": {"app": "x"}},
    "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": POD["spec"]},
    },
}
SCALE_REPLICAS = "json: cannot unmarshal {} into Go struct field ScaleSpec.spec.replicas of type int32"

BODIES: dict[str, tuple[str, str, dict[str, Any], int, str]] = {
    "replicas that are no number": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {"metadata": {"name": "web"}, "spec": {"replicas": "2"}},
        400,
        'Scale in version "v1" cannot be handled as a Scale: ' + SCALE_REPLICAS.format("string"),
    ),
    "a scale of another name": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {"metadata": {"name": "other"}, "spec": {"replicas": 2}},
        400,
        "the name of the object (other) does not match the name on the URL (web)",
    ),
    "a scale without a name": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {"spec": {"replicas": 2}},
        400,
        "the name of the object (web based on URL) was undeterminable: name must be provided",
    ),
    "too few replicas of what is not there": (
        "PUT",
        f"{DEPLOYMENTS}/none/scale",
        {"metadata": {"name": "none"}, "spec": {"replicas": -1}},
        404,
        'deployments.apps "none" not found',
    ),
    "a binding with labels of another type": (
        "POST",
        f"{PODS}/a/binding",
        {"metadata": {"name": "a", "labels": 1}, "target": {"name": "n"}},
        400,
        (
            'Binding in version "v1" cannot be handled as a Binding: json: cannot unmarshal number into Go struct '
            "field ObjectMeta.metadata.labels of type map[string]string"
        ),
    ),
    "an eviction with options of another type": (
        "POST",
        f"{PODS}/a/eviction",
        {"metadata": {"name": "a"}, "deleteOptions": [None]},
        400,
        (
            'Eviction in version "v1" cannot be handled as a Eviction: json: cannot unmarshal array into Go struct '
            "field Eviction.deleteOptions of type v1.DeleteOptions"
        ),
    ),
    "an eviction with an unknown way for the dependents": (
        "POST",
        f"{PODS}/a/eviction",
        {"metadata": {"name": "a"}, "deleteOptions": {"propagationPolicy": "Sideways"}},
        422,
        (
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported '
            'values: "Foreground", "Background", "Orphan", "nil"'
        ),
    ),
    "an eviction that is half a dry run": (
        "POST",
        f"{PODS}/a/eviction?dryRun=All",
        {"metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["Some"]}},
        500,
        "Non-matching dry-run options in request and content: [All] and [Some]",
    ),
    "an unknown field of an eviction, where that matters": (
        "POST",
        f"{PODS}/a/eviction?fieldValidation=Strict",
        {"metadata": {"name": "a"}, "surprise": 1},
        400,
        'Eviction in version "v1" cannot be handled as a Eviction: strict decoding error: unknown field "surprise"',
    ),
    "a bad selector and a bad dry run": (
        "DELETE",
        f"{MAPS}?labelSelector=a%3Db%3Dc&dryRun=Some",
        {},
        400,
        "found '=', expected: ',' or 'end of string'",
    ),
    "another namespace and no name": (
        "PUT",
        f"{MAPS}/a",
        {"metadata": {"namespace": "elsewhere"}},
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another uid, in a dry run": (
        "PUT",
        f"{PODS}/a?dryRun=All",
        {**POD, "metadata": {"name": "a", "uid": "u"}},
        409,
        (
            'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, Key: /pods/default/a, '
            "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, "
            "UID in object meta: {uid}"
        ),
    ),
    "two new gates of one name": (
        "PUT",
        f"{PODS}/a",
        {**POD, "spec": {**POD["spec"], "schedulingGates": [{"name": "g"}, {"name": "g"}]}},
        422,
        (
            'Pod "a" is invalid: [spec.schedulingGates[1]: Duplicate value: "g", spec.schedulingGates[1].name: '
            "Forbidden: only deletion is allowed, but found new scheduling gate 'g']"
        ),
    ),
    "a new object with a version and a worse fault": (
        "POST",
        LEASES,
        {"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {"leaseTransitions": -1}},
        422,
        (
            'Lease.coordination.k8s.io "a" is invalid: spec.leaseTransitions: Invalid value: -1: '
            "must be greater than or equal to 0"
        ),
    ),
    "a new object with a version": (
        "POST",
        LEASES,
        {"metadata": {"name": "a", "resourceVersion": "5"}},
        500,
        "resourceVersion should not be set on objects to be created",
    ),
    "an update that would create, with a version that is none": (
        "PUT",
        f"{LEASES}/a",
        {"metadata": {"name": "a", "resourceVersion": "x"}},
        500,
        'strconv.ParseUint: parsing "x": invalid syntax',
    ),
}


@pytest.fixture
def app(clock: ManualClock) -> App:
    store = Store(clock, CountingIds())
    return build_app(InProcessObjects(store), store.kinds, token=TOKEN, clock=clock)


@pytest.fixture
async def filled(client: Client) -> Client:
    for url, body in ((PODS, POD), (DEPLOYMENTS, WEB)):
        assert (await client.ask("POST", url, msgspec.json.encode(body))).code == 201
    return client


@pytest.mark.parametrize(("method", "url", "body", "code", "message"), BODIES.values(), ids=BODIES)
async def test_refused(filled: Client, method: str, url: str, body: dict[str, Any], code: int, message: str) -> None:
    reply = await filled.ask(method, url, msgspec.json.encode(body) if body else None)
    message = message.replace("{uid}", (await filled.get(f"{PODS}/a")).json()["metadata"]["uid"])
    assert (reply.code, reply.json()["message"]) == (code, message)


async def test_a_patch_that_leaves_no_scale_is_quoted(filled: Client) -> None:
    reply = await filled.ask("PATCH", f"{DEPLOYMENTS}/web/scale", '{"spec":{"replicas":"2"}}', MERGE)
    assert reply.code == 422
    assert reply.json()["message"].endswith(SCALE_REPLICAS.format("string"))


async def test_no_replicas_are_none(filled: Client) -> None:
    reply = await filled.ask("PATCH", f"{DEPLOYMENTS}/web/scale", '{"spec":{"replicas":null}}', MERGE)
    assert (reply.code, reply.json()["spec"]) == (200, {})


async def test_nulls_in_an_eviction_are_as_good_as_absent(filled: Client) -> None:
    body = '{"metadata":{"name":"a"},"deleteOptions":{"dryRun":null,"preconditions":null,"gracePeriodSeconds":null}}'
    assert (await filled.ask("POST", f"{PODS}/a/eviction", body)).code == 201


async def test_an_update_creates_whatever_version_it_states(client: Client) -> None:
    reply = await client.ask("PUT", f"{LEASES}/a", '{"metadata":{"name":"a","resourceVersion":"5"}}')
    assert reply.code == 201


async def test_a_dry_run_gives_back_the_version_it_was_given(client: Client) -> None:
    reply = await client.ask("POST", f"{LEASES}?dryRun=All", '{"metadata":{"name":"a","resourceVersion":"5"}}')
    assert (reply.code, reply.json()["metadata"]["resourceVersion"]) == (201, "5")


async def test_an_update_that_names_a_uid_creates_nothing(client: Client) -> None:
    reply = await client.ask("PUT", f"{LEASES}/a", '{"metadata":{"name":"a","uid":"u"}}')
    assert (reply.code, reply.json()["reason"]) == (409, "Conflict")


async def test_labels_of_a_deployment_do_not_change_through_its_status(filled: Client) -> None:
    change = '{"metadata":{"labels":{"app":"y"},"annotations":{"a":"b"}}}'
    metadata = (await filled.ask("PATCH", f"{DEPLOYMENTS}/web/status", change, MERGE)).json()["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"app": "x"}, {"a": "b"})


@pytest.mark.parametrize(
    ("method", "url", "body", "code"),
    [
        ("POST", PODS, {**POD, "surprise": 1}, 409),
        ("PUT", f"{PODS}/none", {**POD, "metadata": {"name": "none"}, "surprise": 1}, 404),
        ("PUT", f"{PODS}/a", {**POD, "metadata": {"name": "b"}, "surprise": 1}, 400),
        ("PATCH", f"{PODS}/a", {"surprise": 1, "spec": {"restartPolicy": "Never"}}, 422),
        ("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "surprise": 1}, 500),
        ("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}, "surprise": 1}, 201),
        ("PUT", f"{DEPLOYMENTS}/web/scale", {"metadata": {"name": "web"}, "surprise": 1}, 200),
    ],
)
async def test_an_unknown_field_is_told_whatever_becomes_of_the_request(
    filled: Client, method: str, url: str, body: dict[str, Any], code: int
) -> None:
    reply = await filled.ask(method, url, msgspec.json.encode(body), MERGE if method == "PATCH" else None)
    assert (reply.code, reply.header("warning")) == (code, '299 - "unknown field \\"surprise\\""')
