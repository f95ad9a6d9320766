"""A store of its own for every test, on a clock that stands still."""

from __future__ import annotations

import pytest

from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock, CountingIds())


@pytest.fixture
def objects(store: Store) -> InProcessObjects:
    return InProcessObjects(store)
