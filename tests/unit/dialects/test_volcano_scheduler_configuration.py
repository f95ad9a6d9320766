"""Volcano's scheduler configuration, as clusters have it, becomes a policy with warnings, or errors that help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.configuration import ConfigurationError
from allhands.api.policy import QueueChoice, SchedulingPolicy
from allhands.core.configuration.building import build_policy
from allhands.dialects.policy_text import policy_of_text
from allhands.dialects.volcano_actions import ACTIONS
from allhands.dialects.volcano_document import seconds_of
from allhands.dialects.volcano_plugins import PLUGINS, SWITCHES
from allhands.dialects.volcano_rows import Row, Type, Verdict
from allhands.dialects.volcano_scheduler import Translated, translate

ALWAYS = ("gang", "predicates", "conformance")
BUILT_IN = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, enablePreemptable: false}
  - {name: conformance}
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
"""


def document(*plugins: dict[str, Any] | str, actions: str = "allocate", **more: Any) -> dict[str, Any]:
    listed = [{"name": it} if isinstance(it, str) else it for it in (*ALWAYS, *plugins)]
    return {"actions": actions, "tiers": [{"plugins": listed}], **more}


def of(*plugins: dict[str, Any] | str, actions: str = "allocate", **more: Any) -> SchedulingPolicy:
    policy = translate(document(*plugins, actions=actions, **more)).policy
    build_policy(policy)
    return policy


def warnings_of(*plugins: dict[str, Any] | str, actions: str = "allocate", **more: Any) -> list[str]:
    return [str(it) for it in translate(document(*plugins, actions=actions, **more)).warnings]


