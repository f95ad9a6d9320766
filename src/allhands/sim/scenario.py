"""Scenario files: a cluster, queues, workloads and troubles as people write them, with errors that name the field.

A scenario says what is there and what happens; how it is carried out is `compose`'s business. docs/scenarios.md shows
one with every field.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from allhands.api.policy import SchedulingPolicy
from allhands.model.quantity import Quantity, QuantityError
from allhands.sim.faults import Faults

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$")]


class ScenarioError(ValueError):
    """A scenario that cannot be read; the text names the field, what is wrong and what is allowed."""


def _check_amounts(cpu: str, memory: str) -> None:
    for field, text in (("cpu", cpu), ("memory", memory)):
        try:
            amount = Quantity.parse(text)
        except QuantityError as error:
            raise ValueError(f"{field}: {text[:80]!r} is not a quantity such as 8, 500m or 32Gi: {error}") from None
        if amount.nanos <= 0:
            raise ValueError(f"{field}: {text!r} must be more than zero")


class Nodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """So many equal nodes. With `racks`, they carry the label of one of so many racks, in turn."""

    count: Count
    name: Name = "node"
    cpu: str = "8"
    memory: str = "32Gi"
    gpus: Annotated[int, Meta(ge=0, le=1_000)] = 0
    racks: Annotated[int, Meta(ge=0, le=10_000)] = 0
    labels: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        _check_amounts(self.cpu, self.memory)


class QueueUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A queue; `spec` is that of scheduling.volcano.sh/v1beta1 Queue."""

    name: Name
    spec: Mapping[str, Any] = {}
    annotations: Mapping[str, str] = {}


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Anything from `least` to `most`, each pod for itself."""

    least: Seconds
    most: Seconds

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least ({self.least:g}) must not exceed most ({self.most:g})")


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """So many equal batch/v1 Jobs, all at `startSeconds` or one after the other.

    minAvailable: how many pods must start together, "all", or null for no gang. everySeconds: between two submissions;
    meanSeconds: the same by chance, on average. runSeconds: how long each pod runs.
    """

    name: Name = "job"
    jobs: Count = 1
    pods: Count = 1
    cpu: str = "1"
    memory: str = "1Gi"
    gpus: Annotated[int, Meta(ge=0, le=1_000)] = 0
    run_seconds: Seconds | Range = 60.0
    min_available: Literal["all"] | Count | None = "all"
    queue: str = ""
    priority_class: str = ""
    start_seconds: Seconds = 0.0
    every_seconds: Seconds = 0.0
    mean_seconds: Seconds = 0.0
    expected_seconds: Seconds | None = None
    deadline_seconds: Annotated[int, Meta(ge=1)] | None = None
    topology: str = ""
    after: str = ""
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    backoff_limit: Annotated[int, Meta(ge=0)] = 6

    def __post_init__(self) -> None:
        _check_amounts(self.cpu, self.memory)
        if self.every_seconds and self.mean_seconds:
            raise ValueError("everySeconds and meanSeconds cannot both be given")
        if isinstance(self.min_available, int) and self.min_available > self.pods:
            raise ValueError(f"minAvailable ({self.min_available}) must not exceed pods ({self.pods})")


class PriorityClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: Name
    value: Annotated[int, Meta(ge=-(2**31), le=10**9)]


class Outage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A node that dies, and comes back after a while."""

    node: str
    at_seconds: Seconds
    for_seconds: Seconds


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """`limitSeconds`: the simulation ends then, whoever is still waiting."""

    api_version: Literal["allhands.dev/v1alpha1"]
    kind: Literal["Scenario"]
    nodes: Annotated[tuple[Nodes, ...], Meta(min_length=1)]
    workloads: Annotated[tuple[Workload, ...], Meta(min_length=1)]
    queues: tuple[QueueUse, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    policy: SchedulingPolicy | None = None
    faults: Faults = Faults()
    outages: tuple[Outage, ...] = ()
    start_delay_seconds: Seconds | Range = 0.0
    heartbeats_per_second: Annotated[float, Meta(gt=0, le=1000)] = 2.0
    seed: int = 0
    limit_seconds: Seconds = 7 * 24 * 3600.0

    def __post_init__(self) -> None:
        names = [workload.name for workload in self.workloads]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"workloads: {', '.join(twice)} is there twice")
        groups = [nodes.name for nodes in self.nodes]
        if twice := sorted({name for name in groups if groups.count(name) > 1}):
            raise ValueError(f"nodes: {', '.join(twice)} is there twice")


def read_scenario(document: Any) -> Scenario:
    """From decoded YAML or JSON."""
    try:
        return msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(_sentence(str(error))) from None


def _sentence(text: str) -> str:
    """msgspec puts the path behind; people look for it in front."""
    problem, _, path = text.partition(" - at `")
    where = path.rstrip("`").removeprefix("$").removeprefix(".")
    return f"{where}: {problem}" if where else problem
