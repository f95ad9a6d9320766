"""A client of the scripted server, that trusts it and hardly waits between attempts."""

from __future__ import annotations

from typing import Any

from allhands.kube.access import Access
from allhands.kube.objects import KubeObjects
from allhands.kube.retrying import Patience
from allhands.kube.settings import Settings
from tests.certificates import Authority

IN_TIME = 60.0
QUICK = Settings(patience=Patience(first_seconds=0.001, most_seconds=0.002), in_flight=8)
AUTHORITY = Authority()


def opened(url: str, settings: Settings = QUICK, **more: Any) -> KubeObjects:
    return KubeObjects(Access(server=url, ca_pem=AUTHORITY.pem, **more), settings=settings)
