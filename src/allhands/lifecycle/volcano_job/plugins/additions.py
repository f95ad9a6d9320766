"""Adds to the manifest of a pod what a plugin gives: variables, ports, volumes and where they are mounted.

What a user wrote stands: a variable, a mount or a port that is there already is left as it is, so adding twice changes
nothing. Only the manifest's own first level is changed in place; everything below may be shared with the template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allhands.api.document import Manifest


def variables(**values: str) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in values.items()]


def add_variables(pod: Manifest, added: Sequence[Manifest]) -> None:
    """To all containers, the initial ones too."""

    def complete(container: Manifest) -> Manifest:
        own = container.get("env") or ()
        names = {it.get("name") for it in own}
        new = [it for it in added if it["name"] not in names]
        return {**container, "env": [*own, *new]} if new else container

    _change(pod, complete, initial=True)


def add_ports(pod: Manifest, ports: Iterable[tuple[str, int]], container_name: str = "") -> None:
    """To the containers, or only to the one of that name. A port whose name is taken gets none."""
    wanted = list(ports)

    def complete(container: Manifest) -> Manifest:
        if container_name and container.get("name") != container_name:
            return container
        own = list(container.get("ports") or ())
        for name, number in wanted:
            if not any(it.get("containerPort") == number for it in own):
                taken = any(it.get("name") == name for it in own)
                own.append({"containerPort": number} if taken else {"name": name, "containerPort": number})
        return {**container, "ports": own} if len(own) > len(container.get("ports") or ()) else container

    _change(pod, complete, initial=False)


def add_volume(pod: Manifest, volume: Manifest) -> None:
    spec = pod.get("spec") or {}
    own = spec.get("volumes") or ()
    if not any(it.get("name") == volume["name"] for it in own):
        pod["spec"] = {**spec, "volumes": [*own, volume]}


def add_mounts(pod: Manifest, mounts: Sequence[Manifest]) -> None:
    """To all containers, the initial ones too. A mount at the place, or around it, is the user's and stands."""

    def complete(container: Manifest) -> Manifest:
        own = container.get("volumeMounts") or ()
        places = [(it.get("mountPath") or "").rstrip("/") for it in own]
        new = [it for it in mounts if not any(_is_within(it["mountPath"], place) for place in places)]
        return {**container, "volumeMounts": [*own, *new]} if new else container

    _change(pod, complete, initial=True)


def change_container(pod: Manifest, name: str, change: Callable[[Manifest], Manifest]) -> None:
    """The container of that name; the changed one takes its place."""
    _change(pod, lambda it: change(it) if it.get("name") == name else it, initial=False)


def annotate(pod: Manifest, key: str, value: str) -> None:
    """Unless it is there."""
    metadata = pod.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotations.get(key):
        pod["metadata"] = {**metadata, "annotations": {**annotations, key: value}}


def _is_within(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


def _change(pod: Manifest, change: Callable[[Manifest], Manifest], *, initial: bool) -> None:
    spec = pod.get("spec") or {}
    fields = ("containers", "initContainers") if initial else ("containers",)
    changed = {field: [change(it) for it in spec[field]] for field in fields if spec.get(field)}
    pod["spec"] = {**spec, **changed}
