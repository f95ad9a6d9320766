"""The service `kubernetes` in the namespace `default`: every cluster has one, and people look for it.

It is made once, as by the real server, and is the reader's from then on. Nothing stands behind its address: there is no
network of services here.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.ports import WriteOptions
from allhands.store.service_numbers import ADDRESSES, SERVICES

if TYPE_CHECKING:
    from allhands.compose.embedded_data import Stored

_NAME: Final = "kubernetes"
_NAMESPACE: Final = "default"
_WRITE: Final = WriteOptions(field_manager="kube-apiserver", tracked=True)


async def show_api_service(kept: Stored, port: int) -> None:
    """Makes it, if it is not there, for an API that is served on `port`."""
    if kept.store.collection(kept.store.kind(SERVICES)).get((_NAMESPACE, _NAME)) is not None:
        return
    manifest = {
        "metadata": {"name": _NAME, "labels": {"provider": "kubernetes", "component": "apiserver"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": str(ADDRESSES.network_address + 1),
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        },
    }
    # Somebody may have its address, or the disk be full: the cluster works without it.
    with contextlib.suppress(StatusError):
        await kept.at_once.create(SERVICES, manifest, _NAMESPACE, _WRITE)
        await kept.settled()
