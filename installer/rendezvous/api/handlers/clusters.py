"""Handlers of clusters and manifests."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from aiohttp import web

from installer.assisted.enums import Role
from installer.assisted.errors import BadRequest, NotFound, Unparsable
from installer.common.redact import shortened
from installer.rendezvous.api import fields
from installer.rendezvous.api.bodies import AT_A_TIME, Encoded, body_of, encoded, json_of, listed, send
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.views import encode, is_user, reply, tags, unchanged, without_secrets
from installer.rendezvous.resources import addinghosts, clusters, manifests, reports
from installer.rendezvous.resources.requests import clusters as requests
from installer.rendezvous.resources.requests import hub as hubrequests
from installer.rendezvous.resources.requests.params import boolean, one_of, required
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations.hostview import inventory_of

Response = web.StreamResponse
ROLES = (Role.MASTER, Role.ARBITER, Role.WORKER, Role.AUTO)
# Operators that upstream monitors in every cluster, even before they report.
BUILT_IN = ("console",)
LONGEST_SETTINGS = 1 << 20


def _cluster(service: Service, request: web.Request) -> Cluster:
    return service.engine.store.cluster(request.match_info["cluster_id"])


async def register(service: Service, request: web.Request) -> Response:
    """POST /clusters"""
    body = await body_of(request, requests.ClusterParams)
    await service.learn(body.pull_secret)
    return reply(service.views.cluster(clusters.register(service.engine, body)), 201)


async def list_all(service: Service, request: web.Request) -> Response:
    """GET /clusters"""
    with_hosts = boolean(request.query.get("with_hosts"), "with_hosts")
    parts: list[Encoded] = []
    # A subscription of Red Hat's has none of them.
    chosen = [] if request.query.get("ams_subscription_ids") else [*service.engine.store.clusters()]
    if identity := request.query.get("openshift_cluster_id"):
        chosen = [item for item in chosen if item.openshift_cluster_id == str(UUID(identity))]
    for number, cluster in enumerate(chosen):
        if number % AT_A_TIME == AT_A_TIME - 1:
            await asyncio.sleep(0)
        parts += [b"," if number else b"[", *await service.views.parts(cluster, with_hosts, full=is_user(request))]
    return await send(request, [*(parts or [b"["]), b"]"])


async def get(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}: after evaluating everything that was reported so far."""
    await service.reconcile_pending(request.match_info["cluster_id"])
    cluster = _cluster(service, request)
    # The specification has a query parameter; a header is accepted too.
    header, parameter = request.headers.get("exclude-hosts"), request.query.get("exclude-hosts")
    excluded = boolean(header, "exclude-hosts", "header") or boolean(parameter, "exclude-hosts")
    etag = service.views.tag(cluster)
    if answer := unchanged(request, etag):
        return answer
    return await send(request, await service.views.parts(cluster, not excluded, full=is_user(request)), tags(etag))


async def update(service: Service, request: web.Request) -> Response:
    """PATCH /clusters/{id}"""
    body = await body_of(request, requests.ClusterUpdate)
    # From here on nobody else has a turn.
    service.views.check_unchanged(request, _cluster(service, request))
    cluster = clusters.update(service.engine, request.match_info["cluster_id"], body)
    return reply(service.views.cluster(cluster), 201, service.views.tag(cluster))


async def delete(service: Service, request: web.Request) -> Response:
    """DELETE /clusters/{id}"""
    clusters.delete(service.engine, request.match_info["cluster_id"])
    await service.logs.forget(request.match_info["cluster_id"])
    return web.Response(status=204)


