"""Operations that take time: tasks and their monitors (DSP0266, "Asynchronous operations")."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.bmcs.errors import Refusal
from lab.bmcs.serving import unattended
from lab.bmcs.state import ROOT, State
from lab.bmcs.web import Request, Response, document, refusal

_MONITORS = f"{ROOT}/TaskService/TaskMonitors"


@dataclass
class _Task:
    begin: float
    end: Callable[[], Response]
    answer: Response | None = None


@dataclass
class Tasks:
    """The tasks of one BMC. Each is finished when somebody asks for it, or another timer is due, `seconds` after its
    begin."""

    state: State
    seconds: float
    _tasks: dict[str, _Task] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, end: Callable[[], Response]) -> Response:
        """202, with the task that `end` finishes."""
        identity = str(len(self._tasks) + 1)
        self._tasks[identity] = _Task(self.state.clock(), end)
        return self._shown(identity)

    def finish_due(self) -> None:
        """Finish the tasks that are due, whether or not who asks now stays. Others need not wait for that."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            for task in list(self._tasks.values()):
                if task.answer is None and self.state.clock() - task.begin >= self.seconds:
                    try:
                        with unattended():
                            task.answer = task.end()
                    except Refusal as error:
                        task.answer = error.response
        finally:
            self._lock.release()

    def _shown(self, identity: str) -> Response:
        """A task's monitor: 202 while it runs, then what its operation answers."""
        answer = self._tasks[identity].answer
        if answer is not None:
            return Response(answer.get_data(), answer.status_code, dict(answer.headers))
        body = {
            "@odata.type": "#Task.v1_4_3.Task",
            "@odata.id": f"{_MONITORS}/{identity}",
            "Id": identity,
            "Name": f"Task {identity}",
            "TaskState": "Running",
            "TaskStatus": "OK",
        }
        return document(body, 202, Location=f"{_MONITORS}/{identity}", Retry_After="1")

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the tasks' monitors; None for other paths. Raises Refusal."""
        if not self.seconds or not path.startswith(f"{_MONITORS}/"):
            return None
        identity = path.removeprefix(f"{_MONITORS}/")
        if identity not in self._tasks:
            raise refusal(404, "Base.1.8.ResourceNotFound", f"The task {identity} was not found.")
        return self._shown(identity)
