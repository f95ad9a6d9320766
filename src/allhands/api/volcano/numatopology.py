"""The kind Numatopology (nodeinfo.volcano.sh/v1alpha1): what a node's agent says of its CPUs and memory banks.

Types and documentation only. It is stored and shown; our scheduler does not read it yet, and says so in a condition.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.field_types import Conditions, Count, Int64


class ManagerPolicy(enum.StrEnum):
    """The keys of `policies`."""

    CPU_MANAGER = "CPUManagerPolicy"
    TOPOLOGY_MANAGER = "TopologyManagerPolicy"


class NumaResource(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource of the node."""

    allocatable: Annotated[str, Meta(description="What can be given out; of CPUs a set such as 0,2-4.")] = ""
    capacity: Annotated[Int64 | None, Meta(description="How much there is.")] = None


class CpuPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a CPU is."""

    numa: Annotated[Count | None, Meta(description="Its NUMA node.")] = None
    socket: Annotated[Count | None, Meta(description="Its socket.")] = None
    core: Annotated[Count | None, Meta(description="Its core.")] = None


class ContainerAllocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one container of a pod holds."""

    name: Annotated[str, Meta(description="The container.")] = ""
    allocations: Annotated[
        dict[str, str] | None, Meta(description="Resource to what it holds: of CPUs a set, of others an amount.")
    ] = None


class PodAllocation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What one pod of the node holds."""

    uid: Annotated[str, Meta(description="The pod's uid.")] = ""
    name: Annotated[str, Meta(description="The pod's name.")] = ""
    namespace: Annotated[str, Meta(description="The pod's namespace.")] = ""
    container_allocations: Annotated[
        tuple[ContainerAllocation, ...] | None, Meta(description="What each of its containers holds.")
    ] = None


class NumatopologySpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The node's CPUs and memory banks, as its agent sees them."""

    policies: Annotated[
        dict[str, str] | None, Meta(description="CPUManagerPolicy and TopologyManagerPolicy of the kubelet.")
    ] = None
    res_reserved: Annotated[dict[str, str] | None, Meta(description="Resource to what is kept for the system.")] = None
    numares: Annotated[dict[str, NumaResource] | None, Meta(description="Resource to how much there is.")] = None
    cpu_detail: Annotated[dict[str, CpuPlace] | None, Meta(description="Number of a CPU to where it is.")] = None
    pod_allocations: Annotated[
        tuple[PodAllocation, ...] | None, Meta(description="What the pods of the node hold.")
    ] = None


class NumatopologyStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is made of it here."""

    conditions: Annotated[Conditions | None, Meta(description="Used: whether the scheduler reads it.")] = None


class Numatopology(msgspec.Struct, frozen=True):
    """The CPUs and memory banks of the node of the same name, as its agent sees them. Not used for placing yet."""

    spec: Annotated[NumatopologySpec | None, Meta(description="What the node's agent says.")] = None
    status: Annotated[NumatopologyStatus | None, Meta(description="What is made of it here.")] = None


NUMATOPOLOGY: Final = Definition(
    group="nodeinfo.volcano.sh",
    kind="Numatopology",
    plural="numatopologies",
    namespaced=False,
    short_names=("numatopo",),
    categories=(OURS,),
    versions=(
        Version(
            name="v1alpha1",
            type=Numatopology,
            columns=(
                Column("Policy", ".spec.policies.TopologyManagerPolicy", description="The kubelet's topology manager."),
                Column(
                    "Used",
                    '.status.conditions[?(@.type=="Used")].status',
                    description="Whether the scheduler reads it.",
                ),
                AGE,
            ),
        ),
    ),
)
