"""The page's own endpoints: who may look, what is shown, how little it costs. A browser's view is test_page_browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from installer.assisted.auth import Scheme
from installer.assisted.errors import ConfigurationError
from installer.rendezvous import settings
from installer.rendezvous.api.app import PAGE, SERVICE, Page, build
from installer.rendezvous.api.context import Service
from installer.rendezvous.page import feed as page
from installer.rendezvous.page import files as page_files
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import header, secured, service_of
from installer.testing.service.rendezvous_kit import PULL_SECRET, REPOSITORY, make_keys, running, wait_for

PATH = "/page/stream"
Use = Callable[[TestClient, Fleet, Service], Awaitable[None]]


def serve(directory: Path, use: Use, hosts: int = 2, **env: str) -> None:
    """Serve the application in this process over a cluster of hosts that have answered everything."""
    fleet = secured(directory, hosts, **env)

    async def run() -> None:
        app = build(service_of(fleet.world))
        async with TestClient(TestServer(app)) as client:
            await use(client, fleet, app[PAGE])

    try:
        asyncio.run(run())
    finally:
        fleet.world.store.close()


async def until(answer: ClientResponse, last: str) -> list[tuple[str, Any]]:
    """(kind, value) of the messages up to the one of kind ``last``."""
    messages: list[tuple[str, Any]] = []
    while not messages or messages[-1][0] != last:
        block = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), 20)
        match = re.fullmatch(r"event: (\w+)\ndata: (.*)\n\n", block.decode(), re.DOTALL)
        assert match, block
        messages.append((match[1], json.loads(match[2])))
    return messages


def test_who_may_see_the_page(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet, shown: Page) -> None:
        for headers in ({}, header(Scheme.AGENT), {"Authorization": make_keys().token("userAuth")}):
            assert (await client.get(PATH, headers=headers)).status == 401
            assert shown.viewers is None
        for scheme in (Scheme.USER, Scheme.WATCHER):
            async with client.get(PATH, headers=header(scheme)) as answer:
                assert answer.status == 200
                assert (await until(answer, "ready"))[0] == (
                    "hello",
                    {
                        "boot": client.app[SERVICE].views.boot,
                        "open": False,
                        "version": fleet.world.engine.settings.openshift_version,
                    },
                )

    serve(tmp_path, use)


def test_an_open_page_tells_no_secret_and_opens_nothing_else(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet, shown: Page) -> None:
        store = fleet.world.store
        with store.change():
            hidden = {
                "install_config_overrides": '{"x": "hidden-1"}',
                "http_proxy": "http://u:hidden-2@proxy",
                "status_info": "https://u:hidden-3@mirror does not answer",
            }
            store.put_cluster(msgspec.structs.replace(fleet.cluster, **hidden))
            image = msgspec.structs.replace(store.infra_env(fleet.infra_env_id), ignition_config_override="hidden-6")
            store.put_infra_env(image)
            for host in store.hosts():
                secret = {"ignition_config_overrides": '{"x": "hidden-4"}', "installer_args": '["hidden-5"]'}
                store.put_host(msgspec.structs.replace(host, **secret))
        async with client.get(PATH) as answer:
            event = await until(answer, "ready")
        text = json.dumps(event)
        assert "hidden" not in text
        assert PULL_SECRET not in text
        assert [kind for kind, _ in event].count("host") == 2
        assert {"cluster", "event", "hello", "infra_env"} <= {kind for kind, _ in event}
        status = (await client.get(f"/api/assisted-install/v2/clusters/{fleet.cluster_id}/logs")).status
        assert status == 401
        credentials = f"/api/assisted-install/v2/clusters/{fleet.cluster_id}/downloads/credentials?file_name=kubeconfig"
        assert (await client.get(credentials)).status == 401

    serve(tmp_path, use, PAGE_ACCESS="open")


def test_only_what_changed_is_sent_again(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet, shown: Page) -> None:
        async with client.get(PATH) as answer:
            await until(answer, "ready")
            assert shown.viewers is not None
            before = await shown.viewers.picture.look()
            fleet.poll(fleet.machines[0])  # a bare calling in: nothing to see
            assert await shown.viewers.picture.look() is before
            fleet.machines[1].inventory["hostname"] = "re\u202enamed"  # which turns the text after it
            fleet.go(65)
            event = await until(answer, "host")
            assert [value["name"] for kind, value in event if kind == "host"] == ["re\ufffdnamed"]
            with fleet.world.store.change():
                fleet.world.store.delete_host(fleet.infra_env_id, fleet.machines[0].id)
            # A machine may be a host of two infra-envs, of which one has lost it.
            gone = {"key": f"{fleet.infra_env_id}/{fleet.machines[0].id}"}
            assert (await until(answer, "gone"))[-1][1] == gone

    serve(tmp_path, use, PAGE_ACCESS="open")


def test_viewers_are_bounded_and_leave_nothing(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet, shown: Page) -> None:
        answers = [await client.get(PATH) for _ in range(page.MOST_VIEWERS)]
        assert {answer.status for answer in answers} == {200}
        assert (await client.get(PATH)).status == 429
        assert (await client.head(PATH)).status == 404
        for answer in answers:
            answer.close()
        end = time.monotonic() + 20
        while shown.viewers is None or shown.viewers.count:
            assert time.monotonic() < end, f"{shown.viewers and shown.viewers.count} viewers are still counted"
            await asyncio.sleep(0.05)
        assert (await client.get(PATH)).status == 200

    serve(tmp_path, use, PAGE_ACCESS="open")


def test_all_of_the_page_is_served_from_here_under_a_strict_policy(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet, shown: Page) -> None:
        answer = await client.get("/")
        text = await answer.text()
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert re.findall(r"<(?:script|style)[^>]*>[^<]", text) == []
        named = re.findall(r"""(?:src|href)=["'](?!#|data:,)(.*?)["']""", text)
        sizes = [len(text)]
        for name in named:
            found = await client.get(name)
            body = await found.text()
            assert (found.status, found.headers["Content-Security-Policy"]) == (200, page_files.POLICY), name
            if "vendor" not in name:
                assert not re.search(r"style=|innerHTML|insertAdjacent|document\.write|eval\(", body), name
            # What a module imports is fetched beside it, not after it.
            folder = name.rpartition("/")[0]
            for other in re.findall(r'from "(.*?)"', body):
                assert os.path.normpath(f"{folder}/{other}") in named, (name, other)
            sizes.append(int(found.headers["Content-Length"]))
        assert sum(sizes) < 150_000
        for name in ("index.html", "vendor/LICENSE.htm", "steps", "x.js"):
            assert (await client.get(f"/page/{name}")).status == 404
        etag = answer.headers["ETag"]
        for if_none_match, status in (
            (etag, 304),
            (f'"x", {etag}', 304),
            ("*", 304),
            (etag.strip('W/"'), 200),
            ('"x"', 200),
        ):
            again = await client.get("/", headers={"If-None-Match": if_none_match})
            assert (again.status, again.headers["ETag"]) == (status, etag), if_none_match
        # The compressed bytes are not the plain ones, so that the tag of both is weak.
        assert etag.startswith('W/"')
        for accepted, encoding in (("gzip", "gzip"), ("br, GZIP;q=0.5", "gzip"), ("gzip;q=0", None), ("x-gzip", None)):
            again = await client.get("/", headers={"Accept-Encoding": accepted})
            assert again.headers.get("Content-Encoding") == encoding, accepted
        assert shown.viewers is None

    serve(tmp_path, use)


@pytest.mark.parametrize(
    ("invoker", "files"),
    [
        ("agent-installer", (".openshift_install_state.json", "/etc/assisted/rendezvous-host.env")),
        (page_files.STANDALONE, ("auth/watcher-token", "auth/user-token")),
    ],
)
def test_the_page_names_the_files_of_tokens(invoker: str, files: tuple[str, ...]) -> None:
    text = page_files.files(invoker)[page_files.DOCUMENT].body.decode()
    assert "<!--" not in text
    assert [file for file in files if f"<code>{file}</code>" not in text] == []


def test_the_page_is_not_imported_before_somebody_looks() -> None:
    code = "import installer.rendezvous.api.app, sys; sys.exit(any('rendezvous.page' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0


def test_who_sees_it_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.load({}).page_access == "token"
    assert settings.load({"PAGE_ACCESS": "open"}).page_access == "open"
    with pytest.raises(ConfigurationError, match="PAGE_ACCESS"):
        settings.load({"PAGE_ACCESS": "everybody"})
    # A payload's image may say so too; the environment counts more.
    (tmp_path / "page_access").write_text("open\n")
    monkeypatch.setattr(settings, "PAGE_ACCESS_FILE", tmp_path / "page_access")
    assert settings.load({}).page_access == "open"
    assert settings.load({"PAGE_ACCESS": "token"}).page_access == "token"


def test_viewers_do_not_hold_the_service_up(tmp_path: Path) -> None:
    with running(tmp_path, PAGE_ACCESS="open") as service:
        command = ["curl", "-sN", "--cacert", str(service.ca), f"{service.url}page/stream"]

        def look() -> Any:
            context = ssl.create_default_context(cafile=str(service.ca))
            try:
                return urllib.request.urlopen(f"{service.url}page/stream", context=context, timeout=20)
            except urllib.error.HTTPError as refusal:
                refusal.close()
                return None

        # Whoever reloads the page a few times is no crowd: places are free again before the next heartbeat.
        for answer in [look() for _ in range(page.MOST_VIEWERS)]:
            answer.close()
        wait_for("a place for another viewer", look, page.HEARTBEAT - 5).close()
        viewer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert viewer.stdout is not None
        assert viewer.stdout.readline() == b"event: hello\n"
        service.process.terminate()
        # Its stream has an end, the one that the service gives it: the viewer is not cut off, and nobody waits for it.
        viewer.communicate(timeout=60)
        assert viewer.returncode == 0
        assert service.process.wait(60) == 0
