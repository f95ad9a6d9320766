"""ssh: pods of one Job log in to each other, and to nobody who only says that he is one of them."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from allhands.lifecycle.volcano_job.plugins.catalog import plugin_errors
from allhands.lifecycle.volcano_job.plugins.ssh import DEFAULT_PATH, HOST_KEY_PATH
from allhands.runtime.keys import keys_from
from tests.plugin_jobs import companions, equipped, job, task

FILES = {
    "id_ed25519", "id_ed25519.pub", "id_rsa", "id_rsa.pub", "authorized_keys", "config", "known_hosts",
    "ssh_host_ed25519_key", "ssh_host_ed25519_key.pub",
}  # fmt: skip


def secret_of(*flags: str, **more: Any) -> dict[str, str]:
    made = companions(job({"ssh": list(flags)}, task("master"), task("worker", 2), **more))
    assert [it.manifest["metadata"]["name"] for it in made] == ["job-ssh"]
    assert not made[0].keeps_up
    return {name: base64.b64decode(text).decode() for name, text in made[0].manifest["data"].items()}


def volume_of(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["volumes"][0]["secret"]
    return found


def test_the_secret_has_a_key_for_users_and_another_for_hosts() -> None:
    data = secret_of()
    new_keys = keys_from(random.Random(1))
    user, host = new_keys(), new_keys()
    assert (data["id_ed25519"], data["id_ed25519.pub"]) == user
    assert (data["ssh_host_ed25519_key"], data["ssh_host_ed25519_key.pub"]) == host
    assert data["authorized_keys"] == user.public
    assert data["known_hosts"] == f"job.default {host.public}"


def test_hosts_of_the_job_are_found_by_both_names_and_only_with_the_key_of_the_job() -> None:
    lines = secret_of()["config"].splitlines()
    block = lines[lines.index("Host job-worker-1 job-worker-1.job") :][:5]
    assert block[1:] == [
        "  HostName job-worker-1.job",
        "  Port 22",
        "  HostKeyAlias job.default",
        "  StrictHostKeyChecking yes",
    ]
    assert lines[-4:] == [
        "Host *",
        f"  IdentityFile {DEFAULT_PATH}/id_ed25519",
        "  StrictHostKeyChecking accept-new",
        f"  UserKnownHostsFile {DEFAULT_PATH}/known_hosts",
    ]


def test_hosts_that_come_later_are_found_by_the_pattern_of_their_names() -> None:
    lines = secret_of()["config"].splitlines()
    full = lines.index("Host job-worker-*.job")
    short = lines.index("Host job-worker-*")
    assert (lines[full + 1], lines[short + 1]) == ("  HostName %h", "  HostName %h.job")
    assert full < short


def test_a_job_of_many_pods_has_a_secret_that_fits() -> None:
    made = companions(job({"ssh": []}, task("worker", 100_000)))
    assert sum(len(it) for it in made[0].manifest["data"].values()) < 1_000_000


def test_files_are_readable_by_their_owner_alone_and_lie_where_programs_look() -> None:
    pod = equipped(job({"ssh": []}, task("a", initContainers=[{"name": "first", "image": "none"}])), "a")
    volume = volume_of(pod)
    assert volume["secretName"] == "job-ssh"
    assert volume["defaultMode"] == 0o400
    assert {it["path"] for it in volume["items"]} == {f".ssh/{name}" for name in FILES}
    assert {it["key"] for it in volume["items"]} <= set(secret_of())
    for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        assert container["volumeMounts"] == [
            {"name": "job-ssh", "mountPath": DEFAULT_PATH, "subPath": ".ssh"},
            {"name": "job-ssh", "mountPath": HOST_KEY_PATH, "subPath": ".ssh/ssh_host_ed25519_key"},
        ]


def test_elsewhere_than_in_the_home_of_root_others_read_the_files_and_hosts_have_keys_of_their_own() -> None:
    made = job({"ssh": ["--ssh-key-file-path=/work/.ssh"]}, task("a"))
    pod = equipped(made, "a")
    assert volume_of(pod)["defaultMode"] == 0o444
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "job-ssh", "mountPath": "/work/.ssh", "subPath": ".ssh"}
    ]
    config = secret_of("--ssh-key-file-path=/work/.ssh")["config"]
    assert "HostKeyAlias" not in config
    assert config.endswith("  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")


def test_a_pod_with_a_group_for_its_files_keeps_them_closed() -> None:
    flags = ["--ssh-key-file-path=/work/.ssh", "--host-keys=pinned"]
    made = job({"ssh": flags}, task("a", securityContext={"fsGroup": 1000}))
    assert volume_of(equipped(made, "a"))["defaultMode"] == 0o400
    assert "  UserKnownHostsFile /work/.ssh/known_hosts" in secret_of(*flags)["config"]


def test_a_key_of_the_user_is_taken_and_a_port() -> None:
    data = secret_of("--ssh-private-key=PRIVATE", "--ssh-public-key=PUBLIC", "--ssh-port=2222")
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("PRIVATE\n", "PUBLIC\n", "PUBLIC\n")
    assert "id_ed25519" not in data
    assert data["config"].count("  Port 2222") == data["config"].count("  HostName ")


def test_the_port_of_mpi_is_that_of_sshd_unless_ssh_says_another() -> None:
    def port(**plugins: list[str]) -> bool:
        data = companions(job(plugins, task("master"), task("worker")))
        secret = next(it.manifest for it in data if it.manifest["kind"] == "Secret")
        return "  Port 2022" in base64.b64decode(secret["data"]["config"]).decode()

    assert port(mpi=["--port=2022"])
    assert port(mpi=["--port=2022"], ssh=[])
    assert not port(mpi=["--port=2022"], ssh=["--ssh-port=23"])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--ssh-private-key=x"], "--ssh-public-key must be given with --ssh-private-key"),
        (["--ssh-public-key=x"], "--ssh-public-key is of no use without --ssh-private-key"),
        (["--ssh-key-file-path=keys"], "--ssh-key-file-path must be an absolute path"),
        (["--ssh-port=70000"], "--ssh-port must be a whole number from 1 to 65535"),
    ],
)
def test_flags_that_cannot_work_are_refused(flags: list[str], told: str) -> None:
    errors = plugin_errors(job({"ssh": flags}, task("a")))
    assert len(errors) == 1
    assert told in str(errors[0])
