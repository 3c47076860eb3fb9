"""One Redfish service: how it is reached, logged into and asked again, and its errors as ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import sushy

from drivers.errors import ConnectionFailedError, DriverError, NotFoundError
from installer.common.redfish import causes
from installer.common.redfish.connection import Connection

T = TypeVar("T")

POLL_SECONDS = 1.0
# A BMC that says that it is not ready is believed for this long: iDRACs take minutes after a reset (reference/lab.md
# §3.7).
READY_SECONDS = 240.0
# InsertMedia answers only when the image is there: 12 s for 1.2 GiB on an idle machine (reference/lab.md §3.3).
REQUEST_SECONDS = 600


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
        self.connection = Connection(
            url,
            user,
            password,
            verify=str(ca) if ca else False,
            connect_seconds=timeout,
            answer_seconds=REQUEST_SECONDS,
            tls=tls,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def address(self) -> str:
        """Scheme, host and port: what an error names."""
        return self.connection.address

    def call(self, action: Callable[[Any], T], purpose: str, machine: str = "") -> T:
        """Return the value of `action(service root)`, with sushy's errors turned into ours. While the BMC says that it
        is not ready, it is asked again for `patience` seconds. Each error is one line with the machine, the BMC's
        address and the cause."""

        def attempt() -> T:
            begin = time.monotonic()
            while True:
                try:
                    return action(self.connection.open())
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

    def systems(self) -> list[str]:
        """Return the ids of all systems that the service manages."""

        def read(root: Any) -> list[str]:
            collection = root.get_system_collection()
            collection.refresh(force=True)
            return [identity.rsplit("/", 1)[-1] for identity in collection.members_identities]

        return self.call(read, "list systems")


def _kind(error: Exception) -> type[DriverError]:
    if isinstance(error, sushy.exceptions.AccessError | sushy.exceptions.ConnectionError):
        return ConnectionFailedError
    if isinstance(error, sushy.exceptions.ResourceNotFoundError):
        return NotFoundError
    return DriverError
