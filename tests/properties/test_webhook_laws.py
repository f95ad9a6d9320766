"""A real API server that asks the webhooks stores and refuses what the embedded cluster does, in the same words; and a
patch makes of one document the other."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allhands.api.custom import kinds_of
from allhands.api.definitions import DEFINITIONS
from allhands.api.errors import StatusError
from allhands.api.patch.json_difference import json_difference
from allhands.api.patch.json_patch import json_patch
from allhands.api.patch.values import copied, same
from allhands.api.volcano.job import JOB
from allhands.api.volcano.queue import QUEUE
from allhands.compose.admission import WEBHOOKS, errors_of_plugins
from allhands.ports import WriteOptions
from allhands.server.webhooks.judging import Judge
from allhands.server.webhooks.others import KnownObjects
from allhands.server.webhooks.review import question_of
from allhands.store import InProcessObjects, Store
from tests.depth import examples
from tests.doubles import CountingIds, ManualClock
from tests.webhook_cluster import SPACE, job, review

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.server.webhooks.review import Question

DRY = WriteOptions(dry_run=True)
leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 2, width=16) | st.text("a~/0", max_size=3)
names = st.text("ab~/01", max_size=3)
values: st.SearchStrategy[Any] = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
documents = st.dictionaries(names, values, max_size=5)


@settings(max_examples=examples(100))
@given(documents, documents)
def test_the_difference_of_two_documents_makes_one_of_the_other(before: Json, after: Json) -> None:
    text = msgspec.json.encode(before)
    patch = json_difference(before, after)
    assert same(json_patch(before, patch), after)
    assert msgspec.json.encode(before) == text, "neither is touched"
    assert bool(patch) != same(before, after)


counts = st.integers(0, 4)
words = st.sampled_from(["a", "b", "worker", "x" * 70, "Bad_Name", ""])
events = st.sampled_from(["PodFailed", "PodEvicted", "*", "TaskCompleted", "Nonsense"])
actions = st.sampled_from(["RestartJob", "AbortJob", "CompleteJob", "Nothing"])
policies = st.lists(
    st.fixed_dictionaries(
        {"action": actions}, optional={"event": events, "exitCode": st.integers(-1, 3), "timeout": st.just("1m")}
    ),
    max_size=2,
)
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["c", "d", "Bad"])}, optional={"image": st.just("i")}), max_size=2
)
templates = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": containers}, optional={"hostNetwork": st.booleans()})}
)
tasks = st.fixed_dictionaries(
    {"replicas": counts, "template": templates},
    optional={
        "name": words,
        "minAvailable": counts,
        "policies": policies,
        "dependsOn": st.fixed_dictionaries({"name": st.lists(words, max_size=2)}),
    },
)
specs = st.fixed_dictionaries(
    {"tasks": st.lists(tasks, max_size=3)},
    optional={
        "minAvailable": counts,
        "queue": st.sampled_from(["default", "root", "team", "parent", "closed", "nowhere"]),
        "plugins": st.dictionaries(
            st.sampled_from(["env", "svc", "ssh", "mpi", "nope"]), st.lists(st.sampled_from(["--x=1"]), max_size=1)
        ),
        "policies": policies,
        "volumes": st.lists(st.fixed_dictionaries({"mountPath": st.sampled_from(["/a", "/b"])}), max_size=2),
        "networkTopology": st.fixed_dictionaries({"mode": st.sampled_from(["hard", "soft"])}),
        "maxRetry": counts,
        "minSuccess": st.integers(1, 3),
    },
)


def queue(name: str, parent: str = "root") -> Manifest:
    spec = {"weight": 1, "parent": parent}
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


class Clusters:
    """The embedded cluster with its own admission, and a bare server beside the webhooks. Made once, for dry runs."""

    def __init__(self) -> None:
        self._stores = [Store(ManualClock(), CountingIds(), webhooks=it) for it in (WEBHOOKS, {})]
        self.embedded, self.bare = (InProcessObjects(it) for it in self._stores)
        self.kind = kinds_of(JOB.manifest())[0]

    async def prepare(self) -> None:
        for cluster, store in zip((self.embedded, self.bare), self._stores, strict=True):
            for definition in (QUEUE, JOB):
                await cluster.create(DEFINITIONS, definition.manifest())
            store.housekeeper.run_pending()
            for made in (queue("team"), queue("parent"), queue("child", "parent"), queue("closed")):
                await cluster.create(QUEUE.resource, made)
            shut = {"status": {"state": "Closed", "allocated": {}}}
            await cluster.patch(QUEUE.resource, "closed", "merge", shut, subresource="status")
        made = (await self.embedded.create(JOB.resource, job("there", queue="team"), SPACE)).manifest()
        await self.bare.create(JOB.resource, {**job("there"), "spec": made["spec"]}, SPACE)

    async def in_process(self, manifest: Manifest, *, update: bool) -> str:
        try:
            if update:
                made = await self.embedded.update(JOB.resource, "there", manifest, SPACE, DRY)
            else:
                made = await self.embedded.create(JOB.resource, manifest, SPACE, DRY)
        except StatusError as refusal:
            return refusal.message
        return _shown(made.manifest())

    async def by_webhooks(self, manifest: Manifest, *, update: bool) -> str:
        """As a real server does it: its schema fills in, the first webhook completes, the schema judges, and then the
        second webhook does."""
        old = (await self.bare.get(JOB.resource, "there", SPACE)).manifest() if update else None
        operation = "UPDATE" if update else "CREATE"

        def question(document: Manifest) -> Question:
            return question_of(msgspec.json.encode(review(document, old, operation=operation)))

        judge = Judge(KnownObjects(self.bare), scheduler_name="allhands", plugin_errors=errors_of_plugins)
        filled = self.kind.shape.check(manifest).document
        first = await judge.mutate(question(filled))
        completed = json_patch(filled, list(first.patch))
        try:
            if update:
                made = await self.bare.update(JOB.resource, "there", completed, SPACE, DRY)
            else:
                made = await self.bare.create(JOB.resource, completed, SPACE, DRY)
        except StatusError as refusal:
            return refusal.message
        second = await judge.validate(question(made.manifest()))
        return _shown(made.manifest()) if second.refusal is None else second.refusal.message


def _complaints(answer: str) -> list[str]:
    """In any order: a schema is held against the fields in theirs, and that is a map's on the real server."""
    return sorted(re.split(r", |invalid: \[|\]$", answer))


