"""Which object a path addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.kinds import Resource
from allhands.server.paths import Target, target_of

PODS = Resource("", "v1", "pods")
JOBS = Resource("batch", "v1", "jobs")
NAMESPACES = Resource("", "v1", "namespaces")

CASES = {
    "all pods": ("api/v1/pods", Target(PODS)),
    "the pods of a namespace": ("api/v1/namespaces/team/pods", Target(PODS, "team")),
    "one pod": ("api/v1/namespaces/team/pods/a", Target(PODS, "team", "a")),
    "a pod's status": ("api/v1/namespaces/team/pods/a/status", Target(PODS, "team", "a", "status")),
    "a job of a named group": ("apis/batch/v1/namespaces/team/jobs/j", Target(JOBS, "team", "j")),
    "a namespace itself": ("api/v1/namespaces/team", Target(NAMESPACES, name="team")),
    "a namespace's status": ("api/v1/namespaces/team/status", Target(NAMESPACES, name="team", subresource="status")),
    "a namespace's finalizers": (
        "api/v1/namespaces/team/finalize",
        Target(NAMESPACES, name="team", subresource="finalize"),
    ),
    "a path behind a proxy": (
        "api/v1/namespaces/team/pods/a/proxy/x/y",
        Target(PODS, "team", "a", "proxy", ("x", "y")),
    ),
    "a watch in the old way": ("api/v1/watch/namespaces/team/pods", Target(PODS, "team", old_watch=True)),
    "nothing below a version": ("api/v1", None),
    "nothing below a group": ("apis/batch/v1", None),
    "an empty segment": ("api/v1//pods", None),
    "too deep for anything but a proxy": ("api/v1/namespaces/team/pods/a/status/b", None),
    "another tree": ("openapi/v3/api/v1/pods", None),
}


@pytest.mark.parametrize(("path", "target"), CASES.values(), ids=CASES)
def test_a_path_addresses(path: str, target: Target | None) -> None:
    assert target_of(path.split("/")) == target


def test_an_encoded_slash_does_not_make_two_segments() -> None:
    assert target_of(["api", "v1", "namespaces", "a/b", "pods"]) is None


@given(st.lists(st.sampled_from(["api", "apis", "v1", "namespaces", "pods", "watch", "status", "proxy", "", "x"])))
def test_every_path_has_an_answer(segments: list[str]) -> None:
    target = target_of(segments)
    assert target is None or target.resource.plural
