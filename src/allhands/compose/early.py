"""The beginning of the scheduler's process, before most of it is loaded: the API server is asked for what will be read
first, and works on that while we load the rest.

Never import here what loads the core: that is what is to go on meanwhile. What goes wrong with a request is told to
whoever reads its answer, as if he had asked.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from allhands.compose.machine import collect_seldom
from allhands.kube.objects import KubeObjects, Settings
from allhands.runtime.informer import FIRST_PAGE
from allhands.runtime.installation.permissions import Right, missing
from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.scheduling import resources

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, TypeAlias

    from allhands.compose.process import Lacking, ProcessOptions
    from allhands.kube.access import Access

    Run: TypeAlias = Callable[
        [Access, ProcessOptions, KubeObjects, MetricsRegistry, Lacking], Coroutine[Any, Any, None]
    ]

COMPONENT: Final = "scheduler"
READ_FIRST: Final = (
    resources.NODES,
    resources.JOBS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.SERVICES,
    resources.NAMESPACES,
    resources.PRIORITY_CLASSES,
    resources.BUDGETS,
    resources.QUOTAS,
    resources.CLAIMS,
    resources.VOLUMES,
    resources.STORAGE_CLASSES,
    resources.CSI_NODES,
    resources.CSI_DRIVERS,
    resources.STORAGE_CAPACITIES,
    resources.ATTACHMENTS,
    resources.REPLICATION_CONTROLLERS,
)
"""What every cluster has and the scheduler watches, that of which there is most first."""
READ_IN_PAGES: Final = (resources.PODS, resources.POD_GROUPS)
"""Of these there may be very many."""
ESSENTIAL: Final = (
    Right("", "pods", "list"),
    Right("", "pods", "watch"),
    Right("", "nodes", "list"),
    Right("", "nodes", "watch"),
    Right("", "pods/binding", "create"),
)
"""Without these nothing can be scheduled at all."""
PACKED: Final = frozenset({resources.PODS})
"""Of these there are most, and they change most often."""
SWITCH_SECONDS: Final = 0.0005
"""So long one thread keeps another waiting: the one that loads or decides that which asks and binds. With Python's own
5 ms, hardly anything would be bound while others are still being decided about."""


async def run_scheduler(access: Access, load_options: Callable[[], ProcessOptions]) -> None:
    """Until cancelled; see `compose.real`. `load_options` may take its time, and raise."""
    collect_seldom()
    sys.setswitchinterval(SWITCH_SECONDS)
    metrics = MetricsRegistry()
    async with KubeObjects(access, metrics, settings=Settings(component=COMPONENT, packed=PACKED)) as objects:
        for resource in READ_IN_PAGES:
            objects.list_early(resource, FIRST_PAGE)
        objects.watch_early(READ_FIRST)
        lacking = asyncio.create_task(missing(objects, ESSENTIAL), name="rights")
        lacking.add_done_callback(lambda done: done.cancelled() or done.exception())  # if nobody came to ask
        try:
            run, options = await asyncio.to_thread(_loaded, load_options)
            await run(access, options, objects, metrics, lacking)
        finally:
            lacking.cancel()


def _loaded(load_options: Callable[[], ProcessOptions]) -> tuple[Run, ProcessOptions]:
    from allhands.compose import real  # noqa: PLC0415 (see above)

    return real.run_scheduler, load_options()
