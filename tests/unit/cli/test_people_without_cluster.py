"""What the commands for people say when they cannot get through: always a sentence, and the right exit code."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner, Result

from allhands.api.errors import StatusError
from allhands.cli import root
from allhands.cli.cluster import find_kubeconfig, sentence_of
from allhands.cli.grid_text import Cell, bar, grid_lines
from allhands.cli.manifests import read_file
from allhands.cli.table_text import MAX_WIDTH
from allhands.cli.wait import timeout_seconds
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = (
    ["jobs"],
    ["queues"],
    ["top"],
    ["topology"],
    ["explain", "job/x"],
    ["wait", "job/x"],
    ["logs", "job/x"],
    ["suspend", "job/x"],
    ["resume", "-l", "a=b"],
)


def run(*arguments: object, environment: dict[str, str | None] | None = None) -> Result:
    return CliRunner(env=environment or {}).invoke(root, [*map(str, arguments)])


def kubeconfig(folder: Path, server: str, **user: str) -> Path:
    path = folder / "config"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def unreachable(tmp_path: Path) -> Path:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return kubeconfig(tmp_path, f"http://127.0.0.1:{port}")


def is_a_sentence(shown: Result) -> bool:
    is_clean = shown.exception is None or isinstance(shown.exception, SystemExit)
    return is_clean and shown.stderr.startswith("Error: ") and "Traceback" not in shown.output


@pytest.mark.parametrize("command", COMMANDS, ids=lambda it: it[0])
def test_a_server_that_cannot_be_reached_is_named_with_the_file_that_names_it(
    command: list[str], unreachable: Path
) -> None:
    shown = run(*command, "--kubeconfig", unreachable)
    assert (shown.exit_code, is_a_sentence(shown)) == (1, True)
    assert "http://127.0.0.1:" in shown.stderr
    assert f"(from {unreachable})" in shown.stderr


def test_without_any_kubeconfig_it_says_where_it_looked(tmp_path: Path) -> None:
    shown = run("jobs", environment={"KUBECONFIG": None, "HOME": str(tmp_path)})
    assert (shown.exit_code, is_a_sentence(shown)) == (1, True)
    assert f"{tmp_path}/.allhands/kubeconfig nor {tmp_path}/.kube/config exists" in shown.stderr
    assert "`allhands up`" in shown.stderr


def test_the_named_file_comes_first_then_the_variable_then_ours_then_kubectls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in (".allhands/kubeconfig", ".kube/config", "mine"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{tmp_path}/mine")
    assert find_kubeconfig(Path("named")) == Path("named")
    assert find_kubeconfig(None) == tmp_path / "mine"
    monkeypatch.setenv("KUBECONFIG", "")
    assert find_kubeconfig(None) == tmp_path / ".allhands/kubeconfig"
    (tmp_path / ".allhands/kubeconfig").unlink()
    assert find_kubeconfig(None) == tmp_path / ".kube/config"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must hold a mapping"),
        ("a: [", "is not YAML"),
        ("clusters: []", "current-context: is not set"),
        ("current-context: x\ncontexts: []", "has no entry named 'x'"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_told_so(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "config").write_text(text)
    shown = run("jobs", "--kubeconfig", tmp_path / "config")
    assert (shown.exit_code, is_a_sentence(shown)) == (1, True)
    assert complaint in shown.stderr
    assert "cannot be read" in run("jobs", "--kubeconfig", tmp_path / "none").stderr


def test_certificates_and_token_files_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    nonsense = {"client-certificate-data": "bm9uc2Vuc2U=", "client-key-data": "bm9uc2Vuc2U="}
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", **nonsense)
    shown = run("jobs", "--kubeconfig", path)
    assert (is_a_sentence(shown), "certificates cannot be used" in shown.stderr) == (True, True)
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", tokenFile=str(tmp_path / "token"))
    shown = run("jobs", "--kubeconfig", path)
    assert (is_a_sentence(shown), f"{tmp_path}/token: cannot be read: No such file" in shown.stderr) == (True, True)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The API alone: nothing schedules, and there are no queues."""
    with EmbeddedInThread(tmp_path_factory.mktemp("api")) as cluster:
        yield cluster.kubeconfig