def errors_of(*plugins: dict[str, Any] | str, actions: str = "allocate", **more: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        translate(document(*plugins, actions=actions, **more))
    return [str(it) for it in error.value.errors]


def scores(policy: SchedulingPolicy) -> dict[str, int]:
    return {it.name: it.weight for it in policy.scores or ()}


def arguments(policy: SchedulingPolicy, score: str) -> Any:
    return next(it.arguments for it in policy.scores or () if it.name == score)


# -- the configurations that clusters have


def test_the_built_in_configuration_loads() -> None:
    found = policy_of_text(BUILT_IN)
    build_policy(found.policy)
    expected = {"leastallocated": 1, "balanced": 1, "nodeaffinity": 2, "taints": 3, "imagelocality": 1}
    assert scores(found.policy) == expected
    assert [it.name for it in found.policy.orders or ()] == ["priority", "creation"]
    assert found.policy.queue_choice is QueueChoice.PROPORTION
    assert (found.policy.preempts, found.policy.reclaims) == (False, False)
    assert found.policy.neighbour_weight == 2
    assert [it.path for it in found.warnings] == ["actions", "actions", "tiers[1].plugins[0]", "tiers[1].plugins[1]"]


def test_the_configuration_of_the_chart_loads() -> None:
    found = policy_of_text(CHART)
    build_policy(found.policy)
    assert scores(found.policy)["binpack"] == 1
    assert len(found.warnings) == 4


def test_a_configuration_with_everything_that_is_understood_loads() -> None:
    plugins = [
        {"name": row.name, "arguments": {it.name: _value(it) for it in row.arguments if it.verdict is Verdict.SAME}}
        for row in PLUGINS
        if row.verdict is not Verdict.REFUSED and row.name not in ("capacity", *ALWAYS)
    ]
    actions = [row for row in ACTIONS if row.verdict is not Verdict.REFUSED and not row.name.startswith("gang")]
    policy = of(*plugins, actions=", ".join(row.name for row in actions))
    assert (policy.preempts, policy.reclaims) == (True, True)


def _value(row: Row) -> Any:
    return {
        Type.WHOLE: 2,
        Type.NUMBER: 1.5,
        Type.BOOL: True,
        Type.TEXT: "a",
        Type.DURATION: "1h",
        Type.MAPPING: {},
        Type.LIST: [],
    }[row.type]


# -- actions


@pytest.mark.parametrize(
    ("actions", "preempts", "reclaims"),
    [
        ("enqueue, allocate, backfill, preempt, reclaim", True, True),
        ("allocate,preempt", True, False),
        (" allocate , reclaim ", False, True),
        ("allocate, gangpreempt, gangreclaim", True, True),
    ],
)
def test_actions_switch_preemption_and_reclaim_on(actions: str, preempts: bool, reclaims: bool) -> None:
    policy = of(actions=actions)
    assert (policy.preempts, policy.reclaims) == (preempts, reclaims)


@pytest.mark.parametrize(
    ("actions", "error"),
    [
        (
            "allocate, enqeue",
            "there is no such action; there are allocate, backfill, enqueue, gangpreempt, gangreclaim",
        ),
        ("allocate, gangPreempt", 'names are in lower case: "gangpreempt"'),
        ("allocate, elect", "Volcano removed it long ago"),
        ("allocate,", 'Unsupported value: "": there is no such action'),
        ("", "without allocate nothing would start"),
        ("enqueue, backfill", "without allocate nothing would start"),
        ("allocate, shuffle", "Forbidden: shuffle: running pods are not moved"),
        ("allocate, preempt, gangpreempt", "gangpreempt must not be mixed with preempt"),
        ("allocate, reclaim, gangpreempt", "gangpreempt must not be mixed with reclaim"),
        ("allocate, gangreclaim, preempt", "gangreclaim must not be mixed with preempt"),
    ],
)
def test_actions_that_cannot_be_done_are_refused(actions: str, error: str) -> None:
    assert any(error in it for it in errors_of(actions=actions))


def test_another_order_of_actions_is_told_to_make_no_difference() -> None:
    assert any("the order is fixed" in it for it in warnings_of(actions="enqueue, reclaim, allocate"))
    assert not any("the order is fixed" in it for it in warnings_of(actions="enqueue, allocate, backfill, preempt"))


def test_arguments_of_actions_are_understood() -> None:
    gang = [{"name": "gangpreempt", "arguments": {"maxDomains": 3, "allowWholeBundle": True}}]
    assert of(actions="allocate, gangpreempt", configurations=gang).max_domains_tried == 3
    only_surplus = [{"name": "gangpreempt", "arguments": {"allowWholeBundle": False}}]
    (error,) = errors_of(actions="allocate, gangpreempt", configurations=only_surplus)
    assert error.startswith("configurations[0].arguments[allowWholeBundle]: Forbidden")
    unused = [{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}}]
    assert any("is not among the actions" in it for it in warnings_of(configurations=unused))
    (error,) = errors_of(configurations=[{"name": "allocate", "arguments": {"predicateErrorCache": True}}])
    assert error.endswith("there is no such argument; there are predicateErrorCacheEnable")
    (error,) = errors_of(configurations=[{"name": "Allocate"}])
    assert 'names are in lower case: "allocate"' in error


# -- plugins


def test_an_unknown_plugin_is_an_error_that_lists_the_known_ones() -> None:
    (error,) = errors_of("gangs")
    assert (
        'tiers[0].plugins[3].name: Unsupported value: "gangs": there is no such plugin; there are binpack, cap' in error
    )
    (error,) = errors_of("Binpack")
    assert 'names are in lower case: "binpack"' in error
    (error,) = errors_of("numaaware")
    assert 'it is spelled "numa-aware"' in error


@pytest.mark.parametrize("row", [row for row in PLUGINS if row.verdict is Verdict.REFUSED], ids=lambda row: row.name)
def test_what_nothing_serves_is_refused(row: Any) -> None:
    (error,) = errors_of(row.name)
    assert error == f"tiers[0].plugins[3]: Forbidden: {row.name}: {row.note}"


