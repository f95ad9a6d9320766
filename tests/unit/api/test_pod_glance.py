"""What is seen of a pod at a glance is what its text says, and what cannot be seen so is nothing, never an error."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.schema import protobuf
from allhands.api.schema.pod_glance import PodGlance, glance
from allhands.kube.messages import Messages
from tests.depth import examples
from tests.wire_messages import RECORDED, message

POD = "io.k8s.api.core.v1.Pod"
BODIES = [base64.b64decode(it.body) for it in RECORDED if it.definition == POD]
TEXTS = st.text(max_size=200)


def enveloped(data: bytes) -> bytes:
    return protobuf.MAGIC + message((1, message((1, "v1"), (2, "Pod"))), (2, data), (3, ""), (4, ""))


def by_text(envelope: bytes) -> PodGlance:
    document: dict[str, Any] = msgspec.json.decode(Messages().object(envelope))
    metadata, spec, status = (document.get(it, {}) for it in ("metadata", "spec", "status"))
    return PodGlance(
        metadata.get("namespace", ""),
        metadata.get("name", ""),
        metadata.get("uid", ""),
        int(metadata["resourceVersion"]),
        spec.get("nodeName", ""),
        status.get("phase", ""),
        "deletionTimestamp" in metadata,
    )


@st.composite
def pods(draw: st.DrawFn) -> bytes:
    """In the order in which API servers write them, with more than is looked at."""
    name, namespace, uid, node, phase = (draw(TEXTS) for _ in range(5))
    metadata: list[tuple[int, int | bytes | str]] = [
        (1, name),
        (2, ""),
        (3, namespace),
        (4, ""),
        (5, uid),
        (6, str(draw(st.integers(1, 1 << 63)))),
        (7, 1),
    ]
    metadata += [(8, message((1, draw(st.integers(0, 1 << 31))), (2, 0)))]
    metadata += [(9, message((1, 5), (2, 0)))] if draw(st.booleans()) else []
    metadata += [(11, message((1, key), (2, key))) for key in draw(st.lists(TEXTS, max_size=3))]
    volumes = [(1, message((1, draw(TEXTS)), (2, b""))) for _ in range(draw(st.integers(0, 2)))]
    containers = [(2, message((1, draw(TEXTS)))) for _ in range(draw(st.integers(0, 3)))]
    spec: list[tuple[int, int | bytes | str]] = [
        *volumes,
        *containers,
        (3, "Always"),
        (4, draw(st.integers(0, 1 << 40))),
    ]
    spec += ([(10, node)] if draw(st.booleans()) else []) + [(11, 0), (19, "allhands")]
    parts = [(1, message(*metadata)), (2, message(*spec)), (3, message((1, phase), (3, draw(TEXTS))))]
    return message(*parts)


@given(pods())
def test_a_glance_shows_what_the_text_says(pod: bytes) -> None:
    assert glance(enveloped(pod)) == by_text(enveloped(pod))


def test_what_go_has_written_is_seen_as_its_text_says_if_it_is_of_an_api_server() -> None:
    assert BODIES
    for body in BODIES:
        seen = glance(body)
        assert seen is None or seen == by_text(body)


@settings(max_examples=examples(300))
@given(st.one_of(pods().map(enveloped), st.sampled_from(BODIES)), st.data())
def test_whatever_is_done_to_a_message_a_glance_does_no_harm(envelope: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(envelope)))
    damage = data.draw(st.binary(max_size=4))
    glance(envelope[:place])
    glance(envelope[:place] + damage + envelope[place + 1 :])
    glance(damage)
