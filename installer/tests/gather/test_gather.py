"""`node0 agent gather` against real sshds on loopback and the real service."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from installer import gather
from installer.cli import main
from installer.common.ports import free_port
from installer.common.redact import Redactor
from installer.common.redact.testing import corpus
from installer.errors import EXIT_INTERRUPTED, InstallerError
from installer.files import deliver
from installer.gather.command import addresses
from installer.gather.remote import Access, add
from installer.observe.service import Reach
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.forked_kit import Forked
from installer.testing.service.rendezvous_kit import Running, running, wait_for
from installer.testing.service.single_kit import World
from installer.testing.waiting_kit import asset_dir, upload_logs

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_sshd = pytest.mark.skipif(
    not SSHD or os.geteuid() != 0, reason="a host to log in to needs root and sshd: apt-get install openssh-server"
)
BMC_PASSWORD = "Rack7-c4lvin"
PASSWORD = "aaaaa-bbbbb-ccccc-ddddd"
SECRETS = ("eyJhbGciOiJFUzI1NiJ9.eyJhdXRoIjoxfQ.c2ln", "c2VjcmV0OnNlY3JldA==", "MIIEvQIBADANBg", PASSWORD, BMC_PASSWORD)
JOURNAL = f"""Nov 21 10:00:00 host agent[1]: started with X-Secret-Key {SECRETS[0]}
Nov 21 10:00:01 host agent[1]: {{"auths":{{"registry.example":{{"auth":"{SECRETS[1]}"}}}}}}
Nov 21 10:00:02 host agent[1]: -----BEGIN PRIVATE KEY-----
{SECRETS[2]}
-----END PRIVATE KEY-----
Nov 21 10:00:03 host agent[1]: kubeadmin {PASSWORD}
{"".join(vector.text + chr(10) for vector in corpus.vectors())}
Nov 21 10:00:03 host agent[1]: nobody can log in to 192.0.2.1 with {BMC_PASSWORD}
Nov 21 10:00:04 host agent[1]: the last line
"""
SHORT_JOURNAL = JOURNAL.splitlines(keepends=True)[-1]


@dataclass(frozen=True)
class Host:
    port: int
    key: Path
    shims: Path
    journal: Path

    def access(self, **changes) -> Access:
        return Access(**{"user": "root", "key": self.key, "options": (f"Port={self.port}",), "timeout": 60, **changes})


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Provide an sshd on two addresses of loopback; its journal is a script's."""
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user", "stranger"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=60)
    shims = folder / "shims"
    shims.mkdir()
    (folder / "journal").write_text(SHORT_JOURNAL)
    (shims / "journalctl").write_text(f"#!/bin/sh\ncat '{folder}/journal'\n")
    (shims / "journalctl").chmod(0o755)
    port = free_port()
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n"
        f"SetEnv PATH={shims}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    process = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL)
    try:
        probe = ["ssh-keyscan", "-T", "2", "-p", str(port), "127.0.0.2"]
        wait_for("sshd", lambda: subprocess.run(probe, capture_output=True, check=False, timeout=30).stdout)
        yield Host(port, folder / "user", shims, folder / "journal")
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def journal_with_secrets(host: Host) -> Iterator[None]:
    host.journal.write_text(JOURNAL)
    yield
    host.journal.write_text(SHORT_JOURNAL)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as live:
        yield live


def texts(path: Path) -> dict[str, str]:
    """Content by name below the archive's one folder."""
    with tarfile.open(path, "r:gz") as archive:
        members = archive.getmembers()
        assert len({member.name.split("/")[0] for member in members}) == 1
        assert {member.mode for member in members} == {0o600}
        return {m.name.partition("/")[2]: archive.extractfile(m).read().decode(errors="replace") for m in members}


