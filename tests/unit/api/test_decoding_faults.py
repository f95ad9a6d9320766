"""Which of several faults of a document is told: the one that ends Go's decoding, else the first in the document."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.api.schema.diagnosis import Diagnosis

LEASE = "io.k8s.api.coordination.v1.Lease"
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "the first of two values of the wrong type": (
        {"spec": {"holderIdentity": 1, "leaseDurationSeconds": "x"}},
        "json: cannot unmarshal number into Go struct field LeaseSpec.spec.holderIdentity of type string",
    ),
    "a time that is none, because it ends the decoding, although a wrong type stands before it": (
        {"spec": {"holderIdentity": 1, "renewTime": "now"}},
        'parsing time "now" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "now" as "2006"',
    ),
    "the first of two times that are none": (
        {"metadata": {"creationTimestamp": "never"}, "spec": {"renewTime": "now"}},
        'parsing time "never" as "2006-01-02T15:04:05Z07:00": cannot parse "never" as "2006"',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fault_that_is_told_is(case: str) -> None:
    document, wanted = CASES[case]
    assert Diagnosis(document, LEASE).mismatch == wanted


def test_bytes_that_are_no_base64_do_not_end_the_decoding() -> None:
    document: dict[str, Any] = {"metadata": {"labels": 1}, "binaryData": {"b": "not base64!"}}
    found = Diagnosis(document, "io.k8s.api.core.v1.ConfigMap").mismatch
    assert found.startswith("json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels")


@pytest.mark.parametrize(("value", "shown"), [(True, "bool"), (1.5, "number 1.5"), ([], "array")])
def test_a_number_or_percentage_that_is_neither_is_told_with_its_field(value: Any, shown: str) -> None:
    found = Diagnosis({"spec": {"minAvailable": value}}, "io.k8s.api.policy.v1.PodDisruptionBudget")
    place = "Go struct field PodDisruptionBudgetSpec.spec.minAvailable of type int32"
    assert found.mismatch == f"json: cannot unmarshal {shown} into {place}"
    assert found.conversion == f"json: cannot unmarshal {shown} into Go value of type int32"
