"""The short way of checking a pod's update says the same as the long one, which looks at the whole pod again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from allhands.api.builtin import pods
from allhands.api.builtin.pod_updates import check_annotation_updates, check_spec_update

if TYPE_CHECKING:
    from allhands.api.errors import FieldError

RULES = pods.RULES["Pod"]
IMAGES = st.sampled_from(["a:1", "a:2", "", " a", "b"])
TOLERATIONS = st.lists(
    st.sampled_from(
        [
            {"key": "k", "operator": "Exists"},
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "l", "operator": "Exists", "value": "no"},
            {"key": "-bad-", "operator": "Exists"},
        ]
    ),
    max_size=3,
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "image": IMAGES,
        "tolerations": TOLERATIONS,
        "activeDeadlineSeconds": st.sampled_from([0, 5, 100]),
        "nodeName": st.sampled_from(["", "n"]),
        "cpu": st.sampled_from(["1", "2"]),
        "annotation": st.sampled_from(["kubernetes.io/config.mirror", "controller.kubernetes.io/pod-deletion-cost"]),
    },
)


PLAIN = {
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {"containers": [{"name": "c", "image": "a:1", "resources": {"requests": {"cpu": "1"}}}]},
    "status": {},
}


def pod(changes: dict[str, Any], start: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(start or PLAIN)
    spec = made["spec"]
    if "image" in changes:
        spec["containers"][0]["image"] = changes["image"]
    if "cpu" in changes:
        spec["containers"][0]["resources"] = {"requests": {"cpu": changes["cpu"]}}
    if "annotation" in changes:
        made["metadata"]["annotations"] = {changes["annotation"]: "x"}
    for field in ("tolerations", "activeDeadlineSeconds", "nodeName"):
        if field in changes:
            spec[field] = changes[field]
    RULES.default(made)
    return made


@given(before=CHANGES, after=CHANGES)
def test_a_shortcut_never_changes_the_verdict(before: dict[str, Any], after: dict[str, Any]) -> None:
    old = pod(before)
    if RULES.validate_create(copy.deepcopy(old)):
        return  # only valid pods are ever stored
    new = pod(after, old)
    whole: list[FieldError] = pods._check(copy.deepcopy(new))
    check_annotation_updates(new, old, whole)
    check_spec_update(new["spec"], old["spec"], whole)
    assert RULES.validate_update(new, old) == whole
