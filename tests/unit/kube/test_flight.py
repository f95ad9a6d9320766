"""Few requests are under way at a time; leases go first, and everybody else has his turn."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.kube.flight import Flight, Urgency
from tests.depth import examples


async def test_a_renewal_does_not_wait_behind_ten_thousand_binds() -> None:
    flight, hang = Flight(most=2, reserved=1), asyncio.Event()

    async def bind() -> None:
        async with flight.place(Urgency.WRITE):
            await hang.wait()

    binds = [asyncio.ensure_future(bind()) for _ in range(10_000)]
    await asyncio.sleep(0)
    assert flight.waiting == 9_998
    async with asyncio.timeout(10), flight.place(Urgency.LEASE):
        assert not hang.is_set()
    hang.set()
    await asyncio.gather(*binds)
    assert flight.waiting == 0


async def test_classes_take_turns_and_leases_come_first() -> None:
    flight, order = Flight(most=1, reserved=0), list[str]()

    async def fly(urgency: Urgency) -> None:
        async with flight.place(urgency):
            order.append(urgency.name)

    wanted = [Urgency.WRITE] * 3 + [Urgency.EVENT] * 3 + [Urgency.READ] * 3 + [Urgency.LEASE] * 2
    async with flight.place(Urgency.WRITE):
        tasks = [asyncio.ensure_future(fly(urgency)) for urgency in wanted]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["LEASE"] * 2 + ["READ", "WRITE", "EVENT"] * 3


async def test_who_gives_up_waiting_leaves_no_place_unused() -> None:
    flight = Flight(most=1, reserved=0)
    await flight.enter(Urgency.WRITE)
    first, second, third = (asyncio.ensure_future(flight.enter(Urgency.WRITE)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    flight.leave()
    second.cancel()  # in the very moment in which it is given the place
    async with asyncio.timeout(10):
        await third
    assert second.cancelled()


@settings(max_examples=examples(50))
@given(
    most=st.integers(1, 4),
    reserved=st.integers(0, 2),
    wanted=st.lists(st.tuples(st.sampled_from(Urgency), st.integers(0, 3), st.booleans()), max_size=40),
)
def test_never_more_than_allowed_and_nobody_is_forgotten(
    most: int, reserved: int, wanted: list[tuple[Urgency, int, bool]]
) -> None:
    async def main() -> None:
        flight, flying = Flight(most, reserved), list[Urgency]()

        async def fly(urgency: Urgency, turns: int) -> None:
            async with flight.place(urgency):
                flying.append(urgency)
                assert len(flying) <= most + reserved
                if urgency != Urgency.LEASE:
                    assert len(flying) <= most or Urgency.LEASE in flying
                try:
                    for _ in range(turns):
                        await asyncio.sleep(0)
                finally:
                    flying.remove(urgency)

        tasks = [asyncio.ensure_future(fly(urgency, turns)) for urgency, turns, _ in wanted]
        await asyncio.sleep(0)
        for task, (_, _, is_cancelled) in zip(tasks, wanted, strict=True):
            if is_cancelled and flight.waiting:
                task.cancel()
                await asyncio.sleep(0)
        async with asyncio.timeout(30):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [it for it in results if isinstance(it, Exception)]
        for _ in range(most):
            await asyncio.wait_for(flight.enter(Urgency.READ), 1)

    asyncio.run(main())


def test_there_must_be_a_place() -> None:
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        Flight(0)
