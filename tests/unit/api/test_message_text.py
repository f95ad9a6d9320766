"""A message becomes the text that JSON would have been, whether its parts were met before or not."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.schema import protobuf
from allhands.api.schema.definitions import META, definitions, go_types
from allhands.api.schema.message_text import MessageTexts
from allhands.api.schema.wire import WireError
from tests.depth import examples
from tests.wire_messages import RECORDED, Recorded, message, varint

POD = "io.k8s.api.core.v1.Pod"
MESSAGES = [(it.definition, protobuf.decode_envelope(base64.b64decode(it.body))[2]) for it in RECORDED]
TEXTS = MessageTexts()


def read(texts: MessageTexts, definition: str, data: bytes) -> Any:
    return msgspec.json.decode(texts.text(definition, data))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.name)
def test_what_go_has_written_reads_as_the_other_reader_reads_it(recorded: Recorded) -> None:
    data = protobuf.decode_envelope(base64.b64decode(recorded.body))[2]
    texts = MessageTexts()
    want = protobuf.decode(data, recorded.definition)
    for _ in range(3):  # learnt, remembered, and told from memory
        assert read(texts, recorded.definition, data) == want


def test_every_published_message_has_a_text() -> None:
    for definition in go_types().keys() & definitions().keys():
        assert TEXTS.text(definition, b"") == b"{}"


def outcome(read_it: Any) -> Any:
    try:
        return read_it()
    except WireError:
        return "no message"


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Something that Go has written, cut, doubled or with other bytes in it."""
    definition, data = draw(st.sampled_from(MESSAGES))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "doubled", "turned", "byte", "inserted"])):
            case "cut":
                data = data[:place]
            case "doubled":
                data = data + data
            case "turned":
                data = data[place:] + data[:place]
            case "byte":
                data = data[:place] + draw(st.binary(min_size=1, max_size=1)) + data[place + 1 :]
            case _:
                data = data[:place] + draw(st.binary(max_size=4)) + data[place:]
    return definition, data


@settings(max_examples=examples(300))
@given(damaged())
def test_whatever_was_done_to_a_message_both_readers_see_the_same_in_it(given_: tuple[str, bytes]) -> None:
    definition, data = given_
    want = outcome(lambda: protobuf.decode_message(definition, data, 0))
    for texts in (TEXTS, MessageTexts(most_parts=4, most_bytes=200)):
        assert outcome(lambda texts=texts: read(texts, definition, data)) == want


@settings(max_examples=examples(100))
@given(st.binary(max_size=200))
def test_random_bytes_are_read_alike(data: bytes) -> None:
    for body in (data, message((1, data)), message((2, data), (3, data))):
        want = outcome(lambda body=body: protobuf.decode_message(POD, body, 0))
        assert outcome(lambda body=body: read(TEXTS, POD, body)) == want


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(message((1, message((1, 'a"b\\\n\u20ac')))), {"metadata": {"name": 'a"b\\\n€'}}, id="odd texts"),
        pytest.param(
            message((1, message((11, message((1, "k"))), (11, message((2, "v")))))),
            {"metadata": {"labels": {"k": "", "": "v"}}},
            id="halves of a label",
        ),
        pytest.param(
            message((1, message((6, "7"), (1, "a")))), {"metadata": {"name": "a", "resourceVersion": "7"}}, id="turned"
        ),
        pytest.param(message((900, "new"), (1, message((901, 5), (1, "a")))), {"metadata": {"name": "a"}}, id="newer"),
        pytest.param(
            message((2, message((14, message((4, varint(5) + varint(6))))))),
            {"spec": {"securityContext": {"supplementalGroups": [5, 6]}}},
            id="packed numbers",
        ),
    ],
)
def test_a_message_by_hand(data: bytes, want: Any) -> None:
    assert protobuf.decode(data, POD) == want
    assert read(TEXTS, POD, data) == want


def test_what_nobody_reads_is_left_out_in_order_or_not() -> None:
    texts = MessageTexts([(META + "ObjectMeta", "managedFields")])
    name, owner = (1, "a"), (17, message((1, "kubectl")))
    for fields in ((name, owner), (owner, name)):
        assert read(texts, POD, message((1, message(*fields)))) == {"metadata": {"name": "a"}}


def test_memory_is_bounded() -> None:
    texts = MessageTexts(most_parts=10, most_bytes=1000)
    for number in range(200):
        data = message((1, message((11, message((1, "k"), (2, str(number // 2)))))))
        assert read(texts, POD, data) == {"metadata": {"labels": {"k": str(number // 2)}}}
    assert texts.remembered <= 10
