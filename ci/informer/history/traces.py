"""Each run as an OpenTelemetry trace: the run is the root, its phases and tests are spans.

Written as lines of OTLP in JSON (https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/), sent by OTLP over
HTTP where an endpoint is given.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import files
from ci.informer.history.model import Step
from ci.informer.history.store import History, Row

_NANO = 10**9
_RESOURCE = Resource({"service.name": "node0-ci"})
_STATUS = {Outcome.FAILED: StatusCode.ERROR, Outcome.PASSED: StatusCode.OK, Outcome.FLAKE: StatusCode.OK}


def _context(row: Row, place: int) -> SpanContext:
    """Return the ids of a run's span, the same each time that the run is exported."""
    trace = int.from_bytes(sha256(row.key.encode()).digest()[:16], "big") or 1
    span = int.from_bytes(sha256(f"{row.key} {place}".encode()).digest()[:8], "big") or 1
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def spans(row: Row, steps: Sequence[Step]) -> Iterator[ReadableSpan]:
    """Yield the spans of a run: its root, then its phases, each below the last one that is less deep."""
    begin = int(datetime.fromisoformat(row.began).timestamp() * _NANO)
    root = _context(row, 0)
    attributes = {
        "cicd.pipeline.name": row.job,
        "cicd.pipeline.run.id": row.key,
        "cicd.pipeline.result": row.outcome.value,
        "node0.payload": row.payload,
        "host.name": row.host,
        "vcs.ref.head.revision": row.revision,
        "node0.label": row.label,
        "node0.component": row.component,
    }
    yield _span(
        row.job, root, None, begin, seconds=row.seconds, outcome=row.outcome, error=row.reason, attributes=attributes
    )
    above = [root]
    for place, step in enumerate(steps, start=1):
        context = _context(row, place)
        del above[step.depth + 1 :]
        at = begin + int(step.at * _NANO)
        yield _span(
            step.name,
            context,
            above[-1],
            at,
            seconds=step.seconds,
            outcome=step.outcome,
            error=step.error,
            attributes={},
        )
        above.append(context)


def _span(
    name: str,
    context: SpanContext,
    parent: SpanContext | None,
    begin: int,
    *,
    seconds: float,
    outcome: Outcome,
    error: str,
    attributes: dict[str, str],
) -> ReadableSpan:
    code = _STATUS.get(outcome, StatusCode.UNSET)
    return ReadableSpan(
        name=name,
        context=context,
        parent=parent,
        resource=_RESOURCE,
        attributes={key: value for key, value in attributes.items() if value},
        kind=SpanKind.INTERNAL,
        status=Status(code, error.partition("\n")[0] if code is StatusCode.ERROR else None),
        start_time=begin,
        end_time=begin + int(seconds * _NANO),
    )


def _hexadecimal(value: Any) -> Any:
    """OTLP's JSON has ids in hexadecimal, where JSON of other protobuf messages has base64."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(part).hex() if key in ("traceId", "spanId", "parentSpanId") else _hexadecimal(part)
            for key, part in value.items()
        }
    return [_hexadecimal(item) for item in value] if isinstance(value, list) else value


def line(spans: Sequence[ReadableSpan]) -> str:
    """Spans as a line of OTLP in JSON."""
    return json.dumps(_hexadecimal(MessageToDict(encode_spans(spans), use_integers_for_enums=True)))


def written(history: History, rows: Iterable[Row], path: Path) -> int:
    """Write the traces of runs into a file, a line each; returns how many."""
    lines = [line(list(spans(row, history.steps(row.id)))) for row in rows]
    files.write(path, "".join(f"{line}\n" for line in lines))
    return len(lines)


def sent(history: History, rows: Iterable[Row], endpoint: str) -> int:
    """Send the traces of runs to an OTLP endpoint (http://HOST:4318/v1/traces); how many. Raises InformerError."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=10)
    count = 0
    try:
        for row in rows:
            if exporter.export(list(spans(row, history.steps(row.id)))) is not SpanExportResult.SUCCESS:
                raise InformerError(f"endpoint: {endpoint}: takes no traces (run {row.id}); {count} were sent before")
            count += 1
    finally:
        exporter.shutdown()
    return count
