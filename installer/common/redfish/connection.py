"""One login at one Redfish service, with an end to every answer."""

from __future__ import annotations

import io
import math
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import urlparse

import requests
import sushy
import urllib3
from requests.adapters import HTTPAdapter
from sushy import auth
from sushy.connector import Connector

_POLL_SECONDS = 1.0
_MOST_BYTES = 16 << 20
_PORTS = {"http": 80, "https": 443}


class _Mortal(urllib3.connection.HTTPConnection):
    """A connection that is cut when its time is up: timeouts of sockets begin anew with each byte of a TLS handshake or
    of a head."""

    seconds = 0.0
    _end: threading.Timer | None = None

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        twin = sock.dup()

        def cut() -> None:
            with suppress(OSError):
                twin.shutdown(socket.SHUT_RDWR)

        self._twin, self._end = twin, threading.Timer(self.seconds, cut)
        self._end.daemon = True
        self._end.start()
        return sock

    def close(self) -> None:
        """Close it, and let its time run no longer."""
        super().close()
        if self._end is not None:
            self._end.cancel()
            self._twin.close()
            self._end = None


class _MortalTls(_Mortal, urllib3.connection.HTTPSConnection):
    """The same with TLS."""


class Connection:
    """One Redfish service and an account on it. All that it does raises sushy's errors."""

    def __init__(
        self,
        url: str,
        user: str,
        password: str,
        *,
        verify: str | bool,
        connect_seconds: float,
        answer_seconds: float,
        attempts: int = 0,
        tls: Literal["1.1", "1.2"] = "1.2",
    ) -> None:
        """`verify` as in requests; `connect_seconds` for a connection, `answer_seconds` for an answer and for a task.

        `attempts` at a request whose connection breaks, 0 for sushy's own 3, 2 s apart; `tls` is the oldest version
        that may be spoken.
        """
        self.url = url
        self._user = user
        self._password = password
        self._verify = verify
        self._connect_seconds = connect_seconds
        self._answer_seconds = answer_seconds
        self._attempts = attempts
        self._tls = tls
        self._deadline = math.inf
        self._account: auth.AuthBase | None = None
        self._root: Any = None
        self._answer: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def address(self) -> str:
        """Scheme, host and port: what an error names."""
        parts = urlparse(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def open(self) -> Any:
        """Log in, with basic authentication or with a session where that is refused, and return sushy's root."""
        if self._root is None:
            root = self._login(auth.BasicAuth)
            try:
                root.get_system_collection()
            except sushy.exceptions.AccessError as refused:
                try:
                    root = self._login(auth.SessionAuth)
                except sushy.exceptions.SushyError:
                    raise refused from None
            self._root = root
        return self._root

    def close(self) -> None:
        """End the session, if there is one."""
        account, self._account, self._root = self._account, None, None
        if isinstance(account, auth.SessionAuth):
            account.close()

    def limit(self, seconds: float) -> None:
        """Let requests fail from then on, until the next call; however many a BMC's documents lead to."""
        self._deadline = time.monotonic() + seconds

    def run_task(self, act: Callable[[], Any]) -> None:
        """Do what may begin a task (202), and wait for the task's end."""
        self._answer = None
        act()
        answer = self._answer
        if answer is None or answer.status_code != 202 or not (monitor := answer.headers.get("Location")):
            return
        deadline = time.monotonic() + self._answer_seconds
        while self.open()._conn.get(monitor).status_code == 202:
            if time.monotonic() > deadline:
                raise sushy.exceptions.ConnectionError(
                    url=monitor, error=f"its task has run for {self._answer_seconds:g} s"
                )
            time.sleep(_POLL_SECONDS)

    def _login(self, way: type[auth.AuthBase]) -> Any:
        self._account = way(username=self._user, password=self._password)
        root = sushy.Sushy(self.url, auth=self._account, connector=self._connector(), verify=self._verify)
        # sushy's root ends its session when it is collected, in whatever thread that happens: one that serves others
        # would wait for a BMC. `close` ends it.
        root._auth = None
        return root

    def _connector(self) -> Connector:
        old = {"tls_min_version": self._tls, "tls_ciphers": "DEFAULT:@SECLEVEL=0"} if self._tls == "1.1" else {}
        connector = Connector(
            self.address,
            verify=self._verify,
            default_request_timeout=self._answer_seconds,
            connect_timeout=self._connect_seconds,
            server_side_retries=self._attempts,
            response_callback=self._note,
            **old,
        )
        # Proxies and CA bundles of the environment are the administrator's, not the BMC's; and requests would
        # prefer REQUESTS_CA_BUNDLE to `verify`.
        session = connector._session
        session.trust_env = False
        session.hooks["response"].append(self._read_whole)
        adapter = session.get_adapter(self.address)
        assert isinstance(adapter, HTTPAdapter)
        self._bound(adapter)
        # The login is for no other host, wherever links and redirections of the BMC lead.
        session.adapters.clear()
        parts = urlparse(self.url)
        session.mount(f"{self.address}/", adapter)
        if parts.port is None:
            session.mount(f"{self.address}:{_PORTS[parts.scheme]}/", adapter)
        return connector

    def _bound(self, adapter: HTTPAdapter) -> None:
        """Bound the life of an adapter's connections."""
        seconds = self._connect_seconds + self._answer_seconds
        plain = type("Plain", (_Mortal,), {"seconds": seconds})
        tls = type("Tls", (_MortalTls,), {"seconds": seconds})
        adapter.poolmanager.pool_classes_by_scheme = {
            "http": type("PlainPool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("TlsPool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": tls}),
        }

    def _note(self, answer: Any) -> None:
        self._answer = answer

    def _read_whole(self, answer: requests.Response, **_words: object) -> None:
        """Read an answer's body, whose bytes and seconds requests would not count. Raises RequestException."""
        deadline, body = time.monotonic() + self._answer_seconds, bytearray()
        if time.monotonic() > self._deadline:
            raise requests.RequestException("its documents lead to more requests than there is time for")
        if answer.elapsed.total_seconds() > self._answer_seconds:
            raise requests.RequestException(f"the head of its answer has no end within {self._answer_seconds:g} s")
        try:
            while piece := answer.raw.read1(1 << 16, decode_content=True):
                body += piece
                if len(body) > _MOST_BYTES or time.monotonic() > deadline:
                    limits = f"{_MOST_BYTES >> 20} MiB and {self._answer_seconds:g} s"
                    raise requests.RequestException(f"its answer has no end within {limits}")
        except urllib3.exceptions.HTTPError as error:
            raise requests.ConnectionError(error) from error
        finally:
            answer.raw.close()
            # It was asked to close the connection, so that the next request must not use it, whatever it answers.
            answer.connection.close()
        answer.raw = io.BytesIO(body)
