"""The grammars of names, each with the sentence a kube-apiserver answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.api import names

if TYPE_CHECKING:
    from collections.abc import Callable

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

REFUSED = [
    pytest.param(names.dns1123_label, "A", [LABEL], id="a label is lower case"),
    pytest.param(names.dns1123_label, "a.b", ["must not contain dots"], id="a sub-domain is told about its dots"),
    pytest.param(names.dns1123_label, "a" * 64, ["must be no more than 63 characters"], id="a label ends at 63"),
    pytest.param(names.dns1123_label, "", [LABEL], id="a label is not empty"),
    pytest.param(names.dns1123_label, "a\n", [LABEL], id="a line end is no end"),
    pytest.param(
        names.dns1123_label,
        "é" * 32,
        ["must be no more than 63 characters", LABEL],
        id="lengths are counted in bytes",
    ),
    pytest.param(names.dns1123_subdomain, "a..b", [SUBDOMAIN], id="a sub-domain has no empty label"),
    pytest.param(
        names.dns1123_subdomain, "a" * 254, ["must be no more than 253 characters"], id="a sub-domain ends at 253"
    ),
    pytest.param(names.qualified_name, "/a", ["prefix part must be non-empty"], id="a slash needs a prefix"),
    pytest.param(
        names.qualified_name, "a/", ["name part must be non-empty", f"name part {KEY}"], id="a prefix needs a name"
    ),
    pytest.param(names.qualified_name, "B/a", [f"prefix part {SUBDOMAIN}"], id="a prefix is a sub-domain"),
    pytest.param(
        names.qualified_name, "a" * 64, ["name part must be no more than 63 bytes"], id="the name part ends at 63"
    ),
    pytest.param(
        names.label_key,
        "a/b/c",
        [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        id="one slash is the most",
    ),
    pytest.param(names.label_value, "a" * 64, ["must be no more than 63 bytes"], id="a label's value ends at 63"),
    pytest.param(names.path_segment_name, "..", ["may not be '..'"], id="a name is not the folder above"),
    pytest.param(
        names.path_segment_name, "a/%", ["may not contain '/'", "may not contain '%'"], id="a name stays in its segment"
    ),
    pytest.param(
        names.env_var_name,
        "",
        ["environment variable name must be non-empty"],
        id="a variable has a name",
    ),
    pytest.param(
        names.env_var_name,
        "A=B",
        ["a valid environment variable name must consist only of printable ASCII characters other than '='"],
        id="a variable's name has no equals sign",
    ),
    pytest.param(names.config_map_key, "..a", ["must not start with '..'"], id="a key does not climb"),
    pytest.param(names.config_map_key, ".", ["must not be '.'"], id="a key is not the folder itself"),
    pytest.param(
        names.port_name,
        "-a--b",
        ["must not contain consecutive hyphens", "must not begin or end with a hyphen"],
        id="a port's name has single hyphens inside",
    ),
    pytest.param(names.port_name, "80", ["must contain at least one letter (a-z)"], id="a port's name has a letter"),
]


@pytest.mark.parametrize(("check", "value", "texts"), REFUSED)
def test_refuses_with_the_words_of_the_server(check: Callable[[str], list[str]], value: str, texts: list[str]) -> None:
    assert check(value) == texts


ACCEPTED = [
    pytest.param(names.dns1123_label, "0-a", id="a label may start with a digit"),
    pytest.param(names.dns1035_label, "a" * 63, id="63 is still a label"),
    pytest.param(names.qualified_name, "a" * 253 + "/" + "b" * 63, id="the longest key"),
    pytest.param(names.label_value, "", id="a label may be empty"),
    pytest.param(names.env_var_name, "1 a~", id="names of variables are relaxed"),
    pytest.param(names.config_map_key, ".bashrc", id="a hidden file is a key"),
    pytest.param(names.port_name, "http-2", id="a port's name"),
    pytest.param(names.c_identifier, "_A1", id="an identifier of C"),
    pytest.param(names.percent, "25%", id="a percentage"),
    pytest.param(names.path_segment_prefix, "..", id="dots may begin a name"),
]


@pytest.mark.parametrize(("check", "value"), ACCEPTED)
def test_accepts(check: Callable[[str], list[str]], value: str) -> None:
    assert check(value) == []


@pytest.mark.parametrize(("port", "fine"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_ports_have_bounds(port: int, fine: bool) -> None:
    assert names.port_number(port) == ([] if fine else ["must be between 1 and 65535, inclusive"])


def test_an_answer_can_be_changed_without_changing_the_next() -> None:
    names.label_value("-").clear()
    assert names.label_value("-")
