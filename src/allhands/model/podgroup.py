"""A pod-group: the unit of admission. It starts whole (its minimum, in every part) or not at all.

The rule of what "whole" means lives here and nowhere else; who counts the members is the caller's business. A group
is decided from its own fields only: nothing here looks at a cluster.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from allhands.model.identity import NOBODY, Identity
from allhands.model.tree import TreeError, children_by_name, parents_by_name, roots_first

MAX_DEPTH: Final = 16
"""How deep sub-groups may nest."""


class Slot(NamedTuple):
    """Where a member stands: its sub-group ("" is the group itself) and its task ("" for none)."""

    subgroup: str
    task: str


class Shortfall(NamedTuple):
    """One minimum that is not reached. `what` is "pods" of the sub-group or task, or whole "sub-groups"."""

    subgroup: str
    task: str
    what: str
    have: int
    need: int


class TaskMinimum(msgspec.Struct, frozen=True):
    task: str
    min_count: int


class TopologyMode(enum.StrEnum):
    """HARD: within one domain or not at all. SOFT: as close as possible."""

    HARD = "Hard"
    SOFT = "Soft"


class TopologyRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """That all members must or should be in one domain: of the tier `highest_tier` or closer, or of the tier called
    `tier_name`. With neither, the widest domain will do. `tree` says in which tree, None if there is only one."""

    mode: TopologyMode
    highest_tier: int | None = None
    tier_name: str | None = None
    tree: str | None = None

    def __post_init__(self) -> None:
        if self.highest_tier is not None and self.tier_name is not None:
            raise ValueError(
                f'topology: a tier is given by its number ({self.highest_tier}) or its name ("{self.tier_name}"), '
                "not by both"
            )
        if self.tier_name == "":
            raise ValueError("topology: the name of a tier must not be empty")


class SubGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a group, with parts of its own. Counts include the members of all parts below.

    It is whole when it has `min_count` members, each task its minimum, and `min_children` of its children (None: all)
    are whole. It is elastic from there up to `max_count` members (None: as many as come). `topology` binds all its
    members, those of the parts below included; the rule of the outermost part is that of the whole group.
    """

    name: str = ""
    min_count: int = 0
    max_count: int | None = None
    task_minimums: tuple[TaskMinimum, ...] = ()
    children: tuple["SubGroup", ...] = ()
    min_children: int | None = None
    topology: TopologyRule | None = None

    def __post_init__(self) -> None:
        if not (
            self.min_count < 0 or self.task_minimums or self.children or self.min_children or self.max_count is not None
        ):
            return  # as for each of a hundred thousand pods that stand alone
        where = f'sub-group "{self.name}"' if self.name else "group"
        if self.min_count < 0:
            raise ValueError(f"{where}: the minimum must not be negative, got {self.min_count}")
        tasks = [minimum.task for minimum in self.task_minimums]
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"{where}: a task has two minimums: {', '.join(tasks)}")
        for minimum in self.task_minimums:
            if minimum.min_count < 0:
                raise ValueError(f'{where}: task "{minimum.task}" has the negative minimum {minimum.min_count}')
        if self.min_children is not None and not 0 <= self.min_children <= len(self.children):
            raise ValueError(f"{where}: needs {self.min_children} whole sub-groups but has {len(self.children)}")
        if self.max_count is not None and self.max_count < self.required_count:
            raise ValueError(f"{where}: at most {self.max_count} members but at least {self.required_count} needed")

    @property
    def required_children(self) -> int:
        return len(self.children) if self.min_children is None else self.min_children

    @property
    def required_count(self) -> int:
        """No fewer members can make it whole."""
        of_children = sorted(child.required_count for child in self.children)[: self.required_children]
        return max(self.min_count, sum(it.min_count for it in self.task_minimums), sum(of_children))

    def walk(self) -> Iterable["SubGroup"]:
        """Itself and all parts below, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def shortfalls(self, counts: Mapping[Slot, int]) -> tuple[Shortfall, ...]:
        """Every minimum that these members do not reach; empty exactly if the group is whole."""
        by_part: dict[str, dict[str, int]] = {}
        for slot, count in counts.items():
            tasks = by_part.setdefault(slot.subgroup, {})
            tasks[slot.task] = tasks.get(slot.task, 0) + count
        return tuple(self._shortfalls(by_part)[0])

    def _shortfalls(self, by_part: Mapping[str, Mapping[str, int]]) -> tuple[list[Shortfall], dict[str, int]]:
        """What it lacks, and how many members of each task it has, those of the parts below included."""
        of_children = [child._shortfalls(by_part) for child in self.children]
        members = dict(by_part.get(self.name, {}))
        for _, below in of_children:
            for task, count in below.items():
                members[task] = members.get(task, 0) + count
        missing = [
            Shortfall(self.name, minimum.task, "pods", have, minimum.min_count)
            for minimum in self.task_minimums
            if (have := members.get(minimum.task, 0)) < minimum.min_count
        ]
        if (total := sum(members.values())) < self.min_count:
            missing.append(Shortfall(self.name, "", "pods", total, self.min_count))
        whole = sum(not lacking for lacking, _ in of_children)
        if whole < self.required_children:
            missing.append(Shortfall(self.name, "", "sub-groups", whole, self.required_children))
            missing.extend(shortfall for lacking, _ in of_children for shortfall in lacking)
        return missing, members

    def is_whole(self, counts: Mapping[Slot, int]) -> bool:
        return not self.shortfalls(counts)


class DisruptionLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many members must stay up when others are evicted, or how many may be missing; one of both.

    In percent of all members, rounded up, if it says so. `size`: how many members there are to be, where that is known:
    one that was evicted and is not made anew yet is missing all the same.
    """

    min_available: int | None = None
    max_unavailable: int | None = None
    in_percent: bool = False
    size: int = 0

    def allowed(self, members: int, up: int, ended: int) -> int:
        """How many may be evicted now. `ended`: members that have, and are missed by nobody."""
        members = max(members, self.size)
        if self.max_unavailable is not None:
            return max(0, self._count(self.max_unavailable, members) - (members - ended - up))
        return max(0, up - self._count(self.min_available or 0, members))

    def _count(self, amount: int, members: int) -> int:
        return -(-amount * members // 100) if self.in_percent else amount


class PodGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """`accounts` are charged for all it uses, each with every account above it; empty means its queue alone.

    start_timeout: how long bound members may take to start. min_run: how long it runs before it may be preempted.
    grace: what its pods get to end when they are. max_wait: how long it should wait at most; then room is emptied
    for it. deadline and not_before are moments, since 1970. `features` are whole numbers about it,
    by sorted name, that a learned plugin may read and nothing else does.
    """

    namespace: str
    name: str
    queue: str
    uid: str = ""
    members: SubGroup = SubGroup(min_count=1)
    identity: Identity = NOBODY
    accounts: tuple[str, ...] = ()
    priority: int = 0
    created_at_seconds: int = 0
    expected_duration_seconds: int | None = None
    preemptible: bool = True
    start_timeout_seconds: int | None = None
    min_run_seconds: int = 0
    deadline_seconds: int | None = None
    not_before_seconds: int | None = None
    suspended: bool = False
    grace_seconds: int | None = None
    features: tuple[tuple[str, int], ...] = ()
    disruption_limit: DisruptionLimit | None = None
    max_wait_seconds: int | None = None

    def __post_init__(self) -> None:
        if self.members.name:
            raise ValueError(f'pod-group "{self.key}": its outermost part must have no name, got "{self.members.name}"')
        seen = set()
        for part in self.members.walk() if self.members.children else ():
            if part.name in seen:
                raise ValueError(f'pod-group "{self.key}": sub-group "{part.name}" is defined twice')
            seen.add(part.name)
        if self.accounts and len(set(self.accounts)) < len(self.accounts):
            raise ValueError(f'pod-group "{self.key}": an account is charged twice: {", ".join(self.accounts)}')
        if self.expected_duration_seconds is not None and self.expected_duration_seconds < 0:
            raise ValueError(f'pod-group "{self.key}": negative duration {self.expected_duration_seconds} s')
        if (
            self.start_timeout_seconds is not None
            or self.min_run_seconds
            or self.grace_seconds is not None
            or self.max_wait_seconds is not None
        ):
            self._check_durations()
        names = [name for name, _ in self.features] if self.features else []
        if names != sorted(set(names)):
            raise ValueError(f'pod-group "{self.key}": features must be sorted and distinct, got {", ".join(names)}')

    def _check_durations(self) -> None:
        for what in ("start_timeout_seconds", "min_run_seconds", "grace_seconds", "max_wait_seconds"):
            seconds = getattr(self, what)
            if seconds is not None and seconds < 0:
                raise ValueError(f'pod-group "{self.key}": {what} must not be negative, got {seconds}')

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def required_count(self) -> int:
        """No fewer members can make it whole."""
        return self.members.required_count

    @property
    def charged_accounts(self) -> tuple[str, ...]:
        return self.accounts or (self.queue,)


class FlatSubGroup(msgspec.Struct, frozen=True):
    """A sub-group as users list it: beside its siblings, with the name of its parent."""

    name: str
    parent: str | None = None
    min_count: int = 0
    max_count: int | None = None
    task_minimums: tuple[TaskMinimum, ...] = ()
    min_children: int | None = None
    topology: TopologyRule | None = None


def nest_subgroups(rows: Iterable[FlatSubGroup]) -> tuple[SubGroup, ...]:
    """The outermost sub-groups, with all others inside them.

    Refuses duplicates, unknown parents, cycles and nesting that is too deep with a TreeError that names them.
    """
    flat = tuple(rows)
    parents = parents_by_name("sub-group", ((row.name, row.parent) for row in flat))
    ordered = roots_first("sub-group", parents)
    _check_depth(ordered, parents)
    children = children_by_name(parents)
    row_by_name = {row.name: row for row in flat}
    nested: dict[str, SubGroup] = {}
    for name in reversed(ordered):
        row = row_by_name[name]
        below = tuple(nested[child] for child in children[name])
        nested[name] = SubGroup(
            name, row.min_count, row.max_count, row.task_minimums, below, row.min_children, row.topology
        )
    return tuple(nested[name] for name, parent in parents.items() if parent is None)


def _check_depth(ordered: Iterable[str], parents: Mapping[str, str | None]) -> None:
    depths: dict[str | None, int] = {None: 0}
    for name in ordered:
        depths[name] = depths[parents[name]] + 1
        if depths[name] > MAX_DEPTH:
            raise TreeError(f'sub-group "{name}" is nested deeper than {MAX_DEPTH} levels')
