"""The page's own files: its document, scripts and style sheet, which hold no data and are the same for everybody."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

from aiohttp import web

from installer.assisted.errors import NotFound
from installer.common.redact import shortened
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.views import knows

#: INSTALL_INVOKER of a service on an administrator's machine.
STANDALONE = "assisted-installer"
#: Where the tokens are and what the end of the service means: of one that a host runs, and of `node0 service`.
TOKEN_FILES = {
    False: (
        "the watcher's is <code>node0.watcherToken</code> in <code>.openshift_install_state.json</code> of the asset "
        "directory, the user's <code>USER_AUTH_TOKEN</code> in <code>/etc/assisted/rendezvous-host.env</code> of this "
        "host. An unconfigured image's are in <code>auth/</code> where it was made; on this host's console "
        "<i>Show a code for the page</i> has eight letters that do instead",
        "When node0 has restarted from its disk, this page is gone for good: follow the cluster itself from then on.",
    ),
    True: (
        "the watcher's is in <code>auth/watcher-token</code>, the user's in <code>auth/user-token</code>, both in the "
        "folder that <code>node0 service --dir</code> names",
        "Is <code>node0 service</code> still running?",
    ),
}
PRIVATE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Accel-Buffering": "no",
}
#: Everything comes from this service, and nothing is in the document itself that a browser would run.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
KINDS = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
DOCUMENT = "index.html"
#: An Accept-Encoding that has gzip, and not with a weight of 0 (RFC 9110 §12.5.3).
TAKES_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:,|$|;\s*q=(?:1|0\.\d*[1-9]))", re.IGNORECASE)


@dataclass(frozen=True)
class File:
    """A file as it is sent: plain and compressed (gzip), and the ETag of both, which is weak as their bytes differ."""

    kind: str
    body: bytes
    packed: bytes
    etag: str


def _made(name: str, body: bytes) -> File:
    kind = KINDS[name.rpartition(".")[2]]
    return File(kind, body, gzip.compress(body, 9, mtime=0), f'W/"{hashlib.sha256(body).hexdigest()[:16]}"')


def _below(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _below(item, f"{prefix}{item.name}/")
        elif item.name.rpartition(".")[2] in KINDS:
            yield prefix + item.name, item.read_bytes()


@lru_cache(2)
def files(invoker: str) -> dict[str, File]:
    """Return all files by their names below /page/; the document names the scripts, so that they are fetched at once.

    ``invoker``: INSTALL_INVOKER, which says where the tokens are.
    """
    found = dict(sorted(_below(resources.files("installer.rendezvous") / "data/page")))
    scripts = [name for name in found if name.endswith(".js") and name != "main.js"]
    links = [f'<link rel="modulepreload" href="/page/{name}">' for name in scripts]
    links.append('<script type="module" src="/page/main.js"></script>')
    where, end = TOKEN_FILES[invoker == STANDALONE]
    text = found[DOCUMENT].decode()
    for mark, content in (("<!--modules-->", "\n".join(links)), ("<!--tokens-->", where), ("<!--end-->", end)):
        text = text.replace(mark, content)
    found[DOCUMENT] = text.encode()
    return {name: _made(name, body) for name, body in found.items()}


def _answer(request: web.Request, file: File) -> web.Response:
    headers = {**PRIVATE, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY, "ETag": file.etag}
    headers["Vary"] = "Accept-Encoding"
    if knows(request, file.etag):
        return web.Response(status=304, headers=headers)
    packed = bool(TAKES_GZIP.search(request.headers.get("Accept-Encoding", "")))
    if packed:
        headers["Content-Encoding"] = "gzip"
    body = file.packed if packed else file.body
    return web.Response(body=body, content_type=file.kind, charset="utf-8", headers=headers)


async def show(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /: the page itself, which holds no data."""
    return _answer(request, files(service.settings.install_invoker)[DOCUMENT])


async def file(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /page/{name}. Raises NotFound."""
    name = request.match_info["name"]
    found = files(service.settings.install_invoker).get(name)
    if found is None or name == DOCUMENT:
        raise NotFound(f"path /page/{shortened(name, 80)} was not found")
    return _answer(request, found)
