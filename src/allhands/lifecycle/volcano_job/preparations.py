"""What must be there before the first pod of a Job: claims for its volumes, and what its plugins need. Made once; that
it was done is noted in the status, as Volcano does. What plugins made goes after the last pod.

It only says what to make and what to remove: an object of the same name that belongs to the Job is fine, somebody
else's is a refusal and stays. Secrets go with the Job: nobody may read them, so nobody can tell whose one is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.lifecycle.instructions import Create, Delete, Patch
from allhands.lifecycle.volcano_job.extension import KeyPair
from allhands.lifecycle.volcano_job.plugins.beside import SECRETS
from allhands.lifecycle.volcano_job.volumes import claims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import JobPlugin
    from allhands.lifecycle.volcano_job.inputs import Equipment


PLUGIN: Final = "plugin-"
"""Begins the note of a plugin."""


class Preparations(NamedTuple):
    creates: list[Create]
    notes: dict[str, str]


def preparations(job: JobDocument, equipment: Equipment, controlled: Mapping[str, str]) -> Preparations | None:
    """What is still to be made, and what the status then says; None if all of it was."""
    notes = {f"{PLUGIN}{name}": name for name in sorted(job.spec.plugins or {})}
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
    if any(f"{PLUGIN}{name}" not in controlled for name in job.spec.plugins or {}):
        return patches
    for plugin in plugins:
        for it in plugin.companions(job, _no_keys):
            if it.keeps_up:
                name = it.manifest["metadata"]["name"]
                content = {field: value for field, value in it.manifest.items() if field not in _FIXED}
                patches.append(Patch(it.resource, job.metadata.namespace, name, content))
    return patches


def removals(job: JobDocument, plugins: Sequence[JobPlugin], controlled: Mapping[str, str]) -> list[Delete]:
    """What nobody needs any more once nothing runs, if it is noted."""
    if not any(note.startswith(PLUGIN) for note in controlled):
        return []
    meta = job.metadata
    return [
        Delete(it.resource, meta.namespace, it.manifest["metadata"]["name"], owner_uid=meta.uid)
        for plugin in plugins
        for it in plugin.companions(job, _no_keys)
        if it.resource != SECRETS
    ]


def without_plugins(controlled: Mapping[str, str]) -> dict[str, str]:
    """The notes of one whose plugins have to make everything anew."""
    return {note: name for note, name in controlled.items() if not note.startswith(PLUGIN)}


_FIXED = ("apiVersion", "kind", "metadata")


def _no_keys() -> KeyPair:
    """For who needs keys only to be made once."""
    return KeyPair("", "")
