"""Handlers of what a hub needs and the specification does not have: ids of its own, releases, the feed of changes."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from aiohttp import web

from installer.assisted.enums import Stage
from installer.assisted.errors import BadRequest, TooMany, Unparsable
from installer.common import numbers
from installer.rendezvous import architectures, catalogue
from installer.rendezvous.api.bodies import body_of
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.handlers.infra_envs import image_check, image_url, shown
from installer.rendezvous.api.views import reply
from installer.rendezvous.resources import addinghosts, infra_envs, repeatable
from installer.rendezvous.resources.requests import clusters as requests
from installer.rendezvous.resources.requests import hosts as hostrequests
from installer.rendezvous.resources.requests import values
from installer.rendezvous.resources.requests.hub import ImportParams, Joined, ReleaseParams
from installer.rendezvous.resources.requests.params import boolean
from installer.rendezvous.settings import Settings

Response = web.StreamResponse
# The most that one poll waits for changes, what it waits then for further ones, and how long a reader that has gone
# keeps its place (s).
LONGEST_WAIT, GATHERING, NOTICED = 60.0, 0.1, 1.0
MOST_WAITING = 64
BOOT_FILES = {"kernel": "vmlinuz", "initrd": "initrd.img", "rootfs": "rootfs.img"}


def _chosen_id(request: web.Request, name: str) -> str:
    return str(UUID(request.match_info[name]))


async def put_cluster(service: Service, request: web.Request) -> Response:
    """PUT /clusters/{id}"""
    body = await body_of(request, requests.ClusterParams)
    await service.learn(body.pull_secret)
    cluster = repeatable.cluster(service.engine, _chosen_id(request, "cluster_id"), body)
    return reply(service.views.cluster(cluster))


async def import_cluster(service: Service, request: web.Request) -> Response:
    """PUT /clusters/{id}/import"""
    body = await body_of(request, ImportParams)
    cluster = addinghosts.imported(service.engine, body, _chosen_id(request, "cluster_id"))
    return reply(service.views.cluster(cluster))


async def joined(service: Service, request: web.Request) -> Response:
    """PUT .../joined: what a hub has seen of an added host's Node"""
    body, ids = await body_of(request, Joined), request.match_info
    host = addinghosts.joined(service.engine, ids["infra_env_id"], ids["host_id"], Stage(body.current_stage))
    return reply(service.views.host(host))


async def put_infra_env(service: Service, request: web.Request) -> Response:
    """PUT /infra-envs/{id}"""
    body = await body_of(request, hostrequests.InfraEnvParams)
    await service.learn(body.pull_secret)
    identity = _chosen_id(request, "infra_env_id")
    infra_env = repeatable.infra_env(service.engine, identity, body, image_check(service))
    return reply(shown(service, infra_env, request))


async def boot_artifacts(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/boot-artifacts: URLs for network boot."""
    infra_env = service.engine.store.infra_env(request.match_info["infra_env_id"])
    script = {"ipxe_script_type": "boot-order-control"} if boolean(request.query.get("by_mac"), "by_mac") else {}
    urls = {name: image_url(service, infra_env, file)[0] for name, file in BOOT_FILES.items()}
    urls["ipxe_script"], _ = image_url(service, infra_env, "ipxe-script", script)
    urls["discovery_ignition"], _ = image_url(service, infra_env, "discovery.ign")
    return reply(urls)


def _shown_release(settings: Settings) -> dict[str, object]:
    return {
        "image": settings.release_image,
        "version": settings.openshift_version,
        "cpu_architectures": architectures.offered(settings),
    }


async def releases(service: Service, request: web.Request) -> Response:
    """GET /releases"""
    return reply([_shown_release(settings) for settings in service.engine.catalogue])


async def put_release(service: Service, request: web.Request) -> Response:
    """PUT /releases: read a release unless it is known."""
    body = await body_of(request, ReleaseParams)
    if service.images is None:
        raise BadRequest("this service installs the release that it came with")
    for name, problem in (("image", values.image(body.image)), ("pull_secret", values.pull_secret(body.pull_secret))):
        if problem:
            raise BadRequest(f"{name} {problem}")
    engine = service.engine
    if body.image == service.settings.release_image:
        await service.learn(body.pull_secret)
    settings = engine.catalogue.find(body.image)
    if settings is None:
        await service.slowly(service.images.read, catalogue.unread(service.settings, body.image), body.pull_secret)
        settings = engine.catalogue.add(body.image)
        if settings is None:
            raise BadRequest(f"{body.image}: what was read of it has not been kept")
        infra_envs.take_release(engine, settings)
    return reply(_shown_release(settings))


def _seconds(text: str) -> float:
    try:
        return numbers.real(text, 0, LONGEST_WAIT, "seconds")
    except ValueError as error:
        raise Unparsable(f"timeout in query {error}") from None


async def changes(service: Service, request: web.Request) -> Response:
    """GET /changes: what has changed after a mark, as soon as there is something. Raises Gone, TooMany."""
    mark, store = request.query.get("after", ""), service.engine.store
    end = time.monotonic() + _seconds(request.query.get("timeout") or "0")
    bell = service.bell
    rung = bell.next()
    found, mark = store.changes(mark)
    if not found and time.monotonic() < end and bell.waiting >= MOST_WAITING:
        raise TooMany(f"{MOST_WAITING} readers wait for changes already")
    bell.waiting += 1
    try:
        while not found and not bell.closed and (left := end - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(rung.wait(), min(NOTICED, left))
            except TimeoutError:
                if request.transport is None:
                    break
                continue
            # What changes together is read together.
            await asyncio.sleep(min(GATHERING, left))
            rung = bell.next()
            found, mark = store.changes(mark)
    finally:
        bell.waiting -= 1
    items = [
        {
            "kind": subject.kind,
            "id": subject.id,
            **({"infra_env_id": subject.infra_env_id} if subject.infra_env_id else {}),
            **({"deleted": True} if deleted else {}),
        }
        for subject, deleted in found
    ]
    return reply({"changes": items, "next": mark})
