"""Handlers of events: listed by the database, sent as they are stored (installer.md §5.7)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from aiohttp import web

from installer.assisted.enums import Severity
from installer.rendezvous.api.bodies import body_of, listed, send
from installer.rendezvous.api.context import Service
from installer.rendezvous.resources import reports
from installer.rendezvous.resources.requests import clusters as requests
from installer.rendezvous.resources.requests.params import boolean, integer, one_of, uuid

Response = web.StreamResponse
SEVERITIES = tuple(Severity)
LARGEST = 100_000


def _many(request: web.Request, name: str) -> list[str]:
    return [value for text in request.query.getall(name, []) for value in text.split(",") if value]


def _in(column: str, values: list[str]) -> str:
    return f"{column} IN ({','.join('?' * len(values))})"


def condition(service: Service, request: web.Request) -> tuple[str, list[object]]:
    """Return a WHERE clause and its values for the filters of a request. Raises Unparsable."""
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
        cluster_id = next((item.cluster_id for item in service.engine.store.infra_envs() if item.id == wanted), None)
        values += [wanted, cluster_id]
    for key, column in (("severities", "severity"), ("categories", "category")):
        chosen = _many(request, key)
        for severity in chosen if key == "severities" else ():
            one_of(severity, "severities", "query", SEVERITIES)
        if chosen:
            parts.append(_in(column, chosen))
            values += chosen
    # Each of these adds to what the others let through: OpenShift's own page asks for several at once.
    origins = []
    if host_ids := _many(request, "host_ids"):
        for host_id in host_ids:
            uuid(host_id, "host_ids", "query")
        origins.append(_in("host_id", host_ids))
        values += host_ids
    if boolean(query.get("cluster_level"), "cluster_level"):
        origins.append("host_id IS NULL")
    if boolean(query.get("deleted_hosts"), "deleted_hosts"):
        origins.append("host_id NOT IN (SELECT id FROM hosts)")
    if origins:
        parts.append(f"({' OR '.join(origins)})")
    if query.get("message"):
        parts.append("json_extract(CAST(doc AS TEXT), '$.message') LIKE ? ESCAPE '!'")
        escaped = query["message"].replace("!", "!!").replace("%", "!%").replace("_", "!_")
        values.append(f"%{escaped}%")
    return ("WHERE " + " AND ".join(parts) if parts else ""), values


async def list_all(service: Service, request: web.Request) -> Response:
    """GET /events: filters and paging; headers give the number of all events, and of each severity."""
    offset, limit = max(0, integer(request, "offset") or 0), integer(request, "limit")
    order = request.query.get("order", "ascending")
    one_of(order, "order", "query", ("ascending", "descending"))
    where, values = condition(service, request)
    direction = "ASC" if order == "ascending" else "DESC"
    rest = f"{where} ORDER BY seq {direction} LIMIT ? OFFSET ?"
    most = LARGEST if limit is None or limit < 0 else limit
    # In a thread: there may be a hundred thousand, and events do not change once they are stored.
    counts, rows = await asyncio.to_thread(
        _read, service.settings.db_path, (where, values), (rest, [*values, most, offset])
    )
    headers = {f"Severity-Count-{name.capitalize()}": str(counts.get(name, 0)) for name in SEVERITIES}
    return await send(request, listed(rows), {**headers, "Event-Count": str(sum(counts.values()))})


def _read(
    path: Path, counted: tuple[str, list[object]], wanted: tuple[str, list[object]]
) -> tuple[dict[str, int], list[bytes]]:
    """Return the number of events of each severity, and the events that are wanted, over a connection of its own."""
    # Absolute, as it is a URI; ``ro``: whoever reads the log changes nothing.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.execute("BEGIN")
        counts = dict(
            database.execute(f"SELECT severity, COUNT(*) FROM events {counted[0]} GROUP BY severity", counted[1])
        )
        rows = database.execute(f"SELECT doc FROM events {wanted[0]}", wanted[1])
        chunks: list[bytes] = []
        while batch := rows.fetchmany(1000):
            chunks += [row[0] for row in batch]
        return counts, chunks


async def trigger(service: Service, request: web.Request) -> Response:
    """POST /events: a host's own event (the orchestrator's, a controller's)."""
    reports.event(service.engine, await body_of(request, requests.EventParams))
    return web.Response(status=201)
