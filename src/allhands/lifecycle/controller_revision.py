"""ControllerRevisions: what the templates of StatefulSets and DaemonSets were, so that one can go back to them.

A revision is called after its content, as Kubernetes does it, so that making the same one twice fails instead of
doubling it. What is stored is the patch that `kubectl rollout undo` applies; nothing here ever changes it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.lifecycle.instructions import Create, Instruction, Patch
from allhands.lifecycle.observed import Metadata, Template
from allhands.lifecycle.ownership import Manager

REVISIONS: Final = Resource("apps", "v1", "controllerrevisions")
HASH_LABEL: Final = "controller-revision-hash"
"""On pods: which revision they were made from."""
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX: Final = 223
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619


class Revision(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    data: Manifest = {}
    revision: int = 0

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def template(self) -> Template | None:
        """None if what is stored is no template, as in one that was made by hand."""
        spec = self.data.get("spec")
        template = spec.get("template") if isinstance(spec, dict) else None
        if not isinstance(template, dict):
            return None
        metadata, pod_spec = template.get("metadata") or {}, template.get("spec") or {}
        both = isinstance(metadata, dict) and isinstance(pod_spec, dict)
        return Template(metadata, pod_spec) if both else None


class History(msgspec.Struct, frozen=True):
    """`present` is the revision of the template as it is now, `others` all that differ, oldest first. `steps` make it
    so; before they are done the present one may not be there."""

    present: Revision
    others: tuple[Revision, ...] = ()
    steps: tuple[Instruction, ...] = ()


def data_of(template: Template) -> Manifest:
    """The patch that brings a template back, in the order of its keys."""
    replaced = {"$patch": "replace", "metadata": template.metadata, "spec": template.spec}
    text = msgspec.json.encode({"spec": {"template": replaced}}, order="sorted")
    ordered: Manifest = msgspec.json.decode(text)
    return ordered


def by_number(revision: Revision) -> tuple[int, float, str]:
    return revision.revision, revision.metadata.created_seconds, revision.name


def history_of(
    manager: Manager,
    template: Template,
    known: Sequence[Revision],
    find: Callable[[str], Revision | None],
    *,
    collisions: int,
    hash_label: str,
) -> History | None:
    """None if the name of a new revision is taken by another: then the number of collisions has to grow.

    `known` are the manager's own; `find` gives any by its name.
    """
    data = data_of(template)
    equal = sorted((it for it in known if it.data == data), key=by_number)
    others = tuple(sorted((it for it in known if it.data != data), key=by_number))
    number = max((it.revision for it in others), default=0) + 1
    if equal:
        present = equal[-1]
        if present.revision >= number:
            return History(present, others)
        meta = present.metadata
        again = Patch(REVISIONS, meta.namespace, meta.name, {"revision": number}, version=meta.resource_version)
        return History(msgspec.structs.replace(present, revision=number), others, (again,))
    digest = digest_of(data, collisions)
    name = f"{manager.metadata.name[:_LONGEST_PREFIX]}-{digest}"
    if find(name) is not None:
        return None
    labels = {**template.labels, hash_label: digest}
    present = Revision(Metadata(name=name, namespace=manager.metadata.namespace, labels=labels), data, number)
    return History(present, others, (_creation(manager, present),))


def _creation(manager: Manager, revision: Revision) -> Create:
    owner, meta = manager.metadata, revision.metadata
    metadata: Manifest = {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": meta.labels,
        "ownerReferences": [manager.reference],
    }
    if owner.annotations:
        metadata["annotations"] = owner.annotations
    manifest = {
        "apiVersion": REVISIONS.api_version,
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": revision.data,
        "revision": revision.revision,
    }
    return Create(REVISIONS, meta.namespace, manifest)


def digest_of(data: Manifest, collisions: int) -> str:
    """What Kubernetes makes of the same data: its 32-bit FNV hash, in letters that form no words."""
    return _digest(msgspec.json.encode(data, order="sorted"), collisions)


@functools.lru_cache(maxsize=1 << 10)
def _digest(text: bytes, collisions: int) -> str:
    for plain, escaped in ((b"&", rb"\u0026"), (b"<", rb"\u003c"), (b">", rb"\u003e")):
        text = text.replace(plain, escaped)  # as Go writes JSON
    number = _FNV_OFFSET
    for byte in text + str(collisions).encode():
        number = (number * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))