def _shown(made: Manifest) -> str:
    return msgspec.json.encode(made["spec"], order="sorted").decode()


@functools.cache
def clusters() -> Clusters:
    made = Clusters()
    asyncio.run(made.prepare())
    return made


@settings(max_examples=examples(40), deadline=None)
@given(specs, words)
@example({"tasks": [], "policies": [{"action": "Nothing"}]}, "a")
def test_webhooks_answer_for_new_jobs_as_the_embedded_cluster_does(spec: Manifest, name: str) -> None:
    there = clusters()

    async def both() -> None:
        manifest = {**job(name or "fine"), "spec": spec}
        expected = await there.in_process(copied(manifest), update=False)
        assert _complaints(await there.by_webhooks(copied(manifest), update=False)) == _complaints(expected)

    asyncio.run(both())


@settings(max_examples=examples(40), deadline=None)
@given(specs, st.sets(st.sampled_from(["minAvailable", "queue", "plugins", "policies", "maxRetry", "tasks"])), counts)
def test_webhooks_answer_for_changed_jobs_as_the_embedded_cluster_does(
    spec: Manifest, changed: set[str], replicas: int
) -> None:
    there = clusters()

    async def both() -> None:
        manifest = (await there.embedded.get(JOB.resource, "there", SPACE)).manifest()
        manifest["spec"] |= {name: spec[name] for name in sorted(changed) if name in spec}
        for task in manifest["spec"]["tasks"] if "tasks" not in changed else ():
            task["replicas"] = replicas
        manifest["metadata"].pop("resourceVersion")
        manifest["metadata"].pop("uid")
        answers = []
        for answer, cluster in ((there.in_process, there.embedded), (there.by_webhooks, there.bare)):
            stored = (await cluster.get(JOB.resource, "there", SPACE)).manifest()["metadata"]
            metadata = {**manifest["metadata"], "resourceVersion": stored["resourceVersion"]}
            answers.append(await answer({**copied(manifest), "metadata": metadata}, update=True))
        assert _complaints(answers[0]) == _complaints(answers[1])

    asyncio.run(both())