@pytest.mark.parametrize("row", [row for row in PLUGINS if row.verdict is Verdict.OURS], ids=lambda row: row.name)
def test_what_is_served_another_way_is_told(row: Any) -> None:
    assert f"tiers[0].plugins[3]: {row.name}: {row.note}" in warnings_of(row.name)


def test_what_is_always_on_is_told_where_it_is_not_listed() -> None:
    found = [str(it) for it in translate({"actions": "allocate"}).warnings]
    assert len(found) == 3
    assert all("is not listed" in it for it in found)


def test_hierarchical_shares_and_proportion_conflict_as_in_volcano() -> None:
    hierarchical = {"name": "drf", "enableHierarchy": True}
    (error,) = errors_of(hierarchical, "proportion")
    assert error == "tiers[0].plugins[4]: Forbidden: conflicts with drf and enableHierarchy: true; use one of the two"
    assert of(hierarchical).queue_choice is QueueChoice.HIERARCHICAL_DRF
    assert of("drf", "proportion").queue_choice is QueueChoice.PROPORTION


def test_proportion_and_capacity_cannot_be_used_together() -> None:
    (error,) = errors_of("proportion", "capacity")
    assert "cannot be used together" in error


def test_queues_are_chosen_by_whoever_is_not_switched_off() -> None:
    assert of("capacity").queue_choice is QueueChoice.PROPORTION
    assert of({"name": "proportion", "enableQueueOrder": False}).queue_choice is QueueChoice.DRF
    assert of().queue_choice is QueueChoice.DRF


def test_a_capacity_without_hierarchy_is_told_that_parents_count() -> None:
    assert any("enableHierarchy" in it for it in warnings_of("capacity"))
    assert not any("enableHierarchy" in it for it in warnings_of({"name": "capacity", "enableHierarchy": True}))


def test_a_plugin_that_is_listed_twice_is_refused() -> None:
    assert errors_of("binpack", "binpack") == ['tiers[0].plugins[4].name: Duplicate value: "binpack"']


def test_weights_of_node_order_become_scores() -> None:
    given = {
        "leastrequested.weight": 0,
        "mostrequested.weight": 5,
        "tainttoleration.weight": 0,
        "podaffinity.weight": 4,
    }
    policy = of({"name": "nodeorder", "arguments": given})
    assert scores(policy) == {"mostallocated": 5, "nodeaffinity": 2, "balanced": 1, "imagelocality": 1}
    assert policy.neighbour_weight == 4
    (warning,) = warnings_of({"name": "nodeorder", "arguments": given})
    assert "it is 4, the larger of the two" in warning
    (error,) = errors_of({"name": "nodeorder", "arguments": {"nodeaffinity.weight": -1}})
    assert "must be between 0 and 1000000" in error


def test_weights_of_binpack_become_its_arguments() -> None:
    given = {
        "binpack.weight": 10, "binpack.cpu": 5, "binpack.memory": -1, "binpack.resources": "nvidia.com/gpu, a.b/c,",
        "binpack.resources.nvidia.com/gpu": 2, "binpack.resources.not/listed": 2,
    }  # fmt: skip
    policy = of({"name": "binpack", "arguments": given})
    assert scores(policy) == {"binpack": 10}
    assert arguments(policy, "binpack") == {"resources": {"nvidia.com/gpu": 2, "a.b/c": 1, "cpu": 5, "memory": 1}}
    (warning,) = warnings_of({"name": "binpack", "arguments": given})
    assert 'binpack.resources does not list "not/listed"' in warning
    assert scores(of({"name": "binpack", "arguments": {"binpack.weight": 0}})) == {}


