"""Handlers of infra-envs, their images, and URLs that carry their own right to be fetched."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from installer.assisted.errors import BadRequest, Unparsable
from installer.common.redact import shortened
from installer.rendezvous.api import fields, signing
from installer.rendezvous.api.bodies import Download, body_of
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.views import attachment, is_user, reply, without_secrets
from installer.rendezvous.resources import infra_envs
from installer.rendezvous.resources.requests import hosts as hostrequests
from installer.rendezvous.resources.requests.params import file_name, one_of
from installer.rendezvous.store.model import InfraEnv

if TYPE_CHECKING:
    from installer.rendezvous.discovery.images import DiscoveryImages

Response = web.StreamResponse
# Files of an infra-env: those that have presigned URLs, and all of them.
PRESIGNED = ("discovery.ign", "ipxe-script")
FILES = (*PRESIGNED, "static-network-config")
IPXE_SCRIPTS = ("discovery-image-always", "boot-order-control")
_OCTETS = "([:-][0-9A-Fa-f]{2})"
# Parameters of a file, what they can be (an expression for an address, of InfiniBand as well), and the one file that
# each is for.
PARAMETERS: Mapping[str, tuple[tuple[str, ...] | re.Pattern[str], str]] = {
    "ipxe_script_type": (IPXE_SCRIPTS, "ipxe-script"),
    "mac": (re.compile(f"[0-9A-Fa-f]{{2}}{_OCTETS}{{5}}({_OCTETS}{{2}}|{_OCTETS}{{14}})?"), "ipxe-script"),
    "discovery_iso_type": (infra_envs.IMAGE_TYPES, "discovery.ign"),
}
KINDS = {"full.iso": "full-iso", "minimal.iso": "minimal-iso"}


def _infra_env(service: Service, request: web.Request) -> InfraEnv:
    return service.engine.store.infra_env(request.match_info["infra_env_id"])


def image_url(
    service: Service, infra_env: InfraEnv, name: str = "", query: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """(URL, its expiry as RFC 3339) of an infra-env's image or of a file that belongs to it; a hub's have no expiry."""
    name = name or {kind: file for file, kind in KINDS.items()}[infra_env.type]
    if infra_env.request:
        state = infra_envs.state_of(service.settings_of(infra_env), infra_env)
        key, place = infra_env.image_key.encode(), f"/images/{infra_env.id}/{name}"
        return service.url(signing.lasting(key, place, query or {}, state)), ""
    path, end = signing.signed(infra_env.image_key.encode(), f"/images/{infra_env.id}/{name}", query or {})
    return service.url(path), end


def shown(service: Service, infra_env: InfraEnv, request: web.Request) -> dict[str, Any]:
    """Return an infra-env as the API shows it, to the user with the URL of its image where images can be made."""
    data = fields.infra_env(infra_env)
    if not is_user(request):
        return without_secrets(data)
    if service.images is not None and infra_env.type in KINDS.values():
        data |= fields.present(dict(zip(("download_url", "expires_at"), image_url(service, infra_env), strict=True)))
    return data


def image_check(service: Service) -> Callable[[InfraEnv], None]:
    """Return a judgement of whether images of an infra-env can be made; it raises BadRequest."""
    return service.images.check if service.images is not None else lambda _: None


async def register(service: Service, request: web.Request) -> Response:
    """POST /infra-envs"""
    body = await body_of(request, hostrequests.InfraEnvParams)
    await service.learn(body.pull_secret)
    return reply(shown(service, infra_envs.register(service.engine, body, image_check(service)), request), 201)


async def list_all(service: Service, request: web.Request) -> Response:
    """GET /infra-envs"""
    wanted = request.query.get("cluster_id")
    listed = service.engine.store.infra_envs()
    return reply([shown(service, item, request) for item in listed if wanted is None or item.cluster_id == wanted])


async def get(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}"""
    infra_env = _infra_env(service, request)
    return reply(shown(service, infra_env, request), etag=service.views.tag(infra_env))


async def update(service: Service, request: web.Request) -> Response:
    """PATCH /infra-envs/{id}"""
    body = await body_of(request, hostrequests.InfraEnvUpdate)
    service.views.check_unchanged(request, _infra_env(service, request))
    changed = infra_envs.update(service.engine, request.match_info["infra_env_id"], body, image_check(service))
    return reply(shown(service, changed, request), 201, service.views.tag(changed))


async def delete(service: Service, request: web.Request) -> Response:
    """DELETE /infra-envs/{id}"""
    infra_envs.delete(service.engine, request.match_info["infra_env_id"])
    return web.Response(status=204)


