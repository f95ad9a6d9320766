"""What the API server says in the end, counted by somebody who has nothing to do with the scheduler."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from tests.manifests import NODES, PODS

if TYPE_CHECKING:
    from allhands.api.kinds import Resource
    from allhands.ports import Objects


async def overfull(objects: Objects) -> list[str]:
    """Nodes whose pods ask for more cores than they have."""
    used: dict[str, Fraction] = defaultdict(Fraction)
    for pod in await _all(objects, PODS):
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            used[pod["spec"].get("nodeName", "")] += sum(map(_cores, pod["spec"]["containers"]))
    used.pop("", None)
    room = {it["metadata"]["name"]: _number(it["status"]["allocatable"]["cpu"]) for it in await _all(objects, NODES)}
    return sorted(name for name, cores in used.items() if name in room and cores > room[name])


def _cores(container: dict[str, Any]) -> Fraction:
    return _number(container.get("resources", {}).get("requests", {}).get("cpu", "0"))


def _number(text: str) -> Fraction:
    return Fraction(text[:-1]) / 1000 if text.endswith("m") else Fraction(text)


async def _all(objects: Objects, resource: Resource) -> list[dict[str, Any]]:
    return [msgspec.json.decode(raw) for raw in (await objects.list(resource)).items]
