"""`node0 service` and the shell that it is started from."""

from __future__ import annotations

import json
import logging
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from installer.common.ports import free_port
from installer.errors import ConfigError
from installer.rendezvous import settings, standalone
from installer.testing.service.rendezvous_kit import SMALL, bare_environment, wait_for

LISTEN = "127.0.0.1:8090"
# What somebody may have in a shell in which another service was set up.
HOSTILE = {
    "AUTH_TYPE": "none",
    "EC_PUBLIC_KEY_PEM": "c3RyYW5nZXI=",
    "SERVICE_BASE_URL": "http://elsewhere:1/",
    "LISTEN_HOST": "0.0.0.0",
    "LISTEN_PORT": "1",
    "HTTPS_CERT_FILE": "/elsewhere",
    "HTTPS_KEY_FILE": "/elsewhere",
    "SERVICE_CA_CERT_PATH": "/elsewhere",
    "WORK_DIR": "/elsewhere",
    "DB_PATH": "/elsewhere/x.db",
    "REGISTRIES_CONF": "/elsewhere",
    "MIRROR_CA_FILE": "/elsewhere",
    "INSTALL_INVOKER": "elsewhere",
    "INSTALLER_BINARY": "/elsewhere",
    "EPHEMERAL_INSTALLER_CLUSTER_TLS_CERTS_OVERRIDE_DIR": "/elsewhere",
    "OPENSHIFT_INSTALL_RELEASE_IMAGE": "elsewhere",
    "RELEASE_IMAGES": '[{"url": "elsewhere", "version": "1"}]',
    "OPENSHIFT_VERSION": "1",
    "AGENT_DOCKER_IMAGE": "elsewhere",
    "INSTALLER_IMAGE": "elsewhere",
    "CONTROLLER_IMAGE": "elsewhere",
    "MCO_IMAGE": "elsewhere",
    "MUST_GATHER_IMAGE": "elsewhere",
    "BOOTSTRAP_HOST_MAC": "00:00:00:00:00:01",
    "DISABLED_STEPS": "verify-vips",
    "MAX_HOST_SERVICE_TIME_DRIFT": "1000h",
    "REQUESTS_PER_SECOND": "1000000000",
}


def test_authentication_is_not_taken_from_the_shells_environment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = standalone.settings_of(tmp_path, LISTEN, {})
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        service_settings = standalone.settings_of(tmp_path, LISTEN, HOSTILE)
    assert service_settings == plain
    assert service_settings.auth_type == "agent-installer-local"
    assert service_settings.db_path == tmp_path / "data/assisted.db"
    [message] = caplog.messages
    assert message == f"ignored in the environment: {', '.join(sorted(HOSTILE))}"
    assert "stranger" not in message


def test_what_the_shell_may_set_is_taken(tmp_path: Path) -> None:
    environment = {
        "PAGE_ACCESS": "open",
        "HW_VALIDATOR_REQUIREMENTS": SMALL,
        "NEXT_INSTRUCTION_SECONDS": "7",
        "MONITOR_INTERVAL": "500ms",
        "HOST_DISCONNECTION_TIMEOUT": "1m",
        "BOOTSTRAP_DISCONNECTION_GRACE": "2m",
        "HOST_PREPARE_TIMEOUT": "3m",
        "DISK_CHECK_TIMEOUT": "90s",
        "PREPARE_FOR_INSTALLATION_TIMEOUT": "4m",
        "HOST_INSTALLING_TIMEOUT": "5m",
        "PENDING_USER_ACTION_TIMEOUT": "6m",
        "HOST_STAGE_REBOOTING_TIMEOUT": "7m",
        "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": "r.example/release@sha256:1",
    }
    service_settings = standalone.settings_of(tmp_path, LISTEN, environment)
    assert (service_settings.page_access, service_settings.hw_requirements, service_settings.poll_seconds) == (
        "open",
        SMALL,
        7,
    )
    assert (service_settings.monitor_seconds, service_settings.host_disconnect, service_settings.bootstrap_grace) == (
        0.5,
        60,
        120,
    )
    assert (service_settings.prepare_host, service_settings.prepare_cluster, service_settings.host_installing) == (
        180,
        240,
        300,
    )
    assert service_settings.disk_check_timeout == 90
    assert (service_settings.pending_user_action, service_settings.stage_timeouts) == (360, {"REBOOTING": 420})
    assert service_settings.release_image == "r.example/release@sha256:1"


