"""A plan is a value: it can be compared, read, and is complete about what each start does."""

from __future__ import annotations

import msgspec

from allhands.core.plan import NOTHING, Bind, Evict, Hold, Plan, Start, Wait
from allhands.core.plan_difference import differences
from allhands.core.recording import canonical_plan
from allhands.model.reason import Reason, explain

BOUND = Bind("default/p", "uid", "n1")
TO_COME = Bind("default/g#//0", "", "n2")


def test_all_bindings_of_a_plan_are_those_of_its_starts_in_order() -> None:
    plan = Plan(starts=(Start("default/g", (BOUND, TO_COME)), Start("default/h", (BOUND,))))
    assert plan.binds == (BOUND, TO_COME, BOUND)
    assert NOTHING.binds == ()


def test_a_start_with_pods_to_come_is_an_admission() -> None:
    assert Start("default/g", (BOUND, TO_COME)).is_admission
    assert not Start("default/g", (BOUND,)).is_admission


def test_equal_plans_are_equal_and_survive_being_written() -> None:
    def plan() -> Plan:
        why = explain(Reason.SUSPENDED)
        return Plan(
            starts=(Start("default/g", (BOUND,)),),
            evictions=(Evict("default/p", "uid", "n1", "default/g", "", why),),
            holds=(Hold("default/h", ("n1",), None, awaits_leaving=True),),
            waits=(Wait("default/h", why, 7),),
        )

    assert plan() == plan()
    assert msgspec.json.decode(msgspec.json.encode(plan()), type=Plan) == plan()


def test_a_hold_for_which_somebody_leaves_is_told_apart_from_a_promise() -> None:
    def words(hold: Hold) -> str:
        (found,) = differences(canonical_plan(NOTHING), Plan(holds=(hold,)))
        return f"{found.what}: {found.now}"

    assert words(Hold("default/g", ("n1", "n2"), 70)) == "hold default/g: n1+n2 from 70"
    assert words(Hold("default/g", ("n1",), None)) == "hold default/g: n1 once it is free"
    leaving = Hold("default/g", ("n1",), None, awaits_leaving=True)
    assert words(leaving) == "hold default/g: n1 once those who leave are gone"
