"""What two pods cannot have at once: a claim for one pod, a disk on one node, a volume that only one can get."""

from __future__ import annotations

import pytest

from allhands.core.feasibility.volume_needs import VolumeProblem
from allhands.core.feasibility.volumes import VolumeFeasibility
from allhands.core.plan_volumes import BindClaim, SelectNode
from allhands.model.pod_volume import InlineVolume
from tests.unit.core.feasibility.storage import Shelf, asking, bound, claim, facts, pod, volume

FOR_ONE = ("ReadWriteOncePod",)


def test_a_claim_for_one_pod_is_free_until_somebody_has_it() -> None:
    known = facts(bound("data", volume("pv"), access_modes=FOR_ONE))
    assert Shelf(known).open_to(asking("data")) == "a b c"
    used = Shelf(known, pod("data", on="a"))
    assert used.open_to(asking("data")) == ""
    assert used.problem(asking("data")) == ("ns/data", VolumeProblem.ONE_POD_ONLY)


def test_who_is_leaving_still_has_its_claim() -> None:
    known = facts(bound("data", volume("pv"), access_modes=FOR_ONE))
    assert Shelf(known, pod("data", on="a", deleting=True)).open_to(asking("data")) == ""


def test_who_is_on_an_unknown_node_or_only_nominated_has_no_claim() -> None:
    known = facts(bound("data", volume("pv"), access_modes=FOR_ONE))
    assert Shelf(known, pod("data", on="gone")).open_to(asking("data")) == "a b c"
    assert Shelf(known, pod("data", nominated_node="a")).open_to(asking("data")) == "a b c"


def test_a_pod_with_a_claim_for_one_pod_starts_once_in_a_plan() -> None:
    shelf = Shelf(facts(bound("data", volume("pv"), access_modes=FOR_ONE)))
    assert shelf.filter.is_dynamic(asking("data"))
    shelf.place(asking("data"), "b")
    assert shelf.open_to(asking("data")) == ""
    shelf.place(asking("data"), "b", -1)
    assert shelf.open_to(asking("data")) == "a b c"


def test_any_other_claim_is_shared_freely() -> None:
    shelf = Shelf(facts(bound("data", volume("pv"))), pod("data", on="a"))
    assert shelf.open_to(asking("data")) == "a b c"
    assert not shelf.filter.is_dynamic(asking("data"))


def test_a_claim_that_was_made_for_the_pod_is_not_asked_who_else_uses_it() -> None:
    known = facts(bound("p-x", volume("pv"), access_modes=FOR_ONE, owner_uid="uid-of-p"))
    shelf = Shelf(known, pod(own=("p-x",), on="a"))
    assert shelf.open_to(asking(own=("p-x",))) == "a b c"


def disk(kind: str, name: str = "d", *, read_only: bool = False, monitors: tuple[str, ...] = ()) -> InlineVolume:
    return InlineVolume(kind, ("pool", name) if kind == "rbd" else (name,), read_only, monitors)


@pytest.mark.parametrize(
    ("there", "new", "wanted"),
    [
        (disk("gcePersistentDisk"), disk("gcePersistentDisk"), "b c"),
        (disk("gcePersistentDisk", read_only=True), disk("gcePersistentDisk"), "b c"),
        (disk("gcePersistentDisk", read_only=True), disk("gcePersistentDisk", read_only=True), "a b c"),
        (disk("gcePersistentDisk"), disk("gcePersistentDisk", "e"), "a b c"),
        (disk("awsElasticBlockStore", read_only=True), disk("awsElasticBlockStore", read_only=True), "b c"),
        (disk("iscsi"), disk("iscsi", read_only=True), "b c"),
        (disk("iscsi", read_only=True), disk("iscsi", read_only=True), "a b c"),
        (disk("rbd", monitors=("m", "n")), disk("rbd", monitors=("n", "o")), "b c"),
        (disk("rbd", monitors=("m",)), disk("rbd", monitors=("n",)), "a b c"),
        (disk("rbd", monitors=("m",), read_only=True), disk("rbd", monitors=("m",), read_only=True), "a b c"),
        (disk("cinder"), disk("cinder"), "a b c"),
        (disk("iscsi"), disk("gcePersistentDisk"), "a b c"),
    ],
    ids=[
        "one disk, two writers",
        "one disk, a reader and a writer",
        "one disk, two readers",
        "two disks",
        "a disk of Amazon not even for two readers",
        "one target, a reader and a writer",
        "one target, two readers",
        "one image, a monitor in common",
        "one image, no monitor in common",
        "one image, two readers",
        "a kind that nobody checks",
        "two kinds",
    ],
)
def test_a_disk_is_for_one_pod_of_a_node(there: InlineVolume, new: InlineVolume, wanted: str) -> None:
    assert Shelf(facts(), pod(disks=[there], on="a")).open_to(asking(disks=[new])) == wanted
    placed = Shelf(facts())
    placed.place(asking(disks=[there]), "a")
    assert placed.open_to(asking(disks=[new])) == wanted
    placed.place(asking(disks=[there]), "a", -1)
    assert placed.open_to(asking(disks=[new])) == "a b c"


