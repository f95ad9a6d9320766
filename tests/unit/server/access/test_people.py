"""People in the data folder: who has which token, and that a running server knows at once."""

from __future__ import annotations

import logging
import stat
from typing import TYPE_CHECKING

import pytest

from allhands.api.access.identity import User
from allhands.server.access.people import People, PeopleError, TokensOfPeople, people_file

if TYPE_CHECKING:
    from pathlib import Path


def test_a_token_is_known_until_it_is_renewed_or_removed(tmp_path: Path) -> None:
    people, known = People(tmp_path), TokensOfPeople(people_file(tmp_path))
    assert known.user_of(b"anything") is None
    token = people.add("ada", ("team", "team", "ops"), "now")
    found = known.user_of(token.encode())
    assert isinstance(found, User)
    assert (found.name, found.groups) == ("ada", ("team", "ops", "system:authenticated"))
    second = people.renew("ada")
    assert known.user_of(token.encode()) is None
    renewed = known.user_of(second.encode())
    assert renewed is not None
    assert renewed.uid == found.uid
    people.remove("ada")
    assert known.user_of(second.encode()) is None


def test_the_file_holds_no_token_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    token = People(tmp_path).add("ada", (), "")
    path = people_file(tmp_path)
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is no name of a user"),
        ("../x", "is no name of a user"),
        ("a b", "is no name of a user"),
        ("ada\n", "is no name of a user"),
        ("x" * 254, "is no name of a user"),
        ("system:node", "the cluster itself"),
        ("admin", "the owner of the data folder"),
    ],
)
def test_odd_names_are_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(PeopleError, match=words):
        People(tmp_path).add(name, (), "")
    assert People(tmp_path).all() == ()


def test_groups_of_the_system_are_not_given_but_one(tmp_path: Path) -> None:
    with pytest.raises(PeopleError, match="only 'system:masters' can be given"):
        People(tmp_path).add("ada", ("system:authenticated",), "")
    People(tmp_path).add("ada", ("system:masters",), "")


def test_nobody_is_there_twice_and_who_is_not_there_is_told_of(tmp_path: Path) -> None:
    people = People(tmp_path)
    people.add("ada", (), "")
    with pytest.raises(PeopleError, match="there is a user 'ada' already"):
        people.add("ada", (), "")
    for change in (people.renew, people.remove):
        with pytest.raises(PeopleError, match="there is no user 'bob'; there are: ada"):
            change("bob")


@pytest.mark.parametrize("text", [b"", b"{", b'{"format": 2, "users": []}', b'{"format": 1, "users": [{}]}', b"\xff"])
def test_a_damaged_file_lets_nobody_in_and_is_left_as_it_is(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    people, known = People(tmp_path), TokensOfPeople(people_file(tmp_path))
    token = people.add("ada", (), "")
    assert known.user_of(token.encode()) is not None
    people_file(tmp_path).write_bytes(text)
    with caplog.at_level(logging.ERROR):
        assert known.user_of(token.encode()) is None
        assert known.user_of(token.encode()) is None
    assert len(caplog.records) == 1, "said once"
    with pytest.raises(PeopleError):
        people.add("bob", (), "")
    assert people_file(tmp_path).read_bytes() == text
