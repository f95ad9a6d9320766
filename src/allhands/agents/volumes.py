"""The volumes of a pod as files below the pod's own folder, and where containers find them.

There are no containers and no root rights: a `mountPath` is a place below the container's root, a folder of the pod,
and `ALLHANDS_POD_ROOT` says where that is. A path that is, or begins with, a `mountPath` is rewritten to that place in
commands, arguments, working directories and plain values of variables; inside of scripts, `$ALLHANDS_POD_ROOT/data` is
right here and, since the variable is not set there, on any other cluster too.
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from allhands.agents.environment import expanded, field_text, resource_text
from allhands.agents.host_names import NO_NAMES, HostNames
from allhands.agents.references import ReferenceProblem, References

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.api.document import Manifest

DEFAULT_MODE: Final = 0o644
_FILES: Final = ("configMap", "secret", "downwardAPI")


class PodFolder:
    """All files of one pod. Removed with it."""

    def __init__(
        self,
        folder: Path,
        host_paths: Sequence[Path] = (),
        names: HostNames = NO_NAMES,
        claimed: Sequence[Path] = (),
    ) -> None:
        """`names`: what the pod calls hosts that only have addresses here. `claimed`: below which folders volumes are
        that claims may be bound to, beside `host_paths`."""
        self.folder = folder
        self.names = names
        self._host_paths = tuple(path.resolve() for path in host_paths)
        self._claimed = (*self._host_paths, *(path.resolve() for path in claimed))
        self._volumes: dict[str, Path] = {}

    async def prepare(self, pod: Manifest, references: References) -> None:
        """Makes the volumes; those that are there already keep what is in them."""
        for volume in pod["spec"].get("volumes") or ():
            name = volume["name"]
            if name not in self._volumes:
                self._volumes[name] = await self._made(volume, pod, references)

    def root(self, container: str) -> Path:
        return self.folder / "roots" / container

    def mount(self, container: Manifest, variables: Mapping[str, str]) -> dict[str, Path]:
        """Links the container's volumes into its root; returns the real place of each mount path."""
        root = self.root(container["name"])
        (root / "tmp").mkdir(parents=True, exist_ok=True)
        places: dict[str, Path] = {}
        mounts = container.get("volumeMounts") or ()
        for mount in sorted(mounts, key=lambda it: (it["mountPath"].count("/"), it["mountPath"])):
            volume = self._volumes.get(mount["name"])
            if volume is None:
                raise ReferenceProblem(f"volumeMounts: there is no volume {mount['name']!r}")
            inner = mount.get("subPath") or expanded(mount.get("subPathExpr") or "", variables)
            target = _below(volume, inner, "subPath") if inner else volume
            if inner and not target.exists():
                target.mkdir(parents=True)
            place = _below(root, mount["mountPath"], "mountPath")
            _link(place, target)
            places[mount["mountPath"].rstrip("/") or "/"] = place
        return places

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _made(self, volume: Manifest, pod: Manifest, references: References) -> Path:
        name = volume["name"]
        if "hostPath" in volume:
            return _host_path(name, volume["hostPath"], self._host_paths)
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            bound = await references.volume_of(pod["metadata"]["namespace"], claim)
            return _host_path(name, _place_of(bound), self._claimed)
        place = _below(self.folder / "volumes", name, "volume")
        place.mkdir(parents=True, exist_ok=True)
        sources = (volume["projected"].get("sources") or ()) if "projected" in volume else (volume,)
        for source in sources:
            kinds = set(source) - {"name"}
            if kinds == {"emptyDir"} or not kinds:
                continue
            if "serviceAccountToken" in source or "clusterTrustBundle" in source:
                continue  # nobody to talk to: the embedded cluster has no accounts
            if not kinds & set(_FILES):
                told = f"volume {name!r}: {sorted(kinds)} is not supported by process nodes"
                raise ReferenceProblem(
                    f"{told}; supported are emptyDir, {', '.join(_FILES)}, projected, hostPath and claims"
                )
            default_mode = volume.get("projected", {}).get("defaultMode", DEFAULT_MODE)
            for path, (content, mode) in (await _files_of(source, pod, references, default_mode)).items():
                _write(_below(place, path, f"volume {name!r}"), self.names.replaced_bytes(content), mode)
        return place


