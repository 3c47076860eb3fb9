"""Where else than at `wait-for` an administrator looks: the page, the console of a host, and what has been gathered."""

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
#: What `wait-for` itself has said is in there: it proves nothing of what hosts say.
OWN_LOG = "openshift_install.log"
#: The end of a text is what an assertion shows of it.
_SHOWN = 1500


def page_lacks(deployment: Deployment, pattern: str) -> str:
    """Why the page does not show what matches; empty where it does. Its text is kept as evidence."""
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
    """Why a host's console has not said what matches; empty where it has."""
    text = deployment.lab.nodes[host].console.text()
    return "" if re.search(pattern, text) else f"the console of {host} does not say {pattern!r}: {text[-_SHOWN:]}"


def archive_lacks(deployment: Deployment, pattern: str) -> str:
    """Why nothing matches in what `wait-for` has kept, nor in what `agent gather` brings; empty where something does.
    Hosts are asked only where `wait-for` has kept nothing that matches: mostly, since there was no service to ask."""
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
    """The file itself, or those of an archive and of the archives in it, each with its name."""
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
