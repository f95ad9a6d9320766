"""The whole scheduler before the real kube-scheduler as judge: what it has bound, and what it has left waiting.

`allhands scheduler` runs beside the judge's control plane and places the pods of a random case. Once it has come to
rest, equal pods of the judge's own scheduler show whether any that waits could have been placed; then all that was
bound is taken away and put back pod by pod, each only where the real scheduler would have allowed it then.

`python -m tests.judge.whole FIRST [COUNT]` examines cases by seed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.measure.processes import wait_until
from tests.judge import beacons
from tests.judge.clusters import Case, random_case
from tests.judge.kube_scheduler import PATHS, PATIENCE_SECONDS, Judge, Verdict, _refusal
from tests.judge.landscape import NAMESPACES
from tests.judge.volumes import BOUND, WAIT
from tests.scheduler_process import SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Manifest = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a pod."""

OURS = "allhands"
THEIRS = "default-scheduler"
MOST_SORTS = 14
MOST_EQUAL = 4
VERDICT_SECONDS = 0.3
"""A pod without a verdict until then fits nowhere, as a rule: then the scheduler says so on it."""
MOST_ORDERS = 24
CALM_LOOKS = 4
REST_SECONDS = 60.0
"""How long our scheduler may take to place what fits."""
LONG_SECONDS = 3600
OPTIONS = ("--no-leader-elect", "--log-level=warning")


class Finding(msgspec.Struct, frozen=True):
    """Something that must not be: a pod of a case, and what is wrong about it."""

    seed: int
    pod: str
    theme: str
    problem: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.pod} ({self.theme}): {self.problem}"


class Examined(msgspec.Struct, frozen=True):
    """What became of a case."""

    seed: int
    bound: int
    waiting: int
    findings: list[Finding]


def whole_case(seed: int) -> Case:
    """The random case of this seed, with some of its pods several times, and without those that a volume controller
    would have to help: none runs here. Nor does a kubelet: nobody is there who is being deleted and never ends, since
    room would be held for whoever waits for that."""
    case, chance = random_case(seed), random.Random(f"whole {seed}")
    for pod in case.world.get("Pod", ()):
        pod["metadata"].pop("deletionTimestamp", None)
    late = _late_claims(case.world)
    usable = [number for number, pod in enumerate(case.pods) if not _claims(pod) & late]
    pods, themes = [], []
    for number in sorted(chance.sample(usable, min(MOST_SORTS, len(usable)))):
        for twin in range(chance.choice((1, 1, 2, MOST_EQUAL))):
            pods.append(renamed(case.pods[number], f"{case.pods[number]['metadata']['name']}-{twin}", OURS))
            themes.append(case.themes[number])
    return Case(seed, case.world, pods, themes)


def renamed(pod: Manifest, name: str, scheduler: str) -> Manifest:
    """An equal pod of this scheduler."""
    return {**pod, "metadata": {**pod["metadata"], "name": name}, "spec": {**pod["spec"], "schedulerName": scheduler}}


def _late_claims(world: dict[str, list[Manifest]]) -> set[Key]:
    """Claims that are bound only once a node is chosen."""
    waiting = {it["metadata"]["name"] for it in world.get("StorageClass", ()) if it.get("volumeBindingMode") == WAIT}
    return {
        (claim["metadata"]["namespace"], claim["metadata"]["name"])
        for claim in world.get("PersistentVolumeClaim", ())
        if claim["spec"].get("storageClassName") in waiting
        and BOUND not in (claim["metadata"].get("annotations") or {})
    }


def _claims(pod: Manifest) -> set[Key]:
    volumes = [it["persistentVolumeClaim"] for it in pod["spec"].get("volumes", ()) if "persistentVolumeClaim" in it]
    return {(pod["metadata"]["namespace"], it["claimName"]) for it in volumes}


