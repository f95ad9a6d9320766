"""How many volumes of a driver a node can attach: each counts once, whoever uses it."""

from __future__ import annotations

import pytest

from allhands.core.feasibility.volume_needs import VolumeProblem
from allhands.model.pod_volume import Attachment, InlineVolume
from allhands.model.volume import CSINode, PersistentVolume, StorageClass, VolumeAttachment
from tests.unit.core.feasibility.storage import Shelf, asking, bound, claim, facts, on_disk, pod

DRIVER = "disks.example.com"
EBS = "ebs.csi.aws.com"


def limits(driver: str = DRIVER, **by_node: int | None) -> tuple[CSINode, ...]:
    return tuple(CSINode(name, ((driver, limit),)) for name, limit in by_node.items())


def data(*names: str) -> tuple[object, ...]:
    """Bound claims, each with a disk of its own."""
    return tuple(part for name in names for part in bound(name, on_disk(name)))


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [(0, "b c"), (1, "b c"), (2, "a b c"), (None, "a b c"), (-1, "b c")],
    ids=["none", "as many as there are", "one more", "not said", "nonsense"],
)
def test_a_node_that_is_full_takes_no_more(limit: int | None, wanted: str) -> None:
    shelf = Shelf(facts(data("used", "new"), limits(a=limit)), pod("used", on="a"))
    assert shelf.open_to(asking("new")) == wanted
    assert shelf.filter.is_dynamic(asking("new")) == (limit is not None)


def test_a_volume_that_is_there_already_needs_no_room() -> None:
    shelf = Shelf(facts(data("one", "two"), limits(a=1, b=0)), pod("one", on="a"), pod("two", on="b"))
    assert shelf.open_to(asking("one")) == "a c"
    assert shelf.open_to(asking("two")) == "b c"
    assert shelf.open_to(asking("one", "two")) == "c"


def test_a_volume_that_many_use_counts_once() -> None:
    shelf = Shelf(facts(data("shared", "new"), limits(a=2)), *(pod("shared", on="a") for _ in range(5)))
    assert shelf.open_to(asking("new")) == "a b c"


def test_two_claims_of_one_disk_count_once() -> None:
    same = (
        *bound("one", on_disk("disk")),
        *bound("two", PersistentVolume("other", attachment=Attachment(DRIVER, "disk"))),
    )
    assert Shelf(facts(same, limits(a=1, b=1, c=0))).open_to(asking("one", "two")) == "a b"


def test_drivers_are_counted_apart() -> None:
    other = bound("other", on_disk("other", "else.example.com"))
    shelf = Shelf(facts(data("one"), other, limits(a=1)), pod("other", on="a"))
    assert shelf.open_to(asking("one")) == "a b c"
    assert not shelf.filter.is_dynamic(asking("other"))


def test_every_driver_of_a_pod_must_have_room() -> None:
    other = bound("other", on_disk("other", "else.example.com"))
    nodes = (CSINode("a", ((DRIVER, 1), ("else.example.com", 0))), CSINode("b", ((DRIVER, 0),)))
    assert Shelf(facts(data("one"), other, nodes)).open_to(asking("one", "other")) == "c"


def test_the_pod_that_does_not_fit_anywhere_is_told_by_the_claim() -> None:
    shelf = Shelf(facts(data("one"), limits(a=0, b=0, c=0)))
    assert shelf.problem(asking("one")) == ("ns/one", VolumeProblem.TOO_MANY_ATTACHED)


def test_a_claim_without_a_volume_counts_for_the_driver_that_will_make_it() -> None:
    shelf = Shelf(facts(claim("one", "later"), claim("two", "later"), limits(a=1)), pod("one", on="a"))
    assert shelf.open_to(asking("two")) == "b c"
    assert shelf.open_to(asking("one")) == "a b c"


def test_a_claim_of_an_old_provisioner_counts_for_the_driver_that_took_over() -> None:
    old = StorageClass("old", "kubernetes.io/aws-ebs", "WaitForFirstConsumer")
    file = StorageClass("file", "kubernetes.io/azure-file", "WaitForFirstConsumer")
    known = facts(claim("one", "old"), claim("two", "file"), old, file, limits(EBS, a=0))
    assert Shelf(known).open_to(asking("one")) == "b c"
    assert Shelf(known).open_to(asking("two")) == "a b c"
    assert (
        Shelf(facts(claim("two", "file"), file, limits("kubernetes.io/azure-file", a=0))).open_to(asking("two"))
        == "a b c"
    )


