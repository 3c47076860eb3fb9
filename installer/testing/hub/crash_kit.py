"""Controllers without threads: caches are read from the API when a test says so, and any request may be the last."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from installer.hub.kube.api import Api
from installer.hub.kube.events import Recorder
from installer.hub.kube.informer import Cache
from installer.hub.kube.kinds import Kind
from installer.hub.kube.manager import Hub, ServiceFeed


class Killed(BaseException):
    """The process ends here, as by SIGKILL."""


class Countdown:
    """Ends the process before the request after ``left`` more; None: never."""

    def __init__(self, left: int | None = None) -> None:
        self.left = left

    def step(self) -> None:
        """Count a request. Raises Killed."""
        if self.left is not None:
            if not self.left:
                raise Killed
            self.left -= 1


class Mortal:
    """An API or a service whose methods count before they do anything."""

    def __init__(self, inner: Any, countdown: Countdown) -> None:
        self._inner = inner
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            self._countdown.step()
            return value(*args, **options)

        return call


def mortal_hub(api: Api, service: Any, kinds: Iterable[Kind], countdown: Countdown) -> Hub:
    """Return a new process's hub: its caches are what the API has now."""
    caches = {}
    for kind in kinds:
        caches[kind] = Cache()
        caches[kind].replace(api.list(kind)[0])
    dying: Any = Mortal(api, countdown)
    client: Any = Mortal(service, countdown)
    return Hub(dying, caches, client, ServiceFeed(client), events=Recorder(dying), now=lambda: datetime.now(UTC))