async def hosts(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/hosts"""
    await service.reconcile_pending(request.match_info["cluster_id"])
    cluster = _cluster(service, request)
    hidden = {
        name for name in ("inventory", "connectivity") if not boolean(request.query.get(f"with-{name}"), f"with-{name}")
    }
    wanted = {name: request.query[name] for name in ("role", "status") if name in request.query}
    if "role" in wanted:
        one_of(wanted["role"], "role", "query", ROLES)
    hosts = [
        host
        for host in service.engine.store.hosts(cluster_id=cluster.id)
        if all(getattr(host, name) == value for name, value in wanted.items())
    ]

    def encode_one(host: Host) -> bytes:
        data = {key: value for key, value in service.views.host_map(host).items() if key not in hidden}
        return encode(data if is_user(request) else without_secrets(data))

    return await send(request, listed(await encoded(hosts, encode_one)))


async def finalizing_progress(service: Service, request: web.Request) -> Response:
    """PUT /clusters/{id}/progress"""
    body = await body_of(request, requests.FinalizingProgress)
    reports.finalizing(service.engine, request.match_info["cluster_id"], body.finalizing_stage)
    return web.Response(status=200)


async def get_install_config(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/install-config: the document as it would be written, without the pull secret."""
    from installer.rendezvous.prepare import installconfig

    cluster = _cluster(service, request)
    store = service.engine.store
    members = store.hosts(cluster_id=cluster.id)
    if cluster.is_sno and not members:
        raise NotFound("install-config of a single node cluster needs its host, which has not registered yet")
    document = installconfig.build(cluster, clusters.infra_envs(service.engine, cluster.id), members, service.settings)
    document["pullSecret"] = ""
    return reply(await asyncio.to_thread(_as_yaml, document))


def _as_yaml(document: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False))


async def patch_install_config(service: Service, request: web.Request) -> Response:
    """PATCH /clusters/{id}/install-config: the body is a JSON string that holds a JSON object."""
    value = await json_of(request)
    if not isinstance(value, str):
        raise Unparsable("body must be a JSON string that holds the overrides")
    clusters.set_overrides(service.engine, request.match_info["cluster_id"], value)
    return web.Response(status=201)


