"""The Job of a step: its template's spec with the step's patch over it, marked as Volcano marks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.job_flow.documents import ATTEMPT, MADE_BY, MADE_FROM
from allhands.lifecycle.job_flow.overlay import overlaid

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.lifecycle.job_flow.documents import FlowDocument, Step, TemplateDocument

LONGEST_LABEL: Final = 63


def job_of(flow: FlowDocument, step: Step, template: TemplateDocument, failures: int) -> Manifest:
    namespace = flow.metadata.namespace
    marks = {MADE_FROM: f"{namespace}.{step.name}", MADE_BY: f"{namespace}.{flow.metadata.name}"}
    patch = step.patch.job_spec if step.patch is not None else None
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": flow.job_name(step.name),
            "namespace": namespace,
            "labels": {key: text for key, text in marks.items() if len(text) <= LONGEST_LABEL},
            "annotations": marks | ({ATTEMPT: str(failures)} if failures else {}),
            "ownerReferences": [owner_reference(JOB_FLOW.api_version, JOB_FLOW.kind, flow.metadata)],
        },
        "spec": overlaid(template.spec, patch or {}),
    }
