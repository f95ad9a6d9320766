"""Parts of built-in kinds that Volcano's kinds hold: the template of a pod, and the claim of a volume.

They are kept as they were written; their schemas are those of the built-in kinds, so that a server prunes and checks
them as it does there.
"""

from typing import Annotated

from msgspec import Meta

from allhands.api.field_types import AnyFields

PodTemplate = Annotated[AnyFields, Meta()]
"""`metadata` and `spec` of a pod."""
VolumeClaim = Annotated[AnyFields, Meta()]
"""The spec of a PersistentVolumeClaim."""
