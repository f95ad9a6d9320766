"""Whether the API server need ask about pods and workloads at all: while no queue is restricted, nothing comes of it.

That they name a queue is found out by conditions, for which the API server turns every pod that anybody creates into
another form: some twentieth of what the pod costs it. A selector is looked at before, and costs nothing. It can only be
closed to everybody: no object makes an exception of itself, and one with the label is asked about all the more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.runtime.installation.webhooks import ANNOTATED_WEBHOOK

if TYPE_CHECKING:
    from allhands.api.document import Manifest

EVERYTHING: Final[Manifest] = {}
NOTHING: Final[Manifest] = {
    "matchExpressions": [{"key": "allhands.dev/asked-about", "operator": "In", "values": ["always"]}]
}


def attentive(webhook: Manifest, *, is_any_restricted: bool | None) -> Manifest:
    """The webhook with what it is to be asked about; as it was if that is not known (None). One that its owner has set
    to `Fail` must hold even for a queue that becomes restricted while nobody answers: it is always asked."""
    if webhook["name"] != ANNOTATED_WEBHOOK or is_any_restricted is None:
        return webhook
    is_asked = is_any_restricted or webhook.get("failurePolicy") == "Fail"
    if is_asked and not webhook.get("objectSelector"):
        return webhook
    return {**webhook, "objectSelector": EVERYTHING if is_asked else NOTHING}
