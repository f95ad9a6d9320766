"""Claims that get their volume with their pod: from what is free, or made where the pod goes."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.core.feasibility.volume_needs import VolumeProblem
from allhands.core.plan_volumes import BindClaim, SelectNode
from allhands.model.selector import EVERYTHING, LabelSelector, Requirement
from allhands.model.volume import ClaimReference, CSIDriver, StorageCapacity, StorageClass
from tests.unit.core.feasibility.storage import ZONE, Shelf, asking, claim, facts, volume

DRIVER = "disks.example.com"


def zoned(*zones: str, name: str = "later") -> StorageClass:
    return StorageClass(name, DRIVER, "WaitForFirstConsumer", ((Requirement(ZONE, "In", zones),),))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "a"),
        ({"phase": "Released"}, ""),
        ({"phase": "Pending"}, ""),
        ({"deleting": True}, ""),
        ({"class_name": "other"}, ""),
        ({"capacity_bytes": 9}, ""),
        ({"capacity_bytes": 11}, "a"),
        ({"access_modes": ("ReadWriteMany",)}, ""),
        ({"access_modes": ("ReadWriteMany", "ReadWriteOnce")}, "a"),
        ({"volume_mode": "Block"}, ""),
        ({"attributes_class": "gold"}, ""),
        ({"claim": ClaimReference("ns", "other")}, ""),
        ({"claim": ClaimReference("elsewhere", "data")}, ""),
        ({"claim": ClaimReference("ns", "data", "another life")}, ""),
    ],
    ids=[
        "a free volume is found on its node",
        "one that was used before is not free",
        "one that is not ready is not free",
        "one that is being deleted is not free",
        "one of another class is not looked at",
        "one that is too small does not do",
        "one that is larger does",
        "one without the access mode does not do",
        "one with more access modes does",
        "one of another mode does not do",
        "one of another attributes class does not do",
        "one that is kept for another claim is not free",
        "nor for one of that name in another namespace",
        "nor for an earlier claim of that name",
    ],
)
def test_a_free_volume_is_found(given: dict[str, Any], wanted: str) -> None:
    shelf = Shelf(facts(claim("data"), volume("pv", "a", **given)))
    assert shelf.open_to(asking("data")) == wanted
    assert shelf.filter.is_dynamic(asking("data"))


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, "a b"),
        (EVERYTHING, "a b"),
        (LabelSelector.of({"speed": "fast"}), "b"),
        (LabelSelector.of(expressions=[Requirement("speed", "DoesNotExist")]), "a"),
    ],
    ids=["no selector", "an empty selector", "a label", "the absence of a label"],
)
def test_a_claim_may_select_by_the_labels_of_volumes(selector: LabelSelector | None, wanted: str) -> None:
    fast = volume("y", "b", labels={"speed": "fast"})
    shelf = Shelf(facts(claim("data", selector=selector), volume("x", "a"), fast))
    assert shelf.open_to(asking("data")) == wanted


def test_a_claim_that_asks_for_no_size_takes_any() -> None:
    shelf = Shelf(facts(claim("data", request_bytes=None), volume("x", "a", capacity_bytes=0)))
    assert shelf.open_to(asking("data")) == "a"


def test_the_smallest_volume_of_the_node_is_taken_and_of_equals_the_first_by_name() -> None:
    shelf = Shelf(
        facts(
            claim("data"),
            volume("large", "a", "b", capacity_bytes=30),
            volume("small-2", "a", "c", capacity_bytes=20),
            volume("small-1", "a", capacity_bytes=20),
        )
    )
    taken = {node: shelf.prepare(asking("data"), node) for node in "abc"}
    assert taken == {
        "a": (BindClaim("ns/data", "uid-of-data", "small-1"),),
        "b": (BindClaim("ns/data", "uid-of-data", "large"),),
        "c": (BindClaim("ns/data", "uid-of-data", "small-2"),),
    }


def test_a_volume_that_is_kept_for_the_claim_is_taken_before_any_other() -> None:
    kept = volume("kept", "b", capacity_bytes=50, phase="Bound", access_modes=(), claim=ClaimReference("ns", "data"))
    shelf = Shelf(facts(claim("data"), kept, volume("free", "a", "b")))
    assert shelf.open_to(asking("data")) == "b"
    assert shelf.prepare(asking("data"), "b") == (BindClaim("ns/data", "uid-of-data", "kept", kept=True),)


def test_a_kept_volume_that_does_not_suit_the_claim_keeps_nothing() -> None:
    kept = volume("kept", "b", capacity_bytes=5, claim=ClaimReference("ns", "data"))
    shelf = Shelf(facts(claim("data"), kept, volume("free", "a")))
    assert shelf.open_to(asking("data")) == "a"


def test_where_a_kept_volume_is_out_of_reach_another_is_made_if_the_class_can() -> None:
    kept = volume("kept", "b", class_name="later", claim=ClaimReference("ns", "data"))
    shelf = Shelf(facts(claim("data", "later"), kept, volume("free", "a", class_name="later")))
    assert shelf.open_to(asking("data")) == "a b c"
    assert shelf.prepare(asking("data"), "a") == (SelectNode("ns/data", "uid-of-data", "a"),)


def test_two_claims_of_a_pod_need_two_volumes_on_its_node() -> None:
    shelf = Shelf(facts(claim("one"), claim("two"), volume("v", "a", "b"), volume("w", "b"), volume("x", "a", "b")))
    assert shelf.open_to(asking("one", "two")) == "a b"
    assert shelf.prepare(asking("one", "two"), "a") == (
        BindClaim("ns/one", "uid-of-one", "v"),
        BindClaim("ns/two", "uid-of-two", "x"),
    )
    assert shelf.prepare(asking("one", "two"), "b") == (
        BindClaim("ns/one", "uid-of-one", "v"),
        BindClaim("ns/two", "uid-of-two", "w"),
    )


def test_two_claims_and_one_volume_do_not_fit() -> None:
    shelf = Shelf(facts(claim("one"), claim("two"), volume("v", "a")))
    assert shelf.open_to(asking("one", "two")) == ""
    assert shelf.problem(asking("one", "two")) == ("ns/two", VolumeProblem.NO_ROOM)


def test_the_smaller_claim_is_served_first() -> None:
    small, large = claim("z-small", request_bytes=5), claim("a-large", request_bytes=10)
    shelf = Shelf(facts(small, large, volume("ten", "a", capacity_bytes=10), volume("six", "a", capacity_bytes=6)))
    assert shelf.prepare(asking("a-large", "z-small"), "a") == (
        BindClaim("ns/a-large", "uid-of-a-large", "ten"),
        BindClaim("ns/z-small", "uid-of-z-small", "six"),
    )


def test_as_in_kube_scheduler_the_first_claim_may_take_what_only_the_second_could_use() -> None:
    picky = claim("picky", selector=LabelSelector.of({"speed": "fast"}), request_bytes=20)
    fast, slow = (
        volume("fast", "a", labels={"speed": "fast"}, capacity_bytes=20),
        volume("slow", "a", capacity_bytes=30),
    )
    assert Shelf(facts(claim("easy"), picky, fast, slow)).open_to(asking("easy", "picky")) == ""


def test_one_claim_may_get_a_volume_and_the_other_have_one_made() -> None:
    shelf = Shelf(facts(claim("one"), claim("two", "later"), zoned("west"), volume("v", "a", "b")))
    assert shelf.open_to(asking("one", "two")) == "b"
    assert shelf.prepare(asking("one", "two"), "b") == (
        BindClaim("ns/one", "uid-of-one", "v"),
        SelectNode("ns/two", "uid-of-two", "b"),
    )


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        ((), "a b c"),
        (((Requirement(ZONE, "In", ("west",)),),), "b c"),
        (((Requirement(ZONE, "In", ("west",)), Requirement("disk", "In", ("ssd",))),), ""),
        ((((Requirement(ZONE, "In", ("west",)),), (Requirement(ZONE, "In", ("east",)),))), "a b c"),
        (((),), ""),
        (((Requirement(ZONE, "In", ()),),), ""),
    ],
    ids=["anywhere", "in a zone", "all expressions must hold", "one term is enough", "an empty term", "no values"],
)
def test_a_volume_is_made_where_the_class_allows(terms: tuple[tuple[Requirement, ...], ...], wanted: str) -> None:
    shelf = Shelf(facts(claim("data", "later"), StorageClass("later", DRIVER, "WaitForFirstConsumer", terms)))
    assert shelf.open_to(asking("data")) == wanted


def test_a_class_without_a_provisioner_makes_nothing() -> None:
    shelf = Shelf(facts(claim("data"), claim("other", "idle"), StorageClass("idle", "", "WaitForFirstConsumer")))
    assert shelf.open_to(asking("data")) == ""
    assert shelf.open_to(asking("other")) == ""
    assert shelf.problem(asking("data")) == ("ns/data", VolumeProblem.NO_ROOM)


def test_a_free_volume_does_where_none_can_be_made() -> None:
    shelf = Shelf(facts(claim("data", "later"), zoned("west"), volume("v", "a", class_name="later")))
    assert shelf.open_to(asking("data")) == "a b c"


@pytest.mark.parametrize(
    ("selected", "wanted"), [("b", "b"), ("a", ""), ("gone", ""), ("", "")], ids=["b", "not allowed", "gone", "empty"]
)
def test_a_claim_that_was_given_a_node_is_made_there_or_nowhere(selected: str, wanted: str) -> None:
    free = volume("v", "a", "c", class_name="later")
    shelf = Shelf(facts(claim("data", "later", selected_node=selected), zoned("west"), free))
    assert shelf.open_to(asking("data")) == wanted
    if wanted:
        assert shelf.prepare(asking("data"), "b") == (SelectNode("ns/data", "uid-of-data", "b", selected=True),)


WEST = LabelSelector.of({ZONE: "west"})


@pytest.mark.parametrize(
    ("capacities", "wanted"),
    [
        ((), ""),
        ((StorageCapacity("s", "x", "later", WEST, 10),), "b c"),
        ((StorageCapacity("s", "x", "later", WEST, 9),), ""),
        ((StorageCapacity("s", "x", "other", WEST, 10),), ""),
        ((StorageCapacity("s", "x", "later", WEST, None),), ""),
        ((StorageCapacity("s", "x", "later", None, 10),), ""),
        ((StorageCapacity("s", "x", "later", EVERYTHING, 10),), "a b c"),
        ((StorageCapacity("s", "x", "later", WEST, 9), StorageCapacity("s", "y", "later", EVERYTHING, 99)), "a b c"),
        ((StorageCapacity("s", "x", "later", LabelSelector.of(expressions=[Requirement("k", "Near")]), 10),), ""),
    ],
    ids=[
        "none is published",
        "enough in one zone",
        "too little",
        "of another class",
        "of no size",
        "reachable from nowhere",
        "reachable from everywhere",
        "any that is large enough",
        "a selector that cannot be parsed",
    ],
)
def test_where_a_driver_publishes_its_room_there_must_be_enough(
    capacities: tuple[StorageCapacity, ...], wanted: str
) -> None:
    known = facts(claim("data", "later"), CSIDriver(DRIVER, tracks_capacity=True), capacities)
    assert Shelf(known).open_to(asking("data")) == wanted


def test_room_is_not_asked_of_a_driver_that_does_not_publish_it_nor_for_a_claim_without_a_size() -> None:
    assert Shelf(facts(claim("data", "later"), CSIDriver(DRIVER))).open_to(asking("data")) == "a b c"
    sizeless = facts(claim("data", "later", request_bytes=None), CSIDriver(DRIVER, tracks_capacity=True))
    assert Shelf(sizeless).open_to(asking("data")) == "a b c"


def test_room_and_allowed_topology_must_both_hold() -> None:
    room = StorageCapacity("s", "x", "later", WEST, 10)
    known = facts(claim("data", "later"), zoned("east"), CSIDriver(DRIVER, tracks_capacity=True), room)
    assert Shelf(known).open_to(asking("data")) == ""


def test_sizes_at_the_edge_of_64_bits_are_compared() -> None:
    largest = 2**63 - 1
    huge = volume("v", "a", capacity_bytes=largest)
    assert Shelf(facts(claim("data", request_bytes=largest), huge)).open_to(asking("data")) == "a"
    assert Shelf(facts(claim("data", request_bytes=-largest), huge)).open_to(asking("data")) == "a"