async def download_url(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/downloads/image-url"""
    infra_env = _infra_env(service, request)
    _maker(service)
    return presigned(*image_url(service, infra_env))


def presigned(url: str, end: str) -> web.Response:
    """Return the answer that has a URL and, if it has one, its end."""
    return reply({"url": url, "expires_at": end} if end else {"url": url})


async def new_signing_key(service: Service, request: web.Request) -> Response:
    """POST /infra-envs/{id}/regenerate-signing-key"""
    infra_envs.new_image_key(service.engine, request.match_info["infra_env_id"])
    return web.Response(status=204)


def _maker(service: Service) -> DiscoveryImages:
    if service.images is None:
        raise BadRequest("this service makes no images: it runs on a host that was booted from one")
    return service.images


def _parameters(request: web.Request, name: str) -> dict[str, str]:
    """Return the request's other parameters of the file that it asks for. Raises BadRequest, Unparsable."""
    wanted = {key: text for key in PARAMETERS if (text := request.query.get(key))}
    for key, text in wanted.items():
        allowed, only_for = PARAMETERS[key]
        if isinstance(allowed, tuple):
            one_of(text, key, "query", allowed)
        elif not allowed.fullmatch(text):
            raise Unparsable(f"{key} in query must be of type {key}: {shortened(text, 80)!r}")
        if name != only_for:
            raise BadRequest(f"{key} can be set only for {only_for}")
    return wanted


async def _content(service: Service, infra_env: InfraEnv, name: str, wanted: Mapping[str, str]) -> web.Response:
    """Return a file of an infra-env. Raises BadRequest, NotFound, PrepareError."""
    maker, shown_name = _maker(service), f"{infra_env.id}-{name}"
    if name == "discovery.ign":
        shown_name = name
        if wanted.get("discovery_iso_type") == "minimal-iso":
            # Such an image has its static networks in its initrd.
            infra_env = msgspec.structs.replace(infra_env, static_network_config=[])
        content = await service.slowly(maker.ignition, infra_env)
    elif name == "static-network-config":
        shown_name += ".tar"
        content = await service.slowly(maker.network_tar, infra_env)
    elif wanted.get("ipxe_script_type") == "boot-order-control" and "mac" not in wanted:
        # iPXE puts its machine's address in, by which that machine's state is found.
        url, _ = image_url(service, infra_env, name)
        content = f"#!ipxe\nchain {url}&mac=${{net0/mac}}\n".encode()
    else:
        if "mac" in wanted:
            infra_envs.check_boots_image(service.engine, infra_env, wanted["mac"])
        urls = {part: image_url(service, infra_env, part)[0] for part in ("vmlinuz", "initrd.img", "rootfs.img")}
        content = await service.slowly(maker.ipxe, infra_env, urls)
    return attachment(content, shown_name)


async def file(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/downloads/files"""
    name = file_name(request, FILES)
    return await _content(service, _infra_env(service, request), name, _parameters(request, name))


async def minimal_initrd(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/downloads/minimal-initrd: static networks, which a minimal image needs before Ignition."""
    infra_env = _infra_env(service, request)
    if not infra_env.static_network_config:
        return web.Response(status=204)
    content = await service.slowly(_maker(service).minimal_initrd, infra_env)
    return attachment(content, "minimal-initrd.img") if content else web.Response(status=204)


async def file_url(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/downloads/files-presigned"""
    name = file_name(request, PRESIGNED)
    return presigned(*image_url(service, _infra_env(service, request), name, _parameters(request, name)))


async def image(service: Service, request: web.Request) -> Response:
    """GET /images/{id}/{name}: an ISO, a boot file, or a text, by a signed URL."""
    infra_env, name = _infra_env(service, request), request.match_info["name"]
    target, mark, mac = request.raw_path.rpartition("&mac=")
    # A boot-order-control script has iPXE add its machine's address, and nothing else, to a signed URL.
    added = mark and name == "ipxe-script" and "&" not in mac
    signing.check(infra_env.image_key.encode(), request.method, target if added else request.raw_path)
    service.vouch(request)
    if name in FILES:
        return await _content(service, infra_env, name, _parameters(request, name))
    path = await service.slowly(_maker(service).file, infra_env, name)
    kind = "application/x-iso9660-image" if name.endswith(".iso") else "application/octet-stream"
    headers = {"Content-Disposition": f'attachment; filename="{infra_env.id}-{name}"', "Content-Type": kind}
    return Download(path, chunk_size=1 << 20, headers=headers)
