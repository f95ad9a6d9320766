"""What the submitter of an object must be allowed, because our controllers will do it for them: no confused deputy.

The principle: nobody gets through a Job what they could not get without it.

- A Job, and whatever makes Jobs (CronJob, JobTemplate, JobFlow), makes pods: who submits it must be allowed to create
  pods in its namespace. In Kubernetes that already means every service account, secret and claim of the namespace, so
  for these no more is asked than of a plain pod.
- A Job that has claims made for it: its submitter must be allowed to create persistentvolumeclaims there.
- Classes of priority and queues are for everyone, as with Volcano, unless they say otherwise: on one with the
  annotation `allhands.dev/restricted: "true"` the submitter needs the verb `use`. A queue below a restricted one is
  restricted too.
  The classes `system-*` are restricted always: they are for what the cluster itself needs.
- A Command tells our controllers to change its target. Jobs are in its own namespace; queues are everybody's: who
  opens or closes one must be allowed to update it.

Pure. It is asked of what is created and of what is changed in its spec or its queue; whose rights are looked at is what
the API server says, and nothing in the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from allhands.api.kinds import Resource
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.dialects.annotations import RESTRICTED
from allhands.runtime.installation.webhooks import QUEUE_ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allhands.api.document import Manifest

USE: Final = "use"
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses")
SYSTEM_CLASSES: Final = "system-"
READS: Final = (PRIORITY_CLASSES, QUEUE.resource, JOB_TEMPLATE.resource)
_MOST_PARENTS: Final = 64


class Others(Protocol):
    """Other objects that decide what must be allowed."""

    def one(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """The object; None if there is none."""


class Ask(msgspec.Struct, frozen=True):
    """A right that the submitter must have, and the field that makes it necessary."""

    path: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f' "{self.name}"' if self.name else ""
        where = f' in namespace "{self.namespace}"' if self.namespace else ""
        return f"{self.verb} {whole}{name}{where}"


def asks_of(group: str, kind: str, new: Manifest, old: Manifest | None, others: Others) -> tuple[Ask, ...]:
    """All that must be allowed, each right once. `old` is what is there already; None if it is created."""
    ask = _ASKS.get((group, kind), _of_annotated)
    if old is not None and _wanted(new) == _wanted(old):
        return ()
    unique: dict[Ask, Ask] = {}
    for it in ask(new, others):
        unique.setdefault(msgspec.structs.replace(it, path=""), it)
    return tuple(unique.values())


def _wanted(document: Manifest) -> list[object]:
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return [document.get("spec"), document.get("target"), *(annotations.get(name) for name in QUEUE_ANNOTATIONS)]


def _namespace(document: Manifest) -> str:
    return str(document["metadata"].get("namespace") or "")


def _of_job(document: Manifest, others: Others) -> Iterator[Ask]:
    yield from _of_job_spec("spec", document.get("spec") or {}, _namespace(document), others)


def _of_cron_job(document: Manifest, others: Others) -> Iterator[Ask]:
    template = (document.get("spec") or {}).get("jobTemplate") or {}
    yield from _of_job_spec("spec.jobTemplate.spec", template.get("spec") or {}, _namespace(document), others)


def _of_flow(document: Manifest, others: Others) -> Iterator[Ask]:
    """Of a flow all that its templates need, those that are there already, and what it puts in their place."""
    namespace = _namespace(document)
    yield Ask("spec.flows", "create", "", "pods", namespace)
    for index, flow in enumerate((document.get("spec") or {}).get("flows") or ()):
        path = f"spec.flows[{index}]"
        template = others.one(JOB_TEMPLATE.resource, str(flow.get("name") or ""), namespace) or {}
        yield from _of_job_spec(f"{path}.name", template.get("spec") or {}, namespace, others)
        patch = flow.get("patch") or {}
        yield from _of_job_spec(f"{path}.patch.spec", patch.get("spec") or {}, namespace, others)


def _of_job_spec(path: str, spec: Manifest, namespace: str, others: Others) -> Iterator[Ask]:
    yield Ask(f"{path}.tasks", "create", "", "pods", namespace)
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("volumeClaim"):
            yield Ask(f"{path}.volumes[{index}].volumeClaim", "create", "", "persistentvolumeclaims", namespace)
    yield from _of_queue(f"{path}.queue", spec.get("queue"), others)
    yield from _of_class(f"{path}.priorityClassName", spec.get("priorityClassName"), others)
    for index, task in enumerate(spec.get("tasks") or ()):
        pod = (task.get("template") or {}).get("spec") or {}
        where = f"{path}.tasks[{index}].template.spec.priorityClassName"
        yield from _of_class(where, pod.get("priorityClassName"), others)


def _of_pod_group(document: Manifest, others: Others) -> Iterator[Ask]:
    spec = document.get("spec") or {}
    yield from _of_queue("spec.queue", spec.get("queue"), others)
    yield from _of_class("spec.priorityClassName", spec.get("priorityClassName"), others)


def _of_command(document: Manifest, others: Others) -> Iterator[Ask]:
    del others
    target = document.get("target") or {}
    group = str(target.get("apiVersion") or "").partition("/")[0]
    if (group, target.get("kind")) == (QUEUE.group, QUEUE.kind):
        yield Ask("target", "update", QUEUE.group, QUEUE.plural, "", str(target.get("name") or ""))


def _of_annotated(document: Manifest, others: Others) -> Iterator[Ask]:
    """Of a pod, or of what has a template of pods, only the queues that it names."""
    template = (document.get("spec") or {}).get("template") or {}
    for path, metadata in (("metadata", document["metadata"]), ("spec.template.metadata", template.get("metadata"))):
        annotations = (metadata or {}).get("annotations") or {}
        for name in QUEUE_ANNOTATIONS:
            yield from _of_queue(f"{path}.annotations[{name}]", annotations.get(name), others)


def _of_queue(path: str, name: str | None, others: Others) -> Iterator[Ask]:
    if name and _is_restricted_queue(name, others):
        yield Ask(path, USE, QUEUE.group, QUEUE.plural, "", name)


def _is_restricted_queue(name: str, others: Others) -> bool:
    for _ in range(_MOST_PARENTS):
        queue = others.one(QUEUE.resource, name)
        if queue is None:
            return False
        if is_marked(queue):
            return True
        name = str((queue.get("spec") or {}).get("parent") or "")
        if not name:
            return False
    return True  # nobody means queues that deep


def _of_class(path: str, name: str | None, others: Others) -> Iterator[Ask]:
    if not name:
        return
    found = others.one(PRIORITY_CLASSES, name)
    if name.startswith(SYSTEM_CLASSES) or (found is not None and is_marked(found)):
        yield Ask(path, USE, PRIORITY_CLASSES.group, PRIORITY_CLASSES.plural, "", name)


def is_marked(document: Manifest) -> bool:
    """Whether it is not for everyone."""
    annotations: Manifest = document["metadata"].get("annotations") or {}
    return annotations.get(RESTRICTED) == "true"


_ASKS: Final[Mapping[tuple[str, str], Callable[[Manifest, Others], Iterator[Ask]]]] = {
    (JOB.group, JOB.kind): _of_job,
    (CRON_JOB.group, CRON_JOB.kind): _of_cron_job,
    (JOB_TEMPLATE.group, JOB_TEMPLATE.kind): _of_job,
    (JOB_FLOW.group, JOB_FLOW.kind): _of_flow,
    (POD_GROUP.group, POD_GROUP.kind): _of_pod_group,
    (COMMAND.group, COMMAND.kind): _of_command,
}
