"""Paths, methods and who may call them (assisted-service.swagger.yaml, ``security`` of each operation)."""

from __future__ import annotations

from aiohttp import web

from installer.assisted.auth import Scheme
from installer.assisted.errors import BadRequest, ServiceError
from installer.rendezvous.api.context import Handler, Service
from installer.rendezvous.api.handlers import clusters as ac
from installer.rendezvous.api.handlers import events as ae
from installer.rendezvous.api.handlers import files as af
from installer.rendezvous.api.handlers import hosts as ah
from installer.rendezvous.api.handlers import hub as au
from installer.rendezvous.api.handlers import info as an
from installer.rendezvous.api.handlers import infra_envs as ai

AGENT, USER, WATCHER = Scheme.AGENT, Scheme.USER, Scheme.WATCHER


def _by(*schemes: Scheme) -> frozenset[Scheme]:
    return frozenset(schemes)


C = "/clusters/{cluster_id}"
I = "/infra-envs/{infra_env_id}"  # noqa: E741
H = I + "/hosts/{host_id}"
# Watchers may read hosts and logs beyond what the specification lists: wait-for explains failures with them, and would
# otherwise have to carry the user's token, which may change things.
ROUTES: tuple[tuple[str, str, frozenset[Scheme], Handler], ...] = (
    ("POST", "/clusters", _by(USER), ac.register),
    ("GET", "/clusters", _by(USER, WATCHER), ac.list_all),
    ("GET", "/clusters/default-config", _by(USER), an.default_config),
    ("GET", C, _by(USER, AGENT, WATCHER), ac.get),
    ("PATCH", C, _by(USER), ac.update),
    ("DELETE", C, _by(USER), ac.delete),
    ("GET", C + "/hosts", _by(USER, AGENT), ac.hosts),
    ("PUT", C + "/progress", _by(AGENT), ac.finalizing_progress),
    ("GET", C + "/install-config", _by(USER), ac.get_install_config),
    ("PATCH", C + "/install-config", _by(USER), ac.patch_install_config),
    ("GET", C + "/manifests", _by(USER), ac.list_manifests),
    ("POST", C + "/manifests", _by(USER), ac.create_manifest),
    ("PATCH", C + "/manifests", _by(USER), ac.update_manifest),
    ("DELETE", C + "/manifests", _by(USER), ac.delete_manifest),
    ("GET", C + "/manifests/files", _by(USER), ac.download_manifest),
    ("POST", C + "/actions/install", _by(USER), ac.install),
    ("POST", C + "/actions/cancel", _by(USER), ac.cancel),
    ("POST", C + "/actions/reset", _by(USER), ac.reset),
    ("POST", "/clusters/import", _by(USER), ac.import_cluster),
    ("POST", C + "/actions/allow-add-hosts", _by(USER), ac.allow_add_hosts),
    ("POST", C + "/actions/allow-add-workers", _by(USER), ac.allow_add_hosts),
    ("POST", C + "/actions/complete-installation", _by(AGENT), ac.complete),
    ("GET", C + "/monitored-operators", _by(AGENT), ac.list_operators),
    ("PUT", C + "/monitored-operators", _by(AGENT), ac.put_operator),
    ("PUT", C + "/logs-progress", _by(AGENT), ac.logs_progress),
    ("POST", C + "/uploads/ingress-cert", _by(AGENT), af.ingress_cert),
    ("GET", C + "/downloads/files", _by(USER, AGENT), af.cluster_file),
    ("GET", C + "/downloads/credentials", _by(USER, AGENT), af.credentials_file),
    ("GET", C + "/credentials", _by(USER), af.credentials),
    ("POST", C + "/logs", _by(AGENT), af.upload_logs),
    ("GET", C + "/logs", _by(USER, WATCHER), af.download_logs),
    ("POST", "/infra-envs", _by(USER), ai.register),
    ("GET", "/infra-envs", _by(USER, WATCHER), ai.list_all),
    ("GET", I, _by(USER, AGENT), ai.get),
    ("DELETE", I, _by(USER), ai.delete),
    ("POST", I + "/hosts", _by(AGENT), ah.register),
    ("GET", I + "/hosts", _by(USER, AGENT, WATCHER), ah.list_all),
    ("GET", H, _by(USER), ah.get),
    ("PATCH", H, _by(USER), ah.update),
    ("DELETE", H, _by(USER), ah.delete),
    ("GET", H + "/instructions", _by(AGENT), ah.instructions),
    ("POST", H + "/instructions", _by(AGENT), ah.step_reply),
    ("PUT", H + "/progress", _by(AGENT), ah.progress),
    ("PUT", H + "/logs-progress", _by(AGENT), ah.logs_progress),
    ("PATCH", H + "/installer-args", _by(USER), ah.installer_args),
    ("GET", H + "/ignition", _by(USER), ah.get_ignition),
    ("PATCH", H + "/ignition", _by(USER), ah.update_ignition),
    ("GET", "/infra-env/{infra_env_id}/hosts/{host_id}/downloads/ignition", _by(USER, AGENT), af.host_ignition),
    ("PATCH", I, _by(USER), ai.update),
    ("GET", I + "/downloads/image-url", _by(USER), ai.download_url),
    # The specification lists agents too, but none asks for these files, which hold what is the user's alone.
    ("GET", I + "/downloads/files", _by(USER), ai.file),
    ("GET", I + "/downloads/files-presigned", _by(USER), ai.file_url),
    ("GET", I + "/downloads/minimal-initrd", _by(USER), ai.minimal_initrd),
    ("POST", I + "/regenerate-signing-key", _by(USER), ai.new_signing_key),
    ("POST", H + "/actions/bind", _by(USER), ah.bind),
    ("POST", H + "/actions/unbind", _by(USER), ah.unbind),
    ("POST", H + "/actions/install", _by(USER), ah.install),
    ("POST", H + "/actions/reset", _by(USER), ah.reset),
    ("PATCH", H + "/actions/reset-validation/{validation_id}", _by(USER), ah.reset_validation),
    ("GET", C + "/downloads/files-presigned", _by(USER), af.cluster_file_url),
    ("GET", C + "/downloads/credentials-presigned", _by(USER), af.credentials_url),
    ("GET", C + "/supported-platforms", _by(USER), ac.supported_platforms),
    ("GET", C + "/preflight-requirements", _by(USER), an.preflight),
    ("GET", C + "/ignored-validations", _by(USER), ac.ignored_validations),
    ("PUT", C + "/ignored-validations", _by(USER), ac.set_ignored_validations),
    ("GET", C + "/ui-settings", _by(USER), ac.ui_settings),
    ("PUT", C + "/ui-settings", _by(USER), ac.set_ui_settings),
    ("GET", "/support-levels/features", _by(USER), an.features),
    ("GET", "/support-levels/features/detailed", _by(USER), an.features_detailed),
    ("GET", "/support-levels/architectures", _by(USER), an.architectures),
    ("GET", "/openshift-versions", _by(USER), an.openshift_versions),
    ("GET", "/release-sources", _by(USER), an.empty),
    ("GET", "/domains", _by(USER), an.empty),
    ("GET", "/supported-operators", _by(USER), an.empty),
    ("GET", "/supported-operators/{operator_name}", _by(USER), an.operator_properties),
    ("GET", "/operators/bundles", _by(USER), an.empty),
    ("GET", "/operators/bundles/{id}", _by(USER), an.bundle),
    ("GET", "/events", _by(USER, WATCHER), ae.list_all),
    ("POST", "/events", _by(AGENT), ae.trigger),
    ("GET", "/component-versions", _by(USER), an.component_versions),
    # Beyond the specification: for a hub (installer/hub/service.py).
    ("PUT", C, _by(USER), au.put_cluster),
    ("PUT", I, _by(USER), au.put_infra_env),
    ("PUT", C + "/import", _by(USER), au.import_cluster),
    ("PUT", H + "/joined", _by(USER), au.joined),
    ("GET", I + "/boot-artifacts", _by(USER), au.boot_artifacts),
    ("GET", "/releases", _by(USER), au.releases),
    ("PUT", "/releases", _by(USER), au.put_release),
    ("GET", "/changes", _by(USER), au.changes),
)
DISCONNECTED = "clusters without any connection are installed with `agent create image`"
# Operations of the specification that are not offered: no cluster gets into the state that they are for. They answer
# with what the specification has for that, never with 501.
NOT_OFFERED: tuple[tuple[str, str, ServiceError], ...] = (("POST", "/clusters/disconnected", BadRequest(DISCONNECTED)),)
# By a URL's own signature instead of a token; tokens are taken as well.
SIGNED = frozenset(
    ("GET", C + path) for path in ("/downloads/files", "/downloads/credentials", "/logs", "/manifests/files")
)
# What the specification has as application/octet-stream.
BINARY = SIGNED | frozenset(
    ("GET", path)
    for path in (
        I + "/downloads/files",
        I + "/downloads/minimal-initrd",
        "/infra-env/{infra_env_id}/hosts/{host_id}/downloads/ignition",
    )
)


