"""The best possible plans for a small instance, by constraint programming: exact, slow, sharing no code with the core.

What a plan may do is stated once (`_Placement`): nodes hold what they have, a gang is whole or absent, a hard rule
keeps it in one domain. Each question then adds its own aim. One worker, a fixed seed: the same answer every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ortools.sat.python import cp_model

from allhands.model.podgroup import TopologyMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.instances import Gang, Instance

Counts = tuple[int, ...]
"""How many pods of each kind of a gang."""


class Fewest(NamedTuple):
    """How few pods must go for a gang to start, and how few if surplus is taken before any gang is ended."""

    pods: int
    pods_surplus_first: int


class _Placement:
    """Gangs on nodes: the variables and the laws, without an aim."""

    def __init__(self, instance: Instance, gangs: Sequence[Gang]) -> None:
        self.instance = instance
        self.gangs = gangs
        self.model = cp_model.CpModel()
        self.starts = [self.model.new_bool_var(gang.name) for gang in gangs]
        self.pods = [
            [[self.model.new_int_var(0, kind.number, "") for _ in instance.nodes] for kind in gang.kinds]
            for gang in gangs
        ]
        for number, gang in enumerate(gangs):
            self._whole_or_absent(number, gang)
            if gang.mode is TopologyMode.HARD:
                self._in_one_domain(number, gang)

    def within_nodes(self, staying: Sequence[Sequence[list[cp_model.LinearExpr]]] | None = None) -> None:
        """No node gets more than it has. `staying` is what others keep: for each node and resource, its terms."""
        for node, amounts in enumerate(self.instance.nodes):
            for resource, amount in enumerate(amounts):
                asked = sum(
                    kind.request[resource] * self.pods[number][index][node]
                    for number, gang in enumerate(self.gangs)
                    for index, kind in enumerate(gang.kinds)
                )
                kept = [] if staying is None else staying[node][resource]
                self.model.add(asked + sum(kept) <= amount)

    def placed(self, number: int) -> cp_model.LinearExprT:
        return sum(sum(on_nodes) for on_nodes in self.pods[number])

    def solved(self) -> cp_model.CpSolver | None:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        # Without all of the linear relaxation, a gang that nearly fits takes minutes to rule out.
        solver.parameters.linearization_level = 2
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return None
        assert status == cp_model.OPTIMAL, solver.status_name(status)
        return solver

    def _whole_or_absent(self, number: int, gang: Gang) -> None:
        starts = self.starts[number]
        if len(gang.kinds) > 1:
            for kind, on_nodes in zip(gang.kinds, self.pods[number], strict=True):
                self.model.add(sum(on_nodes) == kind.number * starts)
        else:
            self.model.add(self.placed(number) >= gang.minimum * starts)
            self.model.add(self.placed(number) <= gang.size * starts)

    def _in_one_domain(self, number: int, gang: Gang) -> None:
        domains = self.domains(gang.tier)
        chosen = [self.model.new_bool_var("") for _ in domains]
        self.model.add(sum(chosen) == self.starts[number])
        for nodes, is_chosen in zip(domains, chosen, strict=True):
            for kind, on_nodes in zip(gang.kinds, self.pods[number], strict=True):
                for node in nodes:
                    self.model.add(on_nodes[node] <= kind.number * is_chosen)

    def domains(self, tier: int) -> list[list[int]]:
        """The nodes of each domain of a tier."""
        instance = self.instance
        found: dict[int, list[int]] = {}
        for node, rack in enumerate(instance.rack):
            found.setdefault(rack if tier == 1 else instance.block_of(node), []).append(node)
        return list(found.values())


def most_gangs(instance: Instance) -> int:
    """How many gangs can start together, in any order."""
    placement = _Placement(instance, instance.gangs)
    placement.within_nodes()
    placement.model.maximize(sum(placement.starts))
    return _value(placement)


def most_pods(instance: Instance) -> int:
    """How many pods can be placed together."""
    placement = _Placement(instance, instance.gangs)
    placement.within_nodes()
    placement.model.maximize(sum(placement.placed(number) for number in range(len(instance.gangs))))
    return _value(placement)


def first_come(instance: Instance) -> tuple[bool, ...]:
    """Who can start if nobody may take the room of an earlier one: the first, then the second if it still can, ..."""
    placement = _Placement(instance, instance.gangs)
    placement.within_nodes()
    last = len(instance.gangs) - 1
    placement.model.maximize(sum(starts * 2 ** (last - at) for at, starts in enumerate(placement.starts)))
    solver = placement.solved()
    assert solver is not None
    return tuple(solver.boolean_value(starts) for starts in placement.starts)


def fewest_crossed(instance: Instance, placed: Mapping[str, Counts]) -> int:
    """With so many pods of each kind placed of these gangs: how few domains those with a soft rule can be spread over.

    Counted as `core.topology.distance.domains_crossed` does: 0 in one rack, else its racks, and its blocks if several.
    """
    gangs = [gang for gang in instance.gangs if gang.name in placed]
    placement = _Placement(instance, gangs)
    placement.within_nodes()
    model, crossed = placement.model, []
    for number, gang in enumerate(gangs):
        for count, on_nodes in zip(placed[gang.name], placement.pods[number], strict=True):
            model.add(sum(on_nodes) == count)
        if gang.mode is not TopologyMode.SOFT:
            continue
        tiers = (1, 2) if instance.block else (1,)
        crossed += [_touched(placement, number, placement.domains(tier)) for tier in tiers]
    model.minimize(sum(crossed))
    return _value(placement)


def _touched(placement: _Placement, number: int, domains: list[list[int]]) -> cp_model.IntVar:
    """How many of these domains a gang touches; 0 if it is one."""
    model = placement.model
    touches = [model.new_bool_var("") for _ in domains]
    several, count = model.new_bool_var(""), model.new_int_var(0, len(domains), "")
    for nodes, is_touched in zip(domains, touches, strict=True):
        for kind, on_nodes in zip(placement.gangs[number].kinds, placement.pods[number], strict=True):
            for node in nodes:
                model.add(on_nodes[node] <= kind.number * is_touched)
    model.add(sum(touches) <= 1 + len(domains) * several)
    model.add(count >= sum(touches) - len(domains) * (1 - several))
    return count


def fewest_victims(instance: Instance) -> Fewest | None:
    """For the one gang that waits: how few pods must go so that it starts; None if it cannot.

    A gang that loses pods keeps its minimum or ends.
    """
    running = [gang for gang in instance.gangs if gang.on]
    waiting = [gang for gang in instance.gangs if not gang.on]
    placement = _Placement(instance, waiting)
    model = placement.model
    staying: list[list[list[cp_model.LinearExpr]]] = [[[] for _ in amounts] for amounts in instance.nodes]
    gone, ends = [], []
    for gang in running:
        requests = [kind.request for kind in gang.kinds for _ in range(kind.number)]
        goes = [model.new_bool_var("") for _ in requests]
        end = model.new_bool_var("")
        model.add(sum(goes) <= gang.size - gang.minimum + gang.minimum * end)
        model.add(sum(goes) >= gang.size * end)
        for request, node, it_goes in zip(requests, gang.on, goes, strict=True):
            for resource, units in enumerate(request):
                staying[node][resource].append(units * (1 - it_goes))
        gone += goes
        ends.append(end)
    placement.within_nodes(staying)
    for starts in placement.starts:
        model.add(starts == 1)
    model.minimize(sum(gone))
    solver = placement.solved()
    if solver is None:
        return None
    pods = round(solver.objective_value)
    model.minimize(sum(gone) + len(gone) * max(len(gone), 1) * _any(model, ends))
    ordered = placement.solved()
    assert ordered is not None
    return Fewest(pods, sum(ordered.boolean_value(goes) for goes in gone))


def _any(model: cp_model.CpModel, choices: Sequence[cp_model.IntVar]) -> cp_model.IntVar:
    found = model.new_bool_var("")
    for choice in choices:
        model.add_implication(choice, found)
    return found


def _value(placement: _Placement) -> int:
    solver = placement.solved()
    assert solver is not None
    return round(solver.objective_value)