class WholeJudge(Judge):
    """`with WholeJudge() as judge, judge.ours(folder): judge.examine(whole_case(1))`."""

    def __init__(self) -> None:
        self._copies = 0
        self._placed: list[Manifest] = []
        """Copies that were bound in the place of ours."""
        self._postponed: set[Key] = set()
        """Those that did not fit when their turn came."""
        self._ended: dict[Key, Manifest] = {}
        """Pods of ours that were evicted, and that we have ended as a kubelet would."""

    def ours(self, folder: Path) -> SchedulerProcess:
        """Our scheduler as a process, for all cases that follow."""
        self._call("POST", PATHS["Namespace"], {"metadata": {"name": "allhands-system"}})
        return SchedulerProcess(folder, self.plane.kubeconfig, *OPTIONS)

    def examine(self, case: Case, meddle: Callable[[], None] = lambda: None) -> Examined:
        """Lets our scheduler place the pods of the case; leaves nothing of it behind. `meddle` is called before it is
        looked at what was bound."""
        self._judgements += 1
        self._ended = {}
        by_name = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in case.pods}
        themes = dict(zip(by_name, case.themes, strict=True))
        try:
            nodes = [self._create_with_beacons(kind, case) for kind in PATHS if kind != "Pod"][-1]
            self._wait_for_the_rest(nodes)
            self._wait_for_ours(nodes)
            self._create_present_pods(case.world.get("Pod", ()))
            self._create_all("Pod", case.pods)
            left = self._left_though_they_fit(by_name)
            meddle()
            found = [*self._ended.values(), *self._ours()]
            bound = sorted((pod for pod in found if "nodeName" in pod["spec"]), key=_version)
            broken = self._not_allowed(bound, by_name)
        finally:
            self._clear(case)
        findings = [Finding(case.seed, "/".join(key), themes[key], problem) for key, problem in [*left, *broken]]
        return Examined(case.seed, len(bound), len(found) - len(bound), findings)

    # -- ours

    def _wait_for_ours(self, nodes: list[Manifest]) -> None:
        """Until our scheduler has seen the last volume and claim of the case, and so a node: it binds a pod to it."""
        if not any(node["status"].get("allocatable", {}).get("pods") for node in nodes):
            return
        probe = renamed(beacons.probe(self._judgements, 0), f"probe-of-ours-{self._judgements}", OURS)
        probe["spec"]["volumes"] = [it for it in probe["spec"]["volumes"] if it["name"].endswith("-bound")]
        self._create("Pod", probe)
        wait_until(lambda: any("nodeName" in it["spec"] for it in self._ours()), PATIENCE_SECONDS, "our scheduler")
        self._delete(probe)

    def _ours(self) -> list[Manifest]:
        found: list[Manifest] = self._call("GET", f"/api/v1/pods?fieldSelector=spec.schedulerName%3D{OURS}", None)[
            "items"
        ]
        return found

    def _wait_for_a_pause(self) -> None:
        """Until nothing was bound for a few looks: asking the judge before is allowed, but for nothing."""
        seen: deque[int] = deque(maxlen=CALM_LOOKS)

        def calm() -> bool:
            seen.append(sum("nodeName" in pod["spec"] for pod in self._ours()))
            return len(seen) == CALM_LOOKS and len(set(seen)) == 1

        wait_until(calm, PATIENCE_SECONDS, "a pause of our scheduler")

    def _left_though_they_fit(self, by_name: dict[Key, Manifest]) -> list[tuple[Key, str]]:
        """Pods that wait although the real scheduler would place them, after enough time to do so."""
        end = time.monotonic() + REST_SECONDS
        while True:
            self._wait_for_a_pause()
            before = {_key(pod): "nodeName" in pod["spec"] for pod in self._ours()}
            waiting = [key for key, is_bound in before.items() if not is_bound]
            verdicts = dict(zip(waiting, self._verdicts_on([by_name[key] for key in waiting]), strict=True))
            found = {_key(pod): pod for pod in self._ours()}
            after = {key: "nodeName" in pod["spec"] for key, pod in found.items()}
            wrong = [
                (key, f"waits, told {_refusal(found[key])!r}, but kube-scheduler would place it on {sorted(it.nodes)}")
                for key, it in verdicts.items()
                if it.nodes
            ]
            if before == after and (not wrong or time.monotonic() > end):
                return wrong
            if wrong:
                self._end_evicted(found.values())

    def _end_evicted(self, pods: Iterable[Manifest]) -> None:
        """Whoever waits for room that they hold, waits for their end, too."""
        for pod in pods:
            if _is_evicted(pod):
                self._ended[_key(pod)] = pod
                self._delete(pod)

    def _take_ours_away(self) -> None:
        for namespace in NAMESPACES:
            path = f"{PATHS['Pod'].format(namespace=namespace)}?fieldSelector=spec.schedulerName%3D{OURS}"
            self._call("DELETE", path, {"gracePeriodSeconds": 0})
        wait_until(lambda: not self._ours(), PATIENCE_SECONDS, "the end of our pods")

    # -- the judge's own pods

    def _verdicts_on(self, pods: Sequence[Manifest]) -> list[Verdict]:
        """Of equal pods, each alone against what is there now."""
        copies = self._create_all("Pod", [self._copy(pod) for pod in pods])
        verdicts = self._verdicts(copies)
        self._delete_each(copies)
        return verdicts

    def _delete_each(self, pods: Sequence[Manifest]) -> None:
        for _ in self._workers.map(self._delete, pods):
            pass

    def _copy(self, pod: Manifest) -> Manifest:
        self._copies += 1
        return renamed(pod, f"{pod['metadata']['name']}-{self._copies}", THEIRS)

    def _delete(self, pod: Manifest) -> None:
        self._call("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    def _not_allowed(self, bound: Sequence[Manifest], by_name: dict[Key, Manifest]) -> list[tuple[Key, str]]:
        """Those that cannot have been placed by the rules, in whatever order; the first that is tried is that of their
        binds.

        Binds that are under way together may arrive in another order than they were decided in. So one that does not
        fit yet is tried again after each that follows; and if some are left over, all that ever did not fit come first
        another time, with those that are equal to them (which of these came last may be what counts), and the others in
        any order. One that fitted only after somebody had left may have come before him: it did not fit, either.
        """
        self._take_ours_away()
        chance = random.Random(len(bound))
        order: list[Manifest] = list(bound)
        problems: dict[Key, str] = {}
        difficult: set[Key] = set()
        for _ in range(MOST_ORDERS):
            problems = self._replayed(order, by_name)
            if not problems:
                break
            self._delete_each(self._placed)
            difficult |= {_sort(key) for key in self._postponed}
            order = sorted(chance.sample(order, len(order)), key=lambda pod: _sort(_key(pod)) not in difficult)
        return list(problems.items())

    def _replayed(self, order: Sequence[Manifest], by_name: dict[Key, Manifest]) -> dict[Key, str]:
        """Puts back one after the other, those that do not fit yet as soon as they do; what is left over, and why.

        Who was evicted meanwhile is evicted here, too, once there is nobody else who fits; and ended if it was.
        """
        problems: dict[Key, str] = {}
        self._placed = []
        self._postponed = set()
        coming = deque(order)
        postponed: list[Manifest] = []
        evicted: list[tuple[Manifest, int]] = []
        while coming or (postponed and evicted):
            if not coming:
                for copy, seconds in evicted:
                    self._call("DELETE", _path(copy), {"gracePeriodSeconds": seconds})
                    if not seconds:
                        self._placed.remove(copy)
                coming, postponed, evicted = deque(postponed), [], []
            pod = coming.popleft()
            problem = self._put_back(by_name[_key(pod)], pod["spec"]["nodeName"])
            if problem:
                problems[_key(pod)] = problem
                self._postponed.add(_key(pod))
                postponed.append(pod)
                continue
            problems.pop(_key(pod), None)
            if _is_evicted(pod):
                evicted.append((self._placed[-1], 0 if _key(pod) in self._ended else LONG_SECONDS))
            coming.extendleft(reversed(postponed))
            postponed = []
        return problems

    def _put_back(self, pod: Manifest, node: str) -> str:
        """Binds an equal pod to the node if the real scheduler finds it feasible now; else says what it finds."""
        copy = self._create("Pod", self._copy(pod))
        nodes = self._extender.wait_for(copy["metadata"]["uid"], VERDICT_SECONDS)
        why = ""
        if nodes is None:
            (verdict,) = self._verdicts([copy])
            nodes, why = verdict.nodes, verdict.why
        if node not in nodes:
            self._delete(copy)
            return f"is bound to {node}, but kube-scheduler would allow {sorted(nodes)}: {why}"
        self.bind(copy, node)
        self._placed.append(copy)
        return ""

    def bind(self, pod: Manifest, node: str) -> None:
        """Whatever schedulers say."""
        target = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node}}
        self._call("POST", f"{_path(pod)}/binding", target)


