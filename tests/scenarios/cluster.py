"""Clusters in a few words, for scenarios: say what there is, let cycles run, look at what came of it.

Every cycle is checked against the laws of the core, and against the same cycle with an empty memo. `settle` carries
plans out until nothing happens, and then runs five cycles more in which nothing may happen. A step is ten seconds.
Cores are whole here, memory is in Gi, and all groups are in the namespace "default".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from allhands.core.cycle import cycle
from allhands.core.entries import Predicted
from allhands.core.facts import Facts
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Policy
from allhands.core.world import World
from allhands.model.domain import Domain
from allhands.model.group_status import NO_STATUS, GroupStatus, Said
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TopologyMode
from allhands.model.queue import ANY_FLAVOR, Account, AccountForest, Queue, Quota
from allhands.model.resources import ResourceVector
from allhands.model.tree import TreeError
from tests.core_laws import violations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.core.plan import Plan, Wait
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.model.reason import Reason

STEP_SECONDS = 10
BEGIN = 10_000
GPU = "example.com/gpu"


class Member(NamedTuple):
    pod: Pod
    group: str
    slot: Slot


def amounts(*, cpu: float = 0, memory: float = 0, gpu: int | None = None, **others: int) -> ResourceVector:
    """Cores, Gi, and whole units of all else; what is 0 is not mentioned, but for gpu=0."""
    found = {"cpu": int(cpu * 1000), "memory": int(memory * (1 << 30)), **others}
    found = {name: units for name, units in found.items() if units}
    if gpu is not None:
        found[GPU] = gpu
    return ResourceVector.of(found)


def cpu(flavor: str = "*", **cores: int) -> Quota:
    """`cpu(capability=4, deserved=2)`, in cores."""
    return Quota("cpu", flavor, **{name: number * 1000 for name, number in cores.items()})


class Cluster:
    def __init__(self, names: str = "", *, policy: Policy = DEFAULT, leave_after: int = 1, **resources: Any) -> None:
        """`names` are those of nodes that are alike. Evicted pods are gone so many steps later."""
        self.world = World()
        self.policy = policy
        self.now = BEGIN
        self.leave_after = leave_after
        self.plans: list[Plan] = []
        self.facts = Facts(accounts=(Queue("q"),))
        self.starts_pods = True
        """Whether pods that are bound begin to run."""
        self.comes_out: dict[str, dict[str, Any]] = {}
        """Group -> in what its pods differ from what was predicted."""
        self.pods: dict[str, Member] = {}
        self.groups: dict[str, PodGroup] = {}
        self.status: dict[str, GroupStatus] = {}
        self._predicted: dict[str, tuple[Predicted, ...]] = {}
        self._made: set[str] = set()
        self._gone_at: dict[str, int] = {}
        self._memo = Memo()
        self._serial = self._created = 0
        self.world.set_facts(self.facts)
        self.nodes(names, **resources)

    # -- what there is

    def nodes(
        self,
        names: str,
        *,
        cpu: float = 4,
        memory: float = 64,
        pods: int = 110,
        gpu: int | None = None,
        labels: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Cluster:
        for name in names.split():
            own = {"kubernetes.io/hostname": name, **(labels or {})}
            allocatable = amounts(cpu=cpu, memory=memory, pods=pods, gpu=gpu)
            self.world.set_node(Node(name, labels=own, allocatable=allocatable, **{"ready": True, **fields}))
        return self

    def know(self, *accounts: Account | Queue, **facts: Any) -> Cluster:
        """Replaces these of the facts. Accounts replace all that there were."""
        if accounts:
            facts["accounts"] = accounts
        self.facts = msgspec.structs.replace(self.facts, **facts)
        self.world.set_facts(self.facts)
        return self

    def domain(self, name: str, nodes: str = "", inside: str | None = None, tier: int = 1, **fields: Any) -> Cluster:
        """A rack with these nodes, or whatever the tier says, inside a wider one."""
        domains = [it for it in self.facts.domains if it.name != name]
        return self.know(domains=(*domains, Domain(name, tier, inside, tuple(nodes.split()), **fields)))

    def gang(
        self,
        name: str,
        count: int = 1,
        *,
        minimum: int | None = None,
        queue: str = "q",
        members: SubGroup | None = None,
        predicted: bool = False,
        status: GroupStatus = NO_STATUS,
        group: Mapping[str, Any] | None = None,
        **pods: Any,
    ) -> Cluster:
        """A group of so many pods, all of which it must start with, unless `minimum` or `members` say otherwise.

        Each is a second younger than the one before. With `predicted`, its pods are made only once it is admitted. For
        `pods` see `more`.
        """
        own = SubGroup(min_count=count if minimum is None else minimum) if members is None else members
        self._created = max(self._created + 1, self.now - 100)
        fields = {"created_at_seconds": self._created, **(group or {})}
        made = PodGroup("default", name, queue, uid=f"uid-{name}", members=own, **fields)
        self.groups[made.key], self.status[made.key] = made, status
        if predicted:
            slots = _slots(count, pods.pop("parts", ""), pods.pop("tasks", ""))
            pattern = _pod(name, "", made, self.now, **pods)
            known = self._predicted.get(made.key, ())
            new = tuple(Predicted(slot, pattern, slots.count(slot)) for slot in dict.fromkeys(slots))
            self._predicted[made.key] = (*known, *new)
        self._put_group(made.key)
        return self if predicted else self.more(name, count, **pods)

    def more(self, name: str, count: int = 1, *, on: str = "", parts: str = "", tasks: str = "", **pod: Any) -> Cluster:
        """Further pods of a group. `on` names the nodes of the first of them; `parts` and `tasks` those of each."""
        group = self.groups[f"default/{name}"]
        already = sum(it.group == group.key for it in self.pods.values())
        nodes = on.split()
        for number, slot in enumerate(_slots(count, parts, tasks)):
            node = nodes[number] if number < len(nodes) else ""
            made = _pod(f"{name}-{already + number}", node, group, self.now, **pod)
            self.put(Member(made, group.key, slot))
        return self

    def pod(self, name: str, *, on: str = "", **fields: Any) -> Cluster:
        """A pod without a group."""
        lone = PodGroup("default", name, "", created_at_seconds=self.now)
        self.put(Member(_pod(name, on, lone, self.now, **{"owner": "", **fields}), "", Slot("", "")))
        return self

    def stranger(self, name: str, *, on: str = "", nominated: str = "", **fields: Any) -> Cluster:
        """A pod of another scheduler."""
        lone = PodGroup("default", name, "")
        made = _pod(name, on, lone, self.now, **{"nominated_node": nominated, **fields})
        self.world.set_pod(made, ours=False)
        return self

    def change(self, name: str, **fields: Any) -> Cluster:
        """Changes fields of a group."""
        key = f"default/{name}"
        self.groups[key] = msgspec.structs.replace(self.groups[key], **fields)
        self._put_group(key)
        return self

    def set_status(self, name: str, **fields: Any) -> Cluster:
        """Of a group, or of pods that stand for themselves."""
        key = f"default/{name}" if "/" not in name else name
        self.status[key] = msgspec.structs.replace(self.status.get(key, NO_STATUS), **fields)
        if key in self.groups:
            self._put_group(key)
        else:
            for member in [it for it in self.pods.values() if _key_of(it) == key]:
                self.put(member)
        return self

    def put(self, member: Member) -> None:
        self.pods[member.pod.uid] = member
        status = self.status.get(_key_of(member), NO_STATUS)
        self.world.set_pod(member.pod, group=member.group, slot=member.slot, status=status)

    def alter(self, name: str, **fields: Any) -> Cluster:
        """Changes fields of a pod."""
        uid = next(uid for uid, it in self.pods.items() if it.pod.name == name)
        member = self.pods[uid]
        self.put(member._replace(pod=msgspec.structs.replace(member.pod, **fields)))
        return self

    def lose(self, *names: str) -> Cluster:
        """These pods are gone; those that have an owner are made anew."""
        for uid in [uid for uid, it in self.pods.items() if it.pod.name in names]:
            self._remove(uid)
        return self

    def finish(self, name: str, phase: PodPhase = PodPhase.SUCCEEDED) -> Cluster:
        """The pods of a group end."""
        for uid, it in list(self.pods.items()):
            if it.group == f"default/{name}" and it.pod.node_name:
                self.put(self.pods[uid]._replace(pod=msgspec.structs.replace(it.pod, phase=phase)))
        return self

    # -- what happens

    def decide(self) -> Plan:
        """The plan of this moment; nothing of it happens."""
        snapshot = self.world.snapshot()
        plan, self._memo = cycle(snapshot, self.policy, self._memo, self.now)
        assert plan == cycle(snapshot, self.policy, Memo(), self.now)[0], "a memo changed the plan"
        if _has_plain_tiers(snapshot) and _has_plain_accounts(snapshot):
            assert violations(snapshot, plan) == []
        return plan

    def step(self) -> Plan:
        """One cycle, and what follows from it."""
        plan = self.decide()
        self.plans.append(plan)
        for start in plan.starts:
            for bind in start.binds:
                if bind.uid:
                    self.world.assume_bound(bind.uid, bind.node, self.now)
        for evict in plan.evictions:
            self.world.assume_evicted(evict.uid)
        self.world.snapshot()
        self._bind(plan)
        self._evict(plan)
        self._write(plan)
        self.now += STEP_SECONDS
        for uid in [uid for uid, at in self._gone_at.items() if at <= self.now]:
            self._remove(uid)
        return plan

    def run(self, steps: int) -> Cluster:
        for _ in range(steps):
            self.step()
        return self

    def settle(self, most: int = 20, *, quiet: bool = True) -> Cluster:
        """Until nothing happens any more, and five cycles beyond; `quiet`: nobody is told anything new in these."""
        for _ in range(most):
            nobody_leaves = not self._gone_at
            if not _acts(self.step()) and nobody_leaves:
                break
        else:
            raise AssertionError(f"something happened in each of {most} cycles: {self.plans[-1]}")
        for _ in range(5):
            plan = self.step()
            assert not _acts(plan), f"something happened after all was done: {plan}"
            news = [wait for wait in plan.waits if wait.say]
            assert not quiet or not news, f"told again: {news}"
        return self

    # -- what came of it

    @property
    def plan(self) -> Plan:
        """The last one that was carried out."""
        return self.plans[-1]

    def entry(self, name: str) -> GroupEntry:
        return self.world.snapshot().groups[f"default/{name}"]

    def members(self, name: str) -> list[Pod]:
        return [it.pod for it in self.pods.values() if it.group == f"default/{name}"]

    def where(self, name: str) -> list[str]:
        """The nodes of its members that hold room, sorted."""
        return sorted(pod.node_name for pod in self.members(name) if pod.holds_resources and not pod.deleting)

    def running(self, name: str) -> int:
        return len(self.where(name))

    def wait(self, name: str) -> Wait:
        """What the last plan says to a group, or to a pod that is its own group ("pod:name")."""
        return wait_of(self.plans[-1], name)

    def why(self, name: str) -> str:
        return str(self.wait(name).explanation)

    def reason(self, name: str) -> Reason:
        return self.wait(name).explanation.reason

    @property
    def waiting(self) -> list[str]:
        return [wait.group.partition("/")[2] for wait in self.plans[-1].waits]

    @property
    def evicted(self) -> list[str]:
        """All pods that were ever evicted, in order."""
        return [evict.pod.partition("/")[2] for plan in self.plans for evict in plan.evictions]

    @property
    def set_aside(self) -> dict[str, str]:
        """What the last plan could not use: "Kind name" -> why."""
        return {f"{it.kind} {it.name}": str(it.why) for it in self.plans[-1].set_aside}

    # -- carrying out

    def _bind(self, plan: Plan) -> None:
        for start in plan.starts:
            if start.is_admission:
                self.set_status(start.group, admitted_at_seconds=self.now)
                self._make_predicted(start.group)
                continue
            for bind in start.binds:
                it = self.pods[bind.uid]
                assert not it.pod.node_name, f"{bind.pod} is bound twice"
                running: dict[str, Any] = (
                    {"phase": PodPhase.RUNNING, "started_at_seconds": self.now} if self.starts_pods else {}
                )
                bound = {"node_name": bind.node, "bound_at_seconds": self.now, **running}
                self.put(it._replace(pod=msgspec.structs.replace(it.pod, **bound)))
            if self.status.get(start.group, NO_STATUS).started_at_seconds is None:
                fresh = {"started_at_seconds": self.now, "preempting_since_seconds": None, "nominated_nodes": ()}
                self.set_status(start.group, **fresh)

    def _make_predicted(self, key: str) -> None:
        name = key.partition("/")[2]
        if key in self._made:
            return
        self._made.add(key)
        for expected in self._predicted[key]:
            for _ in range(expected.count):
                self._serial += 1
                own = {"name": f"{name}-{self._serial}", "uid": f"uid-{name}-{self._serial}"}
                pod = msgspec.structs.replace(expected.pod, **own, **self.comes_out.get(name, {}))
                self.put(Member(pod, key, expected.slot))

    def _evict(self, plan: Plan) -> None:
        for evict in plan.evictions:
            assert evict.uid not in self._gone_at, f"{evict.pod} is evicted twice"
            it = self.pods[evict.uid]
            self._gone_at[evict.uid] = self.now + (1 + self.leave_after) * STEP_SECONDS
            self.put(it._replace(pod=msgspec.structs.replace(it.pod, deleting=True)))

    def _write(self, plan: Plan) -> None:
        for release in plan.releases:
            fields = {"retry_at_seconds": release.retry_at_seconds, "avoid_nodes": release.avoid_nodes}
            failed = self.status.get(release.group, NO_STATUS).failed_starts + 1
            self.set_status(release.group, failed_starts=failed, **fields)
        for wait in plan.waits:
            if wait.say:
                self.set_status(wait.group, said=Said(wait.explanation, wait.expected_start_seconds))
        for hold in plan.holds:
            if hold.awaits_leaving:
                since = self.status.get(hold.group, NO_STATUS).preempting_since_seconds
                if since is None or any(evict.for_group == hold.group for evict in plan.evictions):
                    since = self.now
                self.set_status(hold.group, preempting_since_seconds=since, nominated_nodes=hold.nodes)

    def _remove(self, uid: str) -> None:
        it = self.pods.pop(uid)
        self._gone_at.pop(uid, None)
        self.world.delete_pod(uid)
        if it.pod.owner and (it.group in self.groups or not it.group):
            self._serial += 1
            waiting = {"node_name": "", "phase": PodPhase.PENDING, "deleting": False, "created_at_seconds": self.now}
            unstarted = {"started_at_seconds": None, "bound_at_seconds": None}
            again = msgspec.structs.replace(it.pod, uid=f"{it.pod.uid}~{self._serial}", **waiting, **unstarted)
            self.put(it._replace(pod=again))

    def _put_group(self, key: str) -> None:
        self.world.set_group(self.groups[key], self.status[key], self._predicted.get(key, ()))


def _key_of(member: Member) -> str:
    """The group that the pod belongs to, or is."""
    return member.group or f"{member.pod.namespace}/pod:{member.pod.name}"


def wait_of(plan: Plan, name: str) -> Wait:
    found = next((wait for wait in plan.waits if wait.group == f"default/{name}"), None)
    assert found is not None, f"{name} is told nothing; told are {[wait.group for wait in plan.waits]}"
    return found


def nodes_of(plan: Plan, name: str) -> list[str]:
    """Where a plan puts the members of a group."""
    return sorted(bind.node for start in plan.starts if start.group == f"default/{name}" for bind in start.binds)


def started(plan: Plan) -> list[str]:
    """The groups that a plan starts, in its order."""
    return list(dict.fromkeys(start.group.partition("/")[2] for start in plan.starts))


def _pod(
    name: str,
    node: str,
    group: PodGroup,
    now: int,
    *,
    cpu: float = 1,
    memory: float = 0,
    gpu: int | None = None,
    others: Mapping[str, int] | None = None,
    **fields: Any,
) -> Pod:
    phase = PodPhase.RUNNING if node else PodPhase.PENDING
    given: dict[str, Any] = {
        "uid": f"uid-{name}",
        "node_name": node,
        "phase": phase,
        "priority": group.priority,
        "requests": amounts(cpu=cpu, memory=memory, gpu=gpu, **(others or {})),
        "created_at_seconds": now,
        "started_at_seconds": now if node and fields.get("phase", phase) is PodPhase.RUNNING else None,
        "owner": "Job/it",
    }
    return Pod("default", name, **{**given, **fields})


def _slots(count: int, parts: str, tasks: str) -> Sequence[Slot]:
    """One for each of so many pods; where fewer are named, the last name goes on."""
    names = [(text.split() or [""]) for text in (parts, tasks)]
    part_of, task_of = (found + found[-1:] * count for found in names)
    return [Slot(part_of[number], task_of[number]) for number in range(count)]


def _acts(plan: Plan) -> bool:
    return bool(plan.starts or plan.evictions or plan.releases)


def _has_plain_accounts(snapshot: Snapshot) -> bool:
    """It reads quotas without flavors, in trees that are sound."""
    accounts = snapshot.facts.accounts
    if any(quota.flavor != ANY_FLAVOR for account in accounts for quota in account.quotas):
        return False
    try:
        AccountForest.build(accounts)
    except TreeError:
        return False
    return True


def _has_plain_tiers(snapshot: Snapshot) -> bool:
    """The checker of laws reads tiers by number, in one tree."""
    return all(
        part.topology is None
        or part.topology.mode is TopologyMode.SOFT
        or (part.topology.highest_tier is not None and part.topology.tree is None)
        for entry in snapshot.groups.values()
        for part in entry.group.members.walk()
    )
