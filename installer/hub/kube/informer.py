"""Caches of objects, each kept current by a list and then watches; what they give cannot be changed."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from installer.hub.kube.api import Api, Gone, KubeError, NotFound, Unauthorized
from installer.hub.kube.kinds import Json, Key, Kind, frozen, key_of, labels_of, uid_of

log = logging.getLogger("node0-hub")
#: An object as it was and as it is; None: there was, or there is, none.
Change = Callable[[Json | None, Json | None], None]
Objects = list[Json]
Changes = list[tuple[Json | None, Json | None]]
# A watch is renewed after this long (s), by chance so that those of all kinds do not end together.
_WATCH_SECONDS = (240.0, 360.0)
_FIRST_WAIT, _LAST_WAIT, _WAIT_REFUSED = 0.5, 30.0, 60.0
# A watch that ends sooner than this (s) and brings nothing has failed.
_SHORT = 1.0


class Cache:
    """Objects of one kind by key and by indexes, for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[Key, Json] = {}
        self._functions: dict[str, Callable[[Json], Iterable[str]]] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}
        # Objects that were written here, as they were before: listeners hear of it from the watch.
        self._unheard: dict[Key, Json] = {}

    def get(self, key: Key) -> Json | None:
        """Return an object, None if there is none."""
        with self._lock:
            return self._objects.get(key)

    def list(self, namespace: str = "", labels: Mapping[str, str] | None = None) -> Objects:
        """Return the objects of a namespace (empty: of all) that have all these labels."""
        with self._lock:
            found = [obj for key, obj in self._objects.items() if not namespace or key.namespace == namespace]
        return [obj for obj in found if not labels or labels.items() <= labels_of(obj).items()]

    def index(self, name: str, function: Callable[[Json], Iterable[str]]) -> None:
        """Keep an index of the values that ``function`` gives for an object."""
        with self._lock:
            self._functions[name] = function
            self._indexes[name] = {}
            for key, obj in self._objects.items():
                self._enter(name, key, obj)

    def by(self, index: str, value: str) -> Objects:
        """Return the objects that have this value in an index."""
        with self._lock:
            return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def put(self, obj: Json) -> tuple[Json | None, Json | None]:
        """Enter an object unless a newer one is there; returns what was and what is."""
        key = key_of(obj)
        with self._lock:
            old = self._objects.get(key)
            if old is not None and uid_of(old) == uid_of(obj) and _version(old) >= _version(obj):
                heard = old if _version(old) > _version(obj) else self._unheard.pop(key, old)
                return heard, old
            return self._unheard.pop(key, old), self._replace(key, old, obj)

    def put_written(self, obj: Json) -> None:
        """Enter what a write was answered with, so that the next look does not see the object as it was before.

        Only in place of the same object: one that the watch has seen deleted stays deleted.
        """
        key = key_of(obj)
        with self._lock:
            old = self._objects.get(key)
            if old is not None and uid_of(old) == uid_of(obj) and _version(old) < _version(obj):
                self._unheard.setdefault(key, old)
                self._replace(key, old, obj)

    def remove(self, obj: Json) -> Json | None:
        """Remove an object, unless another has its name by now; returns it."""
        key = key_of(obj)
        with self._lock:
            old = self._objects.get(key)
            if old is None or uid_of(old) != uid_of(obj):
                return None
            self._unheard.pop(key, None)
            self._replace(key, old, None)
            return old

    def replace(self, objects: Iterable[Json]) -> Changes:
        """Have these objects and no others; returns what has changed."""
        listed = {key_of(obj): obj for obj in objects}
        changes: Changes = []
        with self._lock:
            gone = [(key, obj) for key, obj in self._objects.items() if key not in listed]
            changes += [(obj, self._replace(key, obj, None)) for key, obj in gone]
            for key, obj in listed.items():
                old = self._objects.get(key)
                heard = self._unheard.pop(key, old)
                if old is None or heard is not old or uid_of(old) != uid_of(obj) or _version(old) != _version(obj):
                    changes.append((heard, self._replace(key, old, obj)))
            self._unheard.clear()
        return changes

    def _replace(self, key: Key, old: Json | None, new: Json | None) -> Json | None:
        for name, function in self._functions.items():
            for value in _values(function, old) if old is not None else ():
                keys = self._indexes[name].get(value, {})
                keys.pop(key, None)
                if not keys:
                    self._indexes[name].pop(value, None)
        if new is None:
            self._objects.pop(key, None)
            return None
        # Nobody reads managedFields, and they are half of an object.
        metadata = {name: value for name, value in new["metadata"].items() if name != "managedFields"}
        kept: Json = frozen(new | {"metadata": metadata})
        self._objects[key] = kept
        for name in self._functions:
            self._enter(name, key, kept)
        return kept

    def _enter(self, name: str, key: Key, obj: Json) -> None:
        for value in _values(self._functions[name], obj):
            self._indexes[name].setdefault(value, {})[key] = None


