"""Hooks for schemathesis: the service's objects in every second request, and what counts as conforming.

It runs in the environment that has schemathesis, and imports nothing of node0.

Answers that go-swagger gives on its own account, before any of the service's code runs, are upstream's too, and stand
in no operation of the specification: 400 for parameters and bodies that do not fit or cannot be read, as
{"code", "message"}. They pass by that form alone: a 400 of any other form has to be documented.
Answers without a body have no content type upstream either (its generated responses delete the header).
"""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

import schemathesis
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

# Undocumented answers that upstream gives too: a stage out of place, or of a host that is not being installed, is 409.
ANYWAY = {("PUT", "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/progress", 409)}
# Every operation wants a token, and few document what happens without: 401, and 429 to those who go on like that.
TOKENS = {"Authorization", "X-Secret-Key", "Watcher-Authorization"}
IDS: dict[str, str] = json.loads(os.environ["CONFORMITY_IDS"])
_numbers = itertools.count()


@schemathesis.hook  # type: ignore[untyped-decorator]
def before_call(ctx: Any, case: Any, kwargs: Any) -> None:
    """Objects that there are, in every second request: random ones meet nothing but 404. They are not deleted."""
    if case.method.upper() != "DELETE" and next(_numbers) % 2:
        case.path_parameters = {name: IDS.get(name, value) for name, value in (case.path_parameters or {}).items()}


def _by_go_swagger(response: Any) -> bool:
    if response.status_code != 400:
        return False
    body = response.json()
    return bool(set(body) == {"code", "message"} and body["message"] and body["code"] == 400)


@schemathesis.check  # type: ignore[untyped-decorator]
def conforms(ctx: Any, response: Any, case: Any) -> None:
    """Status and content type are documented, and the body is what is documented for them."""
    if _by_go_swagger(response):
        return
    if response.status_code in (401, 429) and not set(response.request.headers) >= TOKENS:
        return
    if (case.method.upper(), case.path, response.status_code) not in ANYWAY:
        status_code_conformance(ctx, response, case)
    if response.content:
        content_type_conformance(ctx, response, case)
        response_schema_conformance(ctx, response, case)