@needs_sshd
@pytest.mark.usefixtures("journal_with_secrets")
def test_everything_that_answers_and_what_does_not(
    service: Running, host: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(service)
    cluster, infra_env = world.cluster("ostest")
    near = Machine(1, Network(), ip="127.0.0.2/8")
    world.register(infra_env, near)
    world.poll(infra_env, near)
    upload_logs(service, cluster, near.id, infra_env)
    directory = asset_dir(tmp_path / "assets", service)
    (directory / "auth/kubeadmin-password").write_text(f"{PASSWORD}\n")
    file = directory / ".openshift_install_state.json"
    asset = {"bmc": {"username": "root", "password": BMC_PASSWORD}}
    file.write_text(json.dumps({**json.loads(file.read_text()), "*agentconfig.AgentHosts": asset}))
    (directory / ".openshift_install.log").write_text(f'level=info msg="password {PASSWORD}"\n')
    port = Reach(rest_port=service.port, connect_timeout=5)
    assert gather.run(directory, host.access(), ["127.0.0.3"], reach=port) == 0

    [packed] = directory.glob("agent-gather-*.tar.gz")
    assert stat.S_IMODE(packed.stat().st_mode) == 0o600
    contents = texts(packed)
    for address in ("127.0.0.1", "127.0.0.2"):
        assert "the last line" in contents[f"hosts/{address}/journal.log"]
        assert json.loads(contents[f"hosts/{address}/network/addr.json"])
        assert "Filesystem" in contents[f"hosts/{address}/system/df"]
    assert "Successfully registered" in contents[f"service/events-{infra_env}.json"]
    assert json.loads(contents[f"service/hosts-{infra_env}.json"])[0]["id"] == near.id
    assert json.loads(contents[f"service/cluster-{cluster}.json"])["name"] == "ostest"
    assert [name for name in contents if name.startswith("service/logs/")]
    assert "[redacted]" in contents["openshift_install.log"]
    everything = "\n".join(contents.values())
    planted = {secret for vector in corpus.vectors() for secret in vector.secrets}
    for secret in (*SECRETS, *planted, service.keys.token("watcherAuth"), "BEGIN PRIVATE KEY"):
        assert secret not in everything
    summary = contents["summary.txt"]
    assert "host host-1 (127.0.0.2):" in summary
    [missing] = [line for line in summary.splitlines() if "127.0.0.3" in line]
    assert "Connection refused" in missing
    assert missing in caplog.text
    assert sorted(path.name for path in directory.iterdir() if "gather" in path.name) == [packed.name]


def test_a_device_or_a_pipe_is_written_into(tmp_path: Path) -> None:
    packed, pipe = tmp_path / "packed", tmp_path / "pipe"
    packed.write_bytes(b"archive")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    deliver(packed, pipe)
    assert os.read(reader, 100) == b"archive"
    os.close(reader)
    assert pipe.is_fifo()
    deliver(packed, Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    deliver(packed, tmp_path / "new")
    assert not packed.exists()
    assert (tmp_path / "new").read_bytes() == b"archive"


@needs_sshd
def test_the_archive_goes_into_a_pipe(host: Host, service: Running, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    directory = asset_dir(tmp_path / "assets", service)
    contents: list[bytes] = []
    reader = threading.Thread(target=lambda: contents.append(pipe.read_bytes()))
    reader.start()
    port = Reach(rest_port=service.port, connect_timeout=5)
    assert gather.run(directory, host.access(), output=pipe, reach=port) == 0
    reader.join(60)
    assert pipe.is_fifo()
    with tarfile.open(fileobj=io.BytesIO(contents[0])) as archive:
        assert archive.getnames()


@needs_sshd
def test_hosts_alone_when_the_service_is_gone(host: Host, service: Running, tmp_path: Path) -> None:
    directory = asset_dir(tmp_path / "assets", service)
    target = tmp_path / "here.tar.gz"
    port = Reach(rest_port=free_port(), connect_timeout=2)
    assert gather.run(directory, host.access(), output=target, reach=port) == 0
    contents = texts(target)
    assert "the last line" in contents["hosts/127.0.0.1/journal.log"]
    assert "service: https://127.0.0.1" in contents["summary.txt"]
    # With a key that is nobody's, and a host that never ends, there is nothing; both are said, and nothing is left.
    stranger = host.access(key=host.key.with_name("stranger"))
    with pytest.raises(InstallerError, match="nothing could be gathered"):
        gather.run(directory, stranger, output=tmp_path / "none.tar.gz", reach=port)
    original = (host.shims / "journalctl").read_text()
    (host.shims / "journalctl").write_text("#!/bin/sh\nexec sleep 8\n")
    try:
        with pytest.raises(InstallerError, match="nothing could be gathered"):
            gather.run(directory, host.access(timeout=2), output=tmp_path / "none.tar.gz", reach=port)
    finally:
        (host.shims / "journalctl").write_text(original)
    assert [path.name for path in tmp_path.iterdir() if "none" in path.name] == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "gather", "--dir", str(tmp_path)]) == 1
    assert ".openshift_install_state.json" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["agent", "gather", "--help"])
    assert caught.value.code == 0
    assert "--key" in capsys.readouterr().out