def test_strategies_of_resources_become_scores() -> None:
    given = {
        "resources": {
            "nvidia.com/gpu": {"type": "MostAllocated", "weight": 2},
            "cpu": {"weight": 0}, "*": {}, "a*b": {}, "x.y/*": {},
        },
        "sra": {"enable": True, "resources": "nvidia.com/gpu", "weight": 7, "resourceWeight": {"nvidia.com/gpu": 3}},
        "proportional": {"enable": False, "resources": "nvidia.com/gpu"},
    }  # fmt: skip
    policy = of({"name": "resource-strategy-fit", "arguments": given})
    assert scores(policy) == {"resourcestrategy": 10, "scarce": 7}
    assert arguments(policy, "resourcestrategy")["resources"] == {
        "nvidia.com/gpu": {"type": "MostAllocated", "weight": 2},
        "cpu": {"type": "LeastAllocated", "weight": 1},
        "x.y/*": {"type": "LeastAllocated", "weight": 1},
    }
    assert arguments(policy, "scarce") == {"resources": {"nvidia.com/gpu": 3}}
    assert len(warnings_of({"name": "resource-strategy-fit", "arguments": given})) == 2


def test_room_in_proportion_is_refused_unless_it_is_switched_off() -> None:
    given = {"proportional": {"enable": True}}
    (error,) = errors_of({"name": "resource-strategy-fit", "arguments": given})
    assert error.endswith("arguments[proportional]: Forbidden: room is not kept in proportion to devices")
    of({"name": "resource-strategy-fit", "arguments": given, "enablePredicate": False})


def test_mistakes_inside_an_argument_have_their_path() -> None:
    given = {"resources": {"cpu": {"type": "Most", "wait": 1}}}
    found = errors_of({"name": "resource-strategy-fit", "arguments": given})
    assert [it.partition(": ")[0] for it in found] == [
        "tiers[0].plugins[3].arguments.resources[cpu].wait",
        "tiers[0].plugins[3].arguments.resources[cpu].type",
    ]


def test_a_waiting_time_drains_and_deadlines_order() -> None:
    policy = of({"name": "sla", "arguments": {"sla-waiting-time": "1h2m3s4ms"}}, "priority")
    assert policy.drain_after_seconds == 3724
    assert [it.name for it in policy.orders or ()] == ["deadline", "priority", "creation"]
    assert of({"name": "sla", "enableJobOrder": False}).orders == of().orders
    for bad in ("1 hour", "", "-1h", "0s", "1", 60):
        (error,) = errors_of({"name": "sla", "arguments": {"sla-waiting-time": bad}})
        assert "duration" in error


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1.5h", 5400), ("1ms", 1), ("1h0m0.5s", 3601), ("+2m", 120), (".5m", 30), ("1d", None), ("h", None)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


# -- arguments and switches


def test_an_argument_beside_the_others_is_sent_to_its_place() -> None:
    """A common slip of indentation, which Volcano passes over."""
    (error,) = errors_of({"name": "overcommit", "arguments": None, "overcommit-factor": 1.0})
    assert error == "tiers[0].plugins[3].overcommit-factor: Forbidden: it belongs under arguments"


def test_a_misspelled_switch_is_told_how_it_is_spelled() -> None:
    (error,) = errors_of({"name": "proportion", "enableOverused": False})
    assert 'it is spelled "enabledOverused"' in error
    (error,) = errors_of({"name": "proportion", "colour": "red"})
    assert "there are arguments, enableBestNode" in error
    (error,) = errors_of({"name": "proportion", "enableQueueOrder": "false"})
    assert "expected true or false" in error


