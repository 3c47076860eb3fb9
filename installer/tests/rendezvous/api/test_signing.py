"""Signed URLs: each opens the one file that it was made for, by the one method, until it ends."""

from __future__ import annotations

import time
from pathlib import Path
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient
from yarl import URL

from installer.assisted.auth import Scheme
from installer.assisted.endpoint import BASE
from installer.assisted.enums import ClusterStatus
from installer.assisted.errors import Unauthorized
from installer.rendezvous.api import signing
from installer.rendezvous.api.handlers.routes import ROUTES, SIGNED
from installer.rendezvous.store.model import Manifest
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import EVERY, UUID, filled, header, no_brakes, serve

KEY = b"k" * 32
PATH = f"/api/x/{UUID}/files"


def target(**query: str) -> str:
    return signing.signed(KEY, PATH, query)[0]


def refused(text: str, method: str = "GET", key: bytes = KEY, why: str = "signature is not valid") -> None:
    with pytest.raises(Unauthorized, match=why):
        signing.check(key, method, text)


def test_a_signed_request_is_let_in() -> None:
    for query in ({}, {"file_name": "a"}, {"file_name": "a b&c=d;e+f/é", "folder": ""}):
        text = target(**query)
        signing.check(KEY, "GET", text)
        signing.check(KEY, "HEAD", text)
        parameters = parse_qs(urlsplit(text).query, keep_blank_values=True)
        assert {name: values for name, values in parameters.items() if name in query} == {
            k: [v] for k, v in query.items()
        }


def test_another_text_is_not_whatever_it_would_be_read_as() -> None:
    text = target(file_name="metadata.json")
    signed, _, signature = text.rpartition("&signature=")
    path, _, query = signed.partition("?")
    for other in (
        f"{path}?file_name=install-config.yaml&{query}&signature={signature}",
        f"{signed}&file_name=install-config.yaml&signature={signature}",
        f"{text}&file_name=install-config.yaml",
        f"{text}&signature={signature}",
        f"{path}?signature={signature}&{query}",
        f"{text};file_name=x",
        f"{text}#x",
        f"{text}\n",
        f"{text}0",
        text[:-1],
        text[:-1] + ("0" if text[-1] != "0" else "1"),
        text.upper(),
        f"{signed}&signature={signature.upper()}" if signature.upper() != signature else text + "x",
        f"{signed}&signature=",
        signed,
        path,
        "",
        text.replace("file_name", "file%5Fname"),
        text.replace("file_name", "File_Name"),
        text.replace("metadata.json", "metadata%2Ejson"),
        text.replace("/files", "//files"),
        text.replace("/files", "/./files"),
        text.replace("/files", "/x/../files"),
        text.replace("/files", "/%66iles"),
        text.replace(UUID, UUID[:-1] + "1"),
        f"https://host{text}",
        text.replace("expires=", "expires=0"),
        text.replace("expires=", "expires=9"),
        text.replace("&expires=", "&expires=\u0661"),
    ):
        assert other != text
        refused(other)


def test_a_method_that_does_more_is_not_signed() -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "QUERY", ""):
        refused(target(file_name="x"), method)


def test_a_signature_of_another_key_is_refused() -> None:
    refused(target(), key=b"other")


def test_a_signature_expires() -> None:
    begin = time.time()
    with mock.patch.object(signing.time, "time", return_value=begin):
        text, end = signing.signed(KEY, PATH, {}, lifetime=60)
        assert end == time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(begin) + 60)) + end[19:]
        signing.check(KEY, "GET", text)
    for seconds, over in ((59, False), (60, True), (61, True), (10**9, True)):
        with mock.patch.object(signing.time, "time", return_value=int(begin) + seconds):
            if over:
                refused(text, why="has expired")
            else:
                signing.check(KEY, "GET", text)


async def _url(client: TestClient, path: str) -> str:
    answer = await client.get(path, headers=header(Scheme.USER))
    assert answer.status == 200, await answer.text()
    return str((await answer.json())["url"]).split("/", 3)[3]


