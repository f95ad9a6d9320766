"""A Deployment as its machine sees it, and the names it writes into annotations and conditions."""

from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.lifecycle.changes import scaled
from allhands.lifecycle.observed import Metadata, Template

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments")
MAX_INT32: Final = 2**31 - 1
HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)


class RollingUpdate(msgspec.Struct, frozen=True, rename="camel"):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int = 1
    min_ready_seconds: int = 0
    paused: bool = False
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    strategy: Strategy = Strategy()
    selector: Manifest | None = None
    template: Template = Template()


class Deployment(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: DeploymentSpec = DeploymentSpec()
    status: Manifest = {}

    def count(self, field: str) -> int:
        """A number of its status."""
        return int(self.status.get(field) or 0)

    @property
    def is_rolling(self) -> bool:
        return self.spec.strategy.type != "Recreate"

    @property
    def deadline_seconds(self) -> int | None:
        """How long it may go without progress; None for as long as it likes."""
        seconds = self.spec.progress_deadline_seconds
        return None if seconds is None or seconds >= MAX_INT32 else seconds

    @property
    def max_surge(self) -> int:
        return self._bounds()[0] if self.is_rolling else 0

    @property
    def max_unavailable(self) -> int:
        if not self.is_rolling:
            return 0
        return min(self._bounds()[1], max(0, self.spec.replicas))

    def _bounds(self) -> tuple[int, int]:
        """Both rounded to nothing would never move: then one pod may be missing."""
        rolling = self.spec.strategy.rolling_update or RollingUpdate()
        surge = scaled(rolling.max_surge, self.spec.replicas, round_up=True)
        unavailable = scaled(rolling.max_unavailable, self.spec.replicas, round_up=False)
        return (surge, unavailable) if surge or unavailable else (0, 1)
