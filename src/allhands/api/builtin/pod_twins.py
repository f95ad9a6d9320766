"""Which pods come out the same as any other with the same spec.

A gang is many pods from one template. Where nothing but the spec decides what defaults, admission and validation make
of a pod, the server need work it out only once per spec; this module says where that is so, and errs on the safe side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_READ_BY_SERVER = ("kubernetes.io/", "scheduler.alpha.kubernetes.io/", "controller.kubernetes.io/", "container.")
_NAMED_AFTER_POD = ("resourceClaims", "schedulingGates", "topologySpreadConstraints")


def metadata_decides(metadata: Manifest) -> bool:
    """Whether the server reads any of the annotations."""
    return any(key.startswith(_READ_BY_SERVER) for key in metadata.get("annotations", ()))


def spec_decides(pod: Manifest) -> bool:
    """Whether the pod's name, labels and annotations play no part in what becomes of its spec."""
    spec = pod["spec"]
    if metadata_decides(pod["metadata"]):
        return False
    if any(field in spec for field in _NAMED_AFTER_POD):
        return False
    affinity = spec.get("affinity")
    if affinity and ("podAffinity" in affinity or "podAntiAffinity" in affinity):
        return False
    return not any("ephemeral" in volume or "projected" in volume for volume in spec.get("volumes", ()))
