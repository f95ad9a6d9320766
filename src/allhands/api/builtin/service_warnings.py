"""What is accepted in a service and yet does nothing, or will soon do nothing: warnings in the server's words.

Nothing is refused or changed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

_TOPOLOGY: Final = "service.kubernetes.io/topology-"


def service_warnings(service: Manifest) -> tuple[str, ...]:
    """Of a service that is valid."""
    return tuple(_warnings(service))


def _warnings(service: Manifest) -> Iterator[str]:
    spec = service["spec"]
    if f"{_TOPOLOGY}aware-hints" in service["metadata"].get("annotations", {}):
        yield f"annotation {_TOPOLOGY}aware-hints is deprecated, please use {_TOPOLOGY}mode instead"
    kind, outside = spec.get("type"), spec.get("externalIPs")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if outside:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    if outside and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if outside and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'
