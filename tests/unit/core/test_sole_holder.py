"""An attribute that is alone with its value knows it, and one that is not never believes it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from allhands.core.sole_holder import holds_alone


class Owner:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize("make", [lambda: {"a": 1}, lambda: [1], lambda: np.zeros(4)], ids=["dict", "list", "array"])
def test_it_is_alone_until_somebody_else_holds_it_and_again_after(make: Any) -> None:
    owner = Owner(make())
    assert holds_alone(owner, "value")
    other = owner.value
    assert not holds_alone(owner, "value")
    del other
    assert holds_alone(owner, "value")


def test_a_view_of_an_array_holds_it() -> None:
    owner = Owner(np.zeros(4))
    view = owner.value[:2]
    assert not holds_alone(owner, "value")
    del view
    assert holds_alone(owner, "value")
