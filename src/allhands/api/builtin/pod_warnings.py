"""What is accepted in a pod, or in the template of one, and yet is hardly meant: warnings in the server's words.

Nothing is refused or changed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import go_quote
from allhands.model.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

_TEMPLATES: Final = {
    "Pod": (),
    "ReplicationController": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_BYTES: Final = ("memory", "ephemeral-storage")


def warns(kind: str) -> bool:
    """Whether objects of a built-in kind can be warned of."""
    return kind in _TEMPLATES


def pod_warnings(kind: str, document: Manifest) -> tuple[str, ...]:
    """Of an object that is valid."""
    holder = document
    for name in _TEMPLATES[kind]:
        holder = holder[name]
    return tuple(_of_spec(holder["spec"], ".".join((*_TEMPLATES[kind], "spec"))))


def _of_spec(spec: Manifest, path: str) -> Iterator[str]:
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _of_container(container, f"{path}.{field}[{index}]")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        why = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {why}"


def _of_container(container: Manifest, path: str) -> Iterator[str]:
    for which in ("limits", "requests"):
        amounts = (container.get("resources") or {}).get(which) or {}
        for name in _BYTES:
            if name in amounts and not _is_whole(amounts[name]):
                value = go_quote(str(amounts[name]))
                yield f"{path}.resources.{which}[{name}]: fractional byte value {value} is invalid, must be an integer"
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen and f"$({name})" not in (variable.get("value") or ""):
            hidden = f"hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            yield f"{path}.env[{index}]: {hidden}"
        seen.add(name)


def _is_whole(amount: str) -> bool:
    return Quantity.parse(amount).milli_value() % 1000 == 0
