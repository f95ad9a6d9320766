"""What a container refers to: variables in texts, fields and resources of its pod, files of its volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.agents.environment import expanded, field_text, resource_text
from allhands.agents.references import CLAIMS, VOLUMES, ReferenceProblem, References
from allhands.agents.volumes import PodFolder, rewritten
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock
from tests.manifests import CONFIG_MAPS, config_map

Manifest = dict[str, Any]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$(A)", "one"),
        ("$(A)$(B)", "onetwo"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
    ],
)
def test_variables_in_texts(text: str, shown: str) -> None:
    assert expanded(text, {"A": "one", "B": "two"}) == shown


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_a_text_without_a_dollar_is_itself(text: str) -> None:
    assert expanded(text, {"A": "one"}) == text


POD: Manifest = {
    "metadata": {"name": "p", "namespace": "n", "labels": {"b": 'x"y', "a": "1"}},
    "spec": {
        "nodeName": "here",
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}],
    },
    "status": {"podIP": "127.64.0.1"},
}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['none']", ""),
        ("metadata.labels", 'a="1"\nb="x\\"y"'),
        ("status.podIP", "127.64.0.1"),
        ("spec.serviceAccountName", "default"),
    ],
)
def test_fields_of_a_pod(path: str, text: str) -> None:
    assert field_text(POD, path) == text


def test_a_field_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(ReferenceProblem, match=r"'spec.hidden' is none of \['metadata.name'"):
        field_text(POD, "spec.hidden")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "requests.cpu"}, "0"),
        ({"resource": "limits.ephemeral-storage"}, "7"),
        ({"resource": "limits.cpu", "divisor": "0"}, "2"),
    ],
)
def test_resources_of_a_container(reference: Manifest, text: str) -> None:
    assert resource_text(POD, "main", reference, {"ephemeral-storage": "7"}) == text


@pytest.mark.parametrize(
    "reference",
    [
        {"resource": "limits.cpu", "containerName": "other"},
        {"resource": "hopes.cpu"},
        {"resource": "limits.cpu", "divisor": "-1"},
    ],
)
def test_resources_that_make_no_sense_are_refused(reference: Manifest) -> None:
    with pytest.raises(ReferenceProblem, match="resourceFieldRef"):
        resource_text(POD, "main", reference, {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/data", "/real/data"),
        ("/data/x", "/real/data/x"),
        ("/database", "/database"),
        ("/data/deep/x", "/elsewhere/x"),
        ("data", "data"),
        ("--in=/data", "--in=/data"),
    ],
)
def test_paths_at_or_below_a_mount_are_rewritten(text: str, shown: str) -> None:
    assert rewritten(text, {"/data": Path("/real/data"), "/data/deep": Path("/elsewhere")}) == shown


@pytest.mark.parametrize(
    ("volume", "told"),
    [
        (
            {"nfs": {"server": "a", "path": "/b"}},
            r"\['nfs'\] is not supported by process nodes; supported are",
        ),
        ({"configMap": {"name": "none"}}, "config map default/none is not there"),
        ({"configMap": {"name": "there", "items": [{"key": "b", "path": "b"}]}}, r"has no key 'b'; it has \['a'\]"),
        ({"configMap": {"name": "there", "items": [{"key": "a", "path": "../../a"}]}}, "must not lead outside"),
        ({"hostPath": {"path": "/etc"}}, "is not allowed here; allowed: none"),
    ],
)
async def test_volumes_that_cannot_be_made_say_why(tmp_path: Path, volume: Manifest, told: str) -> None:
    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    await objects.create(CONFIG_MAPS, config_map("there", a="1"), "default")
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"volumes": [{"name": "v", **volume}]}}
    with pytest.raises(ReferenceProblem, match=told):
        await PodFolder(tmp_path).prepare(pod, References(objects, {}))
    assert not (tmp_path.parent / "a").exists()


def bound_to(**volume: Any) -> tuple[Manifest, Manifest]:
    """A claim, and the volume that it has."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v1"}
    claim = {"metadata": {"name": "data"}, "spec": spec}
    kept = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **volume}
    return claim, {"metadata": {"name": "v1"}, "spec": kept}


async def claimed(folder: Path, allowed: Path, *made: Manifest) -> Path:
    """Where the volume of a pod that uses the claim `data` is."""
    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    for resource, namespace, manifest in zip((CLAIMS, VOLUMES), ("default", ""), made, strict=False):
        await objects.create(resource, manifest, namespace)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"volumes": [volume]}}
    kept = PodFolder(folder, claimed=(allowed,))
    await kept.prepare(pod, References(objects, {}))
    mounts = [{"name": "v", "mountPath": "/data"}]
    return kept.mount({"name": "main", "volumeMounts": mounts}, {})["/data"].resolve()


async def test_a_claim_is_the_folder_of_its_volume(tmp_path: Path) -> None:
    place = tmp_path / "volumes" / "v1"
    made = bound_to(hostPath={"path": str(place), "type": "DirectoryOrCreate"})
    assert await claimed(tmp_path / "pod", tmp_path / "volumes", *made) == place
    assert place.is_dir()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ((), "claim default/data is not there"),
        (bound_to(nfs={"server": "a", "path": "/b"})[:1], "volume v1 is not there"),
        (bound_to(nfs={"server": "a", "path": "/b"}), "volume v1 is not on this machine"),
        (bound_to(hostPath={"path": "/etc"}), "hostPath /etc is not allowed here"),
        (bound_to(hostPath={"path": "/etc"}, volumeMode="Block"), "volume v1 is a block device"),
    ],
)
async def test_a_claim_without_a_volume_here_says_why(tmp_path: Path, made: tuple[Manifest, ...], told: str) -> None:
    with pytest.raises(ReferenceProblem, match=told):
        await claimed(tmp_path / "pod", tmp_path / "volumes", *made)


async def test_optional_sources_may_be_absent_and_projections_are_joined(tmp_path: Path) -> None:
    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    await objects.create(CONFIG_MAPS, config_map("there", a="1"), "default")
    sources = [
        {"configMap": {"name": "there"}},
        {"secret": {"name": "none", "optional": True}},
        {"downwardAPI": {"items": [{"path": "who", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"serviceAccountToken": {"path": "token"}},
    ]
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"volumes": [{"name": "v", "projected": {"sources": sources, "defaultMode": 0o400}}]},
    }
    folder = PodFolder(tmp_path)
    await folder.prepare(pod, References(objects, {}))
    places = folder.mount({"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/all/"}]}, {})
    assert {path.name: path.read_text() for path in places["/all"].iterdir()} == {"a": "1", "who": "p"}
    assert (places["/all"] / "a").stat().st_mode & 0o777 == 0o400
    with pytest.raises(ReferenceProblem, match="no volume 'w'"):
        folder.mount({"name": "main", "volumeMounts": [{"name": "w", "mountPath": "/w"}]}, {})
