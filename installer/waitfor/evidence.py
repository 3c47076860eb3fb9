"""Evidence kept in DIR/logs: events as they come, and on a failure hosts, cluster and the service's log archive."""

from __future__ import annotations

import json
import logging
import tarfile
from pathlib import Path
from typing import Any

from installer.assisted.client import AssistedClient
from installer.assisted.errors import ClientError
from installer.common.formats import jsontext
from installer.common.inputs import read_input
from installer.common.redact import Redactor
from installer.files import hidden, write_whole
from installer.observe.archive import GZIP, unpack

log = logging.getLogger("installer.waitfor")
ARCHIVE = "cluster-logs"
UNPACKED = "cluster"
EVENTS = "events.json"
# Names of what was left out of an archive that are told.
MOST_NAMES = 20


class Evidence:
    """Writes into one folder, made when first needed with mode 0700. Failures to write are logged, never raised."""

    def __init__(self, folder: Path, secrets: tuple[str, ...]) -> None:
        self.folder = folder
        self._redactor = Redactor(secrets)
        self._trouble = ""

    def put(self, name: str, value: Any) -> None:
        """Write ``value`` as JSON without its secrets, replacing the old file in one step."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.folder / name, f"{json.dumps(self._redactor.value(value), indent=1)}\n".encode())
        except OSError as error:
            self._tell(f"cannot write {self.folder / name}: {error.strerror}")

    def events(self) -> list[dict[str, Any]]:
        """Return the events that an earlier command has kept; none if there are none that can be read."""
        try:
            kept = jsontext.loads(read_input(self.folder / EVENTS))
        except (OSError, ValueError):
            return []
        return [event for event in kept if isinstance(event, dict)] if isinstance(kept, list) else []

    def _tell(self, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            log.warning(text)

    def archive(self, service: AssistedClient, cluster_id: str) -> None:
        """Download the cluster's log archive and unpacks it beside; a failure is logged as a warning."""
        # Several commands may wait for one cluster at once: each has its own name for an incomplete file.
        packed = part = hidden(self.folder / ARCHIVE)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with part.open("w+b") as file:
                size = service.download_logs(cluster_id, file)
                file.seek(0)
                # A service with several hosts' archives sends them in one plain tar.
                gzipped = file.read(len(GZIP)) == GZIP
            packed = self.folder / (ARCHIVE + (".tar.gz" if gzipped else ".tar"))
            part.replace(packed)
        except ClientError as error:
            log.warning(f"No logs could be downloaded from the rendezvous service: {error}")
            return
        except OSError as error:
            self._tell(f"cannot write {packed}: {error.strerror}")
            return
        finally:
            part.unlink(missing_ok=True)
        log.info(f"Logs of the cluster ({size} bytes) are in {packed}")
        try:
            skipped = unpack(packed, self.folder / UNPACKED, self._redactor)
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            log.warning(f"{packed} could not be unpacked: {error}")
            return
        for name in skipped[:MOST_NAMES]:
            log.warning(f"{packed}: left out {name!r}")
        if len(skipped) > MOST_NAMES:
            log.warning(f"{packed}: left out {len(skipped) - MOST_NAMES} more")
