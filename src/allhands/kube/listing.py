"""Lists, split into their items as raw text: nothing of an object is decoded here."""

from __future__ import annotations

import msgspec

from allhands.ports import Page


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 (the API's own name)
    continue_: str = msgspec.field(default="", name="continue")
    remainingItemCount: int | None = None  # noqa: N815


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_lists = msgspec.json.Decoder(_List)


def split_list(raw: bytes) -> Page:
    listed = _lists.decode(raw)
    meta = listed.metadata
    return Page(
        [bytes(item) for item in listed.items or ()], meta.resourceVersion, meta.continue_, meta.remainingItemCount
    )
