"""The life of a Volcano Job (batch.volcano.sh), complete: group, pods, policies, commands, restarts, endings.

Pure: what is observed goes in, instructions come out.
"""

from allhands.lifecycle.volcano_job.documents import JOBS, JobDocument, decode_job
from allhands.lifecycle.volcano_job.inputs import Equipment, Observed
from allhands.lifecycle.volcano_job.names import POD_GROUPS, PODS
from allhands.lifecycle.volcano_job.pod import TaskPod, decode_pod
from allhands.lifecycle.volcano_job.pod_group import PodGroup, decode_group
from allhands.lifecycle.volcano_job.reconcile import reconcile
from allhands.lifecycle.volcano_job.transitions import transition_table

__all__ = [
    "JOBS",
    "PODS",
    "POD_GROUPS",
    "Equipment",
    "JobDocument",
    "Observed",
    "PodGroup",
    "TaskPod",
    "decode_group",
    "decode_job",
    "decode_pod",
    "reconcile",
    "transition_table",
]
