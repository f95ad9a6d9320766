"""Which nodes belong to a flavor, and which flavors cannot be."""

from __future__ import annotations

import pytest

from allhands.model.flavor import Flavor


def test_a_node_belongs_to_a_flavor_if_it_has_all_its_labels() -> None:
    flavor = Flavor("h100", (("gpu", "h100"), ("pool", "spot")))
    assert flavor.holds({"pool": "spot", "gpu": "h100", "zone": "a"})
    assert not flavor.holds({"gpu": "h100"})
    assert Flavor("any").holds({})


@pytest.mark.parametrize(
    ("name", "labels"), [("", ()), ("f", (("b", "1"), ("a", "1"))), ("f", (("a", "1"), ("a", "2")))], ids=str
)
def test_a_flavor_without_a_name_or_with_unsorted_labels_is_refused(
    name: str, labels: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(ValueError, match="flavor"):
        Flavor(name, labels)
