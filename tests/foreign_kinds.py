"""PodGroups of other systems for tests: the smallest definitions that have their fields, and objects of them.

Written from what those kinds are documented to hold, not copied: what they do not check, these do not either.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from allhands.api.errors import StatusError
from allhands.dialects import coscheduling, volcano_groups
from tests.manifests import DEFINITIONS

if TYPE_CHECKING:
    from allhands.api.kinds import Resource
    from allhands.ports import Objects

Manifest = dict[str, Any]
COSCHEDULING = coscheduling.RESOURCE
VOLCANO = volcano_groups.RESOURCE
_ANYTHING: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(resource: Resource, *, has_status: bool) -> Manifest:
    """Volcano's has no status of its own, so that it is written with the whole object."""
    version: Manifest = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}},
    }
    if has_status:
        version["subresources"] = {"status": {}}
    # Groups below k8s.io are for kinds that Kubernetes has approved.
    annotations = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}", "annotations": annotations},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "plural": resource.plural,
                "singular": "podgroup",
                "kind": "PodGroup",
                "listKind": "PodGroupList",
            },
            "versions": [version],
        },
    }


async def define(objects: Objects, resource: Resource, *, has_status: bool) -> None:
    """Returns when the kind is served."""
    try:
        await objects.create(DEFINITIONS, definition(resource, has_status=has_status))
    except StatusError as refusal:
        if refusal.reason != "AlreadyExists":
            raise
    async with asyncio.timeout(60):
        while True:
            try:
                await objects.list(resource)
            except StatusError as refusal:
                if refusal.code != 404:
                    raise
                await asyncio.sleep(0.05)
            else:
                return


async def define_all(objects: Objects) -> None:
    await define(objects, COSCHEDULING, has_status=True)
    await define(objects, VOLCANO, has_status=False)


def group(resource: Resource, name: str, **spec: Any) -> Manifest:
    head = {"apiVersion": f"{resource.group}/{resource.version}", "kind": "PodGroup"}
    return {**head, "metadata": {"name": name}, "spec": spec}
