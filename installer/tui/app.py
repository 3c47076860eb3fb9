"""Pages of the host's console, and the way through them."""

from __future__ import annotations

import curses
import os
import signal
import subprocess
import textwrap
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from types import TracebackType

from installer.tui import host, network, rendezvous
from installer.tui.checks import Check, Checks
from installer.tui.keyfiles import BOND_MODES, WAYS, Network, problems
from installer.tui.screen import Field, Screen

TITLE = "node0 agent installer"
USE, THIS, EDIT, TAKE_BACK, AGAIN, LOG_IN = (
    "Use this rendezvous IP",
    "This is the rendezvous host",
    "Edit the network",
    "Take the network edit back",
    "Try again",
    "Log in",
)
CHANGE, TOKEN, ALL_OF_NMTUI = "Change the rendezvous host", "Show the token", "All else (nmtui)"
CODE = "Show a code for the page"
_BACK = "Back"
_LOG = host.ROOT / "var/log/agent/agent-tui.log"
_TOKEN_SECONDS = 120.0
_LOOK_SECONDS = 5.0
_MARKS = {True: "[ok]", False: "[!!]", None: "[..]"}
# SIGRTMIN+21 silences systemd's own status lines.
_SILENCE = signal.SIGRTMIN + 21


class Console:
    """The pages; each method is one, and returns when the person has left it."""

    def __init__(self, screen: Screen, checks: Checks) -> None:
        self._screen = screen
        self._checks = checks
        self._address = Field("Rendezvous IP")

    def run(self) -> None:
        """Go from page to page until the person wants to log in."""
        while True:
            page = self._chosen if rendezvous.chosen() else self._choose
            if not page():
                return

    def _choose(self) -> bool:
        """Ask for the rendezvous host. Returns False to log in."""
        back = [TAKE_BACK] if network.can_take_back() else []
        answer = self._screen.ask(
            TITLE,
            self._machine,
            [self._address],
            [USE, THIS, EDIT, *back, AGAIN, LOG_IN],
            over=lambda: bool(rendezvous.chosen()),
        )
        pages: dict[str, Callable[[], None]] = {
            USE: self._use,
            THIS: self._this,
            EDIT: self._edit,
            TAKE_BACK: self._take_back,
            AGAIN: self._checks.again,
        }
        pages.get(answer, lambda: None)()
        return answer != LOG_IN

    def _machine(self) -> list[str]:
        nics = [nic for nic in host.nics() if nic.physical or nic.addresses]
        shown = [f"{nic.name} {nic.mac}: {', '.join(nic.addresses) or _without(nic)}" for nic in nics[:5]]
        if len(nics) > 5:
            shown.append(f"and {len(nics) - 5} NICs more")
        return [
            f"This machine: {host.hostname()}",
            *(_line(check) for check in self._checks.results),
            "",
            # Below, since of many NICs the last lines find no room.
            *(shown or ["It has no NIC."]),
            "",
            "One machine, the rendezvous host, leads the installation; the others need its IP.",
        ]

    def _use(self) -> None:
        try:
            address = rendezvous.normalised(self._address.value)
        except rendezvous.Failed as error:
            self._screen.tell("Rendezvous IP", str(error))
            return
        if address in host.own_addresses():
            self._start(address)
            return
        self._screen.busy("Rendezvous IP", f"Looking for the service at {rendezvous.url_of(address)} ...")
        why = rendezvous.why_not(address)
        if why:
            nevertheless = "Use it nevertheless"
            text = "Once its service is there, this machine goes on by itself."
            if self._screen.tell("No rendezvous service", why, "", text, buttons=(_BACK, nevertheless)) != nevertheless:
                return
        self._start(address)

    def _this(self) -> None:
        addresses = host.own_addresses()
        if not addresses:
            self._screen.tell(THIS, "This machine has no IP address. Edit the network first.")
            return
        text = "Which of its addresses do the other machines, and your browser, reach it at?"
        answer = self._screen.tell(THIS, text, buttons=(*addresses, _BACK))
        if answer in addresses:
            self._start(answer)

    def _start(self, address: str) -> None:
        self._screen.busy("Rendezvous IP", f"Starting with rendezvous IP {address} ...")
        try:
            rendezvous.choose(address)
        except (rendezvous.Failed, OSError) as error:
            self._screen.tell("Rendezvous IP", str(error))

    def _chosen(self) -> bool:
        """Show what becomes of the choice. Returns False to log in."""
        address = rendezvous.chosen()
        own = address in host.own_addresses()
        look = _Look(address)
        answer = self._screen.ask(
            TITLE,
            lambda: self._state(address, look) if own else self._waiting(address, look),
            (),
            [*([CODE, TOKEN] if own else []), CHANGE, EDIT, *([TAKE_BACK] if network.can_take_back() else []), LOG_IN],
            over=lambda: rendezvous.chosen() != address,
        )
        look.end()
        if answer == CODE:
            self._code(address)
        elif answer == TOKEN:
            self._token()
        elif answer == CHANGE:
            self._change(own)
        elif answer == EDIT:
            self._edit()
        elif answer == TAKE_BACK:
            self._take_back()
        return answer != LOG_IN

    def _state(self, address: str, look: _Look) -> list[str]:
        why = look.why
        lines = [f"This machine ({host.hostname()}) is the rendezvous host.", ""]
        if why:
            lines += ["Its service is starting; that takes a few minutes at most.", "", *host.notices()]
            return lines
        return [
            *lines,
            f"Open in a browser: {rendezvous.url_of(address)}",
            f"Enter {address} as rendezvous IP on the other machines.",
            "",
            "Your browser does not know its certificate, whose SHA-256 fingerprint is",
            *textwrap.wrap(rendezvous.fingerprint(), 48),
            "",
            f"To change anything the page wants the token: <{CODE}> has eight letters that do instead, once; "
            f"<{TOKEN}>, or auth/user-token where the image was made.",
            "",
            *host.notices()[:2],
        ]

    def _waiting(self, address: str, look: _Look) -> list[str]:
        lines = [f"This machine ({host.hostname()}) waits for the rendezvous host at {address}.", ""]
        why = look.why
        lines.append(why or f"Its service answers. Go on in a browser: {rendezvous.url_of(address)}")
        return [*lines, "", *([] if why else host.notices())]

    def _token(self) -> None:
        ends = time.monotonic() + _TOKEN_SECONDS
        token = rendezvous.token()
        self._screen.ask(
            TOKEN,
            lambda: ["Whoever has it may install clusters and change hosts:", "", *textwrap.wrap(token, 70), ""],
            (),
            (_BACK,),
            over=lambda: time.monotonic() > ends,
        )

    def _code(self, address: str) -> None:
        self._screen.busy(CODE, "Asking the service for a code ...")
        try:
            shown = rendezvous.code(address, "POST")["code"]
        except rendezvous.Failed as error:
            self._screen.tell(CODE, str(error))
            return
        ends = time.monotonic() + _TOKEN_SECONDS

        def lines() -> list[str]:
            try:
                state = rendezvous.code(address)
            except rendezvous.Failed as error:
                return [str(error)]
            wrong = f"Wrong codes that were tried: {state['wrong']}, the last from {state['wrong_from']}."
            said = [wrong, ""] if state["wrong"] else []
            if state["used_by"]:
                other = "If that was not you, it has the token now: install from an image made in an empty directory."
                return [f"The code was used by a browser at {state['used_by']}.", other, "", *said]
            if not state["seconds"]:
                return ["This code is good for nothing any more: show another.", "", *said]
            return [
                "Type this on the page in the place of the token:",
                "",
                f"    {shown}",
                "",
                f"It is good for one browser, and for {state['seconds']} s more.",
                "",
                *said,
            ]

        self._screen.ask(CODE, lines, (), (_BACK,), over=lambda: time.monotonic() > ends)

    def _change(self, own: bool) -> None:
        texts = ["This machine's agent is stopped, and you can choose again."]
        if own:
            texts.append("Its service ends. The other machines wait for it until they are given another IP.")
        if self._screen.tell(CHANGE, *texts, buttons=(_BACK, CHANGE)) == CHANGE:
            self._screen.busy(CHANGE, "Stopping the services ...")
            try:
                rendezvous.forget()
            except rendezvous.Failed as error:
                self._screen.tell(CHANGE, str(error))

    def _edit(self) -> None:
        names = tuple(nic.name for nic in host.nics() if nic.physical)
        if not names:
            self._screen.tell(EDIT, "This machine has no NIC.")
            return
        fields = {
            "nic": Field("NIC", names[0], names),
            "bonded": Field("Bond with", hint="other NICs; empty: no bond"),
            "bond_mode": Field("Bond's mode", BOND_MODES[0], BOND_MODES),
            "vlan": Field("VLAN", hint="1 to 4094; empty: none"),
            "ipv4": Field("IPv4", WAYS[0], WAYS),
            "address4": Field("IPv4 address", hint="with prefix, if static"),
            "gateway4": Field("IPv4 gateway"),
            "ipv6": Field("IPv6", WAYS[0], WAYS),
            "address6": Field("IPv6 address", hint="with prefix, if static"),
            "gateway6": Field("IPv6 gateway"),
            "dns": Field("DNS servers", hint="empty: DHCP's"),
            "search": Field("Search domains"),
        }
        apply, wrong = "Apply", [""]
        while True:
            buttons = (apply, ALL_OF_NMTUI, _BACK)
            answer = self._screen.ask(EDIT, partial(list, wrong), list(fields.values()), buttons)
            if answer == ALL_OF_NMTUI:
                self._nmtui()
                return
            if answer != apply:
                return
            wanted = Network(**{name: field.value for name, field in fields.items()})
            wrong = problems(wanted, names)[:4]
            if wrong:
                continue
            self._screen.busy(EDIT, f"Setting up {wanted.top} ...")
            self._report(EDIT, network.apply(wanted))
            return

    def _nmtui(self) -> None:
        network.remember()
        curses.endwin()
        # No list of words: nmtui asks for the terminal's own.
        subprocess.run(["nmtui"], check=False)
        self._report(EDIT, "")

    def _take_back(self) -> None:
        self._screen.busy(TAKE_BACK, "Putting the network back as it was before the last edit ...")
        self._report(TAKE_BACK, network.take_back())

    def _report(self, title: str, complaint: str) -> None:
        rendezvous.network_changed()
        self._checks.again()
        if complaint:
            self._screen.tell(title, f"NetworkManager: {complaint}", "", "The checks show what is reached now.")


