"""Who takes an object, who lets it go, and what other owners have written stays."""

from __future__ import annotations

from typing import Any

import msgspec

from allhands.lifecycle.instructions import Patch
from allhands.lifecycle.observed import Metadata, Pod
from allhands.lifecycle.ownership import Manager, claim
from allhands.lifecycle.replica_set import PODS
from allhands.lifecycle.selection import managing_selector

SELECTOR = managing_selector({"matchLabels": {"app": "web"}})
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c", "blockOwnerDeletion": True}
OURS = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": True}


def _manager(**more: Any) -> Manager:
    metadata = {"name": "web", "namespace": "ns", "uid": "set", **more}
    return Manager("StatefulSet", msgspec.convert(metadata, Metadata))


def _pod(*owners: dict[str, Any], app: str = "web", **more: Any) -> Pod:
    metadata = {
        "name": "p",
        "namespace": "ns",
        "uid": "p",
        "resourceVersion": "7",
        "labels": {"app": app},
        "ownerReferences": list(owners),
        **more,
    }
    return msgspec.convert({"metadata": metadata}, Pod)


def _claimed(pod: Pod, manager: Manager | None = None) -> tuple[bool, list[Any]]:
    mine, changes = claim(manager or _manager(), PODS, SELECTOR, [pod])
    assert all(isinstance(it, Patch) and it.version == "7" for it in changes)
    return bool(mine), [it.patch["metadata"]["ownerReferences"] for it in changes if isinstance(it, Patch)]


def test_what_fits_and_nobody_manages_is_taken_and_other_owners_stay_as_they_are() -> None:
    is_mine, ((other, ours),) = _claimed(_pod(OTHER))
    assert is_mine
    assert {key: it for key, it in other.items() if it is not None} == OTHER
    assert ours == OURS | {"blockOwnerDeletion": True}


def test_what_does_not_fit_any_more_is_let_go_and_other_owners_stay() -> None:
    is_mine, ((other,),) = _claimed(_pod(OTHER, OURS, app="debug"))
    assert not is_mine
    assert other["uid"] == "c"
    assert _claimed(_pod(OURS, app="debug")) == (False, [None])


def test_what_is_somebody_elses_elsewhere_or_going_is_left_alone() -> None:
    gone = "2026-01-31T08:00:00Z"
    for pod in (_pod(OURS | {"uid": "other"}), _pod(namespace="else"), _pod(deletionTimestamp=gone), _pod(app="x")):
        assert _claimed(pod) == (False, [])


def test_who_is_being_deleted_takes_nobody_and_lets_nobody_go() -> None:
    going = _manager(deletionTimestamp="2026-01-31T08:00:00Z")
    assert _claimed(_pod(), going) == (False, [])
    assert _claimed(_pod(OURS, app="debug"), going) == (True, [])
