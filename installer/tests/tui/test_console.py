"""The console's program as hosts run it: on a pseudo terminal, in a network namespace, read by a terminal emulator."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pyte
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from installer.common import certificates
from installer.testing.service.rendezvous_kit import Running
from installer.tui.checks import mirrors_of
from installer.tui.host import parse_nics
from installer.tui.program import program

ADDRESS = "10.9.0.1"
TOKEN = "eyJ.token.of-the-user"
NAMESPACE = f"""
ip link set lo up
ip link add eth0 type veth peer name far
ip link set eth0 up
ip link set far up
ip address add {ADDRESS}/24 dev eth0
"""
SECONDS = 20
# From the first line to the last: buttons of an earlier page may still stand below when a page's first lines are there.
CHOSEN = ("is the rendezvous host.", "<Change the rendezvous host>")
KINDS = {"CERT": "crt", "KEY": "key"}
ENTER, TAB, ESCAPE = "\r", "\t", "\x1b"


class Console:
    """The program on a terminal of 80 columns and 24 lines, until `close`."""

    def __init__(self, root: Path, path: Path) -> None:
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            environment = {"TERM": "vt220", "PATH_PREFIX": str(root), "PATH": f"{path}:{os.environ['PATH']}:/usr/sbin"}
            script = f"{NAMESPACE}exec /usr/bin/python3 -I {root}/usr/local/bin/agent-tui"
            os.execve("/usr/bin/unshare", ["unshare", "--net", "sh", "-ec", script], environment)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def text(self) -> str:
        """Return the screen as one line."""
        return " ".join(" ".join(self._screen.display).split())

    def until(self, *texts: str) -> str:
        deadline = time.monotonic() + SECONDS
        while not all(text in self.text() for text in texts):
            assert time.monotonic() < deadline, f"no {texts} on:\n" + "\n".join(self._screen.display)
            if select.select([self._terminal], [], [], 0.2)[0]:
                self._stream.feed(os.read(self._terminal, 65536))
        return self.text()

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


@pytest.fixture
def root(tmp_path):
    """Provide a blank host's files."""
    root = tmp_path / "root"
    authority = certificates.authority("node0-service-ca")
    files = {
        "etc/assisted/agent-installer.env": "RELEASE_IMAGE=localhost:1/release@sha256:1\n",
        "etc/assisted/rendezvous-host.env.template": (
            "NODE_ZERO_IP={{.RendezvousIP}}\nSERVICE_BASE_URL=https://{{.RendezvousHost}}:8090/\n"
            f"USER_AUTH_TOKEN={TOKEN}\n"
        ),
        "etc/assisted/interactive-units": "agent.service\nassisted-service.service\n",
        "etc/issue.d/70-x.issue": "assisted-service.service has not started yet\n",
        "opt/agent/tls/ca.crt": authority.certificate,
        "opt/agent/tls/service.key": certificates.private_pem(certificates.ec_key()),
        "opt/agent/service-ca/ca.key": authority.key,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "usr/local/bin/agent-tui").write_bytes(program())
    return root


