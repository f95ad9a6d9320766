"""What a lifecycle machine asks for. Values only: `runtime` carries them out, in order, through the port.

Any prefix of them may have happened when a crash comes; whoever writes a machine orders them so that every prefix is
safe and looking again ends the same.
"""

from typing import Final, Literal

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource


class Create(msgspec.Struct, frozen=True):
    """With `unless_there` one of that name is fine if it has the same manager as this one would have; somebody else's
    is a refusal. Whose a Secret is nobody looks."""

    resource: Resource
    namespace: str
    manifest: Manifest
    unless_there: bool = False


class Patch(msgspec.Struct, frozen=True):
    """A JSON merge patch. With a version it is refused if the object has changed since."""

    resource: Resource
    namespace: str
    name: str
    patch: Manifest
    subresource: str = ""
    version: str = ""


class Delete(msgspec.Struct, frozen=True):
    """With a uid, only that very object; one that is gone already is fine. With the uid of an owner, only what that
    one manages: whoever has taken the name since keeps it."""

    resource: Resource
    namespace: str
    name: str
    uid: str = ""
    grace_seconds: int | None = None
    propagation: Literal["Background", "Foreground", "Orphan"] | None = None
    owner_uid: str = ""


class Record(msgspec.Struct, frozen=True):
    """Something to tell the owner of `involved`, an ObjectReference, as an Event of the API."""

    involved: Manifest
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Instruction = Create | Patch | Delete | Record


class Outcome(msgspec.Struct, frozen=True):
    """What to do now, and when to look again even if nothing changes. `is_hurried`: whether that look may have more to
    do than to tell somebody something; if not, it may come after others."""

    instructions: tuple[Instruction, ...] = ()
    wake_at_seconds: float | None = None
    is_hurried: bool = True


NOTHING_TO_DO: Final = Outcome()
