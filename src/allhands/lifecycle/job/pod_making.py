"""New pods of a Job, from its template: owner, finalizer, labels and, for Indexed Jobs, everything that says the index.

Manifests of one Job share what is equal in them; nobody may change them afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.instructions import Create
from allhands.lifecycle.job.documents import API_VERSION, KIND, PODS
from allhands.lifecycle.job.failure_policy import judge_failure
from allhands.lifecycle.job.pod import FINALIZER, INDEX, INDEX_FAILURES, INDEX_IGNORED
from allhands.lifecycle.job.pod_names import free_name, index_prefix, plain_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.job.documents import JobDocument
    from allhands.lifecycle.job.pod import JobPod

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_templates: Final = msgspec.json.Decoder(dict[str, Any])


class _TemplateSpec(msgspec.Struct, rename="camel"):
    restart_policy: str = ""


class _Template(msgspec.Struct):
    spec: _TemplateSpec = msgspec.field(default_factory=_TemplateSpec)


_restart_policies: Final = msgspec.json.Decoder(_Template)


def restart_policy(job: JobDocument) -> str:
    return _restart_policies.decode(job.spec.template).spec.restart_policy


def plain_pods(job: JobDocument, count: int, made_before: int, taken: Callable[[str], bool]) -> list[Create]:
    """`count` pods of a Job without indexes. `made_before` only spreads the names."""
    base = _base(job)
    prefix = plain_prefix(job.metadata.name)
    number = made_before
    creates = []
    chosen: set[str] = set()
    for _ in range(count):
        name, number = free_name(prefix, job.metadata.uid, number, lambda it: it in chosen or taken(it))
        number += 1
        chosen.add(name)
        metadata = {"name": name, "generateName": prefix, **base["metadata"]}
        creates.append(Create(PODS, job.metadata.namespace, {**base, "metadata": metadata}))
    return creates


def indexed_pods(
    job: JobDocument, indexes: Sequence[int], replaced: Mapping[int, JobPod], taken: Callable[[str], bool]
) -> list[Create]:
    """One pod for each index. `replaced` are the pods whose failures the new ones go on counting."""
    base = _base(job)
    spec = _with_index_variable(base["spec"])
    common = base["metadata"]
    annotations = common.get("annotations") or {}
    creates = []
    for index in indexes:
        prefix = index_prefix(job.metadata.name, index)
        name, _ = free_name(prefix, job.metadata.uid, 0, taken)
        text = str(index)
        own = {**annotations, INDEX: text}
        if job.backs_off_per_index:
            own.update(_failure_counts(job, replaced.get(index)))
        metadata = {
            **common,
            "name": name,
            "generateName": prefix,
            "labels": {**common.get("labels", {}), INDEX: text},
            "annotations": own,
        }
        hostname = f"{job.metadata.name}-{index}"
        pod = {**base, "metadata": metadata, "spec": {**spec, "hostname": hostname}}
        creates.append(Create(PODS, job.metadata.namespace, pod))
    return creates


def _base(job: JobDocument) -> Manifest:
    template = _templates.decode(job.spec.template)
    given = template.get("metadata") or {}
    finalizers = given.get("finalizers") or []
    metadata: Manifest = {
        "namespace": job.metadata.namespace,
        "labels": given.get("labels") or {},
        "finalizers": finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER],
        "ownerReferences": [owner_reference(API_VERSION, KIND, job.metadata)],
    }
    if given.get("annotations"):
        metadata["annotations"] = given["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


def _with_index_variable(spec: Manifest) -> Manifest:
    with_variable = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            with_variable[field] = [_container_with_index(it) for it in spec[field]]
    return with_variable


def _container_with_index(container: Manifest) -> Manifest:
    environment = container.get("env") or []
    if any(it.get("name") == INDEX_VARIABLE for it in environment):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*environment, {"name": INDEX_VARIABLE, "valueFrom": source}]}


def _failure_counts(job: JobDocument, replaced: JobPod | None) -> Manifest:
    failures, ignored = (0, 0) if replaced is None else (replaced.index_failures, replaced.index_ignored_failures)
    if replaced is not None:
        if judge_failure(job, replaced).counts:
            failures += 1
        else:
            ignored += 1
    counts = {INDEX_FAILURES: str(failures)}
    if ignored:
        counts[INDEX_IGNORED] = str(ignored)
    return counts
