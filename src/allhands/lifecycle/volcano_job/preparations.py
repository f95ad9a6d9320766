"""What must be there before the first pod of a Job: claims for its volumes, and what its plugins need. Made once; that
it was done is noted in the status, as Volcano does.

It only says what to make: an object of the same name that belongs to the Job is fine, somebody else's is a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.lifecycle.instructions import Create, Patch
from allhands.lifecycle.volcano_job.extension import KeyPair
from allhands.lifecycle.volcano_job.volumes import claims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import JobPlugin
    from allhands.lifecycle.volcano_job.inputs import Equipment


class Preparations(NamedTuple):
    creates: list[Create]
    notes: dict[str, str]


def preparations(job: JobDocument, equipment: Equipment, controlled: Mapping[str, str]) -> Preparations | None:
    """What is still to be made, and what the status then says; None if all of it was."""
    notes = {f"plugin-{name}": name for name in sorted(job.spec.plugins or {})}
    creates: list[Create] = []
    if any(note not in controlled for note in notes):
        creates += [
            Create(it.resource, job.metadata.namespace, it.manifest, unless_there=True)
            for plugin in equipment.plugins
            for it in plugin.companions(job, equipment.new_keys or _no_keys)
        ]
    for name, create in claims(job):
        note = f"volume-pvc-{name}"
        notes[note] = name
        if note not in controlled and create is not None:
            creates.append(create)
    if not creates and all(note in controlled for note in notes):
        return None
    return Preparations(creates, notes)


def keeping_up(job: JobDocument, plugins: Sequence[JobPlugin], controlled: Mapping[str, str]) -> list[Patch]:
    """What follows the Job when it is scaled, if it was made."""
    patches: list[Patch] = []
    if any(f"plugin-{name}" not in controlled for name in job.spec.plugins or {}):
        return patches
    for plugin in plugins:
        for it in plugin.companions(job, _no_keys):
            if it.keeps_up:
                name = it.manifest["metadata"]["name"]
                content = {field: value for field, value in it.manifest.items() if field not in _FIXED}
                patches.append(Patch(it.resource, job.metadata.namespace, name, content))
    return patches


_FIXED = ("apiVersion", "kind", "metadata")


def _no_keys() -> KeyPair:
    """For who needs keys only to be made once."""
    return KeyPair("", "")
