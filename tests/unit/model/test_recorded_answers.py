"""Answers recorded from Kubernetes' own Go code (v1.36.3), for random quantities and random pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from allhands.model.pod_document import PodDocument
from allhands.model.pod_requests import effective_requests
from allhands.model.quantity import Quantity, QuantityError, canonical, canonical_resource

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


@pytest.mark.parametrize("row", recorded("quantities.jsonl"), ids=lambda row: row["text"])
def test_a_random_text_is_read_and_written_as_kubernetes_does(row: dict[str, str]) -> None:
    text = row["text"]
    if "error" in row:
        with pytest.raises(QuantityError) as refused:
            Quantity.parse(text)
        assert str(refused.value) == row["error"]
        return
    quantity = Quantity.parse(text)
    assert str(quantity) == row["canonical"]
    assert quantity.format.value == row["format"]
    assert canonical(text) == row["emitted"]
    assert canonical_resource(text) == row["in_resources"]


@pytest.mark.parametrize("row", recorded("pod_requests.jsonl"))
def test_a_random_pod_requests_what_kubernetes_computes(row: dict[str, Any]) -> None:
    document = msgspec.convert(row["pod"], PodDocument)
    assert dict(effective_requests(document).entries) == row["requests"]