def raw(client: TestClient, text: str) -> URL:
    """Return the URL whose target is sent as it is written here."""
    return URL(f"{str(client.make_url('/')).rstrip('/')}/{text.removeprefix('/')}", encoded=True)


async def ask(client: TestClient, text: str, method: str = "GET", **headers: str) -> ClientResponse:
    return await client.session.request(method, raw(client, text), headers=headers)


def _files(fleet: Fleet) -> None:
    with fleet.world.store.change():
        for name in ("master.ign", "metadata.json", "install-config.yaml", "kubeconfig-noingress"):
            fleet.world.store.put_file(fleet.cluster_id, name, name.encode())
        fleet.world.store.put_file(fleet.cluster_id, "kubeadmin-password", b"secret")
        cluster = fleet.world.store.cluster(fleet.cluster_id)
        fleet.world.store.put_cluster(msgspec.structs.replace(cluster, status=ClusterStatus.INSTALLED))
        fleet.world.store.put_manifest(
            fleet.cluster_id, Manifest(folder="openshift", file_name="a b.yaml", content=b"m")
        )


def test_a_presigned_url_opens_one_file_only(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        _files(fleet)
        base = filled("/clusters/{cluster_id}/downloads", fleet)
        file = await _url(client, f"{base}/files-presigned?file_name=metadata.json")
        kube = await _url(client, f"{base}/credentials-presigned?file_name=kubeconfig-noingress")
        assert await (await ask(client, file)).read() == b"metadata.json"
        assert await (await ask(client, kube)).read() == b"kubeconfig-noingress"
        wanted = {file: "install-config.yaml", kube: "kubeadmin-password"}
        for text, other in wanted.items():
            name = "metadata.json" if text == file else "kubeconfig-noingress"
            for parameter in ("file_name", "file%5Fname", "%66ile_name", "File_Name", "file_name[]", "+file_name"):
                more = f"{parameter}={other}"
                for attempt in (
                    f"{text}&{more}",
                    text.replace("?", f"?{more}&"),
                    text.replace("&expires", f"&{more}&expires"),
                    f"{text};{more}",
                    f"{text}&&{more}",
                ):
                    answer = await ask(client, attempt)
                    assert answer.status == 401, attempt
            for attempt in (
                text.replace(name, other),
                text.replace("/files", "/credentials") if text == file else text.replace("/credentials", "/files"),
                text.replace(fleet.cluster_id, UUID),
                text.replace("/v2/", "/v2//"),
                text.replace("/v2/", "/v2/x/../"),
                text.replace("/v2/", "/v2/%2e/"),
                text[:-4],
            ):
                answer = await ask(client, attempt)
                assert answer.status in (401, 404), attempt
                assert b"secret" not in await answer.read()
        missing = await client.get(f"{base}/files-presigned?file_name=worker.ign", headers=header(Scheme.USER))
        assert missing.status == 409

    with no_brakes():
        serve(tmp_path, use)


def test_a_manifests_url_and_a_logs_url_open_what_they_name(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        _files(fleet)
        base = filled("/clusters/{cluster_id}/downloads/files-presigned", fleet)
        manifest = await _url(client, f"{base}?file_name=manifests&additional_name=openshift/a%20b.yaml")
        assert await (await ask(client, manifest)).read() == b"m"
        assert (await ask(client, manifest.replace("openshift", "manifests"))).status == 401
        logs = await _url(client, f"{base}?file_name=logs&logs_type=controller")
        assert (await ask(client, logs)).status == 409
        assert (await ask(client, logs.replace("controller", "all"))).status == 401

    serve(tmp_path, use)


def test_a_presigned_url_only_reads(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        path = filled("/clusters/{cluster_id}/downloads/files-presigned", fleet)
        logs = await _url(client, f"{path}?file_name=logs&logs_type=controller")
        form = b'--a\r\nContent-Disposition: form-data; name="upfile"; filename="x"\r\n\r\nabc\r\n--a--\r\n'
        kind = {"Content-Type": "multipart/form-data; boundary=a"}
        url = raw(client, logs)
        answer = await client.session.post(url, data=form, headers=kind)
        assert answer.status == 401
        assert not list(tmp_path.rglob("*.tar.gz"))
        # The same with an agent's token: it was the signature that did not let it in.
        url = raw(client, logs.split("&expires")[0])
        answer = await client.session.post(url, data=form, headers={**kind, **header(Scheme.AGENT)})
        assert answer.status == 204
        assert await (await ask(client, logs)).read() == b"abc"

    serve(tmp_path, use)


def test_only_reading_can_be_signed() -> None:
    assert {method for method, _ in SIGNED} == {"GET"}
    assert {(method, path) for method, path, _, _ in ROUTES} >= SIGNED


def test_a_signature_opens_no_other_endpoint(tmp_path: Path) -> None:
    """Only the routes in SIGNED take a signature at all, whatever else the right key has signed."""

    async def use(client: TestClient, fleet: Fleet) -> None:
        key = fleet.world.store.secret("urls")
        for method, path, _ in EVERY:
            target = filled(path, fleet)
            digest = signing.signature_of(key, method, f"{target}?expires=99999999999")
            url = f"{target}?expires=99999999999&signature={digest}"
            answer = await client.request(method, url)
            assert (answer.status == 401) is ((method, path) not in SIGNED), (method, path, answer.status)

    with no_brakes():
        serve(tmp_path, use)


def test_files_urls_end_sooner_than_images(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        _files(fleet)
        url = await _url(
            client, filled("/clusters/{cluster_id}/downloads/files-presigned", fleet) + "?file_name=master.ign"
        )
        left = int(parse_qs(url.partition("?")[2])["expires"][0]) - time.time()
        assert 500 < left <= signing.FILE_LIFETIME == 600
        assert signing.LIFETIME == 4 * 3600

    serve(tmp_path, use)


def test_no_parameter_counts_twice(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        _files(fleet)
        for method, path, schemes in EVERY:
            for first, second in (("a", "a"), ("a_b", "a%5Fb"), ("a", "A"), ("file_name", "File_name"), ("", "")):
                url = f"{filled(path, fleet)}?{first}=1&x=2&{second}=3"
                answer = await client.session.request(method, raw(client, url), headers=header(min(schemes)), data="{}")
                body = await answer.json(content_type=None)
                assert answer.status == 400, (method, url)
                assert "must be given once" in body["reason"]
        # One is one, and what the specification has as a list may be repeated.
        for url, status in (
            (f"{BASE}/clusters?with_hosts=true&x=1", 200),
            (f"{BASE}/support-levels/features?openshift_version=4.18&feature_ids=SNO&feature_ids=TNA", 200),
            (f"{BASE}/events?severities=info;error", 400),
            (filled("/clusters/{cluster_id}/downloads/files?file_name=master.ign;file_name=metadata.json", fleet), 400),
        ):
            answer = await ask(client, url, **header(Scheme.USER))
            assert answer.status == status, url

    with no_brakes():
        serve(tmp_path, use)


def test_an_images_url_is_its_own(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        infra_env = fleet.world.store.infra_env(fleet.infra_env_id)
        text = signing.signed(infra_env.image_key.encode(), f"/images/{infra_env.id}/ipxe-script", {})[0][1:]
        # Let in, though this service makes no images. iPXE adds its machine's address.
        for url, method in ((text, "GET"), (text, "HEAD"), (text + "&mac=52:54:00:00:00:01", "GET")):
            assert (await ask(client, url, method)).status == 400
        for other in (text.replace("ipxe-script", "discovery.ign"), text + "&x=1", text + "&mac=1&x=1", text[:-1]):
            assert (await ask(client, other)).status == 401
        file = signing.signed(infra_env.image_key.encode(), f"/images/{infra_env.id}/initrd.img", {})[0][1:]
        assert (await ask(client, file + "&mac=52:54:00:00:00:01")).status == 401
        answer = await ask(client, text, "POST")
        assert answer.status == 404

    serve(tmp_path, use)
