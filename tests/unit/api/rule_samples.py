"""Small valid objects that rule tests change in one place, and how refusals are listed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.rules import Rules


def container(**fields: Any) -> Manifest:
    return {"name": "main", "image": "busybox:1.36"} | fields


def pod(*, metadata: Manifest | None = None, **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sample", "namespace": "default"} | (metadata or {}),
        "spec": {"containers": [container()]} | spec,
    }


def pod_of(**fields: Any) -> Manifest:
    """A pod whose only container has these fields."""
    return pod(containers=[container(**fields)])


def prepared(rules: Rules, sample: Manifest) -> Manifest:
    """The object as the server stores it when a client creates it."""
    stored = copy.deepcopy(sample)
    rules.default(stored)
    rules.prepare_create(stored)
    return stored


def refusals(rules: Rules, sample: Manifest) -> list[str]:
    return texts(rules.validate_create(prepared(rules, sample)))


def texts(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]
