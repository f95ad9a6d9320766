"""Who admits objects of our kinds in a cluster of this process: the functions of the webhook, without the web.

It joins the rules of the kinds with what job plugins have against a Job, which the rules do not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.admission import ADMISSIONS, Admission
from allhands.api.volcano.job import JOB
from allhands.lifecycle.volcano_job.documents import JobDocument
from allhands.lifecycle.volcano_job.plugins.catalog import plugin_errors

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.volcano.surroundings import Surroundings


def errors_of_plugins(job: Manifest) -> list[FieldError]:
    """What the plugins that a Job names have against it; nothing if it is no Job by its schema, which says so."""
    try:
        return plugin_errors(msgspec.convert(job, JobDocument))
    except msgspec.ValidationError:
        return []


def _create_errors(job: Manifest, around: Surroundings) -> list[FieldError]:
    return ADMISSIONS[_JOB].create_errors(job, _asking_plugins(around))


def _update_errors(new: Manifest, old: Manifest, around: Surroundings) -> list[FieldError]:
    return ADMISSIONS[_JOB].update_errors(new, old, _asking_plugins(around))


def _asking_plugins(around: Surroundings) -> Surroundings:
    return msgspec.structs.replace(around, plugin_errors=errors_of_plugins)


_JOB: Final = (JOB.group, JOB.kind)
WEBHOOKS: Final[dict[tuple[str, str], Admission]] = {
    **ADMISSIONS,
    _JOB: msgspec.structs.replace(ADMISSIONS[_JOB], create_errors=_create_errors, update_errors=_update_errors),
}
"""By group and kind, for a store."""
