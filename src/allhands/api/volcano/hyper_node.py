"""The kind HyperNode (topology.volcano.sh/v1alpha1): nodes, or groups of them, that are close in the network.

Types and documentation only. What is refused is in `hyper_node_rules`; what a tree of them means is in `dialects`.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.field_types import INT64_MAX, Conditions, Count, ObjectName
from allhands.api.schema.of_structs import RULES
from allhands.api.volcano.pod_template import LabelSelector

ONE_SELECTOR: Final = "exactly one of exactMatch, regexMatch and labelMatch must say which members are meant"


class MemberType(enum.StrEnum):
    """What a member is."""

    NODE = "Node"
    HYPER_NODE = "HyperNode"


class ExactMatch(msgspec.Struct, frozen=True):
    """One member, by its name."""

    name: Annotated[ObjectName, Meta(min_length=1, description="Its name.")]


class RegexMatch(msgspec.Struct, frozen=True):
    """Members whose names match."""

    pattern: Annotated[
        str, Meta(min_length=1, description="A regular expression in RE2 syntax; it may match anywhere in the name.")
    ]


class MemberSelector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Which nodes, or HyperNodes, are members: by one of three ways."""

    exact_match: Annotated[ExactMatch | None, Meta(description="One member, by its name.")] = None
    regex_match: Annotated[RegexMatch | None, Meta(description="Members whose names match.")] = None
    label_match: Annotated[
        LabelSelector | None, Meta(description="Members with these labels. Only for members of type Node.")
    ] = None


_Selector = Annotated[
    MemberSelector,
    Meta(
        extra_json_schema={
            RULES: [
                {
                    "rule": "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + "
                    "(has(self.labelMatch) ? 1 : 0) == 1",
                    "message": ONE_SELECTOR,
                }
            ]
        }
    ),
]


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nodes, or HyperNodes, that are a part of this one."""

    type: Annotated[MemberType, Meta(description="Whether nodes or HyperNodes are meant.")]
    selector: Annotated[_Selector | None, Meta(description="Which of them.")] = None


class HyperNodeSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How close its members are, and who they are."""

    tier: Annotated[
        Count, Meta(description="How far apart its members may be; lower is closer. Higher than those of its members.")
    ]
    tier_name: Annotated[str, Meta(max_length=253, description="What this tier is called.")] = ""
    members: Annotated[
        Annotated[tuple[Member, ...], Meta(min_length=1)] | None, Meta(description="Who is a part of it. At least one.")
    ] = None


class HyperNodeStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What it holds now. The controller's business."""

    conditions: Annotated[Conditions | None, Meta(description="Whether it makes sense, and if not, why.")] = None
    node_count: Annotated[
        Annotated[int, Meta(ge=0, le=INT64_MAX, extra_json_schema={"format": "int64"})] | None,
        Meta(description="How many nodes are in it, with those of the HyperNodes below."),
    ] = None


class HyperNode(msgspec.Struct, frozen=True):
    """Nodes that are close to each other in the network: members are nodes, or HyperNodes of a lower tier."""

    spec: Annotated[HyperNodeSpec | None, Meta(description="How close its members are, and who they are.")] = None
    status: Annotated[HyperNodeStatus | None, Meta(description="What it holds now.")] = None


HYPER_NODE: Final = Definition(
    group="topology.volcano.sh",
    kind="HyperNode",
    plural="hypernodes",
    namespaced=False,
    short_names=("hn",),
    categories=(OURS,),
    versions=(
        Version(
            name="v1alpha1",
            type=HyperNode,
            columns=(
                Column("Tier", ".spec.tier", description="How far apart its members may be."),
                Column("TierName", ".spec.tierName", description="What the tier is called."),
                Column("NodeCount", ".status.nodeCount", "integer", description="How many nodes are in it."),
                AGE,
            ),
        ),
    ),
)
