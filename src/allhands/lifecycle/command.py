"""A Command (bus.volcano.sh/v1alpha1) as those read it who are told: what is to be done, with which object.

It is an order, not a state: whoever obeys it removes it, after having done it or written down that it will be done. One
for an object that is gone, or that nobody understands, is removed too and told about.
"""

from typing import Final

import msgspec

from allhands.api.volcano.command import COMMAND
from allhands.lifecycle.instructions import Delete, Outcome
from allhands.lifecycle.observed import Metadata, OwnerReference

COMMANDS: Final = COMMAND.resource
KEPT_SECONDS: Final = 5.0
"""So long one stays whose object is not there: it may only not have been seen yet."""


class CommandDocument(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""

    @property
    def order(self) -> tuple[float, str]:
        """The earlier first; of one second, by name."""
        return self.metadata.created_seconds, self.metadata.name

    def is_for(self, api_group: str, kind: str) -> bool:
        """Whether it is about an object of this kind, in whichever version."""
        target = self.target
        return target is not None and target.kind == kind and target.api_version.partition("/")[0] == api_group

    def removal(self) -> Delete:
        return Delete(COMMANDS, self.metadata.namespace, self.metadata.name, uid=self.metadata.uid)

    def removed_in_time(self, first_look_seconds: float, now_seconds: float) -> Outcome:
        """Of one whose object is not there: it does nothing, and would lie around for ever."""
        until = max(self.metadata.created_seconds, first_look_seconds) + KEPT_SECONDS
        return Outcome((), until) if now_seconds < until else Outcome((self.removal(),))


decode_command: Final = msgspec.json.Decoder(CommandDocument).decode
