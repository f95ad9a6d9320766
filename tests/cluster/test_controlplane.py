"""The fixture of the real control plane keeps its promises: ready soon, gone surely, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from allhands.measure.processes import Reaper, Service, ServiceEndedError, port_is_free, wait_until
from tests.controlplane import ControlPlane, ToolsMissingError, tools_folder

ROOT = Path(__file__).parents[2]


def _get(plane: ControlPlane, path: str) -> tuple[int, str]:
    request = urllib.request.Request(plane.url + path, headers={"Authorization": f"Bearer {plane.token}"})
    trust = ssl.create_default_context(cafile=str(plane.ca_file))
    with urllib.request.urlopen(request, context=trust) as response:
        return response.status, response.read().decode()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_control_plane_starts_serves_and_leaves_nothing_behind(real_tools: Path) -> None:
    with ControlPlane() as plane:
        assert _get(plane, "/readyz") == (200, "ok")
        assert json.loads(_get(plane, "/version")[1])["gitVersion"] == "v1.36.3"
        pids = [service.pid for service in plane.services.values()]
        ports, folder = list(plane.ports), plane.folder
    assert len(pids) == 2
    assert not [pid for pid in pids if _alive(pid)]
    assert [port for port in ports if not port_is_free(port)] == []
    assert not folder.exists()


def test_the_written_kubeconfig_lets_a_stock_kubectl_in(control_plane: ControlPlane) -> None:
    command = [str(control_plane.kubectl), f"--kubeconfig={control_plane.kubeconfig}", "get", "--raw", "/readyz"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "ok"


def test_the_native_pod_groups_are_served(control_plane: ControlPlane) -> None:
    kinds = json.loads(_get(control_plane, "/apis/scheduling.k8s.io/v1alpha2")[1])["resources"]
    assert "podgroups" in {kind["name"] for kind in kinds}


def test_controllers_scheduler_and_kwok_run_a_job_to_its_end(real_tools: Path) -> None:
    controllers = ["job-controller", "node-lifecycle-controller"]
    with ControlPlane(controllers=controllers, scheduler=True, kwok=True) as plane:
        kubectl = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}"]
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        subprocess.run([*kubectl, "create", "-f", "-"], input=json.dumps(node), text=True, check=True)
        subprocess.run([*kubectl, "create", "job", "hello", "--image=none"], check=True)
        subprocess.run([*kubectl, "wait", "--for=condition=Complete", "job/hello", "--timeout=60s"], check=True)
        plane.raise_if_ended()


def test_a_killed_run_takes_its_children_with_it(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from allhands.measure.processes import Reaper, Service\n"
        f"folder = Path({str(tmp_path / 'data')!r}); folder.mkdir(); reaper = Reaper(folder)\n"
        "child = Service('child', [sys.executable, '-c', 'import signal; signal.pause()'], folder, reaper)\n"
        "print(child.pid, flush=True); import signal; signal.pause()"
    )
    run = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    assert _alive(pid)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    wait_until(lambda: not _alive(pid) and not (tmp_path / "data").exists(), 20, "the end of the orphan")


def test_a_service_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    reaper = Reaper(folder)
    service = Service("broken", [sys.executable, "-c", "raise SystemExit('no such flag')"], folder, reaper)
    service.wait(20)
    with pytest.raises(ServiceEndedError, match="no such flag"):
        service.check_alive()
    service.stop(grace_seconds=1)
    reaper.close()


def test_without_binaries_the_refusal_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLHANDS_TOOLS", str(tmp_path))
    with pytest.raises(ToolsMissingError, match="make tools"):
        tools_folder()
