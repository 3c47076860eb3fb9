"""Faults of a BMC as data: which requests are answered otherwise, how late, and how often.

- {path: /redfish/v1/Systems/*, method: GET, status: 503, times: 3}
- {path: "*/VirtualMedia/*", latency_seconds: 20}
- {path: /redfish/v1/Systems/1, merge: {PowerState: null}}
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from lab.bmcs.profile import Rule
from lab.bmcs.web import Request, Response, document, refusal


class Injections:
    """The rules of one BMC, with how often each has been applied. Any thread may use it."""

    def __init__(self, rules: Sequence[Rule], sleep: Callable[[float], None] = time.sleep) -> None:
        self._rules, self._sleep = rules, sleep
        self._used = [0] * len(rules)
        self._lock = threading.Lock()

    def _due(self, request: Request) -> list[Rule]:
        path, due = request.path.rstrip("/"), []
        with self._lock:
            for number, rule in enumerate(self._rules):
                fits = fnmatchcase(path, rule.path.rstrip("/")) and rule.method in ("", request.method)
                if fits and (not rule.times or self._used[number] < rule.times):
                    self._used[number] += 1
                    due.append(rule)
        return due

    def answer(self, request: Request, usual: Callable[[], Response]) -> Response:
        """Return the answer to a request, where `usual` is what the BMC would say."""
        due = self._due(request)
        self._sleep(sum(rule.latency_seconds for rule in due))
        for rule in due:
            if rule.body is not None:
                return document(rule.body, rule.status or 200)
            if rule.status is not None and rule.status < 400:
                return Response("", rule.status, {"OData-Version": "4.0"})
            if rule.status is not None:
                return refusal(rule.status, "Base.1.8.GeneralError", f"Injected: {rule.path}").response
        response = usual()
        for rule in due:
            shown = response.get_json(silent=True)
            if rule.merge is not None and request.method == "GET" and isinstance(shown, dict):
                merged = document(_merged(shown, rule.merge), response.status_code)
                merged.headers.update({name: text for name, text in response.headers if name in ("ETag", "Allow")})
                response = merged
        return response


def _merged(old: Any, new: Any) -> Any:
    """Apply a merge patch (RFC 7396)."""
    if not isinstance(new, dict):
        return new
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
