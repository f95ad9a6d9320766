"""Checks of paths that a node will open on behalf of a pod: none may climb out of its directory with `..`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.errors import invalid

if TYPE_CHECKING:
    from allhands.api.errors import FieldError

_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def has_backsteps(target: str) -> bool:
    return ".." in target and ".." in target.split("/")


def check_no_backsteps(target: str, path: str, errors: list[FieldError]) -> None:
    if has_backsteps(target):
        errors.append(invalid(path, target, "must not contain '..'"))


def check_descending(target: str, path: str, errors: list[FieldError]) -> None:
    """Relative, and never above where it starts."""
    if target.startswith("/"):
        errors.append(invalid(path, target, "must be a relative path"))
    check_no_backsteps(target, path, errors)


def check_not_reserved(target: str, path: str, errors: list[FieldError]) -> None:
    """Names that start with two dots belong to the kubelet, which keeps its own links there."""
    check_descending(target, path, errors)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))


def check_file_mode(mode: int | None, path: str, errors: list[FieldError]) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.append(invalid(path, mode, _FILE_MODE))
