"""Parts of built-in kinds that Volcano's kinds hold: the template of a pod, the claim of a volume, selectors, metadata.

Templates and claims are kept as they were written; their schemas are those of the built-in kinds, so that a server
prunes and checks them as it does there.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.field_types import AnyFields
from allhands.api.schema.of_structs import BUILT_IN

POD_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
VOLUME_CLAIM: Final = "io.k8s.api.core.v1.PersistentVolumeClaimSpec"

PodTemplate = Annotated[AnyFields, Meta(extra_json_schema={BUILT_IN: POD_TEMPLATE})]
"""`metadata` and `spec` of a pod."""
VolumeClaim = Annotated[AnyFields, Meta(extra_json_schema={BUILT_IN: VOLUME_CLAIM})]
"""The spec of a PersistentVolumeClaim."""

_ATOMIC_LIST: Final = {"x-kubernetes-list-type": "atomic"}


class TemplateMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """What objects that are made from a template get."""

    labels: Annotated[dict[str, str] | None, Meta(description="Labels that they get.")] = None
    annotations: Annotated[dict[str, str] | None, Meta(description="Annotations that they get.")] = None
    finalizers: Annotated[tuple[str, ...] | None, Meta(description="Finalizers that they get.")] = None
    name: Annotated[str, Meta(description="Unused: names are made up.")] = ""
    namespace: Annotated[str, Meta(description="Unused: they are in the namespace of their owner.")] = ""


class LabelRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """What holds for one label."""

    key: Annotated[str, Meta(description="The label.")]
    operator: Annotated[str, Meta(description="How it is looked at: In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[
        tuple[str, ...] | None,
        Meta(description="The values of In and NotIn.", extra_json_schema=_ATOMIC_LIST),
    ] = None


class Selector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Which objects are meant, by their labels: all that is said must hold."""

    match_labels: Annotated[dict[str, str] | None, Meta(description="Labels with these values.")] = None
    match_expressions: Annotated[
        tuple[LabelRequirement, ...] | None,
        Meta(description="What holds for labels.", extra_json_schema=_ATOMIC_LIST),
    ] = None


LabelSelector = Annotated[Selector, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})]
