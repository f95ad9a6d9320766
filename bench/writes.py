"""Create and update of pods through the in-process port, against the real kube-apiserver at its best.

Both sides get the same bytes, with strict field validation, and both are shown to refuse an invalid pod first. Ours is
one thread and its clock includes the housekeeping that follows from the writes; the real server has all the cores.
Never make the real side slower than it can be: connections are searched for, and its client runs with the tuned GC.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from allhands.api.errors import StatusError
from allhands.compose.machine import RandomIds, SystemClock
from allhands.kube.objects import path_to
from allhands.ports import WriteOptions
from allhands.store import InProcessObjects, Store
from bench import collector
from bench.collector import collecting
from bench.figures import Figure, Goal, Report, command_line
from bench.pods import JOBS, NAMESPACES, PODS, Size, Variety, bodies, job
from bench.real import RealServer, Request, Run
from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS = (8, 16, 32, 64, 128)
GOAL = Goal("at least", 10)
NAMESPACE = "default"
BOUND_MEANING = (
    "÷ bound: by processor time, which other load hardly touches: our one thread, GC tuned, against a kube-apiserver "
    "whose client costs nothing and which keeps every core busy"
)
_STRICT = WriteOptions(field_validation="Strict")
_QUERY = "?fieldValidation=Strict"
_CASES: tuple[tuple[Size, Variety], ...] = tuple(itertools.product(get_args(Size), get_args(Variety)))

Verb = Literal["create", "update label", "update image"]
VERBS: tuple[Verb, ...] = get_args(Verb)


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int
    ours: int
    """Pods per measurement on our side, more than on the other so that a measurement is not over at once."""
    real: int
    search: int


FULL = Plan(rounds=5, ours=3_000, real=500, search=400)
QUICK = Plan(rounds=3, ours=1_500, real=200, search=150)


def report(*, quick: bool) -> Report:
    plan = QUICK if quick else FULL
    with ControlPlane() as plane:
        measured, best, searched = _run(_measure(plane, plan))
    sizes = {size: len(bodies(size, "different", 1, _some_owner())[0]) for size in get_args(Size)}
    found = ", ".join(f"{connections}: {rate:.0f}/s" for connections, rate in searched.items())
    return Report(
        name="writes",
        title="pods per second, in-process port ÷ real kube-apiserver over HTTPS",
        command=command_line("writes", quick=quick),
        settings=(
            f"pods: large {sizes['large']} bytes of JSON as sent, small {sizes['small']}; both sides validate strictly",
            "equal = the specs of one gang; ranked = an environment value differs in each; different = the image does",
            f"{plan.rounds} interleaved rounds; per round {plan.ours} pods on our side, {plan.real} on the other",
            collector.described() + "; the real server's client always has it tuned",
            f"kube-apiserver: {best} connections were best of ({found}); etcd without fsync",
            "update label: read, change a label, write with resourceVersion; update image: the spec changes",
            BOUND_MEANING,
        ),
        figures=tuple(measured),
    )


def _run(main: Any) -> Any:
    """On uvloop where it is installed: the real server's client is faster on it."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def _some_owner() -> dict[str, Any]:
    return {"metadata": {"name": "training", "uid": "00000000-0000-4000-8000-000000000000"}}


async def _measure(plane: ControlPlane, plan: Plan) -> tuple[list[Figure], int, dict[int, float]]:
    await _check_validation(plane)
    searched = {connections: await _search(plane, connections, plan.search) for connections in CONNECTIONS}
    best = max(searched, key=lambda connections: searched[connections])
    results = _Results()
    for number in range(plan.rounds):
        for case in _CASES:
            for setting in collector.SETTINGS:
                for verb, pace in (await _ours(case, plan.ours, setting)).items():
                    results.add(f"ours {setting}", case, verb, pace.rate)
                    results.add(f"ours {setting}, CPU", case, verb, pace.cpu_rate)
            for verb, run in (await _real(plane, best, case, plan.real, f"round-{number}-{'-'.join(case)}")).items():
                results.add("real", case, verb, run.rate)
                results.add("bound", case, verb, run.server_bound)
    return results.figures(), best, searched


