"""The environment of a container: its own variables, those from config maps, secrets, the pod and its resources.

`$(NAME)` in a value, a command or an argument stands for a variable that was defined before; `$$` is a plain `$`. What
refers to something that is not there is refused with a sentence that names it, and is tried again later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.agents.references import ReferenceProblem, References
from allhands.model.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest

_REFERENCE: Final = re.compile(r"\$(\$|\([^()]*\))")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def expanded(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` replaced by what is known; what is not known stays as it is."""

    def value(found: re.Match[str]) -> str:
        inner = found.group(1)
        return "$" if inner == "$" else known.get(inner[1:-1], found.group(0))

    return _REFERENCE.sub(value, text)


async def environment_of(container: Manifest, pod: Manifest, references: References) -> dict[str, str]:
    """The variables that the container's spec asks for."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        variables |= await _all_of(source, pod, references)
    for variable in container.get("env") or ():
        name = variable["name"]
        if "valueFrom" in variable:
            value = await _value_from(variable["valueFrom"], container, pod, references)
            if value is not None:
                variables[name] = value
        else:
            variables[name] = expanded(variable.get("value", ""), variables)
    return variables


async def _all_of(source: Manifest, pod: Manifest, references: References) -> dict[str, str]:
    prefix = source.get("prefix", "")
    namespace = pod["metadata"].get("namespace", "default")
    for field, read in (("configMapRef", references.config_map), ("secretRef", references.secret)):
        if field in source:
            reference = source[field]
            found = await read(namespace, reference.get("name", ""), optional=bool(reference.get("optional")))
            return {prefix + key: value.decode(errors="replace") for key, value in found.items()}
    return {}


async def _value_from(source: Manifest, container: Manifest, pod: Manifest, references: References) -> str | None:
    namespace = pod["metadata"].get("namespace", "default")
    for field, read, kind in (
        ("configMapKeyRef", references.config_map, "config map"),
        ("secretKeyRef", references.secret, "secret"),
    ):
        if field in source:
            reference = source[field]
            name, key, optional = reference.get("name", ""), reference.get("key", ""), bool(reference.get("optional"))
            found = await read(namespace, name, optional=optional)
            if key in found:
                return found[key].decode(errors="replace")
            if optional:
                return None
            raise ReferenceProblem(f"{kind} {namespace}/{name} has no key {key!r}; it has {sorted(found)}")
    if "fieldRef" in source:
        return field_text(pod, source["fieldRef"].get("fieldPath", ""))
    if "resourceFieldRef" in source:
        return resource_text(pod, container.get("name", ""), source["resourceFieldRef"], references.allocatable)
    raise ReferenceProblem(f"a value from {sorted(source)} is not supported by process nodes")


def field_text(pod: Manifest, path: str) -> str:
    """What the pod says of itself, as the downward API gives it."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        return str((metadata.get(subscript.group(1)) or {}).get(subscript.group(2), ""))
    texts = {
        "metadata.name": metadata.get("name", ""),
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": status.get("podIP", ""),
        "status.hostIP": status.get("hostIP", ""),
        "status.hostIPs": status.get("hostIP", ""),
    }
    if path in ("metadata.labels", "metadata.annotations"):
        values = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(values.items()))
    if path not in texts:
        raise ReferenceProblem(f"fieldRef: {path!r} is none of {sorted(texts)}")
    return str(texts[path])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_text(pod: Manifest, container_name: str, reference: Manifest, allocatable: Mapping[str, str]) -> str:
    """An amount that a container requests or may use, in units of the divisor, rounded up. A limit that is not set is
    what the node has."""
    name = reference.get("containerName") or container_name
    which, _, resource = reference.get("resource", "").partition(".")
    containers = [*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ())]
    container = next((it for it in containers if it.get("name") == name), None)
    if container is None or which not in ("limits", "requests"):
        raise ReferenceProblem(f"resourceFieldRef: {name!r} has no {reference.get('resource', '')!r}")
    amounts = (container.get("resources") or {}).get(which) or {}
    default = allocatable.get(resource, "0") if which == "limits" else "0"
    divisor = str(reference.get("divisor") or "1")
    try:
        amount = Quantity.parse(amounts.get(resource, default))
        unit = Quantity.parse("1" if divisor == "0" else divisor)
    except QuantityError as error:
        raise ReferenceProblem(f"resourceFieldRef: {resource}: {error}") from None
    if unit.nanos <= 0:
        raise ReferenceProblem(f"resourceFieldRef: the divisor {divisor!r} is not above 0")
    return str(-(-amount.nanos // unit.nanos))