class _Look:
    """Looks for the service every few seconds, in a thread: a look may take eight. `why` is the last one's answer."""

    def __init__(self, address: str) -> None:
        self.why = f"Looking for the service at {rendezvous.url_of(address)} ..."
        self._address = address
        self._ended = threading.Event()
        threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        while not self._ended.is_set():
            self.why = rendezvous.why_not(self._address)
            self._ended.wait(_LOOK_SECONDS)

    def end(self) -> None:
        """Look no more."""
        self._ended.set()


def _line(check: Check) -> str:
    return f"{_MARKS[check.ok]} {check.name}: {check.text}"


def _without(nic: host.Nic) -> str:
    return "no address" if nic.up else "no link"


class _LoginAfterwards:
    """Whatever ends the console, an error too, a person can log in then."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            _LOG.parent.mkdir(parents=True, exist_ok=True)
            with _LOG.open("a") as log:
                traceback.print_exception(error, file=log)
        os.execv("/sbin/agetty", ["agetty", "-o", "-p -- \\u", "--noclear", "-", os.environ.get("TERM", "vt220")])


def main() -> None:
    """Run on this process's terminal, and become a login prompt in the end."""
    with _LoginAfterwards():
        if os.getpid() != 1 and os.geteuid() == 0 and str(host.ROOT) == "/":
            os.kill(1, _SILENCE)
        curses.set_escdelay(100)
        checks = Checks()
        curses.wrapper(lambda window: Console(Screen(window), checks).run())
