"""Files of the live system itself: those that are always there, and the user data of Oracle's cloud."""

import base64
import os
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import resources
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from installer.ignition.live import HostFiles, LiveInputs, host_config_files
from installer.ignition.livesystem import ntp_files, proxy_file, system_files

SCRIPT = Path(str(resources.files("installer.ignition") / "data/bin/oci-eval-user-data.sh"))


def test_proxies_are_doubly_escaped_and_the_file_is_always_there():
    files = proxy_file({"HTTPS_PROXY": "http://u:50%@proxy.example", "NO_PROXY": '.example,"x"', "HTTP_PROXY": ""})
    assert files.content.decode() == (
        '[Manager]\nDefaultEnvironment=HTTPS_PROXY="http://u:50%%@proxy.example"\n'
        'DefaultEnvironment=NO_PROXY=".example,\\"x\\""\n'
    )
    assert proxy_file({}).content == b""
    assert proxy_file({}).path == files.path


def test_the_console_names_the_cluster_where_there_is_one():
    issues = [
        file.content.decode()
        for name in ("a.example", "")
        for file in system_files(name, {})
        if file.path == "/etc/issue"
    ]
    assert issues == ["\\S\nnode0 agent installer image for a.example\n", "\\S\nnode0 agent installer image\n"]


def test_clocks():
    texts = {file.path: file.content.decode() for file in ntp_files(["10.0.0.1", "ntp.example"])}
    assert all(text.startswith("server 10.0.0.1 iburst\nserver ntp.example iburst\n") for text in texts.values())
    assert set(texts) == {"/etc/chrony.conf", "/etc/chrony/chrony.conf"}
    assert ntp_files([]) == []


class _Metadata(BaseHTTPRequestHandler):
    """Oracle's metadata service with one instance; `status` and `user_data` are the test's."""

    status, user_data = 200, b""
    asked: ClassVar[list[tuple[str, str | None]]]

    def do_GET(self):
        self.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.user_data)))
        self.end_headers()
        self.wfile.write(self.user_data)

    def log_message(self, *_):
        """Nothing on the test's output."""


@pytest.fixture
def metadata():
    class Metadata(_Metadata):
        asked: ClassVar[list[tuple[str, str | None]]] = []

    server = HTTPServer(("127.0.0.1", 0), Metadata)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield Metadata, f"http://127.0.0.1:{server.server_port}/opc"
    server.shutdown()
    thread.join(5)
    server.server_close()


def _run(tmp_path, url, tag):
    folder = tmp_path / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "chassis_asset_tag").write_text(f"{tag}\n")
    env = {**os.environ, "PATH_PREFIX": str(tmp_path), "METADATA": url, "OUT": str(tmp_path / "out")}
    return subprocess.run(["bash", SCRIPT], env=env, capture_output=True, text=True, timeout=60)


def test_the_user_data_of_an_instance_is_run(tmp_path, metadata):
    service, url = metadata
    service.user_data = base64.b64encode(b'#!/bin/bash\necho "ran $0" >"$OUT"\n')
    done = _run(tmp_path, url, "OracleCloud.com")
    assert (done.returncode, (tmp_path / "out").read_text()[:4]) == (0, "ran ")
    assert service.asked == [("/opc/user_data", "Bearer Oracle")]


def test_other_clouds_are_not_asked_for_user_data(tmp_path, metadata):
    service, url = metadata
    assert _run(tmp_path, url, "No Asset Tag").returncode == 0
    assert service.asked == []


@pytest.mark.parametrize(("status", "data", "code"), [(404, b"x", 0), (403, b"x", 1), (200, b"!not base64!", 1)])
def test_user_data_that_is_no_script_is_not_run(tmp_path, metadata, status, data, code):
    service, url = metadata
    service.status, service.user_data = status, data
    assert _run(tmp_path, url, "OracleCloud.com").returncode == code
    assert not (tmp_path / "out").exists()


def test_a_script_that_fails_is_tried_again(tmp_path, metadata):
    service, url = metadata
    service.user_data = base64.b64encode(b"exit 7")
    assert _run(tmp_path, url, "OracleCloud.com").returncode == 7


def test_networks_are_counted_by_the_hosts_that_have_one():
    nic = {"eth0.nmconnection": "x"}
    hosts = [
        HostFiles("a", macs=("52:54:00:00:00:01",), fencing_credentials="credentials: []"),
        HostFiles("b", network=nic),
        HostFiles("c", network=nic),
    ]
    inputs = LiveInputs(
        rendezvous_ip="192.168.111.80", release_image="", release_version="", images={}, public_key_pem="",
        agent_token="", user_token="", watcher_token="", tls_files={}, pull_secret="{}", hosts=hosts,
    )  # fmt: skip
    paths = [file.path for file in host_config_files(inputs)]
    networks = [path for path in paths if path.startswith("/etc/assisted/network/")]
    assert networks == [f"/etc/assisted/network/host{number}/eth0.nmconnection" for number in (0, 1)]
    assert "/etc/assisted/hostnames/52:54:00:00:00:01" in paths
    [secret] = [file for file in host_config_files(inputs) if file.path.endswith("/fencing-credentials.yaml")]
    assert (secret.path, secret.mode) == ("/etc/assisted/hostconfig/a/fencing-credentials.yaml", 0o600)


def test_each_host_has_a_folder_of_its_own_whatever_its_name():
    names = ["m0", "same", "same", "host-4", "", "../../root", ""]
    hosts = [HostFiles(name, macs=(f"52:54:00:00:00:0{index}",)) for index, name in enumerate(names)]
    inputs = LiveInputs(
        rendezvous_ip="192.168.111.80", release_image="", release_version="", images={}, public_key_pem="",
        agent_token="", user_token="", watcher_token="", tls_files={}, pull_secret="{}", hosts=hosts,
    )  # fmt: skip
    paths = [file.path for file in host_config_files(inputs) if file.path.endswith("/mac_addresses")]
    folders = [path.removeprefix("/etc/assisted/hostconfig/").removesuffix("/mac_addresses") for path in paths]
    assert len(set(folders)) == len(names)
    assert not any("/" in folder for folder in folders)
    assert {"m0", "host-4", "host-6"} < set(folders)
