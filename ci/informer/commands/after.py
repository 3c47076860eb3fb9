"""Commands for what has been run: prune, traces, serve."""

from __future__ import annotations

import argparse
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from ci.informer.commands.common import (
    ACCEPTED,
    Adder,
    add_blocking,
    check_chosen,
    day,
    existing_history,
    history_path,
    name,
    say,
)
from ci.informer.engine.tls import host_and_port
from ci.informer.errors import InformerError
from ci.informer.history import retention
from installer.common.numbers import whole_type


def _prune(arguments: argparse.Namespace) -> int:
    if not arguments.directory.is_dir():
        raise InformerError(f"directory: {arguments.directory}: no such directory")
    limits = retention.Limits(arguments.green_days, arguments.red_days, arguments.gib << 30)
    with existing_history(arguments) as history:
        count, freed = retention.prune(history, arguments.directory, datetime.now(UTC).date(), limits)
    print(f"evidence of {count} runs removed, {freed / (1 << 30):.1f} GiB")
    return ACCEPTED


def _traces(arguments: argparse.Namespace) -> int:
    from ci.informer.history import traces

    endpoint = arguments.endpoint or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not arguments.file and not endpoint:
        raise InformerError("traces: --file or --endpoint: missing ($OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not set)")
    if endpoint and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", endpoint):
        raise InformerError(f"endpoint: {endpoint!r}: must be like http://localhost:4318/v1/traces")
    with existing_history(arguments) as history:
        check_chosen(history, arguments)
        rows = history.runs(arguments.job, arguments.payload, arguments.since)
        if arguments.file:
            print(f"{traces.written(history, rows, arguments.file)} traces written")
        if endpoint:
            print(f"{traces.sent(history, rows, endpoint)} traces sent")
    return ACCEPTED


def _serve(arguments: argparse.Namespace) -> int:
    from ci.informer.pages import serving

    host, port = host_and_port(arguments.listen, "listen")
    with existing_history(arguments):
        pass  # so that errors and warnings come before anything listens
    chosen = (arguments.blocking, arguments.informing)
    serving.serve(history_path(arguments), host.strip("[]"), port, chosen, say=say)
    return ACCEPTED


def add(command: Adder) -> None:
    """Add these commands."""
    prune = command("prune", _prune, "remove old evidence of runs; the runs stay in the history")
    prune.add_argument("directory", type=Path, metavar="DIR", help="remove nothing outside of this directory")
    for option, most, default, text in (
        ("--green-days", 36525, retention.GREEN_DAYS, "keep evidence of green runs for N days"),
        ("--red-days", 36525, retention.RED_DAYS, "keep evidence of red runs for N days"),
        ("--gib", 1 << 20, retention.GIB, "keep at most N GiB of evidence in all"),
    ):
        prune.add_argument(
            option, type=whole_type(0, most), default=default, metavar="N", help=f"{text} (default: {default})"
        )
    traced = command("traces", _traces, "write or send runs as OpenTelemetry traces")
    traced.add_argument(
        "--file", type=Path, metavar="FILE", help="write them to this file: OTLP as JSON, one run a line"
    )
    traced.add_argument(
        "--endpoint", metavar="URL", help="send them to this address, for example http://localhost:4318/v1/traces"
    )
    traced.add_argument("--job", type=name, help="only runs of this job")
    traced.add_argument("--payload", type=name, help="only runs on this payload")
    traced.add_argument("--since", type=day, metavar="DATE", help="only runs since this day")
    serve = command("serve", _serve, "serve the pages over HTTP, always up to date, until Ctrl-C")
    serve.add_argument(
        "--listen",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="address to serve on; whoever reaches it may read (default: 127.0.0.1:8080)",
    )
    add_blocking(serve)