def test_wrong_credentials_are_told(api: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(api.read_text())
    document["users"][0]["user"] = {"token": "wrong"}
    wrong = tmp_path / "wrong"
    wrong.write_text(yaml.safe_dump(document))
    shown = run("jobs", "--kubeconfig", wrong)
    assert (shown.exit_code, is_a_sentence(shown)) == (1, True)
    assert f"the server does not accept the credentials in {wrong}" in shown.stderr


def test_a_cluster_without_queues_says_so(api: Path) -> None:
    shown = run("queues", "--kubeconfig", api)
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr.startswith("This cluster has no queues")
    assert run("queues", "--kubeconfig", api, "-o", "json").stdout.split() == ["{", '"items":', "[]", "}"]
    assert "this cluster has no queues" in run("explain", "queue/x", "--kubeconfig", api).stderr


def test_an_empty_cluster_has_tables_too(api: Path) -> None:
    assert run("jobs", "--kubeconfig", api).stderr == 'No jobs in namespace "default".\n'
    assert run("jobs", "-A", "--kubeconfig", api).stderr == "No jobs in any namespace.\n"
    assert "No job holds anything." in run("top", "--kubeconfig", api).stdout


@pytest.mark.parametrize(
    "arguments", [["jobs", "-o", "xml"], ["top", "--nodes", "-1"], ["submit"], ["wait"], ["logs", "queue/x"]]
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    shown = run(*arguments)
    assert shown.exit_code == 2
    assert "Usage:" in shown.stderr


def test_documents_keep_the_lines_of_their_file_in_complaints(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n--- # next\nb: [\n")
    shown = run("submit", "-f", file, "--kubeconfig", tmp_path / "none")
    assert shown.stderr.startswith(f"Error: {file}: yaml: line 6") or "line 5" in shown.stderr
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}}"
    file.write_text(f"---\n---\napiVersion: v1\nkind: List\nitems:\n- {pod}\n---\n# end\n")
    assert [(it.kind, it.name) for it in read_file(str(file))] == [("Pod", "a")]


def test_a_refusal_is_told_field_by_field_without_controlling_the_terminal() -> None:
    causes = [{"field": "spec.x", "message": "Invalid value: \x1b[31m"}]
    refusal = StatusError(422, "Invalid", 'Job.batch "a" is invalid: [many things]', {"causes": causes})
    assert sentence_of(refusal) == 'Job.batch "a" is invalid:\n  spec.x: Invalid value: �[31m'
    assert sentence_of(StatusError(500, "", "")) == "HTTP 500"


def test_long_cells_give_way_and_names_stay() -> None:
    rows: list[list[Cell | str]] = [["job/a", Cell("Running", "green"), "word " * 40], ["job/b", "Waiting", ""]]
    lines = grid_lines(["NAME", "STATE", "WHY"], rows, width=MAX_WIDTH, long=2)
    assert max(map(len, lines)) <= MAX_WIDTH + len("\x1b[32m\x1b[0m")
    assert lines[1].endswith("…")
    assert lines[2] == "job/b  Waiting  -"
    uncut = grid_lines(["NAME", "STATE", "WHY"], rows, width=None)
    assert "…" not in "".join(uncut)


@pytest.mark.parametrize(("percent", "drawn"), [(0, "░░░░"), (1, "█░░░"), (50, "██░░"), (100, "████"), (250, "████")])
def test_bars_show_something_for_something(percent: int, drawn: str) -> None:
    assert bar(percent, 4) == drawn


def test_timeouts_are_spans_or_endless() -> None:
    assert (timeout_seconds("90"), timeout_seconds("1h30m"), timeout_seconds("-1")) == (90.0, 5400.0, None)
    assert timeout_seconds("0") == 0.0
