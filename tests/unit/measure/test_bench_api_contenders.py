"""Schedulers as small files: what they may say, and what is wrong with those that cannot be used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from allhands.measure.api.contenders import (
    PLACES,
    Contender,
    ContenderError,
    Places,
    all_contenders,
    chosen,
    objects_of,
    prepared,
    read_contender,
)
from allhands.measure.api.workload import Gangs

GOOD = """
name: mine
schedulerName: my-scheduler
gangs: volcano
command: [$python, -c, pass, --kubeconfig=$kubeconfig, --conf=$folder/mine.conf]
files: {mine.conf: "kubeconfig: $kubeconfig, price: 5$$"}
environment: {HOW_MANY: $flight}
objects: [crd.yaml]
"""
CRD = "kind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: Queue\nmetadata: {name: b}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "crd.yaml").write_text(CRD)
    (tmp_path / "mine.yaml").write_text(GOOD)
    return tmp_path


def places(folder: Path) -> Places:
    return Places(kubeconfig=Path("the-kubeconfig"), folder=folder, tools=folder / "tools", flight=32)


def test_the_built_in_ones_begin_with_the_floor_and_end_with_ours() -> None:
    names = [it.name for it in all_contenders()]
    assert names == ["null", "kube-scheduler", "kube-scheduler-gangs", "allhands"]


def test_each_takes_part_where_it_belongs() -> None:
    known = {it.name: it for it in all_contenders()}
    plain = [name for name, it in known.items() if it.takes_part(with_gangs=False)]
    gangs = [name for name, it in known.items() if it.takes_part(with_gangs=True)]
    assert plain == ["null", "kube-scheduler", "allhands"]
    assert gangs == ["null", "kube-scheduler-gangs", "allhands"]


def test_a_folder_adds_schedulers_and_its_objects_are_none(folder: Path) -> None:
    found = all_contenders(folder)
    assert [it.name for it in found] == ["null", "kube-scheduler", "kube-scheduler-gangs", "mine", "allhands"]
    mine = found[3]
    assert (mine.gangs, mine.scheduler_name) == (Gangs.VOLCANO, "my-scheduler")
    assert [document["kind"] for document in objects_of(mine)] == ["CustomResourceDefinition", "Queue"]


def test_names_choose_and_the_floor_is_always_there() -> None:
    known = all_contenders()
    assert [it.name for it in chosen(known, ["allhands"])] == ["null", "allhands"]
    assert [it.name for it in chosen(known, [])] == [it.name for it in known]
    with pytest.raises(ContenderError, match="no scheduler named nobody; there are null, kube-scheduler"):
        chosen(known, ["nobody"])


def test_places_are_filled_in_and_files_written(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    start = prepared(read_contender(folder / "mine.yaml"), places(run))
    assert start.command == (sys.executable, "-c", "pass", "--kubeconfig=the-kubeconfig", f"--conf={run}/mine.conf")
    assert start.environment == {"HOW_MANY": "32"}
    assert (run / "mine.conf").read_text() == "kubeconfig: the-kubeconfig, price: 5$"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: [", "is not YAML"),
        ("- a", "Expected `object`"),
        ("name: mine", "missing required field `command`"),
        ("{name: mine, command: []}", "command: Expected `array` of length >= 1"),
        ("{name: Not Good, command: [a]}", "name: Expected `str` matching regex"),
        ("{name: mine, command: [a], gangs: crowds}", "gangs: Invalid enum value 'crowds'"),
        ("{name: mine, command: [a], colour: red}", "unknown field `colour`"),
        ("{name: mine, command: [a], objects: [absent.yaml]}", "objects: there is no file absent.yaml beside it"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_field(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ContenderError) as refused:
        read_contender(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert problem in str(refused.value)


def test_an_unknown_place_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    mine = Contender(name="mine", command=("run", "$where"))
    with pytest.raises(ContenderError, match=r"mine: command: \$where stands for nothing; there are \$kubeconfig, "):
        prepared(mine, places(tmp_path))
    half = Contender(name="mine", command=("true",), files={"a": "price: 5$"})
    with pytest.raises(ContenderError, match=r"mine: files\[a\]: a \$ without a name stands for nothing"):
        prepared(half, places(tmp_path))


def test_a_scheduler_may_lie_beside_its_file(folder: Path) -> None:
    (folder / "beside.yaml").write_text("{name: beside, command: [$home/program]}")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    start = prepared(read_contender(folder / "beside.yaml"), places(folder))
    assert start.command == (str(folder.resolve() / "program"),)


def test_a_program_that_is_not_there_is_named_with_what_builds_it(tmp_path: Path) -> None:
    with pytest.raises(ContenderError, match=r"no-such-program is not there or cannot be run$"):
        prepared(Contender(name="mine", command=("no-such-program",)), places(tmp_path))
    with pytest.raises(ContenderError, match="tools/kube-scheduler is not there or cannot be run: run `make tools`"):
        prepared(Contender(name="mine", command=("$tools/kube-scheduler",)), places(tmp_path))


def test_a_file_cannot_be_written_elsewhere(tmp_path: Path) -> None:
    mine = Contender(name="mine", command=("true",), files={"../outside": "x"})
    with pytest.raises(ContenderError, match="leads out of the run's folder"):
        prepared(mine, places(tmp_path))


def test_a_folder_without_schedulers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContenderError, match="holds no scheduler"):
        all_contenders(tmp_path)
    with pytest.raises(ContenderError, match="is not a folder"):
        all_contenders(tmp_path / "absent")


def test_the_file_in_the_documents_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "volcano.yaml").write_text(example)
    (tmp_path / "volcano-objects.yaml").write_text(CRD)
    found = read_contender(tmp_path / "volcano.yaml")
    assert (found.name, found.gangs, found.command[0]) == ("volcano", Gangs.VOLCANO, "vc-scheduler")
    for field in Contender.__struct_fields__:
        if field != "home":
            assert getattr(found, field), f"{field} is not shown"
    for place in PLACES:
        assert f"`${place}`" in text