def test_an_old_kind_of_disk_counts_for_the_driver_that_took_over() -> None:
    old = PersistentVolume("pv", attachment=Attachment(EBS, "vol-1"), old_kind="awsElasticBlockStore")
    inline = InlineVolume("awsElasticBlockStore", ("vol-2",))
    shelf = Shelf(facts(bound("one", old), limits(EBS, a=1)), pod(disks=[inline], on="a"))
    assert shelf.open_to(asking("one")) == "b c"
    assert Shelf(facts(limits(EBS, a=0, b=1))).open_to(asking(disks=[inline])) == "b c"


def test_a_volume_without_a_driver_or_a_handle_is_not_counted() -> None:
    nameless = bound("one", PersistentVolume("pv", attachment=Attachment(DRIVER, "")))
    plain = bound("two", PersistentVolume("other"))
    assert Shelf(facts(nameless, plain, limits(a=0))).open_to(asking("one", "two")) == "a b c"


def test_a_running_pod_whose_claim_is_gone_counts_nothing() -> None:
    assert Shelf(facts(data("new"), limits(a=1)), pod("gone", on="a")).open_to(asking("new")) == "a b c"


def test_what_the_api_says_is_attached_counts_though_no_pod_uses_it() -> None:
    known = facts(data("left", "new"), limits(a=1), attachments=[VolumeAttachment("x", "a", DRIVER, "pv-left")])
    assert Shelf(known).open_to(asking("new")) == "b c"


def test_what_is_attached_and_used_counts_once() -> None:
    known = facts(data("used", "new"), limits(a=2), attachments=[VolumeAttachment("x", "a", DRIVER, "pv-used")])
    shelf = Shelf(known, pod("used", on="a"))
    assert shelf.open_to(asking("new")) == "a b c"
    shelf.place(asking("new"), "a")
    assert shelf.open_to(asking("used")) == "a b c"


def test_as_in_kube_scheduler_a_volume_that_is_attached_and_unused_needs_room_again() -> None:
    known = facts(data("left"), limits(a=1, b=1), attachments=[VolumeAttachment("x", "a", DRIVER, "pv-left")])
    assert Shelf(known).open_to(asking("left")) == "b c"


@pytest.mark.parametrize(
    "attachment",
    [
        VolumeAttachment("x", "a", "", "pv-left"),
        VolumeAttachment("x", "a", DRIVER, ""),
        VolumeAttachment("x", "a", DRIVER, "unknown"),
        VolumeAttachment("x", "gone", DRIVER, "pv-left"),
        VolumeAttachment("x", "a", "else.example.com", "pv-left"),
        VolumeAttachment("x", "a", DRIVER, "old"),
    ],
    ids=["no driver", "no volume", "unknown volume", "unknown node", "another driver", "an old kind of disk"],
)
def test_an_attachment_that_says_too_little_is_not_counted(attachment: VolumeAttachment) -> None:
    old = PersistentVolume("old", attachment=Attachment(DRIVER, "old"), old_kind="cinder")
    known = facts(data("left", "new"), old, limits(a=1), attachments=[attachment])
    assert Shelf(known).open_to(asking("new")) == "a b c"


def test_pods_that_were_placed_just_now_count() -> None:
    shelf = Shelf(facts(data("one", "two", "three"), limits(a=2)))
    shelf.place(asking("one"), "a")
    assert shelf.open_to(asking("three")) == "a b c"
    shelf.place(asking("two"), "a")
    assert shelf.open_to(asking("three")) == "b c"
    shelf.place(asking("one"), "a", -1)
    assert shelf.open_to(asking("three")) == "a b c"


def test_a_victim_that_is_thought_away_makes_room() -> None:
    shelf = Shelf(facts(data("used", "new"), limits(a=1)), pod("used", on="a"))
    shelf.place(asking("used"), "a", -1)
    assert shelf.open_to(asking("new")) == "a b c"
    shelf.place(asking("used"), "a")
    assert shelf.open_to(asking("new")) == "b c"