class _Results:
    """Rates by side, case and verb, one per round."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, tuple[Size, Variety], Verb], list[float]] = {}

    def add(self, side: str, case: tuple[Size, Variety], verb: Verb, rate: float) -> None:
        self._rates.setdefault((side, case, verb), []).append(rate)

    def _ratio(self, side: str, other: str, case: tuple[Size, Variety], verb: Verb) -> tuple[float, ...]:
        ours, theirs = self._rates[side, case, verb], self._rates[other, case, verb]
        return tuple(one / two for one, two in zip(ours, theirs, strict=True))

    def figures(self) -> list[Figure]:
        found: list[Figure] = []
        for verb, case in itertools.product(VERBS, _CASES):
            name = f"{verb}, {case[0]}, {case[1]}"
            for setting in collector.SETTINGS:
                ratio = self._ratio(f"ours {setting}", "real", case, verb)
                found.append(Figure(name=f"{name}, GC {setting}", unit="×", rounds=ratio, goal=GOAL))
            bound = self._ratio("ours tuned, CPU", "bound", case, verb)
            found.append(Figure(name=f"{name} ÷ bound", unit="×", rounds=bound))
        for verb, case in itertools.product(VERBS, _CASES):
            for side in ("ours tuned", "real"):
                rates = tuple(self._rates[side, case, verb])
                found.append(Figure(name=f"{side}: {verb}, {case[0]}, {case[1]}", unit="/s", rounds=rates))
        return found


async def _check_validation(plane: ControlPlane) -> None:
    """Both sides refuse a pod whose quantity is wrong: nobody is fast by not looking."""
    wrong = msgspec.json.decode(bodies("large", "equal", 1)[0])
    wrong["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-1"
    body = msgspec.json.encode(wrong)
    try:
        await InProcessObjects(Store(SystemClock(), RandomIds())).create(PODS, body, NAMESPACE, _STRICT)
    except StatusError as error:
        code = error.code
    else:
        code = 201
    async with RealServer(plane, 1) as server:
        status, _ = await server.send(Request("POST", path_to(PODS, NAMESPACE) + _QUERY, body))
    if (code, status) != (422, 422):
        raise RuntimeError(f"an invalid pod must be refused with 422; ours said {code}, the real server {status}")


async def _search(plane: ControlPlane, connections: int, count: int) -> float:
    runs = await _real(plane, connections, ("large", "different"), count, f"search-{connections}", ("create",))
    return runs["create"].rate


class Pace(msgspec.Struct, frozen=True):
    """Writes per second, of the clock and of the processor."""

    rate: float
    cpu_rate: float


class _Stopwatch:
    """Started when it is made."""

    def __init__(self) -> None:
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    def pace(self, count: int) -> Pace:
        return Pace(count / (time.perf_counter() - self._clock), count / (time.process_time() - self._cpu))


async def _ours(case: tuple[Size, Variety], count: int, setting: collector.Setting) -> dict[Verb, Pace]:
    """A fresh store, so that no round inherits the heap of another."""
    store = Store(SystemClock(), RandomIds())
    objects = InProcessObjects(store)
    owner = (await objects.create(JOBS, job("training"), NAMESPACE)).manifest()
    new = bodies(*case, count, owner)
    paces: dict[Verb, Pace] = {}
    with collecting(setting):
        watch = _Stopwatch()
        stored = [(await objects.create(PODS, body, NAMESPACE, _STRICT)).raw for body in new]
        store.housekeeper.run_pending()
        paces["create"] = watch.pace(count)
    for verb in VERBS[1:]:
        changed = [_changed(verb, raw) for raw in stored]
        with collecting(setting):
            watch = _Stopwatch()
            stored = [(await objects.update(PODS, name, body, NAMESPACE, _STRICT)).raw for name, body in changed]
            store.housekeeper.run_pending()
            paces[verb] = watch.pace(count)
    if store.version < 3 * count:
        raise RuntimeError("our store did not take every write")
    return paces


async def _real(
    plane: ControlPlane,
    connections: int,
    case: tuple[Size, Variety],
    count: int,
    namespace: str,
    verbs: Sequence[Verb] = VERBS,
) -> dict[Verb, Run]:
    """A namespace of its own, emptied afterwards, so that no round inherits the objects of another."""
    runs: dict[Verb, Run] = {}
    async with RealServer(plane, connections) as server:
        await server.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        owner = await server.create(JOBS, job("training"), namespace)
        path = path_to(PODS, namespace) + _QUERY
        requests = [Request("POST", path, body) for body in bodies(*case, count, owner)]
        for verb in verbs:
            if verb != "create":
                changed = [_changed(verb, raw) for raw in runs[VERBS[VERBS.index(verb) - 1]].answers]
                requests = [Request("PUT", path_to(PODS, namespace, name) + _QUERY, body) for name, body in changed]
            with collecting("tuned"):
                runs[verb] = await server.run(requests)
        status, raw = await server.send(Request("DELETE", path_to(PODS, namespace), b""))
        if status >= 400:
            raise RuntimeError(f"the real API server refused to clean up: {raw.decode()}")
    return runs


def _changed(verb: Verb, raw: bytes) -> tuple[str, bytes]:
    """The name of a stored pod and the body of its update: what a client that read it would send back."""
    pod = msgspec.json.decode(raw)
    pod["metadata"].pop("managedFields", None)  # the real server keeps its own; sending less is in its favour
    if verb == "update label":
        pod["metadata"]["labels"]["example.com/phase"] = "started"
    else:
        pod["spec"]["containers"][0]["image"] = "registry.example/training:1.4.3"
    return pod["metadata"]["name"], msgspec.json.encode(pod)