def _place_of(bound: Manifest) -> Manifest:
    """Where on this machine a persistent volume is."""
    name, spec = bound["metadata"]["name"], bound["spec"]
    if spec.get("volumeMode") == "Block":
        raise ReferenceProblem(f"volume {name} is a block device: process nodes have none to give")
    place = spec.get("hostPath") or spec.get("local")
    if place is None:
        raise ReferenceProblem(f"volume {name} is not on this machine; process nodes take those with hostPath or local")
    return dict(place)


def _host_path(name: str, source: Manifest, allowed: Sequence[Path]) -> Path:
    path = Path(source["path"]).resolve()
    if not any(path.is_relative_to(it) for it in allowed):
        told = ", ".join(map(str, allowed)) or "none"
        raise ReferenceProblem(f"volume {name!r}: hostPath {source['path']} is not allowed here; allowed: {told}")
    if not path.exists():
        if source.get("type") != "DirectoryOrCreate":
            raise ReferenceProblem(f"volume {name!r}: hostPath {source['path']} is not there")
        path.mkdir(parents=True)
    return path


def rewritten(text: str, places: Mapping[str, Path]) -> str:
    """A path at or below a mount path as the real place of it; any other text as it is."""
    if not text.startswith("/"):
        return text
    for mount_path in sorted(places, key=len, reverse=True):
        if text == mount_path or text.startswith(mount_path + "/"):
            return str(places[mount_path]) + text[len(mount_path) :]
    return text


def _below(root: Path, path: str, what: str) -> Path:
    """A path inside of the root, wherever it tries to lead."""
    parts = [part for part in PurePosixPath(path).parts if part != "/"]
    if ".." in parts:
        raise ReferenceProblem(f"{what}: {path!r} must not lead outside with '..'")
    return root.joinpath(*parts)


def _link(place: Path, target: Path) -> None:
    if place.is_symlink():
        place.unlink()
    elif place.is_dir():
        shutil.rmtree(place)
    elif place.exists():
        place.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode & 0o777 | 0o400)


async def _files_of(
    source: Manifest, pod: Manifest, references: References, default_mode: int
) -> dict[str, tuple[bytes, int]]:
    """The files that one source gives, each with its mode, by path."""
    namespace = pod["metadata"].get("namespace", "default")
    if "downwardAPI" in source:
        given = source["downwardAPI"]
        mode = given.get("defaultMode", default_mode)
        return {
            item["path"]: (_downward(item, pod, references).encode(), item.get("mode", mode))
            for item in given.get("items") or ()
        }
    kind = "configMap" if "configMap" in source else "secret"
    given = source[kind]
    name = given.get("name") or given.get("secretName", "")
    read = references.config_map if kind == "configMap" else references.secret
    data = await read(namespace, name, optional=bool(given.get("optional")))
    mode = given.get("defaultMode", default_mode)
    if not given.get("items"):
        return {key: (value, mode) for key, value in data.items()}
    files = {}
    for item in given["items"]:
        if item["key"] in data:
            files[item["path"]] = (data[item["key"]], item.get("mode", mode))
        elif not given.get("optional"):
            raise ReferenceProblem(f"{kind} {namespace}/{name} has no key {item['key']!r}; it has {sorted(data)}")
    return files


def _downward(item: Manifest, pod: Manifest, references: References) -> str:
    if "fieldRef" in item:
        return field_text(pod, item["fieldRef"].get("fieldPath", ""))
    return resource_text(pod, "", item.get("resourceFieldRef") or {}, references.allocatable)
