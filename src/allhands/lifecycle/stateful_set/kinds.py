"""A StatefulSet as its machine sees it."""

from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.api.selectors import LabelSelector
from allhands.lifecycle.observed import Metadata, Template
from allhands.lifecycle.selection import managing_selector

STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets")
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
REVISION_HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""On revisions; pods carry the whole name of theirs."""


class Ordinals(msgspec.Struct, frozen=True):
    start: int = 0


class RollingUpdate(msgspec.Struct, frozen=True):
    partition: int = 0


class UpdateStrategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class Retention(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of claims."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: Manifest | None = None
    template: Template = Template()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    ordinals: Ordinals | None = None
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int | None = None
    claim_templates: tuple[Manifest, ...] | None = msgspec.field(default=None, name="volumeClaimTemplates")
    retention: Retention = msgspec.field(default=Retention(), name="persistentVolumeClaimRetentionPolicy")


class StatefulSet(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: Manifest = {}

    @property
    def selector(self) -> LabelSelector:
        return managing_selector(self.spec.selector)

    def count(self, field: str) -> int:
        """A number of its status."""
        return int(self.status.get(field) or 0)

    @property
    def is_ordered(self) -> bool:
        return self.spec.pod_management_policy != "Parallel"

    @property
    def ordinals(self) -> range:
        """Of the pods that there should be."""
        start = 0 if self.spec.ordinals is None else self.spec.ordinals.start
        return range(start, start + max(0, self.spec.replicas))

    @property
    def first_updated(self) -> int:
        """Pods from this ordinal on get the present template."""
        rolling = self.spec.update_strategy.rolling_update
        return self.ordinals.start + (0 if rolling is None else rolling.partition)