async def list_manifests(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/manifests"""
    cluster = _cluster(service, request)
    system = boolean(request.query.get("include_system_generated"), "include_system_generated")
    manifests_of_cluster = service.engine.store.manifests(cluster.id)
    return reply(
        [
            {"folder": item.folder, "file_name": item.file_name, "manifest_source": item.manifest_source}
            for item in manifests_of_cluster
            if system or item.manifest_source == "user"
        ]
    )


async def create_manifest(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/manifests"""
    return reply(await _put_manifest(service, request, False), 201)


async def update_manifest(service: Service, request: web.Request) -> Response:
    """PATCH /clusters/{id}/manifests"""
    return reply(await _put_manifest(service, request, True))


async def _put_manifest(service: Service, request: web.Request, replacing: bool) -> dict[str, str]:
    cluster, body = _cluster(service, request), await body_of(request, requests.ManifestParams)
    await asyncio.to_thread(manifests.check, body, replacing)
    manifest = manifests.put(service.engine, cluster.id, body, replacing, checked=True)
    return {"folder": manifest.folder, "file_name": manifest.file_name, "manifest_source": "user"}


def _manifest_name(request: web.Request) -> tuple[str, str]:
    """Return the folder and the name that the query has. Raises Unparsable."""
    folder = request.query.get("folder", "manifests")
    one_of(folder, "folder", "query", manifests.FOLDERS)
    return folder, required(request.query.get("file_name"), "file_name", "query")


async def delete_manifest(service: Service, request: web.Request) -> Response:
    """DELETE /clusters/{id}/manifests"""
    cluster, (folder, name) = _cluster(service, request), _manifest_name(request)
    manifests.delete(service.engine, cluster.id, folder, name)
    return web.Response(status=200)


async def download_manifest(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/manifests/files"""
    cluster, (folder, name) = _cluster(service, request), _manifest_name(request)
    for item in service.engine.store.manifests(cluster.id):
        if (item.folder, item.file_name) == (folder, name):
            return web.Response(body=item.content, content_type="application/octet-stream")
    raise NotFound(f"manifest {folder}/{name} does not exist")


async def install(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/actions/install"""
    cluster = clusters.install(service.engine, request.match_info["cluster_id"])
    service.start_preparations()
    return reply(service.views.cluster(cluster), 202)


async def cancel(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/actions/cancel"""
    return reply(service.views.cluster(clusters.cancel(service.engine, request.match_info["cluster_id"])), 202)


async def reset(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/actions/reset"""
    return reply(service.views.cluster(clusters.reset(service.engine, request.match_info["cluster_id"])), 202)


async def import_cluster(service: Service, request: web.Request) -> Response:
    """POST /clusters/import"""
    body = await body_of(request, hubrequests.ImportParams)
    required(body.openshift_cluster_id, "openshift_cluster_id")
    return reply(service.views.cluster(addinghosts.imported(service.engine, body)), 201)


async def allow_add_hosts(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/actions/allow-add-hosts, and its older name"""
    return reply(service.views.cluster(addinghosts.allow(service.engine, request.match_info["cluster_id"])), 202)


async def complete(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/actions/complete-installation"""
    body = await body_of(request, requests.Completion)
    success = required(body.is_success, "is_success")
    done = clusters.complete(service.engine, request.match_info["cluster_id"], success, body.error_info or "")
    return reply(service.views.cluster(done), 202)


async def list_operators(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/monitored-operators"""
    wanted = request.query.get("operator_name")
    operators = map(fields.present, _cluster(service, request).monitored_operators)
    chosen = [item for item in operators if wanted is None or item.get("name") == wanted]
    if wanted is not None and not chosen and wanted not in BUILT_IN:
        raise NotFound(f"operator {shortened(wanted, 80)} is no operator of this cluster")
    return reply(chosen)


async def put_operator(service: Service, request: web.Request) -> Response:
    """PUT /clusters/{id}/monitored-operators"""
    report = await body_of(request, requests.OperatorReport)
    reports.operator(service.engine, request.match_info["cluster_id"], report)
    return web.Response(status=200)


async def ignored_validations(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/ignored-validations: two JSON lists as texts."""
    return reply(_ignored(_cluster(service, request)))


def _ignored(cluster: Cluster) -> dict[str, Any]:
    return fields.present(
        {
            "host-validation-ids": cluster.ignored_host_validations.text,
            "cluster-validation-ids": cluster.ignored_cluster_validations.text,
        }
    )


async def set_ignored_validations(service: Service, request: web.Request) -> Response:
    """PUT /clusters/{id}/ignored-validations"""
    body = await body_of(request, requests.IgnoredValidations)
    return reply(_ignored(clusters.ignore(service.engine, request.match_info["cluster_id"], body)), 201)


async def ui_settings(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/ui-settings"""
    return reply(_cluster(service, request).ui_settings)


async def set_ui_settings(service: Service, request: web.Request) -> Response:
    """PUT /clusters/{id}/ui-settings: a text that only the user interface understands."""
    value = await json_of(request)
    if not isinstance(value, str) or len(value) > LONGEST_SETTINGS:
        raise BadRequest(f"body must be a JSON string of at most {LONGEST_SETTINGS} characters")
    clusters.set_ui_settings(service.engine, request.match_info["cluster_id"], value)
    return reply(value)


async def supported_platforms(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/supported-platforms: the platforms that all registered hosts support."""
    cluster = _cluster(service, request)
    hosts = service.engine.store.hosts(cluster_id=cluster.id)
    makers = [inventory.system_vendor.manufacturer.lower() for host in hosts if (inventory := inventory_of(host))]
    kinds = ["none", "external"] if cluster.is_sno else ["baremetal", "none", "external"]
    for kind, maker in (("vsphere", "vmware"), ("nutanix", "nutanix")):
        if makers and all(maker in name for name in makers):
            kinds.append(kind)
    return reply(kinds)


async def logs_progress(service: Service, request: web.Request) -> Response:
    """PUT /clusters/{id}/logs-progress"""
    state = (await body_of(request, requests.LogsProgress)).logs_state
    reports.cluster_logs_state(service.engine, request.match_info["cluster_id"], state)
    return web.Response(status=204)
