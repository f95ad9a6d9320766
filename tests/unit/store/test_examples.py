"""Every manifest that we show to users is accepted as it is, without a warning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from allhands.ports import WriteOptions
from allhands.sim.scenario import read_scenario

if TYPE_CHECKING:
    from allhands.store import InProcessObjects, Store

EXAMPLES = Path(__file__).parents[3] / "examples"
NEEDS = {"custom-object.yaml": "custom-kind.yaml"}


async def create_all(store: Store, objects: InProcessObjects, path: Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        kind = store.kinds.by_kind(manifest["apiVersion"], manifest["kind"])
        assert kind is not None, f"{manifest['kind']} is not served"
        namespace = "default" if kind.namespaced else ""
        made = await objects.create(kind.resource, manifest, namespace, WriteOptions(field_validation="Strict"))
        assert made.warnings == ()
        store.housekeeper.run_pending()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
async def test_an_example_is_accepted(path: Path, store: Store, objects: InProcessObjects) -> None:
    if (first := next(yaml.safe_load_all(path.read_text())))["kind"] == "Scenario":
        read_scenario(first)  # for `allhands simulate`, not for a server
        return
    if path.name in NEEDS:
        await create_all(store, objects, EXAMPLES / NEEDS[path.name])
    await create_all(store, objects, path)
