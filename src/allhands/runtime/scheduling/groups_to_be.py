"""Pods that a PodGroup is made for: they are in it as soon as it is there, and wait for it if it is to be of several.

Without it the first of them would start alone, before anybody has said that they belong together. Owners that ask for
no more than one keep nobody waiting. Nothing is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.volcano.workloads import least_of
from allhands.dialects.annotations import MIN_AVAILABLE
from allhands.dialects.volcano_groups import group_to_be
from allhands.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.dialects.groups import GroupRecord
    from allhands.dialects.pods import PodRecord
    from allhands.runtime.informer import Informer
    from allhands.runtime.scheduling.default_spreading import Manager
    from allhands.runtime.scheduling.watched_groups import WatchedGroups

KINDS: Final = ("ReplicaSet", "StatefulSet")


class GroupsToBe:
    """`changed` is told the keys of pods whose owner is different."""

    def __init__(
        self,
        managers: Mapping[str, Informer[Manager]],
        jobs: Informer[GroupRecord],
        groups: WatchedGroups,
        changed: Callable[[list[str]], None],
    ) -> None:
        self._managers = {kind: managers[kind] for kind in KINDS}
        self._jobs = jobs
        self._groups = groups
        self._changed = changed
        self._pods: dict[str, dict[str, None]] = {}
        """Owner -> pods that were asked about and are in no group yet."""
        self._owners: dict[str, str] = {}
        for kind, informer in self._managers.items():
            informer.on_change(self._note(kind))

    def of(self, record: PodRecord) -> str:
        """The key of the group that it belongs to without saying so, "" if there is none."""
        pod = record.pod
        if not record.group_to_be:
            self.forget(pod.key)
            return ""
        key = key_of(pod.namespace, record.group_to_be)
        if not record.asks_owner or key in self._groups:
            return key if key in self._groups else ""
        if record.job_name:
            return key if self._is_gang(record) else ""
        kind, _, name = pod.owner.partition("/")
        self._track(pod.key, f"{kind}/{key_of(pod.namespace, name)}")
        manager = self._managers[kind].get(key_of(pod.namespace, name))
        if manager is None or group_to_be(manager.uid) != record.group_to_be:
            return "" if pod.node_name else key  # its owner is yet to be seen
        return key if manager.min_member > 1 else ""

    def _is_gang(self, record: PodRecord) -> bool:
        """A Job that is yet to be seen is waited for by others."""
        job = self._jobs.get(key_of(record.pod.namespace, record.job_name))
        if job is None or job.uid != record.job_uid or MIN_AVAILABLE in job.annotations:
            return False
        return least_of(job.annotations) > 1

    def forget(self, pod: str) -> None:
        """It is gone, or in a group."""
        owner = self._owners.pop(pod, None)
        if owner is not None:
            pods = self._pods[owner]
            del pods[pod]
            if not pods:
                del self._pods[owner]

    def _track(self, pod: str, owner: str) -> None:
        if self._owners.get(pod) != owner:
            self.forget(pod)
            self._owners[pod] = owner
            self._pods.setdefault(owner, {})[pod] = None

    def _note(self, kind: str) -> Callable[[str, Manager | None, Manager | None], None]:
        def noted(key: str, before: Manager | None, after: Manager | None) -> None:
            pods = self._pods.get(f"{kind}/{key}")
            if pods and before != after:
                self._changed(list(pods))

        return noted
