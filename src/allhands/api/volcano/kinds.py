"""The visible list of Volcano's kinds as we serve them. A new kind is one file of types and one row here."""

from typing import Final

from allhands.api.definitions import Definition
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE

VOLCANO_KINDS: Final[tuple[Definition, ...]] = (
    QUEUE,
    POD_GROUP,
    COMMAND,
    HYPER_NODE,
    NUMATOPOLOGY,
    JOB,
    CRON_JOB,
    JOB_TEMPLATE,
    JOB_FLOW,
)