@pytest.mark.parametrize(
    "plugin", [row for row in PLUGINS if row.verdict is not Verdict.REFUSED], ids=lambda row: row.name
)
@pytest.mark.parametrize("switch", [switch for switch in SWITCHES if switch != "enableHierarchy"])
def test_each_switch_of_each_plugin_does_what_its_row_says(plugin: Any, switch: str) -> None:
    row = next((it for it in plugin.switches if it.name == switch), None)
    rest = [{"name": name} for name in ALWAYS if name != plugin.name]
    conf = {"actions": "allocate", "tiers": [{"plugins": [{"name": plugin.name, switch: False}, *rest]}]}
    path = f"tiers[0].plugins[0].{switch}"
    if row is not None and row.verdict is Verdict.REFUSED:
        with pytest.raises(ConfigurationError, match=row.note):
            translate(conf)
        return
    told = [it.text for it in translate(conf).warnings if it.path == path]
    if row is None:
        assert told == [f"has no effect: {plugin.name} has nothing to switch there"]
    else:
        assert told == ([f"cannot be switched off: {row.note}"] if row.verdict is Verdict.OURS else [])
    conf["tiers"][0]["plugins"][0][switch] = True  # type: ignore[index]
    assert not [it for it in translate(conf).warnings if it.path == path]


ARGUMENTS = [(plugin, row) for plugin in PLUGINS if plugin.verdict is not Verdict.REFUSED for row in plugin.arguments]


@pytest.mark.parametrize(("plugin", "row"), ARGUMENTS, ids=[row.name for _, row in ARGUMENTS])
def test_each_argument_does_what_its_row_says(plugin: Any, row: Row) -> None:
    values = [_value(row), *row.neutral]
    if row.type is Type.BOOL:
        values = [True, False, "true", "false"]
    for value in values:
        name = row.name.replace("<name>", "x.y/z")
        path = f"tiers[0].plugins[0].arguments[{name}]"
        rest = [{"name": it} for it in ALWAYS if it != plugin.name]
        conf = {
            "actions": "allocate",
            "tiers": [{"plugins": [{"name": plugin.name, "arguments": {name: value}}, *rest]}],
        }
        neutral = row.verdict is Verdict.SAME or row.is_neutral({"true": True, "false": False}.get(str(value), value))
        if row.verdict is Verdict.REFUSED and not neutral:
            with pytest.raises(ConfigurationError) as error:
                translate(conf)
            assert [str(it) for it in error.value.errors] == [f"{path}: Forbidden: {row.note}"]
        elif row.verdict is Verdict.OURS:
            assert [it.text for it in translate(conf).warnings if it.path == path] == ([] if neutral else [row.note])
        else:
            translate(conf)


@pytest.mark.parametrize(("plugin", "row"), ARGUMENTS, ids=[row.name for _, row in ARGUMENTS])
def test_each_argument_of_another_type_is_refused(plugin: Any, row: Row) -> None:
    name = row.name.replace("<name>", "x.y/z")
    use = {"name": plugin.name, "arguments": {name: object() if row.type is Type.TEXT else "surely not"}}
    with pytest.raises(ConfigurationError) as error:
        translate({"actions": "allocate", "tiers": [{"plugins": [use]}]})
    assert [it.path for it in error.value.errors] == [f"tiers[0].plugins[0].arguments[{name}]"]


def test_fields_that_volcano_does_not_have_are_refused_with_those_it_has() -> None:
    with pytest.raises(ConfigurationError, match="tier: Forbidden: there is no such field; there are actions, conf"):
        translate({"actions": "allocate", "tier": []})
    with pytest.raises(
        ConfigurationError, match=r"tiers\[0\].plugin: Forbidden: there is no such field; there are plug"
    ):
        translate({"actions": "allocate", "tiers": [{"plugin": []}]})


def test_metrics_are_told_to_be_unread() -> None:
    assert any(it.startswith("metrics: is not read") for it in warnings_of(metrics={"type": "prometheus"}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([row.name for row in PLUGINS]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "plugins", "binpack.cpu", *SWITCHES[:6]]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["actions", "tiers", "configurations", "metrics"]), JSON))
def test_whatever_is_written_gives_a_policy_or_an_error_with_a_path(conf: Any) -> None:
    conf = {"actions": "allocate", **conf}
    try:
        assert isinstance(translate(conf), Translated)
    except ConfigurationError as error:
        assert error.errors
        assert all(it.path for it in error.errors)
