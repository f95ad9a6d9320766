"""Answers are taken from bytes however these are cut; what is not surely a whole answer is an error."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.kube.answers import MOST_HEAD_BYTES, Answer, AnswerError, AnswerReader
from allhands.kube.settings import Limits
from tests.depth import examples

LIMITS = Limits(answer_bytes=5000, refusal_bytes=100)
BODY = b'{"kind":"Status","status":"Success"}'


def text(
    body: bytes = BODY, *, first: str = "HTTP/1.1 201 Created", length: bool = True, headers: tuple[str, ...] = ()
) -> bytes:
    lines = [first, "Content-Type: application/json", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(body: bytes, size: int = 7, *, headers: tuple[str, ...] = (), trailer: bytes = b"") -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"
    return text(b"", length=False, headers=("Transfer-Encoding: chunked", *headers)) + framed


def read(*pieces: bytes, limits: Limits = LIMITS) -> tuple[Answer, bool]:
    """The answer, and whether the connection may be used again."""
    reader = AnswerReader(limits)
    for piece in pieces:
        if reader.feed(piece):
            return reader.taken(), reader.keeps_alive
    assert reader.end(), "the answer has no end"
    return reader.taken(), reader.keeps_alive


ANSWERS = {
    "with a length": text(),
    "without a body": text(b""),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "chunked": chunked(BODY),
    "chunked with a trailer": chunked(BODY, trailer=b"Content-Type: text/plain\r\nWarning: none\r\n"),
    "after continue": b"HTTP/1.1 100 Continue\r\nWarning: 1\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + text(),
    "packed": text(gzip.compress(BODY), headers=("Content-Encoding: gzip",)),
    "packed in chunks": chunked(gzip.compress(BODY), headers=("Content-Encoding: gzip",)),
    "a refusal": text(b"no", first="HTTP/1.1 409 Conflict"),
    "with words of warning": text(headers=('Warning: 299 - "a \\"b\\""', 'warning: 299 - "c"')),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_complete_at_its_last_byte_and_not_before(name: str) -> None:
    whole = ANSWERS[name]
    for at in range(len(whole)):
        reader = AnswerReader(LIMITS)
        assert not reader.feed(whole[:at])
        if at:
            assert not reader.end()
        reader = AnswerReader(LIMITS)
        assert not reader.feed(whole[:at])
        assert reader.feed(whole[at:])
        assert reader.taken() == read(whole)[0]
        assert reader.keeps_alive


@given(data=st.data())
@settings(max_examples=examples(200))
def test_answers_one_after_the_other_are_the_same_however_they_are_cut(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(ANSWERS)), min_size=1, max_size=4))
    reader = AnswerReader(LIMITS)
    for name in names:
        whole = ANSWERS[name]
        cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
        reader.begin()
        *pieces, last = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        assert not any(reader.feed(piece) for piece in pieces)
        assert reader.feed(last)
        assert (reader.taken(), reader.keeps_alive) == read(whole)


@given(body=st.binary(max_size=5000), size=st.integers(1, 600), packs=st.booleans(), frames=st.booleans())
@settings(max_examples=examples(200))
def test_every_body_comes_as_it_was(body: bytes, size: int, packs: bool, frames: bool) -> None:
    sent = gzip.compress(body) if packs else body
    headers = ("Content-Encoding: gzip",) if packs else ()
    whole = chunked(sent, size, headers=headers) if frames else text(sent, headers=headers)
    answer, _ = read(*(whole[at : at + size] for at in range(0, len(whole), size)))
    assert (answer.status, answer.body, answer.is_cut) == (201, body, False)


def test_what_is_read_of_an_answer() -> None:
    answer, keeps_alive = read(ANSWERS["with words of warning"])
    assert (answer.status, answer.body, answer.warnings) == (201, BODY, ('a "b"', "c"))
    assert (answer.is_spoken, answer.header("Content-TYPE"), answer.header("None")) == (True, "application/json", "")
    assert keeps_alive
    trailed, _ = read(ANSWERS["chunked with a trailer"])
    assert (trailed.is_spoken, trailed.warnings) == (True, ())
    continued, _ = read(ANSWERS["after continue"])
    assert (continued.status, continued.header("Link"), continued.warnings) == (201, "", ())


def test_not_modified_has_no_body_whatever_it_says() -> None:
    answer, keeps_alive = read(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n")
    assert (answer.status, answer.body, keeps_alive) == (304, b"", False)


@pytest.mark.parametrize(
    "whole",
    [
        text(headers=("Connection: close",)),
        text(first="HTTP/1.0 200 OK"),
        text(length=False),
        text() + b"HTTP/1.1 200 OK\r\n",
        text() + b"\x00 what is this",
        text(first="HTTP/1.1 302 Found"),
    ],
)
def test_after_some_answers_the_connection_is_not_used_again(whole: bytes) -> None:
    assert not read(whole)[1]


def test_without_a_length_the_body_ends_with_the_connection() -> None:
    answer, _ = read(text(length=False)[:-5], BODY[-5:])
    assert answer.body == BODY
    reader = AnswerReader(LIMITS)
    assert not reader.feed(text(gzip.compress(BODY)[:-9], length=False, headers=("Content-Encoding: gzip",)))
    assert not reader.end()


@pytest.mark.parametrize(
    ("whole", "why"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "not HTTP"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "not HTTP"),
        (text(headers=("Content-Length: 36",)), "Content-Length"),
        (text(headers=("Content-Length: 1",)), "Content-Length"),
        (text(headers=("Transfer-Encoding: chunked",)), "Content-Length"),
        (text(length=False, headers=("Content-Length: -1",)), "Content-Length"),
        (text(length=False, headers=("Content-Length: 1, 1",)), "Content-Length"),
        (text(length=False, headers=("Content-Length: 99999999999999999999999",)), "overflow"),
        (text(length=False, headers=("Transfer-Encoding: gzip, chunked",)), "transfer encoding is gzip, chunked"),
        (text(length=False, headers=("Transfer-Encoding: identity",)), "transfer encoding is identity"),
        (text(b"zz\r\n", length=False, headers=("Transfer-Encoding: chunked",)), "chunk size"),
        (text(b"f" * 20 + b"\r\n", length=False, headers=("Transfer-Encoding: chunked",)), "overflow"),
        (text(headers=("Content-Encoding: br",)), "not asked for: br"),
        (text(headers=("Content-Encoding: gzip",)), "damaged"),
        (text(gzip.compress(BODY)[:-4], headers=("Content-Encoding: gzip",)), "has no end"),
        (text(gzip.compress(b"")[:-4], headers=("Content-Encoding: gzip",)), "has no end"),
        (text(gzip.compress(BODY) + b"x", headers=("Content-Encoding: gzip",)), "more in it"),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nabc", "changes to a protocol"),
        (text(headers=("X: " + "y" * MOST_HEAD_BYTES,))[:-100], "head is larger"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 4000, "head is larger"),
    ],
)
def test_what_is_no_answer_is_told_at_once_and_in_pieces(whole: bytes, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        AnswerReader(LIMITS).feed(whole)
    with pytest.raises(AnswerError):
        read(*(whole[at : at + 1] for at in range(len(whole))))


def test_an_answer_that_is_too_large_is_cut_where_the_limit_is() -> None:
    for whole in (text(b" " * 5001), chunked(b" " * 5001), text(b" " * 5001, length=False)):
        answer, keeps_alive = read(whole)
        assert (answer.is_cut, keeps_alive) == (True, False)
    for whole in (text(b" " * 5000), chunked(b" " * 5000), text(b" " * 5000, length=False)):
        assert not read(whole)[0].is_cut


def test_who_announces_too_much_is_not_listened_to() -> None:
    reader = AnswerReader(LIMITS)
    assert reader.feed(text(length=False, headers=("Content-Length: 5001",))[: -len(BODY)])
    assert (reader.taken().is_cut, reader.taken().body) == (True, b"")


def test_a_small_text_that_is_a_huge_one_packed_does_not_fill_the_memory() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    answer, _ = read(chunked(bomb, 65536, headers=("Content-Encoding: gzip",)))
    assert (answer.is_cut, len(answer.body)) == (True, 5000)


def test_of_a_long_refusal_the_beginning_is_kept() -> None:
    for first, headers in (("HTTP/1.1 500 X", ()), ("HTTP/1.1 200 OK", ("Content-Type: text/html",))):
        answer, keeps_alive = read(text(b"y" * 1000, first=first, headers=headers))
        assert (answer.body, answer.is_cut, keeps_alive) == (b"y" * 100, True, False)


def test_where_a_redirection_leads_is_known_without_its_body() -> None:
    reader = AnswerReader(LIMITS)
    assert reader.feed(b"HTTP/1.1 302 Found\r\nLocation: elsewhere\r\nContent-Length: 100000000\r\n\r\n")
    assert reader.taken().header("Location") == "elsewhere"


@given(garbage=st.binary(max_size=300), at=st.integers(0, 400))
@settings(max_examples=examples(300))
def test_whatever_comes_is_an_answer_or_an_error(garbage: bytes, at: int) -> None:
    whole = chunked(json.dumps({"a": "b" * 100}).encode())
    reader = AnswerReader(msgspec.structs.replace(LIMITS, answer_bytes=200))
    try:
        is_complete = reader.feed(whole[:at] + garbage + whole[at:]) or reader.end()
    except AnswerError as error:
        assert str(error)
    else:
        assert not is_complete or reader.taken().status >= 200