def test_an_address_is_never_an_option() -> None:
    argv = Access(key=Path("/k"), options=("ProxyJump=x",)).argv("-oProxyCommand=evil", "c")
    assert argv[argv.index("--") + 1 :] == ["-oProxyCommand=evil", "c"]
    assert argv[argv.index("ProxyJump=x") - 1] == "-o"


def test_a_hostile_archive_stays_in_its_folder(tmp_path: Path) -> None:
    packed = tmp_path / "evil.tar"
    with tarfile.open(packed, "w") as archive:
        for name, kind in (("../up", tarfile.REGTYPE), ("/abs", tarfile.REGTYPE), ("top/link", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/shadow"
            archive.addfile(info, io.BytesIO(b"") if kind == tarfile.REGTYPE else None)
        archive.addfile(tarfile.TarInfo("top/good"), io.BytesIO(b""))
    with tarfile.open(tmp_path / "out.tar", "w") as out:
        assert add(out, packed, "t/hosts/h", Redactor()) == 1
    with tarfile.open(tmp_path / "out.tar") as out:
        assert out.getnames() == ["t/hosts/h/good"]


def test_addresses_of_hosts_that_say_nonsense() -> None:
    good = {"inventory": json.dumps({"interfaces": [{"ipv4_addresses": ["192.0.2.1/24"]}]}), "requested_hostname": "a"}
    texts = ("", "x", "[]", "[" * 99999, "{}", '{"interfaces": [{"ipv4_addresses": ["-oX/1"]}]}')
    bad = [{"inventory": text} for text in texts]
    assert addresses([*bad, good]) == {"192.0.2.1": "a"}


def ssh_processes(port: int) -> list[str]:
    """Command lines of the ssh clients that talk to that port."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if words[0].endswith("ssh") and f"Port={port}" in words:
                commands.append(" ".join(words))
    return commands


@pytest.mark.slow
@needs_sshd
def test_ended_by_a_signal_it_leaves_nothing(host: Host, service: Running, tmp_path: Path) -> None:
    """In the middle of a host's part: no raw logs stay, and no ssh."""
    directory = asset_dir(tmp_path / "assets", service)
    before = sorted(path.name for path in directory.iterdir())
    original = (host.shims / "journalctl").read_text()
    (host.shims / "journalctl").write_text(f"{original}\nexec sleep 300\n")
    command = ["agent", "gather", "--dir", str(directory), "--user", "root", "--key", str(host.key)]
    process = Forked(main, [*command, "--ssh-option", f"Port={host.port}"])
    try:
        wait_for("a host's part to come", lambda: list(directory.glob("node0-gather-*/host-0")), 60)
        wait_for("ssh", lambda: ssh_processes(host.port), 60)
    finally:
        os.kill(process.pid, signal.SIGTERM)
        code, stderr = process.wait()
        (host.shims / "journalctl").write_text(original)
    assert code == EXIT_INTERRUPTED, stderr
    assert "SIGTERM" in stderr
    assert "Traceback" not in stderr
    assert ssh_processes(host.port) == []
    assert sorted(path.name for path in directory.iterdir() if path.name != ".openshift_install.log") == before
