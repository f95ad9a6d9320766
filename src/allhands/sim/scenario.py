"""Scenario files: a cluster, queues, workloads and troubles as people write them, with errors that name the field.

A scenario says what is there and what happens; how it is carried out is `compose`'s business. docs/simulation.md shows
one with every field.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from allhands.api.configuration import ConfigurationError, read
from allhands.api.errors import FieldError
from allhands.api.policy import SchedulingPolicy
from allhands.core.configuration.building import build_policy
from allhands.model.quantity import Quantity, QuantityError
from allhands.sim.faults import Faults

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Rate = Annotated[float, Meta(ge=0, le=1)]
Gpus = Annotated[int, Meta(ge=0, le=1_000)]

MOST_AFTER: Final = 100
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_RULE: Final = re.compile(r"([a-zA-Z][\w.\[\]]*): (.*)", re.DOTALL)
"""What a rule over several fields says: the field below, and what is wrong with it."""
_SHOWN: Final = 8
_BUILT_IN_QUEUES: Final = ("default",)


class ScenarioError(ValueError):
    """A scenario that cannot be read; the text names the field, what is wrong and what is allowed."""


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        wanted = "lower-case letters, digits and dashes, at most 52, with a letter or digit at both ends"
        raise ValueError(f"name: {name[:80]!r} must be {wanted}")


def _check_amounts(cpu: str, memory: str) -> None:
    for field, text in (("cpu", cpu), ("memory", memory)):
        try:
            amount = Quantity.parse(text)
        except QuantityError:
            raise ValueError(f"{field}: {text[:80]!r} is not a quantity such as 8, 500m or 32Gi") from None
        if amount.nanos <= 0:
            raise ValueError(f"{field}: {text!r} must be more than zero")


def _check_known(path: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        shown = ", ".join(names[:_SHOWN]) or "none"
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise ValueError(f"{path}: there is no {name[:80]!r}; there are {shown}{more}")


def _check_once(what: str, names: Iterable[str]) -> None:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ValueError(f"{what}: {', '.join(twice)} is there twice")


def _numbered(name: str, count: int) -> list[str]:
    digits = len(str(count - 1))
    return [f"{name}-{number:0{digits}d}" for number in range(count)]


class Nodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """So many equal nodes. With `racks`, they carry the label of one of so many racks, in turn."""

    count: Count
    name: str = "node"
    cpu: str = "8"
    memory: str = "32Gi"
    gpus: Gpus = 0
    racks: Annotated[int, Meta(ge=0, le=10_000)] = 0
    labels: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_amounts(self.cpu, self.memory)

    @property
    def names(self) -> list[str]:
        return _numbered(self.name, self.count)

    def rack_of(self, number: int) -> str:
        """ "" where there are none."""
        return f"rack-{number % self.racks}" if self.racks else ""


class QueueUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A queue; `spec` is that of scheduling.volcano.sh/v1beta1 Queue."""

    name: str
    spec: Mapping[str, Any] = {}
    annotations: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        _check_name(self.name)


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Anything from `least` to `most`, each pod for itself."""

    least: Seconds
    most: Seconds

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least ({self.least:g}) must not exceed most ({self.most:g})")


class RunTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long pods run by chance. With `least` and `most` anything between, each pod for itself; with `median`
    log-normal, as run times of real clusters are (most short, a few very long), at most `most`, a job as a whole."""

    least: Seconds | None = None
    most: Seconds | None = None
    median: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    sigma: Annotated[float, Meta(ge=0, le=10)] = 1.0

    def __post_init__(self) -> None:
        if (self.least is None) == (self.median is None):
            raise ValueError("either least and most, or median (with sigma and most) must be given")
        if self.least is not None and self.most is None:
            raise ValueError("most: must be given with least")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least ({self.least:g}) must not exceed most ({self.most:g})")

    @property
    def mean_seconds(self) -> float:
        """About."""
        if self.median is not None:
            return min(self.median * math.exp(self.sigma**2 / 2), math.inf if self.most is None else self.most)
        return ((self.least or 0.0) + (self.most or 0.0)) / 2


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """So many equal batch/v1 Jobs, all at `startSeconds` or one after the other.

    minAvailable: how many pods must start together, "all", or null for no gang. everySeconds: between two submissions;
    meanSeconds: the same by chance, on average. runSeconds: how long each pod runs. after: names of workloads or jobs,
    with commas, that must be complete before.
    """

    name: str = "job"
    jobs: Count = 1
    pods: Count = 1
    cpu: str = "1"
    memory: str = "1Gi"
    gpus: Gpus = 0
    run_seconds: Seconds | RunTime = 60.0
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
        _check_name(self.name)
        _check_amounts(self.cpu, self.memory)
        if self.every_seconds and self.mean_seconds:
            raise ValueError("everySeconds and meanSeconds cannot both be given")
        if isinstance(self.min_available, int) and self.min_available > self.pods:
            raise ValueError(f"minAvailable ({self.min_available}) must not exceed pods ({self.pods})")

    @property
    def names(self) -> list[str]:
        """Of its jobs: its own if it is one, else with numbers."""
        return [self.name] if self.jobs == 1 else _numbered(self.name, self.jobs)

    @property
    def run_seconds_mean(self) -> float:
        return self.run_seconds.mean_seconds if isinstance(self.run_seconds, RunTime) else self.run_seconds


class PriorityClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    value: Annotated[int, Meta(ge=-(2**31), le=10**9)]

    def __post_init__(self) -> None:
        _check_name(self.name)


class Outage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A node, or all nodes of a rack, that die, and come back after a while."""

    node: str = ""
    rack: str = ""
    at_seconds: Seconds
    for_seconds: Seconds

    def __post_init__(self) -> None:
        if bool(self.node) == bool(self.rack):
            raise ValueError("either node or rack must be given")


class FaultRates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """How often what goes wrong between the parts and the API, as a part of one; times in seconds."""

    refused: Rate = 0.0
    lost: Rate = 0.0
    slow: Rate = 0.0
    slow_seconds: Seconds = 2.0
    crash: Rate = 0.0
    watch_ends: Rate = 0.0
    watch_expires: Rate = 0.0
    watch_lags: Rate = 0.0
    watch_lag_seconds: Seconds = 5.0

    @property
    def faults(self) -> Faults:
        return Faults(**msgspec.structs.asdict(self))


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """`limitSeconds`: the simulation ends then, whoever is still waiting."""

    api_version: Literal["allhands.dev/v1alpha1"]
    kind: Literal["Scenario"]
    nodes: Annotated[tuple[Nodes, ...], Meta(min_length=1)]
    workloads: Annotated[tuple[Workload, ...], Meta(min_length=1)]
    queues: tuple[QueueUse, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    policy: SchedulingPolicy | None = None
    faults: FaultRates = FaultRates()
    outages: tuple[Outage, ...] = ()
    failure_rate: Rate = 0.0
    """The part of all pods that fail on their way, and are tried again."""
    start_delay_seconds: Seconds | Range = 0.0
    heartbeats_per_second: Annotated[float, Meta(gt=0, le=1000)] = 2.0
    notice_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    seed: int = 0
    limit_seconds: Seconds = 7 * 24 * 3600.0

    def __post_init__(self) -> None:
        _check_once("nodes", [it.name for it in self.nodes])
        _check_once("queues", [it.name for it in self.queues])
        _check_once("priorityClasses", [it.name for it in self.priority_classes])
        _check_once("workloads", [name for it in self.workloads for name in dict.fromkeys((it.name, *it.names))])
        self._check_outages()
        queues = [*(it.name for it in self.queues), *_BUILT_IN_QUEUES]
        for number, workload in enumerate(self.workloads):
            path = f"workloads[{number}]"
            if workload.queue:
                _check_known(f"{path}.queue", workload.queue, queues)
            if workload.priority_class:
                classes = [it.name for it in self.priority_classes]
                _check_known(f"{path}.priorityClass", workload.priority_class, classes)
            if len(self.jobs_before(workload, path)) > MOST_AFTER:
                raise ValueError(f"{path}.after: names more than {MOST_AFTER} jobs")

    def _check_outages(self) -> None:
        nodes = [name for it in self.nodes for name in it.names]
        for number, outage in enumerate(self.outages):
            if outage.node:
                _check_known(f"outages[{number}].node", outage.node, nodes)
            elif not self.nodes_in(outage):
                racks = sorted({it.rack_of(index) for it in self.nodes for index in range(it.count)} - {""})
                _check_known(f"outages[{number}].rack", outage.rack, racks)

    def nodes_in(self, outage: Outage) -> list[str]:
        """Those that an outage takes."""
        if outage.node:
            return [outage.node]
        return [name for it in self.nodes for number, name in enumerate(it.names) if it.rack_of(number) == outage.rack]

    def jobs_before(self, workload: Workload, path: str = "after") -> list[str]:
        """The jobs that must be complete before those of a workload."""
        if not workload.after:
            return []
        by_workload = {it.name: it.names for it in self.workloads if it is not workload}
        jobs = {name for names in by_workload.values() for name in names}
        found: list[str] = []
        for part in workload.after.split(","):
            name = part.strip()
            if name not in jobs:
                _check_known(f"{path}.after", name, by_workload)
            found += by_workload.get(name, [name])
        return found


def read_scenario(document: Any) -> Scenario:
    """From decoded YAML or JSON."""
    try:
        scenario = read(document, Scenario)
    except ConfigurationError as error:
        raise ScenarioError("\n".join(map(_sentence, error.errors))) from None
    if scenario.policy is not None:
        try:
            build_policy(scenario.policy)
        except ConfigurationError as error:
            raise ScenarioError("\n".join(f"policy.{it}" for it in error.errors)) from None
    return scenario


def _sentence(error: FieldError) -> str:
    """With the whole path in front, also where a rule over several fields names the one that is wrong."""
    rule = _RULE.fullmatch(error.detail or "")
    if rule is None:
        return str(error)
    path = "" if error.path == "document" else f"{error.path}."
    return f"{path}{rule[1]}: {rule[2]}"
