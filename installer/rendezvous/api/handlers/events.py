"""Handlers of events: listed by the database, sent as they are stored (installer.md §5.7)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from aiohttp import web

from installer.assisted.enums import Severity
from installer.rendezvous import events as catalogue
from installer.rendezvous.api.bodies import body_of, listed, send
from installer.rendezvous.api.context import Service
from installer.rendezvous.resources import requests
from installer.rendezvous.resources.params import integer, one_of, required
from installer.rendezvous.store.model import Event

Response = web.StreamResponse
SEVERITIES = tuple(Severity)
LARGEST = 100_000


def _many(request: web.Request, name: str) -> list[str]:
    return [value for text in request.query.getall(name, []) for value in text.split(",") if value]


def condition(service: Service, request: web.Request) -> tuple[str, list[object]]:
    """WHERE clause and values for the filters of a request. Raises Invalid or NotFound."""
    query = request.query
    parts: list[str] = []
    values: list[object] = []
    for key in ("cluster_id", "host_id"):
        if query.get(key):
            parts.append(f"{key}=?")
            values.append(query[key])
    wanted = query.get("infra_env_id")
    if wanted:
        # An event of the cluster belongs to the infra-env that the cluster's hosts come from.
        parts.append("(infra_env_id=? OR (infra_env_id IS NULL AND cluster_id=?))")
        values += [wanted, service.engine.store.infra_env(wanted).cluster_id]
    for key, column in (("severities", "severity"), ("categories", "category"), ("host_ids", "host_id")):
        chosen = _many(request, key)
        for severity in chosen if key == "severities" else ():
            one_of(severity, "severities", "query", SEVERITIES)
        if chosen:
            parts.append(f"{column} IN ({','.join('?' * len(chosen))})")
            values += chosen
    if query.get("cluster_level", "").lower() == "true":
        parts.append("host_id IS NULL")
    if query.get("message"):
        parts.append("json_extract(CAST(doc AS TEXT), '$.message') LIKE ? ESCAPE '!'")
        escaped = query["message"].replace("!", "!!").replace("%", "!%").replace("_", "!_")
        values.append(f"%{escaped}%")
    return ("WHERE " + " AND ".join(parts) if parts else ""), values


async def list_all(service: Service, request: web.Request) -> Response:
    """GET /events: filters and paging; headers tell how many there are in all, and of each severity."""
    offset, limit = integer(request, "offset", 0) or 0, integer(request, "limit", -1)
    order = request.query.get("order", "ascending")
    one_of(order, "order", "query", ("ascending", "descending"))
    where, values = condition(service, request)
    direction = "ASC" if order == "ascending" else "DESC"
    rest = f"{where} ORDER BY seq {direction} LIMIT ? OFFSET ?"
    most = LARGEST if limit is None or limit < 0 else limit
    # In a thread: there may be a hundred thousand, and what is stored already does not change.
    counts, rows = await asyncio.to_thread(
        _read, service.settings.db_path, (where, values), (rest, [*values, most, offset])
    )
    headers = {f"Severity-Count-{name.capitalize()}": str(counts.get(name, 0)) for name in SEVERITIES}
    return await send(request, listed(rows), {**headers, "Event-Count": str(sum(counts.values()))})


def _read(
    path: Path, counted: tuple[str, list[object]], wanted: tuple[str, list[object]]
) -> tuple[dict[str, int], list[bytes]]:
    """How many events of each severity there are, and those that are wanted; over a connection of its own."""
    # Absolute, as it is a URI; ``ro``: whoever reads the log changes nothing.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.execute("BEGIN")
        counts = dict(
            database.execute(f"SELECT severity, COUNT(*) FROM events {counted[0]} GROUP BY severity", counted[1])
        )
        rows = database.execute(f"SELECT doc FROM events {wanted[0]}", wanted[1])
        found: list[bytes] = []
        while some := rows.fetchmany(1000):
            found += [row[0] for row in some]
        return counts, found


async def trigger(service: Service, request: web.Request) -> Response:
    """POST /events: a host's own event (the orchestrator's, a controller's)."""
    body = await body_of(request, requests.EventParams)
    severity, message = required(body.severity, "severity"), required(body.message, "message")
    event_time, cluster_id = required(body.event_time, "event_time"), required(body.cluster_id, "cluster_id")
    one_of(severity, "severity", "body", SEVERITIES)
    store = service.engine.store
    cluster = store.cluster(cluster_id)
    event = Event(
        name=body.name or "event",
        severity=Severity(severity),
        message=catalogue.plain(message),
        event_time=event_time,
        category="metrics" if body.category == "metrics" else "user",
        cluster_id=cluster.id,
        host_id=body.host_id or None,
        infra_env_id=body.infra_env_id or None,
        props=body.props or "",
    )
    with store.change():
        store.add_event(event)
    return web.Response(status=201)
