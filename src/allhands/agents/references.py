"""What containers refer to by name: config maps, secrets, the node's resources. Read when needed, through the port."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest
    from allhands.ports import Objects

CONFIG_MAPS: Final = Resource("", "v1", "configmaps")
SECRETS: Final = Resource("", "v1", "secrets")
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims")
VOLUMES: Final = Resource("", "v1", "persistentvolumes")
NOT_FOUND: Final = 404


class ReferenceProblem(Exception):  # noqa: N818 (a problem of the user's, told as a reason for waiting)
    """Something that a container needs is not there, or cannot be given. The text is for the user."""


class References:
    def __init__(self, objects: Objects, allocatable: Mapping[str, str]) -> None:
        self._objects = objects
        self.allocatable = allocatable
        """What the node offers, as the API writes it."""

    async def config_map(self, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        found = await self._read(CONFIG_MAPS, "config map", namespace, name, optional=optional)
        texts = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        return texts | _decoded(found.get("binaryData") or {}, f"config map {namespace}/{name}")

    async def secret(self, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        found = await self._read(SECRETS, "secret", namespace, name, optional=optional)
        return _decoded(found.get("data") or {}, f"secret {namespace}/{name}")

    async def volume_of(self, namespace: str, claim: str) -> Manifest:
        """The volume that the claim is bound to."""
        spec = (await self._read(CLAIMS, "claim", namespace, claim)).get("spec") or {}
        if not spec.get("volumeName"):
            raise ReferenceProblem(f"claim {namespace}/{claim} has no volume yet; it is looked at again")
        return await self._read(VOLUMES, "volume", "", spec["volumeName"])

    async def _read(
        self, resource: Resource, kind: str, namespace: str, name: str, *, optional: bool = False
    ) -> Manifest:
        whose = f"{namespace}/{name}" if namespace else name
        try:
            return (await self._objects.get(resource, name, namespace)).manifest()
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise ReferenceProblem(f"{kind} {whose} cannot be read: {refusal.message}") from None
            if optional:
                return {}
            raise ReferenceProblem(f"{kind} {whose} is not there; it is looked for again") from None


def _decoded(data: Mapping[str, str], what: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
    except (binascii.Error, ValueError) as error:
        raise ReferenceProblem(f"{what} is not base64: {error}") from None
