"""Looks for a cause where an administrator looks besides `wait-for`: on the page, on consoles, in gathered archives."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drivers.errors import BrowserError
from lab.errors import WaitTimeout
from lab.waiting import wait_until
from scenarios.testing.cluster import output_of, state_of
from scenarios.testing.page import watching

if TYPE_CHECKING:
    from lab.deploy import Deployment

GATHER_SECONDS = 600
#: How long the page may be behind the service.
PAGE_SECONDS = 30.0
#: The log of `wait-for` itself, which does not count.
OWN_LOG = "openshift_install.log"
#: How many characters of a text's end an assertion shows.
_SHOWN = 1500


def page_lacks(deployment: Deployment, pattern: str) -> str:
    """Empty if the page shows a match, else what is wrong. The page's text is kept as evidence."""
    lab, seen = deployment.lab, [""]
    try:
        with watching(lab, deployment.topology.rendezvous_ip, state_of(deployment)["serviceCACert"]) as page:

            def shows() -> bool:
                seen[0] = page.text()
                return re.search(pattern, seen[0]) is not None

            wait_until(shows, PAGE_SECONDS, f"{pattern!r} on the page", lambda: seen[0][-_SHOWN:])
    except (BrowserError, WaitTimeout, OSError) as error:
        return f"the page: {error}"
    finally:
        (lab.artifacts / "page.txt").write_text(seen[0])
    return ""


def console_lacks(deployment: Deployment, host: str, pattern: str) -> str:
    """Empty if a host's console has a match, else what it says."""
    text = deployment.lab.nodes[host].console.text()
    return "" if re.search(pattern, text) else f"the console of {host} does not say {pattern!r}: {text[-_SHOWN:]}"


def archive_lacks(deployment: Deployment, pattern: str) -> str:
    """Empty if there is a match in what `wait-for` has kept, or else in what `agent gather` brings; else what is wrong.
    Mostly `wait-for` has kept nothing where it could not reach the service."""
    wanted = re.compile(pattern.encode())
    kept = [path for path in sorted(deployment.directory.glob("logs/**/*")) if path.is_file()]
    if any(wanted.search(data) for path in kept for _, data in files_in(path.name, path.read_bytes())):
        return ""
    archive = deployment.lab.layout.root / "gathered.tar.gz"
    words = ("gather", "--key", str(deployment.lab.ssh_key), "--output", str(archive))
    with deployment.lab.phase("gather"):
        result = deployment.agent(*words, timeout=GATHER_SECONDS)
    if result.returncode:
        return f"nothing has been gathered: {output_of(result)[-_SHOWN:]}"
    names = []
    for name, data in files_in(archive.name, archive.read_bytes()):
        if wanted.search(data) and not name.endswith(OWN_LOG):
            return ""
        names.append(name)
    return f"{pattern!r} is in none of {[path.name for path in kept]} and {names}"


def files_in(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in an archive and in archives within it; of another file its own."""
    whole = io.BytesIO(data)
    if not tarfile.is_tarfile(whole):
        yield name, data
        return
    whole.seek(0)
    with tarfile.open(fileobj=whole) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            if file is not None:
                yield from files_in(member.name, file.read())
