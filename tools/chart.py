"""Writes what the Helm chart takes from the code: the definitions of our kinds, and the rules of rights.

Run it after either has changed; a test says when it is due. Everything else in the chart is written by hand, and a test
holds it against `allhands install`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from allhands.runtime.installation import kind_objects, people_objects, rights, webhooks

BUILT_IN = ("template", "volumeClaim")
"""Fields whose schemas are those of built-in kinds: they are written without a line for each word."""
FOLDER = Path(__file__).resolve().parent.parent / "charts" / "allhands" / "generated"
NAMESPACE = "the-namespace-of-the-release"
_MAPPING = "tag:yaml.org,2002:map"
KEPT = {"helm.sh/resource-policy": "keep"}
"""With a kind all of its objects would be deleted."""


class _Dense(dict[str, Any]):
    """A mapping that is written like JSON."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(_Dense, lambda dumper, it: dumper.represent_mapping(_MAPPING, it, flow_style=True))


def _compact(value: Any) -> Any:
    if isinstance(value, list):
        return [_compact(item) for item in value]
    if isinstance(value, dict):
        return {
            key: _Dense(item) if key in BUILT_IN and isinstance(item, dict) else _compact(item)
            for key, item in value.items()
        }
    return value


def files() -> dict[str, str]:
    """By name, what each is to hold."""
    kinds = [
        it | {"metadata": it["metadata"] | {"annotations": it["metadata"].get("annotations", {}) | KEPT}}
        for it in kind_objects()
    ]
    found = {"kinds.yaml": yaml.dump_all(_compact(kinds), Dumper=_Dumper, sort_keys=False, width=120)}
    found["people.yaml"] = yaml.safe_dump_all(people_objects(), sort_keys=False, width=120)
    for name, rules in (
        ("scheduler-everywhere", rights.SCHEDULER),
        ("scheduler-at-home", rights.SCHEDULER_AT_HOME),
        ("controllers-everywhere", rights.CONTROLLERS),
        ("controllers-at-home", rights.CONTROLLERS_AT_HOME),
        ("controllers-for-volcano", rights.WORKLOAD_GROUPS),
        ("webhooks-everywhere", rights.WEBHOOKS),
        ("webhooks-at-home", rights.WEBHOOKS_AT_HOME),
    ):
        found[f"{name}.yaml"] = yaml.safe_dump(rights.rule_manifests(rules), sort_keys=False, width=120)
    return found | _webhook_files()


def _webhook_files() -> dict[str, str]:
    """What the API server asks of whom; the chart puts its own namespace in the place of the word for it."""
    asked = webhooks.configurations(NAMESPACE, webhooks.by_service(NAMESPACE))
    return {
        f"webhooks-{name}.yaml": yaml.safe_dump(it["webhooks"], sort_keys=False, width=120)
        for name, it in zip(("mutating", "validating"), asked, strict=True)
    }


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
