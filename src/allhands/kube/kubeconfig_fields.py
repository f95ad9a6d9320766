"""The fields of a kubeconfig's entries, read with care: whatever has the wrong form is refused with its file, its path
inside, and what is allowed there."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path


class KubeconfigError(ValueError):
    """The file cannot be used; the message says which part and why."""


class Section:
    """A mapping in a kubeconfig, and where it stands."""

    def __init__(self, values: dict[str, Any], folder: Path, place: str) -> None:
        self.values = values
        self.folder = folder
        """Paths in it are relative to this."""
        self.place = place

    def complaint(self, field: str, what: str) -> KubeconfigError:
        return KubeconfigError(f"{self.place}.{field}: {what}")

    def section(self, field: str) -> Section:
        """A mapping inside; an empty one if there is none."""
        value = self.values.get(field)
        if value is not None and not isinstance(value, dict):
            raise self.complaint(field, "must be a mapping")
        return Section(value or {}, self.folder, f"{self.place}.{field}")

    def mappings(self, field: str) -> list[Section]:
        """A list of mappings."""
        value = self.values.get(field) or []
        if not isinstance(value, list) or not all(isinstance(it, dict) for it in value):
            raise self.complaint(field, "must be a list of mappings")
        return [Section(it, self.folder, f"{self.place}.{field}[{number}]") for number, it in enumerate(value)]

    def text(self, field: str) -> str:
        value = self.values.get(field)
        if value is None:
            return ""
        if isinstance(value, (dict, list)):
            raise self.complaint(field, "must be a text")
        return str(value)

    def texts(self, field: str) -> list[str]:
        value = self.values.get(field) or []
        if not isinstance(value, list) or any(isinstance(it, (dict, list)) for it in value):
            raise self.complaint(field, "must be a list of texts")
        return [str(it) for it in value]

    def flag(self, field: str) -> bool:
        value = self.values.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.complaint(field, f"must be true or false, not {value!r}")
        return bool(value)

    def file(self, field: str) -> str:
        """A path, made absolute."""
        name = self.text(field)
        return str((self.folder / name).absolute()) if name else ""

    def pem(self, field: str) -> tuple[bytes, str]:
        """What the field's `-data` or its file holds, and the file, if it is one. As with kubectl data comes first."""
        inline = self.text(f"{field}-data")
        if inline:
            try:
                return base64.b64decode("".join(inline.split()), validate=True), ""
            except (binascii.Error, ValueError):
                raise self.complaint(f"{field}-data", "is not base64") from None
        file = self.file(field)
        return (self._content(field, file), file) if file else (b"", "")

    def text_of_file(self, field: str) -> tuple[str, str]:
        """What the named file holds, without space around it, and the file."""
        file = self.file(field)
        return (self._content(field, file).decode(errors="replace").strip(), file) if file else ("", "")

    def _content(self, field: str, file: str) -> bytes:
        try:
            with open(file, "rb") as opened:  # noqa: PTH123 (the path stays a text, as it is kept)
                return opened.read()
        except OSError as error:
            raise self.complaint(field, f"{self.text(field)}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise self.complaint(field, f"{self.text(field)!r} is not a path: {error}") from None

    def url(self, field: str, schemes: tuple[str, ...]) -> str:
        value = self.text(field)
        try:
            parts = urlsplit(value)
            _ = parts.port
        except ValueError as error:
            raise self.complaint(field, f"{value!r} is not a URL: {error}") from None
        if parts.scheme not in schemes:
            allowed = " and ".join(f"{scheme}://" for scheme in schemes)
            raise self.complaint(field, f"{parts.scheme}:// is not supported; {allowed} are")
        if not parts.hostname:
            raise self.complaint(field, f"{value!r} names no host")
        return value
