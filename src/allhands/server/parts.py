"""The small objects that come to sub-resources (Binding, Eviction, Scale), decoded as strictly as whole ones.

The order is the real server's: is it of this kind, can it be decoded, has it unknown fields. What the object then means
is for those who asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import bad_request, go_quote
from allhands.api.schema.definitions import is_published
from allhands.api.schema.shape import TypedShape
from allhands.server import bodies
from allhands.server.answers import internal_package
from allhands.server.discovery import PART_DEFINITIONS

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.ports import FieldValidation
    from allhands.server.request import Request

_VERSIONS: Final = {
    "Binding": ("v1",),
    "Eviction": ("policy/v1", "policy/v1beta1"),
    "Scale": ("autoscaling/v1",),
    "TokenRequest": ("authentication.k8s.io/v1",),
    "SelfSubjectReview": ("authentication.k8s.io/v1",),
    "TokenReview": ("authentication.k8s.io/v1",),
    "LocalSubjectAccessReview": ("authorization.k8s.io/v1",),
    "SelfSubjectAccessReview": ("authorization.k8s.io/v1",),
    "SelfSubjectRulesReview": ("authorization.k8s.io/v1",),
    "SubjectAccessReview": ("authorization.k8s.io/v1",),
}
"""In which versions the small objects may come; the first is meant if they say nothing."""
_SHAPES: Final = {name: TypedShape(definition) for name, definition in PART_DEFINITIONS.items()}


async def read_part(request: Request, kind_name: str, validation: FieldValidation) -> tuple[Manifest, tuple[str, ...]]:
    """The small object in the body in normal form, and warnings about it."""
    body, warnings = await bodies.read_object(request, kind_name, PART_DEFINITIONS[kind_name], validation)
    _check_kind(body, kind_name)
    version = (body.get("apiVersion") or _VERSIONS[kind_name][0]).rpartition("/")[2]
    prefix = f"{kind_name} in version {go_quote(version)} cannot be handled as a {kind_name}: "
    document, complaints, mismatch = decoded(body, kind_name)
    if mismatch:
        raise bad_request(prefix + mismatch)
    if complaints and validation == "Strict":
        raise bad_request(f"{prefix}strict decoding error: {', '.join(complaints)}")
    return document, warnings if validation == "Ignore" else warnings + complaints


def decoded(body: Manifest, kind_name: str) -> tuple[Manifest, tuple[str, ...], str]:
    """The object in normal form with its metadata, complaints about unknown fields, or why it cannot be decoded."""
    checked = _SHAPES[kind_name].check(body)
    complaints = tuple(f"unknown field {go_quote(path)}" for path in checked.unknown)
    return {"metadata": {}} | checked.document, complaints, checked.mismatch


def _check_kind(body: Manifest, kind_name: str) -> None:
    versions = _VERSIONS[kind_name]
    api_version, found = body.get("apiVersion") or versions[0], body.get("kind") or kind_name
    if found == kind_name and api_version in versions:
        return
    version = api_version.rpartition("/")[2]
    if is_published(api_version, found):
        internal = f"{internal_package(versions[0].rpartition('/')[0])}.{kind_name}"
        why = f"converting ({version}.{found}) to ({internal}): unknown conversion"
    else:
        why = f"no kind {go_quote(found)} is registered for version {go_quote(api_version)} {bodies.SCHEME}"
    raise bad_request(f"{found} in version {go_quote(version)} cannot be handled as a {kind_name}: {why}")