async def _health(service: Service, request: web.Request) -> web.StreamResponse:
    return web.Response(text="")


async def _ready(service: Service, request: web.Request) -> web.StreamResponse:
    service.engine.store.clusters()
    return web.Response(text="")


async def _metrics(service: Service, request: web.Request) -> web.StreamResponse:
    lines = ["# HELP assisted_installer_hosts Hosts by status", "# TYPE assisted_installer_hosts gauge"]
    counts: dict[str, int] = {}
    for host in service.engine.store.hosts():
        counts[host.status.value] = counts.get(host.status.value, 0) + 1
    lines += [f'assisted_installer_hosts{{status="{status}"}} {count}' for status, count in sorted(counts.items())]
    for name, sizes, help_text in (
        ("event_loop_lag_seconds", service.lag.wall, "How long requests waited for the service's loop to turn"),
        ("event_loop_cpu_seconds", service.lag.cpu, "How long the loop itself computed in a turn"),
    ):
        shares = [(0.5, sizes.share(0.5)), (0.99, sizes.share(0.99)), (1.0, sizes.longest)]
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} summary"]
        lines += [f'{name}{{quantile="{part:g}"}} {seconds:.6f}' for part, seconds in shares]
        lines += [f"{name}_count {sizes.turns}"]
    return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")


# Without credentials.
OPEN: tuple[tuple[str, Handler], ...] = (
    ("/health", _health),
    ("/ready", _ready),
    ("/metrics", _metrics),
    ("/images/{infra_env_id}/{name}", ai.image),
)
