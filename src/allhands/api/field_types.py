"""What fields of our own kinds are made of: numbers of a width, amounts, moments, conditions.

A kind's fields are typed with these and described with `Meta(description=...)`; `schema.of_structs` makes a schema of
them. They only say what a value is; no rule over several fields belongs here.
"""

import enum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

Int32 = Annotated[int, Meta(ge=-INT32_MAX - 1, le=INT32_MAX, extra_json_schema={"format": "int32"})]
Int64 = Annotated[int, Meta(ge=-INT64_MAX - 1, le=INT64_MAX, extra_json_schema={"format": "int64"})]
Positive = Annotated[int, Meta(ge=1, le=INT32_MAX, extra_json_schema={"format": "int32"})]
Count = Annotated[int, Meta(ge=0, le=INT32_MAX, extra_json_schema={"format": "int32"})]

QuantityText = Annotated[
    str | int,
    Meta(
        extra_json_schema={
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""An amount such as `500m`, `4` or `16Gi`; `model.quantity` reads it."""

ResourceList = dict[str, QuantityText]
"""Resource name -> amount."""

SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
ObjectName = Annotated[str, Meta(max_length=253, pattern=SUBDOMAIN_PATTERN)]
"""The name of an object of most kinds."""

Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A point in time, in RFC 3339."""

AnyFields = dict[str, Any]
"""An object of which nothing is said: all of its fields are kept."""


class ConditionStatus(enum.StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One aspect of the state of an object, as everywhere in Kubernetes."""

    type: Annotated[str, Meta(min_length=1, max_length=316, description="Which aspect this is about.")]
    status: Annotated[ConditionStatus, Meta(description="Whether it holds.")]
    reason: Annotated[str, Meta(max_length=1024, description="Why, as one word for programs.")] = ""
    message: Annotated[str, Meta(max_length=32768, description="Why, as a sentence for people.")] = ""
    last_transition_time: Annotated[Moment | None, Meta(description="When the status changed last.")] = None
    observed_generation: Annotated[
        Int64 | None, Meta(description="The generation of the object that this was found of.")
    ] = None


Conditions = Annotated[
    tuple[Condition, ...],
    Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
