"""When a Job that a step waits for counts as up: what its own status says, and what must be asked of its pods.

Asking is somebody else's work: here it is only said what to ask. A Job that is completed needs no probe any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.job_flow import HttpGet, TcpSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.api.volcano.job_flow import FlowProbe
    from allhands.lifecycle.job_flow.documents import FlowsJob, JobTask

HTTP_PORT: Final = 80


class Question(msgspec.Struct, frozen=True):
    """Does every pod of a task take connections, or, with a path, answer a request well?"""

    namespace: str
    job: str
    job_uid: str
    task: str
    port: int
    path: str = ""
    header: tuple[str, str] | None = None

    def __str__(self) -> str:
        what = f"answer GET {self.path}" if self.path else "take connections"
        return f"the pods of task {self.task} of Job {self.job} do not all {what} on port {self.port} yet"


class Verdict(msgspec.Struct, frozen=True):
    """`lacks`: what does not hold yet, for people; nothing if all holds. `questions`: all that must be known."""

    lacks: str = ""
    questions: tuple[Question, ...] = ()


def judge(probe: FlowProbe, jobs: Sequence[FlowsJob], holds: Callable[[Question], bool]) -> Verdict:
    """Of the Jobs that are waited for and not completed. `holds` says what is known of an answer."""
    lacks: list[str] = []
    questions: list[Question] = []
    for wanted in probe.task_status_list or ():
        for job, task in _meant(wanted.task_name, jobs, lacks):
            if not _is_in_phase(job, task, wanted.phase):
                lacks.append(f"the pods of task {task.name} of Job {job.metadata.name} are not all {wanted.phase} yet")
    asking: tuple[HttpGet | TcpSocket, ...] = (*(probe.http_get_list or ()), *(probe.tcp_socket_list or ()))
    for asked in asking:
        for job, task in _meant(asked.task_name, jobs, lacks):
            if not _is_in_phase(job, task, "Running"):
                lacks.append(f"the pods of task {task.name} of Job {job.metadata.name} do not all run yet")
            elif task.replicas > 0:
                question = _question(job, task, asked)
                questions.append(question)
                if not holds(question):
                    lacks.append(str(question))
    return Verdict(lacks[0] if lacks else "", tuple(questions))


def _meant(name: str, jobs: Sequence[FlowsJob], lacks: list[str]) -> Iterator[tuple[FlowsJob, JobTask]]:
    """The tasks of that name, of all Jobs; without a name all tasks."""
    found = [(job, task) for job in jobs for task in job.spec.tasks or () if name in ("", task.name)]
    if not found and jobs:
        lacks.append(f'no Job that is waited for has a task "{name}"')
    yield from found


def _is_in_phase(job: FlowsJob, task: JobTask, phase: str) -> bool:
    """A pod that has succeeded did run."""
    count = job.count(task.name, phase)
    if phase == "Running":
        count += job.count(task.name, "Succeeded")
    return count >= task.replicas


def _question(job: FlowsJob, task: JobTask, asked: HttpGet | TcpSocket) -> Question:
    about, port = job.metadata, asked.port or HTTP_PORT
    if isinstance(asked, TcpSocket):
        return Question(about.namespace, about.name, about.uid, task.name, port)
    path = asked.path if asked.path.startswith("/") else f"/{asked.path}"
    named = asked.http_header
    header = (named.name, named.value) if named is not None and named.name else None
    return Question(about.namespace, about.name, about.uid, task.name, port, path, header)
