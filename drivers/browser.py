"""A real headless Chromium, driven by the DevTools protocol over a pipe: no port, no further library."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from drivers.errors import BrowserError

PROGRAMS = ("chromium-headless-shell", "chromium")
PROGRAM = next((path for name in PROGRAMS if (path := shutil.which(name))), "")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--mute-audio"),
    *("--remote-debugging-pipe", "--window-size=1280,1000", "--lang=en-US"),
)
# Focuses the control of a kind that is visible, usable and has this name; whether there is one.
_FIND = """(kind, name) => {
  const seen = (item) => item && item.checkVisibility() && !item.disabled;
  const says = (item) => item.textContent.trim() === name;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const found = kind === 'field' ? all('label').filter(says).map((item) => item.control).find(seen)
    : all({ button: 'button', link: 'a[href]', summary: 'summary' }[kind]).filter(says).find(seen);
  if (found) found.focus();
  return !!found && document.activeElement === found;
}"""
ANSWER_SECONDS = 60.0
END_SECONDS = 20.0


def spki(certificate: bytes) -> str:
    """Return the hash by which Chromium can be told to trust the key of this certificate (PEM), and no other."""
    key = x509.load_pem_x509_certificate(certificate).public_key()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    return base64.b64encode(digest.finalize()).decode()


class Page:
    """One tab. ``complaints`` holds the scripts' exceptions and the browser's errors and warnings.

    All methods raise BrowserError when the browser does not answer, refuses, or has ended.
    """

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._number, self._rest = 0, b""
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Send one DevTools command; returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        try:
            os.write(self._to, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise BrowserError(f"{method}: Chromium has ended") from None
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            answer = self._read(end)
            if answer is None:
                raise BrowserError(f"{method}: Chromium did not answer within {ANSWER_SECONDS:g} s")
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _read(self, end: float) -> dict[str, Any] | None:
        while b"\0" not in self._rest:
            if not select.select([self._back], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            chunk = os.read(self._back, 1 << 20)
            if not chunk:
                raise BrowserError(f"Chromium has ended with {self._process.poll()}")
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        params = message.get("params") or {}
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("warning", "error"):
            # The text of a request that failed does not say which.
            self.complaints.append(" ".join(filter(None, (params["entry"]["text"], params["entry"].get("url")))))
        return message

    def js(self, expression: str) -> Any:
        """Evaluate an expression in the page; returns its value, or that of its promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def text(self) -> str:
        """Return all text that a reader of the page sees."""
        return str(self.js("document.body.innerText"))

    def until(self, expression: str, seconds: float = 60.0) -> Any:
        """Wait until an expression is true; returns its value. The error holds the page's text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.js(expression)
            if value:
                return value
            time.sleep(0.1)
        raise BrowserError(f"not within {seconds:g} s: {expression}\n{self.text()}")

    def open(self, url: str) -> None:
        """Open a URL and wait until the document is complete."""
        answer = self.call("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")
        self.until("document.readyState === 'complete'")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Send a key press as a keyboard would."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def _found(self, kind: str, name: str) -> None:
        """Wait for a control of this kind (`field`, `button`, `link`, `summary`) with this name, and focus it."""
        self.until(f"({_FIND})({json.dumps(kind)}, {json.dumps(name)})")

    def fill(self, label: str, text: str) -> None:
        """Replace the content of the text field with this label, as a keyboard would."""
        self._found("field", label)
        self.js("document.activeElement.select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.press("Delete", 46)
        self.js("document.activeElement.dispatchEvent(new Event('change', {bubbles: true}))")

    def choose(self, label: str, value: str) -> None:
        """Choose the option that has this value in the list with this label, once it is offered."""
        self._found("field", label)
        self.until(
            f"[...document.activeElement.options].some((item) => !item.disabled && item.value === {json.dumps(value)})"
        )
        self.js(
            f"document.activeElement.value = {json.dumps(value)};"
            "document.activeElement.dispatchEvent(new Event('change', {bubbles: true}))"
        )

    def push(self, name: str, kind: str = "button") -> None:
        """Push the button (`link`, `summary`: follow or open it) that says this, by the keyboard."""
        self._found(kind, name)
        self.press("Enter", 13, "\r")

    def tab(self) -> str:
        """Press Tab; returns what has the focus then."""
        self.press("Tab", 9)
        return str(self.js("document.activeElement.id || document.activeElement.innerText.trim().split('\\n')[0]"))

    def resize(self, width: int, height: int = 1000) -> None:
        """Give the page's window another size, in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def picture(self, path: Path, *, whole: bool = True) -> bytes:
        """Take a PNG of the whole page, or of what its window shows."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
        path.write_bytes(data)
        return data


def _pipe() -> tuple[int, int]:
    """Make a pipe with descriptors from 10 on: the shell needs 3 and 4 for Chromium."""
    ends = os.pipe()
    reader, writer = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return reader, writer


@contextmanager
def chromium(profile: Path, certificate: bytes, prefix: Sequence[str] = (), log: Path | None = None) -> Iterator[Page]:
    """Run a browser with a profile of its own that trusts one certificate (PEM) beyond the system's.

    ``prefix``: words before the command, such as those that enter a namespace. ``log``: where it writes (default:
    chromium.log beside the profile).
    """
    child_in, to = _pipe()
    back, child_out = _pipe()
    flags = [*FLAGS, f"--user-data-dir={profile}", f"--ignore-certificate-errors-spki-list={spki(certificate)}"]
    # The protocol is spoken on descriptors 3 and 4.
    script = f'exec "$0" "$@" 3<&{child_in} 4>&{child_out} {child_in}<&- {child_out}>&-'
    shell = ["bash", "-c", script, PROGRAM, *flags]
    with (log or profile.parent / "chromium.log").open("wb") as output:
        process = subprocess.Popen(
            [*prefix, *shell],
            pass_fds=(child_in, child_out),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    os.close(child_in)
    os.close(child_out)
    try:
        yield Page(process, to, back)
    finally:
        # It ends when the other end of the pipe is closed, even behind a prefix that forwards no signals.
        for end in (to, back):
            with contextlib.suppress(OSError):
                os.close(end)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