def _values(function: Callable[[Json], Iterable[str]], obj: Json) -> tuple[str, ...]:
    """Return an object's values in an index; a defect that it brings out costs others nothing."""
    try:
        return tuple(function(obj))
    except Exception:
        log.exception("%s %s: its place in an index", obj.get("kind"), key_of(obj))
        return ()


def _version(obj: Json) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


class Informer:
    """Keeps the cache of a kind current in a thread of its own, and tells listeners of changes."""

    def __init__(self, api: Api, kind: Kind) -> None:
        self.kind = kind
        self.cache = Cache()
        self.synced = threading.Event()
        self._api = api
        self._listeners: list[Change] = []
        self._stop = threading.Event()
        self._version = ""  # from which a watch goes on; empty: list first
        self._said = ""
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"informer-{kind.plural}", daemon=True)

    def listen(self, listener: Change) -> None:
        """Have a function called, in the informer's thread, with each change."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to list and watch."""
        self._thread.start()

    def stop(self) -> None:
        """Begin to end; an open watch ends with ``Api.close``."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Wait for its end, at most that long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except Gone:
                # Once in a while; a server that says so of each version is as one that fails.
                self._version = ""
                self._failures += 1
                if self._failures > 1:
                    self._stop.wait(self._backoff())
            except KubeError as error:
                if not self._stop.is_set():
                    self._failed(error)

    def _list(self) -> None:
        items, version = self._api.list(self.kind)
        for old, new in self.cache.replace(items):
            self._tell(old, new)
        self._version = version
        self._say("")
        self.synced.set()

    def _watch(self) -> None:
        began = time.monotonic()
        events = 0
        for event, obj in self._api.watch(self.kind, self._version, random.uniform(*_WATCH_SECONDS)):
            events += 1
            self._succeeded()
            if event == "DELETED":
                self._tell(self.cache.remove(obj), None)
            elif event != "BOOKMARK":
                self._tell(*self.cache.put(obj))
            self._version = str(obj["metadata"]["resourceVersion"])
        if events or time.monotonic() - began > _SHORT:
            self._succeeded()
        else:
            self._failures += 1
            self._stop.wait(self._backoff())

    def _succeeded(self) -> None:
        self._failures = 0
        self._say("")

    def _tell(self, old: Json | None, new: Json | None) -> None:
        if old is new:
            return
        for listener in self._listeners:
            listener(old, new)

    def _failed(self, error: KubeError) -> None:
        """Say it once for as long as it stays the same, and wait."""
        self._failures += 1
        if isinstance(error, NotFound):
            text = f"{self.kind.plural}.{self.kind.group}: the API server does not know them (node0 hub install)"
        else:
            text = str(error)
        if self._failures > 1:
            self._say(text)
        refused = isinstance(error, Unauthorized) or error.status == 403
        self._stop.wait(_WAIT_REFUSED if refused else self._backoff())

    def _say(self, text: str) -> None:
        """Log a problem when it is a new one, and its end; empty: none."""
        if text and text != self._said:
            log.warning("%s", text)
        elif self._said and not text:
            log.info("%s: can be read again", self.kind.plural)
        self._said = text

    def _backoff(self) -> float:
        return float(min(_FIRST_WAIT * 2 ** min(self._failures - 1, 10), _LAST_WAIT) * random.uniform(0.8, 1.2))