def test_a_disk_that_is_in_use_everywhere_is_named() -> None:
    shelf = Shelf(facts(), *(pod(disks=[disk("iscsi")], on=node) for node in "abc"))
    assert shelf.problem(asking(disks=[disk("iscsi")])) == ("iscsi d", VolumeProblem.DISK_IN_USE)


def test_a_nominated_pod_keeps_its_disk_from_others() -> None:
    assert (
        Shelf(facts(), pod(disks=[disk("iscsi")], nominated_node="a")).open_to(asking(disks=[disk("iscsi")])) == "b c"
    )


def test_two_pods_of_a_gang_never_get_the_same_local_volume() -> None:
    shelf = Shelf(facts(claim("one"), claim("two"), volume("v", "a")))
    shelf.place(asking("one"), "a")
    assert shelf.open_to(asking("two")) == ""
    shelf.place(asking("one"), "a", -1)
    assert shelf.open_to(asking("two")) == "a"


def test_the_second_pod_gets_the_next_volume() -> None:
    shelf = Shelf(facts(claim("one"), claim("two"), volume("v", "a"), volume("w", "a", "b", capacity_bytes=20)))
    shelf.place(asking("one"), "a")
    assert shelf.open_to(asking("two")) == "a b"
    shelf.place(asking("two"), "a")
    assert shelf.prepare(asking("one"), "a") == (BindClaim("ns/one", "uid-of-one", "v"),)
    assert shelf.prepare(asking("two"), "a") == (BindClaim("ns/two", "uid-of-two", "w"),)


def test_pods_that_share_a_waiting_claim_go_where_its_volume_can_be_used() -> None:
    shelf = Shelf(facts(claim("data"), volume("v", "a", "b"), volume("w", "c")))
    assert shelf.open_to(asking("data")) == "a b c"
    shelf.place(asking("data"), "a")
    assert shelf.open_to(asking("data")) == "a b"
    shelf.place(asking("data"), "b")
    assert shelf.prepare(asking("data"), "a") == shelf.prepare(asking("data"), "b")


def test_pods_that_share_a_claim_whose_volume_is_to_be_made_go_to_one_node() -> None:
    shelf = Shelf(facts(claim("data", "later")))
    shelf.place(asking("data"), "b")
    assert shelf.open_to(asking("data")) == "b"
    assert shelf.prepare(asking("data"), "b") == (SelectNode("ns/data", "uid-of-data", "b"),)


def test_a_promise_lasts_until_the_last_pod_that_relies_on_it_is_gone() -> None:
    shelf = Shelf(facts(claim("data"), claim("other"), volume("v", "a", "b")))
    shelf.place(asking("data"), "a")
    shelf.place(asking("data"), "b")
    shelf.place(asking("data"), "a", -1)
    assert shelf.open_to(asking("other")) == ""
    assert shelf.prepare(asking("data"), "b") == (BindClaim("ns/data", "uid-of-data", "v"),)
    shelf.place(asking("data"), "b", -1)
    assert shelf.open_to(asking("other")) == "a b"


def test_a_running_pod_that_is_thought_away_and_back_promises_nothing() -> None:
    shelf = Shelf(facts(claim("data"), volume("v", "a")), pod("data", on="b"))
    shelf.place(asking("data"), "b", -1)
    assert shelf.open_to(asking("data")) == "a"
    shelf.place(asking("data"), "b")
    assert shelf.open_to(asking("data")) == "a"


def test_what_was_learned_is_handed_on_as_long_as_storage_and_labels_are_the_same() -> None:
    first = Shelf(facts(claim("data"), volume("v", "a")))
    first.place(asking("data"), "a")
    again = VolumeFeasibility(first.known, first.columns, first.snapshot.pods, first.filter)
    assert again.storage is first.filter.storage
    assert again.mask(asking("data")).tolist() == [True, False, False]
    other = facts(claim("data"), volume("v", "b"))
    assert VolumeFeasibility(other, first.columns, first.snapshot.pods, again).mask(asking("data")).tolist() == [
        False,
        True,
        False,
    ]
