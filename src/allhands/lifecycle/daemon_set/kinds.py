"""A DaemonSet, its pods and the nodes, as its machine sees them."""

import re
from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.api.selectors import LabelSelector
from allhands.lifecycle.changes import scaled
from allhands.lifecycle.observed import Metadata, Pod, Template
from allhands.lifecycle.selection import managing_selector
from allhands.model.node import Taint

DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets")
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"
_INTEGER: Final = re.compile("[+-]?[0-9]{1,18}", re.ASCII)


class RollingUpdate(msgspec.Struct, frozen=True, rename="camel"):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class UpdateStrategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DaemonSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    min_ready_seconds: int = 0
    selector: Manifest | None = None
    template: Template = Template()
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int | None = None


class DaemonSet(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: Manifest = {}

    @property
    def selector(self) -> LabelSelector:
        return managing_selector(self.spec.selector)

    def count(self, field: str) -> int:
        """A number of its status."""
        return int(self.status.get(field) or 0)

    @property
    def template_generation(self) -> str:
        """How often the template has changed; "" if nobody says."""
        text = self.metadata.annotation(TEMPLATE_GENERATION)
        return str(int(text)) if _INTEGER.fullmatch(text) else ""

    @property
    def is_rolling(self) -> bool:
        return self.spec.update_strategy.type == "RollingUpdate"

    def bounds(self, wanted: int) -> tuple[int, int]:
        """How many pods there may be too many and how many too few, of so many. None at all would never move."""
        rolling = self.spec.update_strategy.rolling_update
        if not self.is_rolling or rolling is None:
            return 0, 0
        surge = scaled(rolling.max_surge, wanted, round_up=True)
        unavailable = scaled(rolling.max_unavailable, wanted, round_up=True)
        return (0, 1) if wanted and not surge and not unavailable else (surge, unavailable)

    @property
    def surges(self) -> bool:
        """Whether a node may have a new pod beside its old one."""
        return self.bounds(1)[0] > 0


class DaemonPod(Pod, frozen=True):
    """`target` is the node that it is bound to or made for; "" if it cannot be known."""

    target: str = ""


class DaemonNode(msgspec.Struct, frozen=True):
    """A node, as far as it decides who may run there."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...] = ()
