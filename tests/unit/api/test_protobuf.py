"""Bodies in protobuf become the documents that the same client would have sent as JSON.

The recorded bodies come from a stock kubectl, and from Go's own encoder over objects with random fields.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.api.schema import protobuf, wire
from allhands.api.schema.definitions import definitions, go_types
from allhands.api.schema.shape import TypedShape
from tests.wire_messages import RECORDED, Recorded, message, varint

if TYPE_CHECKING:
    from allhands.api.document import Manifest

POD = "io.k8s.api.core.v1.Pod"
CUSTOM_RESOURCE_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"


def normal(document: Manifest, definition: str) -> Manifest:
    checked = TypedShape(definition).check(document)
    assert (checked.mismatch, checked.unknown) == ("", [])
    return checked.document


def decoded(body: bytes, definition: str) -> Manifest:
    api_version, kind, raw = protobuf.decode_envelope(body)
    return {"apiVersion": api_version, "kind": kind, **protobuf.decode(raw, definition)}


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.name)
def test_a_recorded_body_is_the_document_that_json_would_carry(recorded: Recorded) -> None:
    document = decoded(base64.b64decode(recorded.body), recorded.definition)
    if "kind" not in recorded.document:
        del document["kind"], document["apiVersion"]
    assert normal(document, recorded.definition) == normal(recorded.document, recorded.definition)


def test_every_published_message_has_a_plan() -> None:
    for definition in go_types().keys() & definitions().keys():
        assert protobuf.decode(b"", definition) == {}


LEASE = "io.k8s.api.coordination.v1.Lease"
SECURITY_CONTEXT = "io.k8s.api.core.v1.PodSecurityContext"


@pytest.mark.parametrize(
    ("raw", "definition", "want"),
    [
        pytest.param(message((4, 5), (4, 6)), SECURITY_CONTEXT, {"supplementalGroups": [5, 6]}, id="an unpacked list"),
        pytest.param(
            message((4, varint(5) + varint(300)), (4, 7)),
            SECURITY_CONTEXT,
            {"supplementalGroups": [5, 300, 7]},
            id="a list that is partly packed",
        ),
        pytest.param(message((2, -1)), SECURITY_CONTEXT, {"runAsUser": -1}, id="a negative number"),
        pytest.param(message((3, 7)), SECURITY_CONTEXT, {"runAsNonRoot": True}, id="any number but zero is true"),
        pytest.param(
            message((200, "x"), (2, 4)), SECURITY_CONTEXT, {"runAsUser": 4}, id="an unknown number is skipped"
        ),
        pytest.param(message((2, 1), (2, 2)), SECURITY_CONTEXT, {"runAsUser": 2}, id="the last of a scalar counts"),
        pytest.param(
            message((1, message((1, "a"))), (1, message((3, "b")))),
            LEASE,
            {"metadata": {"name": "a", "namespace": "b"}},
            id="the pieces of a message are put together",
        ),
        pytest.param(
            message((2, message((4, message((1, 1_700_000_000), (2, 123_456_789)))))),
            LEASE,
            {"spec": {"renewTime": "2023-11-14T22:13:20.123456Z"}},
            id="a time in microseconds is cut, not rounded",
        ),
        pytest.param(
            message((1, message((8, message((1, 0)))))),
            LEASE,
            {"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}},
            id="the first second of 1970 is not the zero time",
        ),
        pytest.param(message((1, message((8, b"")))), LEASE, {"metadata": {}}, id="an empty message is the zero time"),
        pytest.param(
            message((1, "data"), (2, message((19, message((1, message((1, "settings")))))))),
            "io.k8s.api.core.v1.Volume",
            {"name": "data", "configMap": {"name": "settings"}},
            id="what JSON inlines is a message of its own, twice over",
        ),
    ],
)
def test_a_message_by_hand(raw: bytes, definition: str, want: Manifest) -> None:
    assert protobuf.decode(raw, definition) == want


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "does not appear to be a protobuf message", id="nothing"),
        pytest.param(b'{"kind":"Pod"}', "expected prefix [107 56 115 0]", id="JSON"),
        pytest.param(b"k8s\0\x0a\x7f", "unexpected EOF", id="a length past the end"),
        pytest.param(b"k8s\0\xff\xff\xff", "unexpected EOF", id="a number that does not end"),
        pytest.param(b"k8s\0" + b"\xff" * 11, "integer overflow", id="a number of eleven bytes"),
        pytest.param(b"k8s\0\x0b", "illegal wireType 3", id="a group"),
        pytest.param(b"k8s\0\x00", "illegal tag 0", id="field zero"),
        pytest.param(b"k8s\0" + message((1, 5)), "wrong wireType = 0", id="a number where a message should be"),
        pytest.param(b"k8s\0" + message((3, "gzip")), "content encoding", id="an encoded message"),
    ],
)
def test_a_body_without_a_proper_envelope_is_a_bad_request(body: bytes, words: str) -> None:
    with pytest.raises(StatusError) as refusal:
        protobuf.decode_envelope(body)
    assert refusal.value.code == 400
    assert words in refusal.value.message


def nested_schemas(depth: int) -> bytes:
    """A definition whose schema contains itself so many times (`not` is field 28)."""
    schema = b""
    for _ in range(depth):
        schema = message((28, schema))
    return message((2, message((7, message((1, "v1"), (4, message((1, schema))))))))


@pytest.mark.parametrize(
    ("raw", "definition", "words"),
    [
        pytest.param(message((1, 5)), POD, "wrong wireType = 0", id="a number where a message should be"),
        pytest.param(message((1, message((1, b"\xff")))), POD, "not UTF-8", id="a name that is no text"),
        pytest.param(message((1, message((8, message((1, 2**62)))))), POD, "year 1 to 9999", id="a time far away"),
        pytest.param(
            message((2, b"\x0a\x01{")), "io.k8s.api.apps.v1.ControllerRevision", "not JSON", id="half an object"
        ),
        pytest.param(nested_schemas(500), CUSTOM_RESOURCE_DEFINITION, "nested more than", id="bottomless nesting"),
    ],
)
def test_a_malformed_message_is_a_bad_request_that_names_the_kind(raw: bytes, definition: str, words: str) -> None:
    with pytest.raises(StatusError) as refusal:
        protobuf.decode(raw, definition)
    kind = definition.rpartition(".")[2]
    assert refusal.value.code == 400
    assert refusal.value.message.startswith(f'{kind} in version "v1" cannot be handled as a {kind}: ')
    assert words in refusal.value.message


def outcome(body: bytes, definition: str) -> Any:
    try:
        return decoded(body, definition)
    except StatusError as refusal:
        return refusal.code


@given(st.binary(max_size=300), st.sampled_from([POD, CUSTOM_RESOURCE_DEFINITION, LEASE]))
@example(b"\n\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", POD)
def test_random_bytes_are_a_document_or_a_bad_request(data: bytes, definition: str) -> None:
    for body in (data, b"k8s\0" + data, b"k8s\0" + message((1, message((1, "v1"), (2, "X"))), (2, data))):
        found = outcome(body, definition)
        assert found == 400 or msgspec.json.decode(msgspec.json.encode(found)) == found


@given(st.sampled_from(RECORDED), st.data())
def test_a_damaged_body_is_a_document_or_a_bad_request(recorded: Recorded, data: st.DataObject) -> None:
    body = bytearray(base64.b64decode(recorded.body))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (bytes(body), bytes(body[:cut])):
        found = outcome(damaged, recorded.definition)
        assert found == 400 or msgspec.json.decode(msgspec.json.encode(found)) == found


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_survives_the_wire(number: int) -> None:
    (occurrence,) = wire.gather(message((1, number)))[1]
    assert wire.signed(wire.expect_varint(occurrence), 64) == number


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.binary(max_size=20) | st.integers(0, 2**64 - 1))))
def test_fields_come_back_in_order(fields: list[tuple[int, int | bytes]]) -> None:
    assert [(number, value) for number, (_, value) in wire.fields(message(*fields))] == fields
