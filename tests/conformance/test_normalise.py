"""The normaliser removes what must differ, keeps what may be compared, and its exceptions are the documented ones."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.normalise import EXCEPTIONS, READ_AS_EQUAL, Normaliser
from tests.conformance.scenario import Pick, fill, look_up, picked

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"
ONE, TWO = "0a0a0a0a-0000-4000-8000-000000000001", "0a0a0a0a-0000-4000-8000-000000000002"


def _normal(body: Any, path: str = "/api/v1/pods") -> Any:
    return Normaliser(NOW)(body, path)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        pytest.param(
            {"uid": ONE, "owner": TWO, "again": ONE},
            {"uid": "<uid 1>", "owner": "<uid 2>", "again": "<uid 1>"},
            id="uids are numbered as they come",
        ),
        pytest.param(
            {"message": f"uid is {ONE}, not {TWO}"},
            {"message": "uid is <uid 1>, not <uid 2>"},
            id="uids inside texts are uids",
        ),
        pytest.param(
            {"t": "2026-01-02T03:04:00Z", "m": "2026-01-02T03:04:00.123456Z"},
            {"t": "<time>", "m": "<time with microseconds>"},
            id="times of today become placeholders that keep their precision",
        ),
        pytest.param(
            {"t": "2001-01-01T00:00:00Z"}, {"t": "2001-01-01T00:00:00Z"}, id="a time that the request carried stays"
        ),
        pytest.param(
            {"metadata": {"uid": ONE, "resourceVersion": "7"}},
            {"metadata": {"uid": "<uid 1>", "resourceVersion": "<version 1>"}},
            id="the version of an object is numbered",
        ),
        pytest.param(
            {"metadata": {"resourceVersion": "7"}},
            {"metadata": {"resourceVersion": "<version>"}},
            id="the version of a list is not numbered",
        ),
        pytest.param(
            {"metadata": {"resourceVersion": ""}},
            {"metadata": {"resourceVersion": ""}},
            id="an empty version stays empty",
        ),
        pytest.param(
            {"metadata": {"generateName": "a-", "name": "a-x7k2p"}, "message": 'pods "a-x7k2p"'},
            {"metadata": {"generateName": "a-", "name": "a-<generated 1>"}, "message": 'pods "a-<generated 1>"'},
            id="a generated name is replaced wherever it stands",
        ),
        pytest.param(
            {"metadata": {"generateName": "a-", "name": "a-b"}},
            {"metadata": {"generateName": "a-", "name": "a-b"}},
            id="a name that was not generated stays",
        ),
        pytest.param(
            {"continue": "abc", "remainingItemCount": 3},
            {"continue": "<continue>", "remainingItemCount": 3},
            id="a continue token goes, the count stays",
        ),
        pytest.param(
            {"metadata": {"managedFields": [{"manager": "b"}, {"manager": "a"}]}},
            {"metadata": {"managedFields": [{"manager": "a"}, {"manager": "b"}]}},
            id="owners of fields are put in order",
        ),
        pytest.param(
            {"data": {"managedFields": "x"}},
            {"data": {"managedFields": "x"}},
            id="a field of the same name elsewhere stays",
        ),
        pytest.param(
            {"message": 'bad "{\\"a\\":1,\\"managedFields\\":[{\\"b\\":[]}],\\"c\\":2}"'},
            {"message": 'bad "{\\"a\\":1,\\"c\\":2}"'},
            id="an exempted field goes from an object quoted in a text",
        ),
        pytest.param(
            {
                "kind": "Table",
                "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
                "rows": [{"cells": ["5s", "5s"]}],
            },
            {
                "kind": "Table",
                "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
                "rows": [{"cells": ["5s", "<age>"]}],
            },
            id="only the ages of a table are ages",
        ),
        pytest.param(
            {"message": "too old resource version: 1 (345)"},
            {"message": "too old resource version: 1 (<version>)"},
            id="the server's own version in a text goes, the asked one stays",
        ),
    ],
)
def test_normalising(body: Any, wanted: Any) -> None:
    assert _normal(body) == wanted


def test_exceptions_hold_only_for_their_requests() -> None:
    assert _normal({"gitCommit": "x"}, "/version") == {}
    assert _normal({"gitCommit": "x"}, "/api/v1/pods") == {"gitCommit": "x"}


def test_the_documented_exceptions_are_exactly_those_of_the_code() -> None:
    table = DOCUMENT.read_text().split("<!-- exceptions -->")[1].split("<!-- /exceptions -->")[0]
    rows = [
        tuple(cell.strip().strip("`") for cell in line.strip("|").split("|")) for line in table.strip().splitlines()[2:]
    ]
    assert rows == [(row.requests, row.field, row.reason) for row in EXCEPTIONS]


def test_what_is_documented_as_equal_is_exactly_what_the_code_reads_so() -> None:
    table = DOCUMENT.read_text().split("<!-- equal -->")[1].split("<!-- /equal -->")[0]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.strip().splitlines()[2:]]
    assert rows == list(READ_AS_EQUAL)


def test_repeated_causes_count_once_and_empty_lists_are_empty() -> None:
    cause = {"field": "a", "message": "b"}
    status = {"kind": "Status", "details": {"causes": [cause, cause]}}
    assert _normal(status) == {"kind": "Status", "details": {"causes": [cause]}}
    assert _normal({"kind": "PodList", "items": None}) == {"kind": "PodList", "items": []}


def test_placeholders_are_filled_everywhere_and_unknown_ones_are_mistakes() -> None:
    assert fill({"{ns}": ["{ns}/x", 5, "{repeat ab 2}"]}, {"ns": "n"}) == {"n": ["n/x", 5, "abab"]}
    assert fill('{"json": "stays"}', {}) == '{"json": "stays"}'
    with pytest.raises(LookupError, match="none"):
        fill("{none}", {"ns": "n"})


def test_a_path_finds_fields_items_and_conditions() -> None:
    body = {
        "items": [{"a": 1}],
        "status": {"conditions": [{"type": "A", "status": "no"}, {"type": "B", "status": "yes"}]},
    }
    assert look_up(body, "items[0].a") == 1
    assert look_up(body, "status.conditions[type=B].status") == "yes"
    assert look_up(body, "status.conditions[type=C].status") is None
    assert look_up("text", "a.b") is None


def test_picking_keeps_the_named_items_of_every_list_it_walks() -> None:
    body = {"items": [{"resources": [{"n": "a"}, {"n": "b"}]}, {"resources": [{"n": "b"}]}]}
    assert picked(body, Pick("items.*.resources", "n", ["a"])) == {
        "items": [{"resources": [{"n": "a"}]}, {"resources": []}]
    }


def test_numbers_that_services_were_given_are_counted_and_those_that_were_asked_for_stay() -> None:
    service = {
        "spec": {
            "clusterIP": "172.20.9.8",
            "clusterIPs": ["172.20.9.8"],
            "healthCheckNodePort": 31007,
            "ports": [
                {"port": 31000, "nodePort": 31000},
                {"nodePort": 30085},
                {"nodePort": 31007},
                {"nodePort": 32769},
            ],
        }
    }
    assert _normal(service) == {
        "spec": {
            "clusterIP": "<address 1>",
            "clusterIPs": ["<address 1>"],
            "healthCheckNodePort": "<node port 1>",
            "ports": [
                {"port": 31000, "nodePort": "<node port 2>"},
                {"nodePort": 30085},
                {"nodePort": "<node port 1>"},
                {"nodePort": 32769},
            ],
        }
    }
    assert _normal({"clusterIP": "172.20.0.8"}) == {"clusterIP": "172.20.0.8"}
    assert _normal({"cells": ["80:31000/TCP,81:30001/UDP"]}) == {"cells": ["80:<node port 1>/TCP,81:30001/UDP"]}