class Asked(Mapping[str, str]):
    """An environment that remembers what was asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_every_variable_that_is_read_is_thought_of() -> None:
    """A new setting is allowed, ignored with a warning, or the command's own: never the shell's by mistake."""
    asked = Asked()
    settings.load(asked)
    ours = {"PAGE_ACCESS", *standalone.ALLOWED_VARIABLES, *standalone.IGNORED_VARIABLES}
    assert asked.names - ours == set(HOSTILE) - set(standalone.IGNORED_VARIABLES)


def test_a_service_from_a_shell_with_auth_type_none_is_closed(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "installer", "service", "--dir", str(tmp_path / "d")]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{port}"],
            env={**bare_environment(), **HOSTILE, "XDG_CACHE_HOME": str(tmp_path)},
            stderr=log,
        )
    try:

        def ask(**headers: str) -> Any:
            url = f"https://127.0.0.1:{port}/api/assisted-install/v2/clusters"
            try:
                context = ssl.create_default_context(cafile=str(tmp_path / "d/tls/ca.crt"))
                with urllib.request.urlopen(
                    urllib.request.Request(url, headers=headers), context=context, timeout=20
                ) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code
            except OSError:
                assert process.poll() is None, (tmp_path / "log").read_text()
                return None

        assert wait_for("the service to answer", ask, 120) == 401
        assert ask(Authorization="anything") == 401
        token = (tmp_path / "d/auth/user-token").read_text().strip()
        assert ask(Authorization=token) == 200
        # What it says to do first works as it is printed, and shows no token.
        text = (tmp_path / "log").read_text()
        assert f"Listening on https://127.0.0.1:{port}/ (its CA: {tmp_path}/d/tls/ca.crt)" in text
        first = text.partition("To ask its API from bash: ")[2].partition("\n")[0]
        done = subprocess.run(["bash", "-c", first], capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.startswith("{"), (first, done.stderr)
        assert "message" not in json.loads(done.stdout)
        assert token not in text
        # No release was set: images would be refused.
        assert "Next: stop it, and say which release to install: OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE=" in text
    finally:
        process.terminate()
        assert process.wait(60) == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("service.")
    }


@pytest.mark.parametrize("mine", ["data/install/notes.txt", "data/logs/2024/app.log", "data/x"])
def test_a_folder_with_data_of_the_users_own_is_left_alone(tmp_path: Path, mine: str) -> None:
    (tmp_path / mine).parent.mkdir(parents=True)
    (tmp_path / mine).write_text("mine")
    with pytest.raises(ConfigError, match="data: holds files that are not a service's"):
        standalone.settings_of(tmp_path, "127.0.0.1:8090", {})
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / mine]


@pytest.mark.parametrize("left", [[], ["assisted.db", "logs/x"], [standalone.OWN, "release.json"]])
def test_a_folder_of_a_service_is_taken_again(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text("")
    for _ in range(2):
        standalone.settings_of(tmp_path, "127.0.0.1:8090", {})
    assert {*left, standalone.OWN} <= {str(path.relative_to(tmp_path / "data")) for path in tmp_path.rglob("*")
                                       if path.is_file() and path.is_relative_to(tmp_path / "data")}  # fmt: skip


def test_a_lost_file_is_an_error_and_no_new_ca_is_made(tmp_path: Path) -> None:
    """Images that were given out, and hosts that booted, know the old one."""
    standalone.settings_of(tmp_path, LISTEN, {})
    before = contents(tmp_path)
    assert not [name for name in before if standalone.BEGUN in name]
    files = [name for name in before if name.startswith(("tls/", "auth/"))]
    assert len(files) == 6
    for name in files:
        path = tmp_path / name
        path.unlink()
        with pytest.raises(ConfigError) as caught:
            standalone.settings_of(tmp_path, LISTEN, {})
        assert str(path) in str(caught.value)
        assert "put it back" in str(caught.value)
        path.write_bytes(before[name])
        standalone.settings_of(tmp_path, LISTEN, {})
        assert contents(tmp_path) == before
    for folder in ("tls", "auth"):
        # All of them gone is a wish; and what a start that was cut short has left is nobody's.
        kept = contents(tmp_path / folder)
        (tmp_path / folder / next(iter(kept))).unlink()
        (tmp_path / folder / standalone.BEGUN).touch()
        standalone.settings_of(tmp_path, LISTEN, {})
        assert contents(tmp_path / folder).keys() == kept.keys()
        assert not set(contents(tmp_path / folder).values()) & set(kept.values())
        shutil.rmtree(tmp_path / folder)
        standalone.settings_of(tmp_path, LISTEN, {})
        assert contents(tmp_path / folder).keys() == kept.keys()


def test_a_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    standalone.settings_of(tmp_path / "a", LISTEN, {})
    standalone.settings_of(tmp_path / "b", LISTEN, {})
    shutil.copyfile(tmp_path / "b/tls/ca.key", tmp_path / "a/tls/ca.key")
    with pytest.raises(ConfigError, match="certificate and key do not belong together"):
        standalone.settings_of(tmp_path / "a", LISTEN, {})
