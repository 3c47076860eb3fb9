"""One Redfish service: how it is reached, logged into and asked again, and its errors as ours."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import urlparse

import requests
import sushy
import urllib3
from sushy import auth
from sushy.connector import Connector

from drivers.errors import ConnectionFailedError, DriverError, NotFoundError
from drivers.redfish import causes

T = TypeVar("T")

POLL_SECONDS = 1.0
# A BMC that says that it is not ready is believed for this long: iDRACs take minutes after a reset (reference/lab.md
# §3.7).
READY_SECONDS = 240.0
# InsertMedia answers only when the image is there: 12 s for 1.2 GiB on an idle machine (reference/lab.md §3.3).
REQUEST_SECONDS = 600
_MOST_BYTES = 16 << 20


class Runner(Protocol):
    """Runs a callable where the BMC can be reached: another network namespace, or just here."""

    def __call__(self, function: Callable[[], T], /) -> T:
        """Return the callable's value; its exceptions pass."""


def here(function: Callable[[], T], /) -> T:
    """Call the function here, as a Runner."""
    return function()


class Endpoint:
    """One Redfish service and an account on it, asked for what is common to all resources."""

    def __init__(
        self,
        url: str,
        user: str,
        password: str,
        *,
        ca: Path | None = None,
        run: Runner = here,
        timeout: float = 30,
        patience: float = READY_SECONDS,
        tls: Literal["1.1", "1.2"] = "1.2",
    ) -> None:
        """`ca` verifies its certificate (None: do not verify); `timeout` in seconds for the first answer, `patience`
        for a BMC that is not ready; `tls` is the oldest version that may be spoken."""
        self.url = url
        self.run = run
        self.patience = patience
        self._user = user
        self._password = password
        self._verify: str | bool = str(ca) if ca else False
        self._timeout = timeout
        self._tls = tls
        self._root: Any = None
        self._answer: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def address(self) -> str:
        """Scheme, host and port: what an error names."""
        parts = urlparse(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def _connector(self) -> Connector:
        old = {"tls_min_version": self._tls, "tls_ciphers": "DEFAULT:@SECLEVEL=0"} if self._tls == "1.1" else {}
        connector = Connector(
            self.address,
            verify=self._verify,
            default_request_timeout=REQUEST_SECONDS,
            connect_timeout=self._timeout,
            response_callback=self._note,
            **old,
        )
        # Proxies and CA bundles of the environment are the administrator's, not the BMC's; and requests would
        # prefer REQUESTS_CA_BUNDLE to `verify`.
        session = connector._session
        session.trust_env = False
        session.hooks["response"].append(_read_whole)
        return connector

    def _note(self, answer: Any) -> None:
        self._answer = answer

    def _open(self) -> Any:
        """Log into the service root, with basic authentication, or with a session where that is refused."""
        if self._root is None:
            self._root = self._login(auth.BasicAuth)
            try:
                self._root.get_system_collection()
            except sushy.exceptions.AccessError as refused:
                self._root = None
                try:
                    self._root = self._login(auth.SessionAuth)
                except sushy.exceptions.SushyError:
                    raise refused from None
            except sushy.exceptions.SushyError:
                self._root = None
                raise
        return self._root

    def _login(self, way: type[auth.AuthBase]) -> Any:
        account = way(username=self._user, password=self._password)
        return sushy.Sushy(self.url, auth=account, connector=self._connector(), verify=self._verify)

    def call(self, action: Callable[[Any], T], purpose: str, machine: str = "") -> T:
        """Return the value of `action(service root)`, with sushy's errors turned into ours. While the BMC says that it
        is not ready, it is asked again for `patience` seconds. Each error is one line with the machine, the BMC's
        address and the cause."""

        def attempt() -> T:
            begin = time.monotonic()
            while True:
                try:
                    return action(self._open())
                except sushy.exceptions.SushyError as error:
                    waited = time.monotonic() - begin
                    if causes.is_transient(error) and waited + POLL_SECONDS < self.patience:
                        time.sleep(POLL_SECONDS)
                        continue
                    kind = _kind(error)
                    text = causes.cause(error, waited)
                    raise kind(f"BMC {self.address}: {purpose}: {text}", machine=machine) from error
                except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
                    # sushy takes documents as they come.
                    text = f"its answer is no Redfish document: {type(error).__name__}: {error}"
                    raise DriverError(f"BMC {self.address}: {purpose}: {text}", machine=machine) from error

        return self.run(attempt)

    def run_task(self, act: Callable[[], Any]) -> None:
        """Do what may begin a task (202), and wait for the task's end. Raises sushy's errors, among them the task's.
        Within `call` only."""
        self._answer = None
        act()
        answer = self._answer
        if answer is None or answer.status_code != 202 or not (monitor := answer.headers.get("Location")):
            return
        deadline = time.monotonic() + REQUEST_SECONDS
        while self._root._conn.get(monitor).status_code == 202:
            if time.monotonic() > deadline:
                raise sushy.exceptions.ConnectionError(url=monitor, error=f"its task has run for {REQUEST_SECONDS} s")
            time.sleep(POLL_SECONDS)

    def systems(self) -> list[str]:
        """Return the ids of all systems that the service manages."""

        def read(root: Any) -> list[str]:
            collection = root.get_system_collection()
            collection.refresh(force=True)
            return [identity.rsplit("/", 1)[-1] for identity in collection.members_identities]

        return self.call(read, "list systems")


def _read_whole(answer: requests.Response, **_words: object) -> None:
    """Read an answer's body, whose bytes and seconds requests would not count. Raises RequestException."""
    deadline, body = time.monotonic() + REQUEST_SECONDS, bytearray()
    try:
        while piece := answer.raw.read1(1 << 16, decode_content=True):
            body += piece
            if len(body) > _MOST_BYTES or time.monotonic() > deadline:
                limits = f"{_MOST_BYTES >> 20} MiB and {REQUEST_SECONDS:g} s"
                raise requests.RequestException(f"its answer has no end within {limits}")
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(error) from error
    finally:
        answer.raw.close()
    answer.raw = io.BytesIO(body)


def _kind(error: Exception) -> type[DriverError]:
    if isinstance(error, sushy.exceptions.AccessError | sushy.exceptions.ConnectionError):
        return ConnectionFailedError
    if isinstance(error, sushy.exceptions.ResourceNotFoundError):
        return NotFoundError
    return DriverError
