"""Images in machines' virtual CD drives: put in, booted once, and taken out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial

from installer.hub.baremetal.provisioner import Done, Failed
from installer.ipi import imageserver
from installer.ipi.record import Record
from installer.ipi.targets import Target, each, finished

log = logging.getLogger("installer.ipi.media")

# A BMC that fetches the whole image first, over a slow line.
START_SECONDS = 1800.0
EJECT_SECONDS = 120.0


class Media:
    """The drives that one command fills and empties; `ports` of its image server, `urls` of others that have the same image.

    Once `stop` is set, machines that are being started are left as they are.
    """

    def __init__(self, record: Record, ports: tuple[int, int], urls: Sequence[str] = ()) -> None:
        self._record = record
        self._ports = ports
        self._urls = urls
        self.stop = threading.Event()

    def start(self, target: Target, path: str) -> str:
        """Boot one machine from the image that our server has at this path; returns what went wrong, in one line."""
        machine, problems = target.machine(), []
        own = imageserver.urls_for(target.address.url, path, self._ports)
        for url in (*own, *self._urls):
            inserted = False

            def note(why: str) -> None:
                nonlocal inserted
                if why == "the ISO is in the drive":
                    inserted = True
                    self._record.note(target.name, "inserted")
                log.debug("%s: %s", target.name, why)

            outcome = finished(partial(machine.provision, url), START_SECONDS, self.stop, note)
            if isinstance(outcome, Done):
                self._record.note(target.name, "started")
                log.info("%s: started from the image (%s)", target.name, url.split(":", 1)[0])
                machine.detach()
                return ""
            problems.append(outcome.message)
            if inserted:
                return (
                    f"{target.name}: {outcome.message}: the image was inserted, but the host was not started: see to "
                    "its BMC, then run this command again, which goes on with this host"
                )
        return f"{target.name}: {'; '.join(dict.fromkeys(problems))}"

    def eject(self, targets: Sequence[Target]) -> list[str]:
        """Empty the drives that hold our image, and no others; returns the machines whose drives are not empty then."""

        def empty(target: Target) -> Done | Failed | None:
            machine = target.machine()
            try:
                seen = finished(machine.look, EJECT_SECONDS, threading.Event())
                if isinstance(seen, Failed):
                    return seen
                if not self._record.is_ours(seen.image):
                    return None
                return finished(lambda: machine.hold("", seen.image), EJECT_SECONDS, threading.Event())
            finally:
                machine.detach()

        outcomes = each(targets, empty)
        for name, outcome in outcomes.items():
            if isinstance(outcome, Failed):
                log.warning("%s: the image may still be in its virtual CD drive: %s", name, outcome.message)
            elif outcome:
                log.info("%s: its virtual CD drive is empty again", name)
        return [name for name, outcome in outcomes.items() if isinstance(outcome, Failed)]
