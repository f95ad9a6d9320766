"""Writes what the Helm chart takes from the code: the definitions of our kinds, and the rules of rights.

Run it after either has changed; a test says when it is due. Everything else in the chart is written by hand, and a test
holds it against `allhands install`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from allhands.runtime.installation import kind_objects, rights

FOLDER = Path(__file__).resolve().parent.parent / "charts" / "allhands" / "generated"
KEPT = {"helm.sh/resource-policy": "keep"}
"""With a kind all of its objects would be deleted."""


def files() -> dict[str, str]:
    """By name, what each is to hold."""
    kinds = [
        it | {"metadata": it["metadata"] | {"annotations": it["metadata"].get("annotations", {}) | KEPT}}
        for it in kind_objects()
    ]
    found = {"kinds.yaml": yaml.safe_dump_all(kinds, sort_keys=False, width=120)}
    for name, rules in (
        ("scheduler-everywhere", rights.SCHEDULER),
        ("scheduler-at-home", rights.SCHEDULER_AT_HOME),
        ("controllers-everywhere", rights.CONTROLLERS),
        ("controllers-at-home", rights.CONTROLLERS_AT_HOME),
    ):
        found[f"{name}.yaml"] = yaml.safe_dump(rights.rule_manifests(rules), sort_keys=False, width=120)
    return found


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
