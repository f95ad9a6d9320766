"""The kind JobTemplate (flow.volcano.sh/v1alpha1): the spec of a Job that flows make Jobs from.

Types and documentation only. Its spec is that of a Job, without a wrapper.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.volcano.job import JobSpec


class JobTemplateStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What was made from it. The controller's business."""

    job_depends_on_list: Annotated[
        tuple[str, ...] | None, Meta(description="Names of the Jobs that were made from it.")
    ] = None


class JobTemplate(msgspec.Struct, frozen=True):
    """What a JobFlow makes Jobs from: the spec of a Job, which a flow names and may change."""

    spec: Annotated[JobSpec | None, Meta(description="What each Job runs.")] = None
    status: Annotated[JobTemplateStatus | None, Meta(description="What was made from it.")] = None


JOB_TEMPLATE: Final = Definition(
    group="flow.volcano.sh",
    kind="JobTemplate",
    plural="jobtemplates",
    short_names=("jt",),
    categories=(OURS,),
    versions=(
        Version(
            name="v1alpha1",
            type=JobTemplate,
            columns=(Column("Queue", ".spec.queue", description="The queue of the Jobs.", priority=1), AGE),
        ),
    ),
)
