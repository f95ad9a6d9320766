"""What a kind adds to its schema: defaults, what the server owns, and checks that a schema cannot state.

A `Rules` value is a bundle of pure functions over decoded objects. They get objects that already passed the schema
(right types, no nulls, no unknown fields), so they check meaning, not shape. They never look at other objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError


def leave(_object: Manifest) -> None:
    return None


def _leave_both(_new: Manifest, _old: Manifest) -> None:
    return None


def never(_object: Manifest) -> bool:
    return False


def _always(_object: Manifest) -> bool:
    return True


def _accept(_object: Manifest) -> list[FieldError]:
    return []


def _accept_both(_new: Manifest, _old: Manifest) -> list[FieldError]:
    return []


class PartRules(msgspec.Struct, frozen=True):
    """How the object itself changes through a sub-resource other than its status."""

    prepare: Callable[[Manifest, Manifest], None]
    """(new, old): everything that cannot change through it is taken over from `old`."""
    validate: Callable[[Manifest, Manifest], list[FieldError]]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of one kind. Every function that changes an object does so in place."""

    default: Callable[[Manifest], None] = leave
    """Fills absent fields, on every write, as the versioned defaults of the real server do."""

    default_status: Callable[[Manifest], None] | None = None
    """What `default` does to a stored object when nothing but its status has changed, where somebody has said so: the
    rest of it went through before, and that need not be done again for every report about it."""

    prepare_create: Callable[[Manifest], None] = leave
    """What the server owns at birth: drops a status the client sent, sets the first phase."""

    validate_create: Callable[[Manifest], list[FieldError]] = _accept

    prepare_update: Callable[[Manifest, Manifest], None] = _leave_both
    """(new, old): what an ordinary update may not touch is taken over from `old`. Status is already taken over by the
    store for kinds with a status sub-resource."""

    validate_update: Callable[[Manifest, Manifest], list[FieldError]] = _accept_both
    """(new, old): immutable fields and everything `validate_create` would say that still applies. The store does not
    call `validate_create` on updates."""

    prepare_status: Callable[[Manifest, Manifest], None] = _leave_both
    """(new, old), through the status sub-resource. Spec and metadata are already taken over from `old` by the store."""

    validate_status: Callable[[Manifest, Manifest], list[FieldError]] = _accept_both

    parts: dict[str, PartRules] = {}
    """By the name of the sub-resource."""

    spec_decides: Callable[[Manifest], bool] = never
    """Whether the outcome of defaults, admission, birth and validation depends on nothing but this object's spec, so
    that it may be remembered for the next object with an equal one."""

    metadata_decides: Callable[[Manifest], bool] = _always
    """Given an object's metadata: whether the rules read anything in it. If not, and `spec_decides`, equal specs come
    out equal."""
