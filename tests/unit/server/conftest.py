"""The face over a scripted port, on a clock that stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.server.app import App, build_app
from allhands.server.limits import Limits
from tests.doubles import ManualClock
from tests.unit.server.asgi_client import TOKEN, Client, ScriptedObjects, registry

if TYPE_CHECKING:
    from allhands.api.kinds import KindRegistry


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def port() -> ScriptedObjects:
    return ScriptedObjects()


@pytest.fixture
def kinds() -> KindRegistry:
    return registry()


@pytest.fixture
def app(port: ScriptedObjects, kinds: KindRegistry, clock: ManualClock, limits: Limits) -> App:
    return build_app(port, kinds, token=TOKEN, clock=clock, limits=limits)


@pytest.fixture
def client(app: App) -> Client:
    return Client(app)
