"""A BMC's behaviour as data: profiles.yaml, read into structs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from installer.common.formats import yamltext

_FILE = Path(__file__).with_name("profiles.yaml")


class Drive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A virtual drive. `how` an image gets in: by the action, by PATCH, or only from somebody's console (local). Images
    of more than `limit_mib` MiB are refused (0: none is); what it holds is booted from if `boots`."""

    id: str
    types: tuple[str, ...]
    how: Literal["action", "patch", "local"] = "action"
    limit_mib: int = 0
    boots: bool = True


class Media(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Virtual media: under which resource they are (`fujitsu`: an OEM resource of the system), and how they behave.

    `schemes` are those of URLs that are taken, `refused` properties that an insert must not have, `needs` those that it
    must have, `url_length` the longest URL (0: any). `eject_body`: EjectMedia wants an empty object. After an eject
    the drive says for `stale_seconds` that nothing has changed, and for `busy_seconds` inserts fail; `keeps_name`: the
    image's name stays for good. With `task_seconds` an insert is a task that takes that long. `ejects_itself`: at the
    second power-on, if BootOnNextServerReset was set. `lies`: it says that it inserts, and does not.
    """

    at: Literal["system", "manager", "fujitsu", "none"] = "system"
    drives: tuple[Drive, ...] = ()
    schemes: tuple[str, ...] = ("http", "https")
    refused: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    url_length: int = 0
    eject_body: bool = False
    stale_seconds: float = 0
    busy_seconds: float = 0
    task_seconds: float = 0
    keeps_name: bool = False
    ejects_itself: bool = False
    lies: bool = False


class Boot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The boot override. `targets` are the BMC's names and what the emulator calls them ("": nothing boots there).

    `once` is cleared at the next power-on, kept for good, or ignored. `settings`: it is set in the Settings resource.
    `needs_enabled`: a target without BootSourceOverrideEnabled is refused. For `post_seconds` after a power-on nothing
    may be set.
    """

    targets: dict[str, str] = msgspec.field(default_factory=lambda: {"Pxe": "Pxe", "Hdd": "Hdd", "Cd": "Cd"})
    once: Literal["cleared", "kept", "ignored"] = "cleared"
    settings: bool = False
    needs_enabled: bool = False
    post_seconds: float = 0


class Power(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Power. ForceOff takes `off_seconds`; for `unready_seconds` after a reset all requests are answered 503 with
    `unready_code`, for `conflict_seconds` after a power-off On is answered 409, and for `restless_seconds` after any
    change another one 400."""

    off_seconds: float = 0
    unready_seconds: float = 0
    unready_code: str = "Base.1.8.ServiceTemporarilyUnavailable"
    unready_message: str = "The service is temporarily unavailable. Retry in a few seconds."
    conflict_seconds: float = 0
    restless_seconds: float = 0


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests by path (`*` is anything, slashes included) and method (empty: any), and what becomes of them.

    `latency_seconds` before the answer; an answer of another `status`, or with another `body`, is given in the BMC's
    place; `merge` changes what the BMC answers to a GET, object by object (RFC 7396: null removes). The first `times`
    requests alone, 0: all. Raises ValueError for a rule that would never do what it says.
    """

    path: Annotated[str, msgspec.Meta(pattern="^[/*]")]
    method: Literal["", "GET", "POST", "PATCH", "PUT", "DELETE"] = ""
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None = None
    latency_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    body: dict[str, Any] | None = None
    merge: dict[str, Any] | None = None
    times: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        # YAML has infinities, which JSON has not.
        json.dumps((self.body, self.merge), allow_nan=False)
        if self.merge is not None and (self.body is not None or self.status is not None):
            raise ValueError("merge changes the BMC's own answer: it goes with neither body nor status")
        if self.body is not None and self.status in (204, 304):
            raise ValueError(f"an answer with status {self.status} has no body")
        if (self.status, self.body, self.merge) == (None, None, None) and not self.latency_seconds:
            raise ValueError("none of status, body, merge and latency_seconds is set")


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of BMC: `system` and `manager` are its ids for the machine and itself, `model` is what it calls itself.

    `etag` is the form of entity tags, with {} for what changes (`digits`: a number); PATCH wants them with `if_match`.
    `logins` are the ways in, `session_seconds` how long an idle session lasts; `tls` is the only version it speaks.
    `recording`: the directory of the tree whose documents it shows (lab.bmcs.recorded).
    """

    title: str
    manufacturer: str = ""
    system: str = ""
    manager: str = ""
    model: str = ""
    etag: str = ""
    digits: bool = False
    if_match: Literal["ignored", "required"] = "ignored"
    logins: tuple[Literal["basic", "session"], ...] = ("basic", "session")
    session_seconds: float = 1800
    tls: Literal["1.1", "1.2"] = "1.2"
    media: Media = Media()
    boot: Boot = Boot()
    power: Power = Power()
    recording: str = ""


@cache
def profiles() -> dict[str, Profile]:
    """Return all profiles by name."""
    return msgspec.convert(yamltext.load(_FILE.read_bytes()), dict[str, Profile])


def profile(name: str) -> Profile:
    """Return the profile of that name."""
    return profiles()[name]


@cache
def working() -> tuple[str, ...]:
    """Return the profiles through which a machine can be installed: BMCs of machines of their own, with media that hold
    what they say."""
    every = profiles().items()
    return tuple(name for name, each in every if each.system and each.media.at != "none" and not each.media.lies)
