"""Where groups come from: the object that each is written about on, and what of a group its name says.

A group is a PodGroup, the pods of one Job, or one pod that stands alone; its key tells which. Only names are looked at
here, and nothing is decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.runtime.informer import Informer, key_of, split_key
from allhands.runtime.scheduling import resources

if TYPE_CHECKING:
    from allhands.api.kinds import Resource
    from allhands.dialects.groups import GroupRecord
    from allhands.dialects.pods import PodRecord
    from allhands.runtime.scheduling.watched_groups import WatchedGroups

POD_PREFIX: Final = "pod:"
JOB_PREFIX: Final = "job:"


class Home(NamedTuple):
    """The object that a group comes from: what is remembered and told about the group is written there."""

    resource: Resource
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def reference(self) -> dict[str, str]:
        group = self.resource.group
        version = f"{group}/{self.resource.version}" if group else self.resource.version
        return {
            "apiVersion": version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


class GroupHomes:
    """Finds the objects of groups among those that are watched."""

    def __init__(self, pods: Informer[PodRecord], jobs: Informer[GroupRecord], pod_groups: WatchedGroups) -> None:
        self._pods = pods
        self._jobs = jobs
        self._pod_groups = pod_groups

    def pod(self, group: str) -> PodRecord | None:
        """The pod that is this group, if it is there and the group is one pod."""
        namespace, name = split_key(group)
        if not name.startswith(POD_PREFIX):
            return None
        return self._pods.get(key_of(namespace, name.removeprefix(POD_PREFIX)))

    def job(self, group: str) -> GroupRecord | None:
        """The same of a Job."""
        namespace, name = split_key(group)
        if not name.startswith(JOB_PREFIX):
            return None
        return self._jobs.get(key_of(namespace, name.removeprefix(JOB_PREFIX)))

    def home(self, group: str) -> Home | None:
        """Where a group came from, if that is still there."""
        namespace, name = split_key(group)
        if name.startswith(POD_PREFIX):
            pod = self._pods.get(key_of(namespace, name.removeprefix(POD_PREFIX)))
            return None if pod is None else Home(resources.PODS, "Pod", namespace, pod.pod.name, pod.pod.uid)
        if name.startswith(JOB_PREFIX):
            job = self._jobs.get(key_of(namespace, name.removeprefix(JOB_PREFIX)))
            return None if job is None else Home(resources.JOBS, "Job", namespace, job.name, job.uid)
        found, kind = self._pod_groups.get(group), self._pod_groups.kind_of(group)
        if found is None or kind is None:
            return None
        return Home(kind.resource, kind.kind, namespace, found.name, found.uid)

    def status(self, group: str) -> GroupStatus:
        """What the group's object remembers of it."""
        namespace, name = split_key(group)
        if name.startswith(POD_PREFIX):
            pod = self._pods.get(key_of(namespace, name.removeprefix(POD_PREFIX)))
            return NO_STATUS if pod is None else pod.status
        record = self.job(group) if name.startswith(JOB_PREFIX) else self._pod_groups.get(group)
        return NO_STATUS if record is None else record.status

    def informer_of(self, home: Home) -> Informer[Any]:
        if home.resource == resources.PODS:
            return self._pods
        return self._jobs if home.resource == resources.JOBS else self._pod_groups.informer_of(home.resource)
