"""Everything of a pod that its placement depends on, and nothing else: pods of equal shape may stand in for each other.

A shape is the key of every cache of the core, so two pods that could be told apart by a filter or a score must never
share one, and two that cannot should. The digest is stable over runs, machines and the order of maps and lists.
"""

import functools
import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from allhands.model.affinity import (
    NO_NODE_AFFINITY,
    NO_POD_AFFINITY,
    NodeAffinity,
    PodAffinity,
    SpreadConstraint,
    selecting_keys,
)
from allhands.model.node import Toleration
from allhands.model.pod import HostPort, Pod
from allhands.model.pod_volume import InlineVolume
from allhands.model.resources import EMPTY, ResourceVector

Pairs = tuple[tuple[str, str], ...]
"""A mapping as sorted pairs."""

DIGEST_BYTES: Final = 16


class PodShape(msgspec.Struct, frozen=True, gc=False):
    """Make it with `of`, which fills in `digest` and gives equal shapes as one object.

    `namespace` and `labels` are kept only as far as some pod's terms can see them; `resource_claims` says whether
    there are any; `pod_uid` is kept where claims must be the pod's own. No field may be left out of the encoding when
    it has its default: that would depend on how it was made, and the digest with it.
    """

    requests: ResourceVector = EMPTY
    node_selector: Pairs = ()
    node_affinity: NodeAffinity = NO_NODE_AFFINITY
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    pod_affinity: PodAffinity = NO_POD_AFFINITY
    spread: tuple[SpreadConstraint, ...] = ()
    claims: tuple[str, ...] = ()
    ephemeral_claims: tuple[str, ...] = ()
    volumes: tuple[InlineVolume, ...] = ()
    images: tuple[str, ...] = ()
    container_count: int = 0
    resource_claims: bool = False
    namespace: str = ""
    labels: Pairs = ()
    node_name: str = ""
    pod_uid: str = ""
    digest: str = ""

    @staticmethod
    def of(pod: Pod, label_keys: frozenset[str] | None, *, pinned: bool = True) -> "PodShape":
        """The shape of a pod in a cluster whose pods look at the labels `label_keys` of other pods (None: at none).

        What the pod's own terms look at is kept in any case. With `pinned` false the node that it is on is left out:
        the shape that a bound pod has for all others, and would have again. The claims that will be made for a pod
        are nothing to look at before the pod itself exists.
        """
        exists = bool(pod.uid)
        claims = pod.claims if exists else tuple(name for name in pod.claims if name not in pod.ephemeral_claims)
        own_keys = selecting_keys(pod.pod_affinity, pod.spread) if pod.spread or not pod.pod_affinity.is_empty else None
        keys = label_keys if own_keys is None else own_keys if label_keys is None else own_keys | label_keys
        return _shape_of_encoded(
            _ENCODE(
                PodShape(
                    requests=pod.requests,
                    node_selector=_pairs(pod.node_selector),
                    node_affinity=pod.node_affinity,
                    tolerations=_canonical_tolerations(pod.tolerations),
                    host_ports=pod.host_ports,
                    pod_affinity=pod.pod_affinity,
                    spread=pod.spread,
                    claims=claims,
                    ephemeral_claims=pod.ephemeral_claims if exists else (),
                    volumes=pod.volumes,
                    images=pod.images,
                    container_count=pod.container_count,
                    resource_claims=bool(pod.resource_claims),
                    namespace=pod.namespace if keys is not None or claims else "",
                    labels=_pairs_of_keys(pod.labels, keys) if keys else (),
                    node_name=pod.node_name if pinned else "",
                    pod_uid=pod.uid if pod.ephemeral_claims else "",
                )
            )
        )

    @property
    def selecting_keys(self) -> frozenset[str] | None:
        """The label keys of pods that its own terms and constraints look at; None if it selects no pods."""
        return selecting_keys(self.pod_affinity, self.spread)

    @property
    def selects_pods(self) -> bool:
        return bool(self.spread) or not self.pod_affinity.is_empty


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(PodShape).decode


@functools.lru_cache(maxsize=1 << 15)
def _shape_of_encoded(encoded: bytes) -> PodShape:
    digest = hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()
    return msgspec.structs.replace(_DECODE(encoded), digest=digest)


@functools.lru_cache(maxsize=1 << 12)
def _canonical_tolerations(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Sorted, none twice, without the seconds that matter only to who evicts."""
    distinct = {Toleration(it.key, it.operator or "Equal", it.value, it.effect) for it in tolerations}
    return tuple(sorted(distinct, key=lambda it: (it.key, it.operator, it.value, it.effect)))


def _pairs(mapping: Mapping[str, str]) -> Pairs:
    return tuple(sorted(mapping.items())) if mapping else ()


def _pairs_of_keys(mapping: Mapping[str, str], keys: frozenset[str]) -> Pairs:
    return tuple(sorted((key, value) for key, value in mapping.items() if key in keys))