def _key(pod: Manifest) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _sort(key: Key) -> Key:
    """What equal pods have in common: they differ in the last part of their names."""
    return key[0], key[1].rpartition("-")[0]


def _path(pod: Manifest) -> str:
    return f"{PATHS['Pod'].format(**pod['metadata'])}/{pod['metadata']['name']}"


def _is_evicted(pod: Manifest) -> bool:
    return "nodeName" in pod["spec"] and "deletionTimestamp" in pod["metadata"]


def _version(pod: Manifest) -> tuple[bool, int]:
    """Who was evicted was bound before that."""
    return not _is_evicted(pod), int(pod["metadata"]["resourceVersion"])


def main(first: str, count: str = "1") -> None:
    with tempfile.TemporaryDirectory() as folder, WholeJudge() as judge, judge.ours(Path(folder)) as ours:
        for seed in range(int(first), int(first) + int(count)):
            began = time.monotonic()
            done = judge.examine(whole_case(seed))
            text = f"seed {seed}: {done.bound} bound, {done.waiting} wait, {time.monotonic() - began:.1f} s\n"
            sys.stdout.write(text + "".join(f"  {it}\n" for it in done.findings))
            sys.stdout.flush()
        sys.stdout.write("".join(f"log: {line}\n" for line in ours.lines()))


if __name__ == "__main__":
    main(*sys.argv[1:])
