"""Flags are read as Go reads them, and what cannot be read is told with its place and what is allowed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.volcano.plugin_names import JOB_PLUGINS, NEEDS
from allhands.lifecycle.volcano_job.plugins.catalog import PLUGINS, flags, names, plugin_errors
from allhands.lifecycle.volcano_job.plugins.flags import read
from allhands.lifecycle.volcano_job.plugins.horovod import Horovod
from allhands.lifecycle.volcano_job.plugins.pytorch import Pytorch
from allhands.lifecycle.volcano_job.plugins.svc import Svc
from tests.depth import examples
from tests.plugin_jobs import job, task

OF_PYTORCH = ["--master", "--worker", "--port", *(f"--wait-master-{it}" for it in ("enabled", "timeout", "image"))]


@pytest.mark.parametrize("words", [["--port=99"], ["-port=99"], ["--port", "99"], ["-port", "99"], ["--port=+99"]])
def test_a_number_may_be_written_in_every_way_that_go_reads(words: list[str]) -> None:
    assert read(Pytorch, words, "here") == (Pytorch(port=99), [])


@pytest.mark.parametrize(
    ("word", "value"),
    [("--wait-master-enabled", True), ("-wait-master-enabled=T", True), ("--wait-master-enabled=0", False)],
)
def test_a_switch_is_on_without_a_value(word: str, value: bool) -> None:
    assert read(Pytorch, [word], "here") == (Pytorch(wait_master_enabled=value), [])


def test_a_value_may_hold_an_equals_sign_and_a_later_flag_wins() -> None:
    plugin, errors = read(Pytorch, ["--master=a=b", "--worker=x", "--worker=y"], "here")
    assert (plugin.master, plugin.worker, errors) == ("a=b", "y", [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port=x"], 'here[0]: Invalid value: "--port=x": --port must be a whole number from 1 to 65535'),
        (["--port=0"], 'here[0]: Invalid value: "--port=0": --port must be a whole number from 1 to 65535'),
        (["--port=65536"], 'here[0]: Invalid value: "--port=65536": --port must be a whole number from 1 to 65535'),
        (["--port"], 'here[0]: Invalid value: "--port": the value of the flag is missing; write --port=VALUE'),
        (
            ["--wait-master-enabled=maybe"],
            'here[0]: Invalid value: "--wait-master-enabled=maybe": --wait-master-enabled must be true or false',
        ),
        (
            ["--master=m", "--wrong=1"],
            f'here[1]: Unsupported value: "--wrong=1": supported values: {", ".join(map(json.dumps, OF_PYTORCH))}',
        ),
        (
            ["port=1"],
            f'here[0]: Invalid value: "port=1": not a flag; allowed: {", ".join(OF_PYTORCH)}',
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_what_is_allowed(words: list[str], told: str) -> None:
    plugin, errors = read(Pytorch, words, "here")
    assert [str(it) for it in errors] == [told]
    assert plugin.port == Pytorch().port


def test_the_value_of_an_unknown_flag_is_not_a_second_finding() -> None:
    _, errors = read(Svc, ["--wrong", "value", "--disable-network-policy"], "here")
    assert [it.path for it in errors] == ["here[0]"]


def test_a_choice_lists_its_values() -> None:
    _, errors = read(Horovod, ["--launch=rsh"], "here")
    assert [str(it) for it in errors] == [
        "here[0]: Invalid value: \"--launch=rsh\": --launch must be one of 'ssh', 'gloo'"
    ]


def test_an_unknown_plugin_is_refused_with_those_that_are_known() -> None:
    told = [str(it) for it in plugin_errors(job({"svc": [], "magic": []}, task("a")))]
    known = ", ".join(f'"{it}"' for it in names())
    assert told == [f'spec.plugins[magic]: Unsupported value: "magic": supported values: {known}']


def test_flags_of_a_plugin_that_has_none_are_refused() -> None:
    told = [str(it) for it in plugin_errors(job({"env": ["--x", "y"]}, task("a")))]
    assert told == ['spec.plugins[env][0]: Unsupported value: "--x"']


def test_admission_knows_the_same_plugins_and_what_they_bring_along() -> None:
    assert frozenset(names()) == JOB_PLUGINS
    assert {name: plugin().needs() for name, plugin in PLUGINS.items() if plugin().needs()} == NEEDS


def test_every_flag_says_what_it_means() -> None:
    assert all(flag.meaning.endswith(".") for name in names() for flag in flags(name))


@settings(max_examples=examples(200))
@given(
    st.sampled_from(sorted(PLUGINS)),
    st.lists(st.text(max_size=12) | st.sampled_from(["--port", "-", "--", "=", "--=1"]), max_size=4),
)
def test_no_text_breaks_the_reading(name: str, words: list[str]) -> None:
    plugin, errors = read(PLUGINS[name], words, "here")
    assert isinstance(plugin, PLUGINS[name])
    assert all(it.path.startswith("here[") for it in errors)
    assert errors or not words or all(word.startswith("-") for word in words[:1])
