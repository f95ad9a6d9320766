"""Pods as local processes: what they get, what they do, how they end, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from allhands.agents.logs import LogOptions, LogsOfNodes
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from tests.manifests import CONFIG_MAPS, NODES, config_map
from tests.unit.agents.local import local

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = Resource("", "v1", "events")
SECRETS = Resource("", "v1", "secrets")
Manifest = dict[str, Any]


def ended(status: Manifest, kind: str = "containerStatuses", index: int = 0) -> Manifest:
    found: Manifest = status[kind][index]["state"]["terminated"]
    return found


def waiting(status: Manifest) -> Manifest:
    found: Manifest = (status.get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {})
    return found


async def test_a_pod_runs_its_command_and_its_output_is_kept(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("hello", "sh", "-c", "echo hello from $HOSTNAME; echo bad >&2")
        status = await here.ended("hello")
        assert status["phase"] == "Succeeded"
        assert ended(status)["exitCode"] == 0
        assert status["podIP"].startswith("127.")
        assert sorted((await here.log("hello")).splitlines()) == ["bad", "hello from hello"]
        node = (await here.objects.get(NODES, "here")).manifest()
        assert node["metadata"]["labels"]["allhands.dev/agent"] == "process"
        assert "taints" not in node["spec"]


async def test_an_exit_code_is_reported(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("bad", "sh", "-c", "exit 42")
        status = await here.ended("bad")
        assert (status["phase"], ended(status)["exitCode"], ended(status)["reason"]) == ("Failed", 42, "Error")


@pytest.mark.parametrize(
    ("command", "told"),
    [(["no-such-thing"], "'no-such-thing' was not found on this machine"), ([], "must state a command")],
    ids=["a command that does not exist", "no command"],
)
async def test_what_cannot_be_started_is_a_failure_with_a_reason(tmp_path: Path, command: list[str], told: str) -> None:
    async with local(tmp_path) as here:
        await here.add("bad", *command)
        status = await here.ended("bad")
        assert (status["phase"], ended(status)["exitCode"], ended(status)["reason"]) == ("Failed", 128, "StartError")
        assert told in ended(status)["message"]
        assert told in await here.log("bad")


async def test_the_environment_comes_from_everywhere(tmp_path: Path) -> None:
    env = [
        {"name": "FIRST", "value": "one"},
        {"name": "SECOND", "value": "$(FIRST)-two-$(NOBODY)-$$(FIRST)"},
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
        {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "pass"}}},
        {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": True}}},
    ]
    names = ("FIRST", "SECOND", "WHO", "LABEL", "CPU", "KEY", "PASS", "MAYBE", "c_b")
    script = "; ".join(f'echo {name}="${name}"' for name in names) + '; test "$IP" = "$ALLHANDS_POD_IP" && echo same'
    async with local(tmp_path) as here:
        await here.objects.create(CONFIG_MAPS, config_map("settings", a="from-map", b="all"), "default")
        secret = {"metadata": {"name": "keys"}, "data": {"pass": base64.b64encode(b"s3cret").decode()}}
        await here.objects.create(SECRETS, secret, "default")
        resources = {"requests": {"cpu": "1500m"}}
        from_maps = [{"configMapRef": {"name": "settings"}, "prefix": "c_"}]
        container = {"env": env, "envFrom": from_maps, "resources": resources, "args": ["$(SECOND)"]}
        await here.add("env", "sh", "-c", f"echo $0; {script}", container=container, labels={"team": "red"})
        await here.ended("env")
        assert (await here.log("env")).splitlines() == [
            "one-two-$(NOBODY)-$(FIRST)",
            "FIRST=one",
            "SECOND=one-two-$(NOBODY)-$(FIRST)",
            "WHO=env",
            "LABEL=red",
            "CPU=1500",
            "KEY=from-map",
            "PASS=s3cret",
            "MAYBE=",
            "c_b=all",
            "same",
        ]


async def test_the_secrets_of_the_agent_are_not_those_of_its_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    async with local(tmp_path) as here:
        await here.add("spy", "env")
        await here.ended("spy")
        assert "MY_TOKEN" not in await here.log("spy")


async def test_volumes_are_files_and_mount_paths_are_rewritten(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        script = "cat $1 $2 $ALLHANDS_POD_ROOT/up/who"
        await here.objects.create(CONFIG_MAPS, config_map("code") | {"data": {"run.sh": script}}, "default")
        secret = {"metadata": {"name": "keys"}, "data": {"k": base64.b64encode(b"key\n").decode()}}
        await here.objects.create(SECRETS, secret, "default")
        who = {"path": "who", "fieldRef": {"fieldPath": "metadata.name"}}
        volumes = [
            {"name": "code", "configMap": {"name": "code"}},
            {
                "name": "keys",
                "secret": {"secretName": "keys", "items": [{"key": "k", "path": "in/side", "mode": 0o400}]},
            },
            {"name": "self", "downwardAPI": {"items": [who]}},
            {"name": "data", "emptyDir": {}},
        ]
        mounts = [
            {"name": "code", "mountPath": "/code"},
            {"name": "keys", "mountPath": "/etc/keys"},
            {"name": "self", "mountPath": "/up"},
            {"name": "data", "mountPath": "/data"},
            {"name": "data", "mountPath": "/data/deep", "subPath": "sub"},
        ]
        container = {"volumeMounts": mounts, "args": ["/code/run.sh", "/etc/keys/in/side", "/data/made"]}
        init = {"name": "init", "image": "none", "volumeMounts": mounts, "workingDir": "/data"}
        init["command"] = ["sh", "-c", "echo made > made; pwd"]
        await here.add("files", "sh", container=container, spec={"volumes": volumes, "initContainers": [init]})
        status = await here.ended("files")
        assert status["phase"] == "Succeeded", await here.log("files")
        assert await here.log("files") == "key\nmade\nfiles"
        assert (await here.log("files", LogOptions(container="init"))).endswith("/data\n")
        await here.delete("files")
        await here.add("after", "true")
        await here.ended("after")
        after = (await here.pod("after"))["metadata"]["uid"]
        assert [it.name for it in (tmp_path / "pods").iterdir()] == [after]


async def test_what_is_missing_is_waited_for_and_named(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "a"}}}]
        await here.add("env", "true", container={"env": env})
        volumes = [{"name": "v", "configMap": {"name": "later"}}]
        mounts = [{"name": "v", "mountPath": "/v"}]
        await here.add("volume", "true", container={"volumeMounts": mounts}, spec={"volumes": volumes})
        pod = await here.when("env", lambda it: waiting(it["status"]).get("reason") == "CreateContainerConfigError")
        assert "config map default/later is not there" in waiting(pod["status"])["message"]
        assert pod["status"]["phase"] == "Pending"
        pod = await here.when("volume", lambda it: "later" in waiting(it["status"]).get("message", ""))
        assert waiting(pod["status"])["reason"] == "ContainerCreating"
        await here.objects.create(CONFIG_MAPS, config_map("later", a="now"), "default")
        assert (await here.ended("env"))["phase"] == "Succeeded"
        assert (await here.ended("volume"))["phase"] == "Succeeded"


async def test_host_paths_are_shown_where_allowed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "note").write_text("hi\n")
    async with local(tmp_path / "agent", host_paths=(tmp_path / "shared",)) as here:
        mounts = [{"name": "v", "mountPath": "/v"}]
        volumes = [{"name": "v", "hostPath": {"path": str(tmp_path / "shared")}}]
        await here.add("good", "cat", "/v/note", container={"volumeMounts": mounts}, spec={"volumes": volumes})
        assert (await here.ended("good"))["phase"] == "Succeeded"
        assert await here.log("good") == "hi\n"


async def test_a_host_path_that_is_not_allowed_says_so(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        volumes = [{"name": "v", "hostPath": {"path": "/etc"}}]
        await here.add("bad", "true", spec={"volumes": volumes})
        pod = await here.when("bad", lambda it: "not allowed" in waiting(it["status"]).get("message", ""))
        assert "hostPath /etc is not allowed here; allowed: none" in waiting(pod["status"])["message"]


async def test_deletion_is_sigterm_and_the_pod_goes_when_its_process_has(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        script = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done"
        await here.add("polite", "sh", "-c", script, finalizers=["test/keep"])
        await here.running("polite")
        async for piece in await here.agent.logs("default", "polite", LogOptions(follow=True)):
            if b"up" in piece:
                break
        await here.delete("polite")
        status = await here.ended("polite")
        assert (status["phase"], ended(status)["exitCode"]) == ("Failed", 7)
        assert (await here.log("polite")).endswith("bye\n")


async def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("deaf", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done", finalizers=["a/b"])
        await here.running("deaf")
        async for piece in await here.agent.logs("default", "deaf", LogOptions(follow=True)):
            if b"up" in piece:
                break
        await here.delete("deaf", grace_seconds=1)
        status = await here.ended("deaf")
        assert ended(status)["exitCode"] == 137


async def test_failures_are_restarted_and_the_run_before_can_be_read(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        script = "n=$(cat $HOME/n 2>/dev/null || echo 0); echo run $n; echo $((n+1)) > $HOME/n; test $n -ge 2"
        await here.add("again", "sh", "-c", script, spec={"restartPolicy": "OnFailure"})
        status = await here.ended("again")
        assert (status["phase"], status["containerStatuses"][0]["restartCount"]) == ("Succeeded", 2)
        assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        assert await here.log("again") == "run 2\n"
        assert await here.log("again", LogOptions(previous=True)) == "run 1\n"


async def test_init_containers_run_in_order_and_sidecars_end_with_the_others(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        mounts = [{"name": "v", "mountPath": "/v"}]
        common = {"image": "none", "volumeMounts": mounts, "workingDir": "/v"}
        sidecar = {"name": "side", "command": ["sh", "-c", "echo side >> log; sleep 1000"], "restartPolicy": "Always"}
        # The sidecar has begun, but what it writes first may come later than what the next writes.
        first = {"name": "one", "command": ["sh", "-c", "until test -s log; do sleep 0.01; done; echo one >> log"]}
        second = {"name": "two", "command": ["sh", "-c", "echo two >> log"]}
        spec = {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{**common, **it} for it in (sidecar, first, second)],
        }
        await here.add("many", "cat", "log", container=common | {"image": "x"}, spec=spec)
        status = await here.ended("many")
        assert status["phase"] == "Succeeded"
        assert await here.log("many") == "side\none\ntwo\n"
        assert ended(status, "initContainerStatuses")["exitCode"] == 143


async def test_a_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        init = {"name": "init", "image": "none", "command": ["false"]}
        await here.add("bad", "true", spec={"initContainers": [init]})
        status = await here.ended("bad")
        assert status["phase"] == "Failed"
        assert ended(status, "initContainerStatuses")["exitCode"] == 1


async def test_a_pod_past_its_deadline_is_ended(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("slow", "sleep", "1000", spec={"activeDeadlineSeconds": 1})
        status = await here.ended("slow")
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert ended(status)["exitCode"] == 143


async def test_a_process_over_its_memory_limit_is_killed(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        hog = "import signal; x = bytearray(200 * 2**20); x[::4096] = b'x' * len(x[::4096]); signal.pause()"
        limit = {"resources": {"limits": {"memory": "100Mi"}}}
        await here.add("hog", sys.executable, "-c", hog, container=limit)
        status = await here.ended("hog")
        assert (ended(status)["exitCode"], ended(status)["reason"]) == (137, "OOMKilled")


async def test_the_last_words_of_a_container_are_its_message(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("told", "sh", "-c", "echo because > $ALLHANDS_POD_ROOT/dev/termination-log; exit 1")
        await here.add(
            "logged",
            *("sh", "-c", "echo from the log; exit 1"),
            container={"terminationMessagePolicy": "FallbackToLogsOnError"},
        )
        assert ended(await here.ended("told"))["message"] == "because\n"
        assert ended(await here.ended("logged"))["message"] == "from the log\n"


async def test_a_pod_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        container = {"resources": {"requests": {"cpu": "9"}}}
        await here.add("big", "true", container=container)
        assert (await here.ended("big"))["reason"] == "OutOfcpu"


async def test_logs_can_be_followed_and_chosen(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("talk", "sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done")
        await here.running("talk")
        assert (await here.log("talk", LogOptions(follow=True))).split() == ["1", "2", "3", "4", "5"]
        assert await here.log("talk", LogOptions(tail_lines=2)) == "4\n5\n"
        assert (await here.log("talk", LogOptions(timestamps=True))).splitlines()[0].endswith("Z 1")
        assert await here.log("talk", LogOptions(since_time="2999-01-01T00:00:00Z")) == ""
        assert (await here.log("talk", LogOptions(since_seconds=3600))).split()[0] == "1"


@pytest.mark.parametrize(
    ("pod", "options", "told"),
    [
        ("nobody", LogOptions(), 'pods "nobody" not found'),
        ("quiet", LogOptions(container="other"), "container other is not valid for pod quiet"),
        ("quiet", LogOptions(previous=True), 'previous terminated container "main" in pod "quiet" not found'),
        ("quiet", LogOptions(tail_lines=-1), "tailLines"),
        ("quiet", LogOptions(since_time="yesterday"), "sinceTime"),
    ],
)
async def test_logs_that_are_not_there_are_refused(tmp_path: Path, pod: str, options: LogOptions, told: str) -> None:
    async with local(tmp_path) as here:
        await here.add("quiet", "true")
        await here.ended("quiet")
        with pytest.raises(StatusError, match=told):
            await here.log(pod, options)


async def test_logs_are_found_by_the_pods_node(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        router = LogsOfNodes(here.objects, {"here": here.agent})
        await here.add("real", "echo", "hello")
        await here.add("simulated", "true", spec={"nodeName": "elsewhere"})
        await here.add("waiting", "true", spec={"nodeName": ""})
        twins = [{"name": name, "image": "none", "command": ["echo", name]} for name in ("a", "b")]
        await here.add("two", spec={"containers": twins})
        await here.ended("real")
        await here.ended("two")

        async def text(pod: str, options: LogOptions) -> bytes:
            pieces = await router.logs("default", pod, options)
            assert pieces is not None
            return b"".join([piece async for piece in pieces])

        assert await text("real", LogOptions()) == b"hello\n"
        assert b"simulated node" in await text("simulated", LogOptions())
        assert await text("two", LogOptions(container="b")) == b"b\n"
        with pytest.raises(StatusError, match=r"choose one of: \[a b\]"):
            await text("two", LogOptions())
        assert await router.logs("default", "waiting") is None
        with pytest.raises(StatusError, match="not found"):
            await text("none", LogOptions())


async def test_an_agent_that_ends_leaves_no_process(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("long", "sh", "-c", "sleep 1000 & setsid sleep 1000 & sleep 1000")
        await here.add("deaf", "sh", "-c", "trap '' TERM; sleep 1000")
        await here.running("long")
        await here.running("deaf")
        assert len(here.processes()) >= 2
        await here.stop()
        assert here.processes() == []


async def test_pods_of_an_earlier_agent_are_reported_lost_or_started_again(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("never", "sleep", "1000")
        await here.add("retry", "sh", "-c", "sleep 1000", spec={"restartPolicy": "OnFailure"})
        await here.running("never")
        await here.running("retry")
        await here.crash()
        here.start()
        status = await here.ended("never")
        assert (status["phase"], ended(status)["reason"]) == ("Failed", "ContainerStatusUnknown")
        pod = await here.when("retry", lambda it: it["status"]["containerStatuses"][0]["restartCount"] == 1)
        assert pod["status"]["phase"] == "Running"


async def test_processes_that_a_killed_agent_left_are_ended_by_the_next(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "ALLHANDS_POD_ROOT": f"{tmp_path}/pods/x"}
    orphan = await asyncio.create_subprocess_exec("sleep", "1000", env=environment)
    async with local(tmp_path) as here:
        await here.add("a", "true")
        await here.ended("a")
        assert await orphan.wait() == -9


async def test_pods_have_addresses_of_their_own(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        for name in ("a", "b"):
            await here.add(name, "true")
        assert len({(await here.ended(name))["podIP"] for name in ("a", "b")}) == 2


async def test_endless_logs_disturb_nobody(tmp_path: Path) -> None:
    async with local(tmp_path, log_bytes=10**6) as here:
        await here.add("endless", "yes")
        await here.running("endless")
        await here.add("other", "echo", "fine")
        assert (await here.ended("other"))["phase"] == "Succeeded"
        await here.delete("endless", grace_seconds=1)
        await here.gone("endless")


async def test_users_are_told_by_events(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("bad", "no-such-thing")
        watch = await here.objects.watch(EVENTS)
        async with asyncio.timeout(10):
            event = (await anext(watch)).manifest()
        await watch.close()
        assert (event["type"], event["reason"]) == ("Warning", "Failed")
        assert event["involvedObject"]["name"] == "bad"
        assert "'no-such-thing' was not found" in event["message"]


async def test_a_node_that_is_deleted_comes_back(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("a", "true")
        await here.ended("a")
        first = (await here.objects.get(NODES, "here")).manifest()["metadata"]["uid"]
        watch = await here.objects.watch(NODES)
        await here.objects.delete(NODES, "here")
        async with asyncio.timeout(10):
            async for event in watch:
                found = event.manifest()
                if found["metadata"]["uid"] != first and found.get("status", {}).get("conditions"):
                    break
        await watch.close()
