"""Kinds kept up to date by watches, as client-go's informers do it.

A list is a read that every etcd member takes part in, and the API server decodes each object of it anew; a loop that
polls takes a fifth of an emulated CPU from each node. A watch costs only what changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Protocol

from lab.release.cluster.errors import ApiError, ClusterError
from lab.release.cluster.kube import REQUEST_SECONDS, Object

#: How long the server keeps a watch open: a connection that died unseen is noticed soon after.
WATCH_SECONDS = 60
RETRY_SECONDS = 3.0
GONE = 410


class Source(Protocol):
    """What an informer asks: the cluster's API."""

    def list_at(self, api_version: str, kind: str) -> tuple[list[Object], str]:
        """All objects of a kind, and the version of that list."""
        ...

    def watch(self, api_version: str, kind: str, version: str, seconds: int) -> Iterator[Object]:
        """The kind's changes since a version, until the server ends it."""
        ...


class Lister(Protocol):
    """What a loop needs of its informers."""

    def list(self, api_version: str, kind: str) -> list[Object]:
        """All objects of a kind, not to be changed. Raises ClusterError or OSError while the API is away."""
        ...

    def wait(self, seconds: float, least: float = 0.0) -> None:
        """Until something that was listed changes, or ``seconds`` have passed, or the loop is to end."""
        ...


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _news(obj: Object) -> Object:
    """The object without what changes by itself: its version, who wrote it, and a node's heartbeats."""
    meta = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    status = obj.get("status") or {}
    conditions = [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in status.get("conditions") or []]
    return {**obj, "metadata": meta, "status": {**status, "conditions": conditions}}


class _Informer:
    """One kind; its thread lists once, and then watches."""

    def __init__(self, source: Source, api_version: str, kind: str, owner: Informers) -> None:
        self._source = source
        self._what = (api_version, kind)
        self._owner = owner
        self._lock = threading.Condition()
        self._objects: dict[tuple[str, str], Object] = {}
        self._error: Exception | None = None
        self._listed = False
        threading.Thread(target=self._run, name=f"watch {kind}", daemon=True).start()

    def objects(self, seconds: float) -> list[Object]:
        """What is there, as far as it is known. Raises ClusterError or OSError while the API is away."""
        with self._lock:
            if not self._lock.wait_for(lambda: self._listed or self._error is not None, seconds):
                raise ApiError("GET", self._what[1], 0, f"not listed within {seconds:.0f} s")
            if self._error is not None:
                raise self._error.with_traceback(None)
            return list(self._objects.values())

    def _run(self) -> None:
        while not self._owner.stopped():
            try:
                version = self._list()
                while not self._owner.stopped():
                    began = time.monotonic()
                    version = self._watch(version)
                    # a server that ends watches as soon as they begin is given time
                    self._owner.pause(max(began + RETRY_SECONDS - time.monotonic(), 0.0))
            except (ClusterError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
                # whatever comes: an informer that ends unnoticed would show the past for ever
                if isinstance(error, ApiError) and error.status == GONE:
                    continue  # the version is older than what etcd still has: list anew
                self._fail(error)
                self._owner.pause(RETRY_SECONDS)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, ClusterError | OSError):
            error = ApiError("GET", self._what[1], 0, f"{type(error).__name__}: {error}")
        with self._lock:
            self._error = error
            self._lock.notify_all()
        self._owner.notify()

    def _list(self) -> str:
        items, version = self._source.list_at(*self._what)
        with self._lock:
            self._objects = {_key(obj): obj for obj in items}
            self._listed, self._error = True, None
            self._lock.notify_all()
        self._owner.notify()
        return version

    def _watch(self, version: str) -> str:
        for event in self._source.watch(*self._what, version, WATCH_SECONDS):
            obj = event["object"]
            if event["type"] == "ERROR":
                raise ApiError("WATCH", self._what[1], int(obj.get("code", 0)), str(obj.get("message", "")))
            version = obj["metadata"]["resourceVersion"]
            with self._lock:
                before = self._objects.pop(_key(obj), None)
                if event["type"] != "DELETED":
                    self._objects[_key(obj)] = obj
            if event["type"] == "DELETED" or before is None or _news(before) != _news(obj):
                self._owner.notify()
        return version


class Informers:
    """One loop's informers: begun when a kind is first asked for, ended with ``stop``. What they give is read-only."""

    def __init__(self, source: Source, stop: threading.Event) -> None:
        self._source = source
        self._stop = stop
        self._changed = threading.Event()
        self._kinds: dict[tuple[str, str], _Informer] = {}
        threading.Thread(target=self._end, name="informers' end", daemon=True).start()

    def _end(self) -> None:
        self._stop.wait()
        self._changed.set()

    def stopped(self) -> bool:
        """Whether the loop is told to end."""
        return self._stop.is_set()

    def pause(self, seconds: float) -> None:
        """Wait before the next try."""
        self._stop.wait(seconds)

    def notify(self) -> None:
        """Something has changed."""
        self._changed.set()

    def list(self, api_version: str, kind: str) -> list[Object]:
        """All objects of a kind. Raises ClusterError or OSError while the API is away."""
        key = (api_version, kind)
        if key not in self._kinds:
            self._kinds[key] = _Informer(self._source, api_version, kind, self)
        return self._kinds[key].objects(REQUEST_SECONDS)

    def wait(self, seconds: float, least: float = 0.0) -> None:
        """Until something that was listed changes, or ``seconds`` have passed, or the loop is to end.

        Not before ``least`` seconds: what changes in a row is looked at once.
        """
        began = time.monotonic()
        self._stop.wait(least)
        self._changed.wait(max(began + seconds - time.monotonic(), 0.0))
        self._changed.clear()