@pytest.fixture
def console(root, tmp_path):
    """Provide the console, with a systemctl that notes what it was asked."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/systemctl\n')
    (tools / "systemctl").chmod(0o755)
    console = Console(root, tools)
    yield console
    console.close()


def test_this_machine_becomes_the_rendezvous_host_and_another_choice_is_possible(console, root, tmp_path):
    shown = console.until("Rendezvous IP", "[!!] Gateway: there is no default gateway", "[!!] Registry: localhost:1")
    assert f": {ADDRESS}/24" in shown
    console.press(TAB * 2 + ENTER)
    console.until("Which of its addresses")
    console.press(ENTER)
    shown = console.until("is the rendezvous host.", "assisted-service.service has not started yet")
    assert TOKEN not in shown

    environment = root / "etc/assisted/rendezvous-host.env"
    assert environment.read_text().splitlines()[:2] == [
        f"NODE_ZERO_IP={ADDRESS}",
        f"SERVICE_BASE_URL=https://{ADDRESS}:8090/",
    ]
    assert environment.stat().st_mode & 0o777 == 0o600
    units = "agent.service assisted-service.service"
    assert (tmp_path / "systemctl").read_text() == f"enable --now --no-block {units}\n"
    tls = root / "opt/agent/tls"
    pair = certificates.Pair(*((tls / f"service.{part}").read_text() for part in ("crt", "key")))
    certificates.check(pair)
    assert certificates.signed_by(pair.certificate, (tls / "ca.crt").read_text())
    made = x509.load_pem_x509_certificate(pair.certificate.encode())
    ca = x509.load_pem_x509_certificate((tls / "ca.crt").read_bytes())
    assert made.not_valid_before_utc == ca.not_valid_before_utc
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [ADDRESS]
    usages = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]

    console.press(ENTER)
    console.until("The service does not answer: ")
    console.press(ENTER)
    console.until(*CHOSEN)
    console.press(TAB + ENTER)
    console.until("Whoever has it may install clusters", TOKEN)
    console.press(ESCAPE)
    console.until(*CHOSEN)
    console.press(TAB * 2 + ENTER)
    console.until("Its service ends.")
    console.press(TAB + ENTER)
    console.until("<Use this rendezvous IP>")
    assert not environment.exists()
    assert (tmp_path / "systemctl").read_text().splitlines()[1] == f"stop {units}"


def test_a_wrong_rendezvous_ip_is_said_with_what_was_tried_and_kept_only_on_demand(console, root):
    console.until("Rendezvous IP")
    for typed, said in (
        ("10.9.0", "10.9.0 is no IPv4 or IPv6 address"),
        ("127.0.0.1", "127.0.0.1 is no address that other machines reach a host at"),
        ("172.30.0.9", "There is no route to 172.30.0.9 from this machine"),
        ("10.9.0.77", f"Tried https://10.9.0.77:8090/ from {ADDRESS} on eth0: "),
    ):
        console.press(f"{typed}{ENTER}{ENTER}")
        console.until(said)
        console.press(ENTER)
        console.until("<Use this rendezvous IP>", typed)
        console.press("\x15")
    assert not (root / "etc/assisted/rendezvous-host.env").exists()
    console.press(f"10.9.0.78{ENTER}{ENTER}")
    console.until("It does not answer a ping either.", "<Use it nevertheless>")
    console.press(TAB + ENTER)
    console.until("waits for the rendezvous host at 10.9.0.78")
    assert "NODE_ZERO_IP=10.9.0.78\n" in (root / "etc/assisted/rendezvous-host.env").read_text()
    assert not (root / "opt/agent/tls/service.crt").exists()


def test_a_code_is_exchanged_for_the_token_once(console, root, tmp_path):
    """With the real service in the host's namespace, and curl in the place of a browser."""
    service = Running(tmp_path)
    token = service.keys.token("userAuth")
    template = root / "etc/assisted/rendezvous-host.env.template"
    template.write_text(template.read_text().replace(TOKEN, token))
    console.until("Rendezvous IP")
    console.press(TAB * 2 + ENTER)
    console.until("Which of its addresses")
    console.press(ENTER)
    console.until("is the rendezvous host.")
    inside = ["nsenter", "--target", str(console.pid), "--net"]
    ca, url = str(root / "opt/agent/tls/ca.crt"), f"https://{ADDRESS}:8090"
    tls = {f"HTTPS_{kind}_FILE": str(root / f"opt/agent/tls/service.{part}") for kind, part in KINDS.items()}
    environment = service.env | tls | {"SERVICE_BASE_URL": url, "LISTEN_PORT": "8090", "LISTEN_HOST": ADDRESS}

    def exchange(code):
        asked = [*inside, "curl", "-sS", "--cacert", ca, "--json", json.dumps({"code": code}), f"{url}/page/token"]
        return json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)

    with (tmp_path / "service.log").open("w") as log:
        process = subprocess.Popen(
            [*inside, sys.executable, "-m", "installer.rendezvous"], env=environment, cwd=tmp_path, stderr=log
        )
    try:
        console.until("Open in a browser: ")
        console.press(ENTER)
        code = re.search(r"([A-Z]{4})-([A-Z]{4}) It is good", console.until("It is good for one browser"))
        assert exchange("BBBB-BBBB")["message"].startswith("this code is wrong")
        console.until(f"Wrong codes that were tried: 1, the last from {ADDRESS}.")
        assert exchange(f" {code[1]}{code[2]}".lower()) == {"token": token}
        console.until(f"The code was used by a browser at {ADDRESS}.")
        assert exchange(code[1] + code[2])["code"] == 401
        written = (tmp_path / "service.log").read_text()
        assert "a wrong code was sent" in written
        assert [secret for secret in (code[1], token) if secret in written] == []
    finally:
        process.kill()
        process.wait()


def test_what_is_chosen_elsewhere_ends_the_question_and_who_wants_to_log_in_can(console, root):
    """A machine has a screen and a serial line, and a config image may come as well."""
    console.until("Rendezvous IP")
    (root / "etc/assisted/rendezvous-host.env").write_text("NODE_ZERO_IP=10.9.0.5\n")
    console.until("waits for the rendezvous host at 10.9.0.5")
    console.press("\x1b[Z" + ENTER)
    console.until("login:")


def test_pulls_go_to_the_mirrors_of_the_longest_prefix():
    config = {
        "registry": [
            {"location": "quay.io", "mirror": [{"location": "wide.example/all"}]},
            {"location": "quay.io/release", "mirror": [{"location": "m.example:5000/release"}], "blocked": True},
        ]
    }
    assert mirrors_of("quay.io/release@sha256:1", config) == ["m.example:5000"]
    assert mirrors_of("quay.io/releases/x@sha256:1", config) == ["wide.example", "quay.io"]
    assert mirrors_of("r.example:5000/x@sha256:1", config) == ["r.example:5000"]


def test_nics_are_what_carries_a_hosts_networks():
    """Not what containers bring."""
    script = "ip link add b type bridge; ip link add eth0 type veth peer name far; ip -json -details address"
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=True)
    assert {nic.name for nic in parse_nics(json.loads(done.stdout))} == {"eth0", "far"}
