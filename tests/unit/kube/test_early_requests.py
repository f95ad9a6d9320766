"""What was asked for early is what its reader gets, or its refusal; what nobody takes is given up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from allhands.kube import early_requests
from allhands.kube.objects import MOST_EARLY_BYTES
from allhands.ports import Query
from tests.manifests import CONFIG_MAPS, DEFINITIONS
from tests.unit.kube.scripted_server import answer, saying
from tests.unit.kube.test_wire_stream import END, HEAD, chunk, event

if TYPE_CHECKING:
    from allhands.kube.objects import KubeObjects, KubeWatch
    from tests.unit.kube.scripted_server import ScriptedServer


def everything(client: KubeObjects) -> asyncio.Task[KubeWatch]:
    return asyncio.create_task(client.watch(CONFIG_MAPS, bookmarks=True, initial_events=True))


async def test_who_watches_everything_gets_what_was_asked_for_early_and_only_once(
    server: ScriptedServer, client: KubeObjects
) -> None:
    server.script += [saying(HEAD + chunk(event(1)) + END), saying(HEAD + chunk(event(2)) + END)]
    client.watch_early([CONFIG_MAPS])
    client.watch_early([CONFIG_MAPS])
    early = await everything(client)
    assert [it.manifest()["n"] async for it in early] == [1]
    later = await everything(client)
    assert [it.manifest()["n"] async for it in later] == [2]


async def test_who_watches_a_part_asks_himself(server: ScriptedServer, client: KubeObjects) -> None:
    server.script += [saying(HEAD + chunk(event(1)) + END), saying(HEAD + chunk(event(2)) + END)]
    client.watch_early([CONFIG_MAPS])
    while not client._early_watches._begun[CONFIG_MAPS].done():  # noqa: ASYNC110 (nobody is told)
        await asyncio.sleep(0)
    part = await client.watch(CONFIG_MAPS, Query(namespace="one"), bookmarks=True, initial_events=True)
    assert [it.manifest()["n"] async for it in part] == [2]
    early = await everything(client)
    assert [it.manifest()["n"] async for it in early] == [1]


async def test_an_early_refusal_is_told_to_who_watches(server: ScriptedServer, client: KubeObjects) -> None:
    unknown = b'{"kind":"Status","code":404,"reason":"NotFound","message":"no such kind"}'
    server.script.append(saying(answer(unknown, "HTTP/1.1 404 Not Found")))
    client.watch_early([CONFIG_MAPS])
    with pytest.raises(StatusError, match="no such kind"):
        await everything(client)


async def test_what_nobody_takes_in_time_is_given_up(server: ScriptedServer, client: KubeObjects) -> None:
    server.script.append(saying(HEAD + chunk(event(1))))
    opening = client._open_watch(CONFIG_MAPS, Query(), bookmarks=True, initial_events=True)
    client._early_watches.begin(CONFIG_MAPS, opening, kept_seconds=0.0)
    begun = client._early_watches._begun[CONFIG_MAPS]
    while client._early_watches or client._early_watches._given_up:  # noqa: ASYNC110 (nobody is told)
        await asyncio.sleep(0)
    assert begun.done()
    assert client._early_watches.take(CONFIG_MAPS) is None
    assert client.transport._wire is not None
    assert not client.transport._wire._streams
    assert early_requests.KEPT_SECONDS > 0


async def test_a_client_that_is_left_has_given_up_what_nobody_took(server: ScriptedServer, client: KubeObjects) -> None:
    refusal = b'{"kind":"Status","code":403}'
    server.script += [saying(HEAD + chunk(event(1))), saying(answer(refusal, "HTTP/1.1 403 Forbidden"))]
    client.watch_early([CONFIG_MAPS, DEFINITIONS])
    while not all(it.done() for it in client._early_watches._begun.values()):  # noqa: ASYNC110 (nobody is told)
        await asyncio.sleep(0)
    await client._early_watches.close()
    assert client.transport._wire is not None
    assert not client.transport._wire._streams


async def test_who_lists_the_same_gets_what_was_asked_for_early_and_only_once(
    server: ScriptedServer, client: KubeObjects
) -> None:
    pages = [b'{"metadata":{"resourceVersion":"%d"},"items":[{"n":%d}]}' % (number, number) for number in (1, 2, 3)]
    server.script += [saying(answer(page)) for page in pages]
    client.list_early(CONFIG_MAPS, Query(limit=1))
    client.list_early(CONFIG_MAPS, Query(limit=1))
    while not client._early_pages._begun[CONFIG_MAPS, Query(limit=1)].done():  # noqa: ASYNC110 (nobody is told)
        await asyncio.sleep(0)
    assert (await client.list(CONFIG_MAPS, Query(limit=2))).version == "2"
    assert (await client.list(CONFIG_MAPS, Query(limit=1))).version == "1"
    assert (await client.list(CONFIG_MAPS, Query(limit=1))).version == "3"


def page_of(number: int, size: int, token: str) -> bytes:
    head = b'{"metadata":{"resourceVersion":"%d","continue":"%s"},' % (number, token.encode())
    return head + b'"items":["%s"]}' % (b"x" * size)


async def test_the_pages_after_it_are_asked_for_before_anybody_reads_the_first(
    server: ScriptedServer, client: KubeObjects
) -> None:
    server.script += [
        saying(answer(page_of(1, 1, "b"))),
        saying(answer(page_of(2, 1, "c"))),
        saying(answer(page_of(3, 1, ""))),
    ]
    client.list_early(CONFIG_MAPS, Query(limit=1))
    asked = [Query(limit=1, continue_token=token) for token in ("", "b", "c")]
    while len(client._early_pages) < 3:  # noqa: ASYNC110 (nobody is told)
        await asyncio.sleep(0)
    assert [(await client.list(CONFIG_MAPS, query)).version for query in asked] == ["1", "2", "3"]
    assert not client._early_pages


async def test_no_more_pages_are_asked_for_early_than_may_be_held(server: ScriptedServer, client: KubeObjects) -> None:
    server.script += [saying(answer(page_of(1, MOST_EARLY_BYTES, "b"))), saying(answer(page_of(2, 1, "")))]
    client.list_early(CONFIG_MAPS, Query(limit=1))
    assert (await client.list(CONFIG_MAPS, Query(limit=1))).continue_token == "b"
    assert not client._early_pages
    assert (await client.list(CONFIG_MAPS, Query(limit=1, continue_token="b"))).version == "2"


async def test_a_page_that_nobody_took_is_given_up(server: ScriptedServer, client: KubeObjects) -> None:
    server.script.append(saying(b""))  # it says nothing
    client.list_early(CONFIG_MAPS, Query(limit=1))
    await client._early_pages.close()
    assert not client._early_pages
