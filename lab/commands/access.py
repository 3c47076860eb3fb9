"""A lab's addresses from outside it: an HTTP proxy on this machine's loopback, for browsers and kubectl.

tinyproxy and microsocks, which were tried, connect from the network namespace in which they listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from installer.common.formats import yamltext
from installer.common.secretfiles import write_private
from lab.commands.places import ASSETS, KUBECONFIG, PASSWORD
from lab.deploy import SERVICE_PORT, STATE, console_url
from lab.errors import LabError
from lab.hub.controlplane import ADMIN
from lab.lab import Lab
from lab.layout import bracketed

Dial = Callable[[str, int], socket.socket]

DIAL_SECONDS = 10.0
HEAD_SECONDS = 10.0
_MOST_HEAD = 16 << 10
_CHUNK = 64 << 10
_CONNECT = re.compile(rb"CONNECT (?:\[([0-9a-fA-F:.]+)\]|([\w.-]+)):([0-9]{1,5}) HTTP/1\.[01]\r\n")


class Proxy:
    """An HTTP proxy on 127.0.0.1 that knows the method CONNECT. `dial` makes its connections (host, port)."""

    def __init__(self, dial: Dial, port: int = 0) -> None:
        self._dial = dial
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def serve(self) -> None:
        """Serve until it is cancelled."""
        async with await asyncio.start_server(self._answer, sock=self._listener, limit=_MOST_HEAD) as server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
            except (TimeoutError, asyncio.LimitOverrunError):
                return
            if (wanted := _CONNECT.match(head)) is None:
                writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nAllow: CONNECT\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            host, port = (wanted[1] or wanted[2]).decode(), int(wanted[3])
            try:
                peer = await asyncio.to_thread(self._dial, host, port)
                far_reader, far_writer = await asyncio.open_connection(sock=peer, limit=_CHUNK)
            except (OSError, OverflowError, UnicodeError, LabError):
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with contextlib.closing(far_writer):
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


def dial_in(lab: Lab) -> Dial:
    """Return what connects from within a lab's network, by its names."""
    return lambda host, port: lab.inside(socket.create_connection, (host, port), DIAL_SECONDS)


def kubeconfig_of(root: Path) -> Path:
    """Return the kubeconfig of the cluster that `deploy` installed in a lab. Raises LabError when there is none."""
    path = root / KUBECONFIG
    if not path.is_file():
        raise LabError("no cluster was deployed in this lab: it has no kubeconfig")
    return path


def kubeconfig_for(root: Path, *, hub: bool) -> Path:
    """Return the kubeconfig that kubectl is to use in a lab: its hub's where that is asked for, or where the lab has a
    hub and no cluster. Raises LabError when there is none."""
    path = root / "hub" / ADMIN
    cluster = (root / ASSETS / "auth/kubeconfig").is_file()
    if not path.is_file() or (cluster and not hub):
        if hub:
            raise LabError("this lab has no hub; node0-lab up --hub makes one that has")
        return kubeconfig_of(root)
    return path


def proxied(kubeconfig: str, proxy: str) -> str:
    """Return a kubeconfig whose clusters are reached by that proxy (kubectl: proxy-url)."""
    config = yamltext.load(kubeconfig)
    for entry in config["clusters"]:
        entry["cluster"]["proxy-url"] = proxy
    return yamltext.dump(config)


async def _serve_while(pid: int, proxy: Proxy) -> None:
    """Serve until that process ends."""
    process, loop = os.pidfd_open(pid), asyncio.get_running_loop()
    serving = asyncio.create_task(proxy.serve())
    loop.add_reader(process, serving.cancel)
    try:
        await asyncio.wait([serving])
    finally:
        loop.remove_reader(process)
        os.close(process)


def serve(lab: Lab, what: str, port: int) -> int:
    """Print where a cluster's page or console is, and serve the proxy until it is interrupted or told to end, or the
    lab ends; the exit code. Raises LabError."""
    assets = lab.layout.root / ASSETS
    kubeconfig = kubeconfig_of(lab.layout.root)
    proxy = Proxy(dial_in(lab), port)
    # Another one may run, with files of its own.
    own = kubeconfig.with_name(f"kubeconfig-proxy-{proxy.port}")
    files: dict[Path, str] = {own: proxied(kubeconfig.read_text(), proxy.url)}
    if what == "page":
        url = f"https://{bracketed((assets / 'rendezvousIP').read_text().strip())}:{SERVICE_PORT}/"
        token = assets / f"auth/watcher-token-{proxy.port}"
        files[token] = json.loads((assets / STATE).read_bytes())["node0"]["watcherToken"]
        secret = f"its token is in {token}; the page is there until the rendezvous host reboots"
    else:
        url = f"{console_url(lab.topology)}/"
        secret = f"user kubeadmin, password in {lab.layout.root / PASSWORD}"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        for path, text in files.items():
            write_private(path, text)
        print(f"{what:<10} {url} ({secret})")
        print(f"proxy      {proxy.url}, for whoever is on this machine, until Ctrl-C")
        print(f"browser    chromium --proxy-server={proxy.url} --ignore-certificate-errors {url}")
        print(f"kubectl    export KUBECONFIG={own}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve_while(lab.supervisor[0], proxy))
            print(f"node0-lab: lab {lab.id} has ended, and this proxy with it", file=sys.stderr)
            return 1
    finally:
        for path in files:
            path.unlink(missing_ok=True)
    return 0
