"""The live host's scripts, run here under a prefix or with their paths and neighbours replaced."""

import os
import shutil
import socket
import subprocess
import threading
from importlib import resources
from pathlib import Path

import pytest

from installer.observe.state import Places
from installer.waitfor import remedies

BIN = Path(str(resources.files("installer.ignition") / "data/bin"))

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")


def sandbox(tmp: Path, **stubs: str) -> dict[str, str]:
    """Return the scripts with their absolute paths led into `tmp`, and stub commands in front of PATH."""
    bin_dir, stub_dir = tmp / "usr/local/bin", tmp / "stubs"
    for folder in (bin_dir, stub_dir, tmp / "etc/assisted", tmp / "usr/local/share/start-cluster", tmp / "etc/issue.d"):
        folder.mkdir(parents=True)
    for script in BIN.iterdir():
        text = script.read_text()
        for path in ("/usr/local/", "/etc/assisted/"):
            text = text.replace(path, f"{tmp}{path}")
        (bin_dir / script.name).write_text(text)
    for name, body in stubs.items():
        (stub_dir / name).write_text(f"#!/bin/bash\n{body}\n")
        (stub_dir / name).chmod(0o755)
    (tmp / "etc/assisted/rendezvous-host.env").write_text(
        "NODE_ZERO_IP=fd00::5\nSERVICE_BASE_URL=https://[fd00::5]:8090/\nUSER_AUTH_TOKEN=tok.en\n"
    )
    return {**os.environ, "PATH": f"{stub_dir}:{os.environ['PATH']}", "PATH_PREFIX": str(tmp), "STATE": str(tmp)}


def name_host(tmp_path: Path, *macs: str, described: str, replicas: int = 2) -> str:
    """Run set-hostname.sh on a machine with these NICs; returns what its console shows of a stranger."""
    env = sandbox(tmp_path)
    for index, mac in enumerate(("00:00:00:00:00:00", *macs)):
        (tmp_path / f"sys/class/net/ens{index}").mkdir(parents=True)
        (tmp_path / f"sys/class/net/ens{index}/address").write_text(f"{mac}\n")
    (tmp_path / "etc/assisted/hostnames").mkdir()
    for line in described.splitlines():
        listed, _, name = line.partition(" ")
        (tmp_path / f"etc/assisted/hostnames/{listed.partition(',')[0]}").write_text(name)
    (tmp_path / "etc/assisted/expected-hosts").write_text(described)
    counts = f"REQUIRED_MASTER_NODES={replicas}\nREQUIRED_ARBITER_NODES=0\nREQUIRED_WORKER_NODES=0\n"
    (tmp_path / "usr/local/share/start-cluster/start-cluster.env").write_text(counts)
    subprocess.run(["bash", tmp_path / "usr/local/bin/set-hostname.sh"], env=env, check=True, capture_output=True)
    shown = tmp_path / "etc/issue.d/62-stranger.issue"
    return shown.read_text() if shown.exists() else ""


TWO = "52:54:00:00:00:01 master-0\n52:54:00:00:00:02,52:54:00:00:0a:00 master-1\n"


@pytest.mark.parametrize("nics", [["52:54:00:00:00:02"], ["52:54:00:00:0A:00", "02:00:00:00:00:01"]])
def test_a_host_that_is_listed_has_its_name(tmp_path, nics):
    assert name_host(tmp_path, *nics, described=TWO) == ""
    by_first = nics[0] == "52:54:00:00:00:02"
    assert (tmp_path / "etc/hostname").exists() == by_first
    if by_first:
        assert (tmp_path / "etc/hostname").read_text() == "master-1\n"


@pytest.mark.parametrize(
    ("nic", "replicas", "end"),
    [
        (
            "52:54:00:00:07:02",
            2,
            " It looks like the host with 52:54:00:00:00:02 (master-1), and one digit changed: is one of the two "
            "mistyped?",
        ),
        (
            "52:54:00:00:70:03",
            3,
            " It looks like the host with 52:54:00:00:00:01 (master-0), and two digits changed: is one of the two "
            "mistyped?",
        ),
        ("02:11:22:33:44:55", 2, ""),
        ("none", 2, ""),
        ("02:11:22:33:44:55", 3, None),  # one of three is not described: it may be this one
    ],
)
def test_a_stranger_says_so_on_its_own_console(tmp_path, nic, replicas, end):
    shown = name_host(tmp_path, nic, described=TWO, replicas=replicas)
    text = f"No NIC of this machine is in the configuration: it has {nic}."
    assert shown == ("" if end is None else f"{text}{end}\n")


ADDRESSES = (
    '[{"ifname":"lo","address":"00:00:00:00:00:00","addr_info":[{"local":"127.0.0.1","scope":"host"}]},'
    '{"ifname":"ens3","address":"52:54:00:00:00:01","addr_info":'
    '[{"local":"10.0.0.5","scope":"global"},{"local":"%s","scope":"global"},{"local":"fe80::1","scope":"link"}]},'
    '{"ifname":"ens4","address":"52:54:00:00:00:02"}]'
)


@needs_jq
def test_node_zero_is_who_has_the_address(tmp_path):
    env = sandbox(tmp_path, ip=f"echo '{ADDRESSES % 'fd00::5'}'")
    subprocess.run(["bash", tmp_path / "usr/local/bin/set-node-zero.sh"], env=env, check=True, capture_output=True)
    assert (tmp_path / "etc/assisted/node0").read_text() == "BOOTSTRAP_HOST_MAC=52:54:00:00:00:01\n"
    assert "node0" in (tmp_path / "etc/issue.d/60-rendezvous-host.issue").read_text()


@needs_jq
def test_an_address_that_only_looks_alike_is_not_node_zero(tmp_path):
    env = sandbox(tmp_path, ip=f"echo '{ADDRESSES % 'fd00::55'}'")
    script = tmp_path / "usr/local/bin/set-node-zero.sh"
    script.write_text(script.read_text().replace("DEADLINE=60", "DEADLINE=0"))
    subprocess.run(["bash", script], env=env, check=True, capture_output=True)
    assert not (tmp_path / "etc/assisted/node0").exists()
    said = (tmp_path / "etc/issue.d/60-rendezvous-host.issue").read_text()
    assert ", 10.0.0.5, fd00::55) is not the rendezvous host. The rendezvous host is at fd00::5." in said


@needs_jq
def test_a_host_without_an_address_says_so(tmp_path):
    env = sandbox(tmp_path, ip="""echo '[{"ifname":"ens4","addr_info":[{"local":"fe80::1","scope":"link"}]}]'""")
    script = tmp_path / "usr/local/bin/set-node-zero.sh"
    script.write_text(script.read_text().replace("DEADLINE=60", "DEADLINE=0"))
    subprocess.run(["bash", script], env=env, check=True, capture_output=True)
    said = (tmp_path / "etc/issue.d/60-rendezvous-host.issue").read_text()
    assert ", no address in time) is not the rendezvous host" in said


# bash counts SECONDS by the clock: a clock that was set a day ahead since the script began.
CLOCK_WAS_SET = {"SECONDS": "86400"}


def test_bash_counts_its_seconds_by_the_clock():
    """The tests below stand on this: SECONDS may be anything, whatever time has passed."""
    done = subprocess.run(["bash", "-c", "echo $SECONDS"], env={**os.environ, **CLOCK_WAS_SET}, capture_output=True)
    assert int(done.stdout) >= 86400


@needs_jq
def test_node_zero_is_found_though_the_clock_was_set_while_its_link_came_up(tmp_path):
    late = f"[ -e $STATE/asked ] && echo '{ADDRESSES % 'fd00::5'}' || {{ touch $STATE/asked; echo '[]'; }}"
    env = sandbox(tmp_path, ip=late) | CLOCK_WAS_SET
    subprocess.run(["bash", tmp_path / "usr/local/bin/set-node-zero.sh"], env=env, check=True, capture_output=True)
    assert (tmp_path / "etc/assisted/node0").exists()


def waiting_for_the_service(tmp_path, seconds):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        env = sandbox(tmp_path, systemctl="echo inactive") | CLOCK_WAS_SET
        env_file = tmp_path / "etc/assisted/rendezvous-host.env"
        env_file.write_text(env_file.read_text().replace("NODE_ZERO_IP=fd00::5", "NODE_ZERO_IP=127.0.0.1"))
        env["SERVICE_PORT"] = str(listener.getsockname()[1])
        argv = ["bash", tmp_path / "usr/local/bin/wait-for-assisted-service.sh", str(seconds)]
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_service_is_waited_for_as_long_as_was_said_though_the_clock_was_set(tmp_path):
    done = waiting_for_the_service(tmp_path, 2)
    assert done.returncode == 1
    assert "did not become ready in 2 s: inactive" in done.stderr or "in 3 s: inactive" in done.stderr, done.stderr


# A service in a script: it tells its state from files, and starts on POST.
CURL = r"""
url="${@: -1}"; method=GET
while [ $# -gt 0 ]; do
    [ "$1" = --request ] && method=$2
    [ "$1" = --config ] && cat "$2" >>"$STATE/auth"
    shift
done
echo "$method $url" >>"$STATE/requests"
status=$(cat "$STATE/status")
case "$method $url" in
    *actions/install) echo preparing-for-installation >"$STATE/status" ;;
    *"/clusters") echo '[{"id":"c1"}]' ;;
    *"/infra-envs") echo '[{"id":"i1"}]' ;;
    *"/hosts") cat "$STATE/hosts" ;;
    *"/clusters/c1?exclude-hosts=true")
        echo "{\"status\":\"$status\"}"
        [ "$status" = preparing-for-installation ] && echo installed >"$STATE/status" ;;
esac
exit 0
"""
SLEEP = r"""
n=$(cat "$STATE/turn" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >"$STATE/turn"
cat "$STATE"/etc/issue.d/* >>"$STATE/issues"
[ -f "$STATE/then$n" ] && . "$STATE/then$n"
[ "$n" -lt 20 ] || kill $PPID
"""


@needs_jq
def test_installation_starts_when_exactly_the_expected_hosts_are_ready_and_configured(tmp_path):
    env = sandbox(tmp_path, curl=CURL, sleep=SLEEP, systemctl='[ -f "$STATE/applied" ]')
    (tmp_path / "usr/local/share/start-cluster/start-cluster.env").write_text(
        "REQUIRED_MASTER_NODES=1\nREQUIRED_ARBITER_NODES=0\nREQUIRED_WORKER_NODES=1\n"
    )
    first, both = '[{"status":"known"}]', '[{"status":"known"},{"status":"known"}]'
    (tmp_path / "status").write_text("insufficient")
    (tmp_path / "hosts").write_text(first)
    (tmp_path / "then1").write_text('echo ready >"$STATE/status"')
    (tmp_path / "then2").write_text(f"echo '{both}' >\"$STATE/hosts\"")
    (tmp_path / "then3").write_text('touch "$STATE/applied"')
    script = tmp_path / "usr/local/bin/start-cluster-installation.sh"
    subprocess.run(["bash", script], env=env, check=True, capture_output=True, timeout=60)
    requests = (tmp_path / "requests").read_text().splitlines()
    base = "https://[fd00::5]:8090/api/assisted-install/v2/"
    assert [line for line in requests if line.startswith("POST")] == [f"POST {base}clusters/c1/actions/install"]
    issues = (tmp_path / "issues").read_text()
    for words in ("1 of 2 are ready", "1 of exactly 2", "disk hints", "has been started"):
        assert words in issues
    assert set((tmp_path / "auth").read_text().splitlines()) == {'header = "Authorization: tok.en"'}
    assert "tok.en" not in "".join(requests), "the token shows in no command line"


@needs_jq
def test_a_host_is_added_when_it_is_ready_and_configured(tmp_path):
    """It registers, lacks something, is ready, and at last its role and disk are set."""
    curl = r"""
url="${@: -1}"
case "$* " in
    *actions/install*) echo installed >>"$STATE/done" ;;
    *"/infra-envs ") echo '[{"id":"i1"}]' ;;
    *"/hosts ")
        cat "$STATE"/etc/issue.d/* >>"$STATE/issues" 2>/dev/null
        n=$(cat "$STATE/turn" 2>/dev/null || echo 0)
        echo $((n + 1)) >"$STATE/turn"
        [ "$n" -lt 4 ] || touch "$STATE/applied"
        case $n in
            0) echo '[]' ;;
            1) exit 22 ;;
            2) echo '[{"id":"h1","status":"insufficient","status_info":"no disk"}]' ;;
            *) echo '[{"id":"h1","status":"known","status_info":""}]' ;;
        esac ;;
esac
"""
    env = sandbox(tmp_path, curl=curl, systemctl='[ -f "$STATE/applied" ]')
    (tmp_path / "etc/assisted/add-nodes.env").write_text("CLUSTER_NAME=ostest\n")
    script = tmp_path / "usr/local/bin/add-node.sh"
    subprocess.run(["bash", script], env=env, check=True, capture_output=True, timeout=60)
    assert (tmp_path / "done").read_text() == "installed\n"
    issues = (tmp_path / "issues").read_text()
    for words in ("to register", "join the cluster ostest: it is insufficient. no disk", "role and disk are set"):
        assert words in issues


def test_expired_tokens_are_told_on_the_console(tmp_path):
    env = sandbox(tmp_path)
    script, shown = tmp_path / "usr/local/bin/agent-auth-token-status.sh", tmp_path / "etc/issue.d/65-token.issue"
    (tmp_path / "etc/assisted/add-nodes.env").write_text("AUTH_TOKEN_EXPIRY=2099-01-01T00:00:00Z\n")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["bash", script], env=env, check=True, capture_output=True, timeout=2)
    assert not shown.exists()
    (tmp_path / "etc/assisted/add-nodes.env").write_text("AUTH_TOKEN_EXPIRY=2026-01-01T00:00:00Z\n")
    subprocess.run(["bash", script], env=env, check=True, capture_output=True, timeout=60)
    assert "expired at 2026-01-01T00:00:00Z" in shown.read_text()


@needs_jq
@pytest.mark.parametrize(("node_zero", "every"), [(True, "1"), (False, "5")], ids=["on-node0", "elsewhere"])
def test_agent_waits_for_the_service_then_runs_with_its_infra_env(tmp_path, node_zero, every):
    """A listener appears late, and has no infra-env at first."""
    curl = r"""
n=$(cat "$STATE/calls" 2>/dev/null || echo 0); echo $((n + 1)) >"$STATE/calls"
[ "$n" -gt 0 ] && echo '[{"id":"i1"}]' || { echo "curl: (22) not yet" >&2; exit 22; }
"""
    env = sandbox(tmp_path, curl=curl, podman='echo "$@" >>"$STATE/podman"; [ "$1" != image ]')
    (tmp_path / "run").mkdir()
    (tmp_path / "usr/local/share/assisted-service").mkdir()
    (tmp_path / "usr/local/share/assisted-service/agent-images.env").write_text(
        "AGENT_DOCKER_IMAGE=a.example/b@sha256:0\n"
    )
    env_file = tmp_path / "etc/assisted/rendezvous-host.env"
    env_file.write_text(env_file.read_text().replace("NODE_ZERO_IP=fd00::5", "NODE_ZERO_IP=127.0.0.1"))
    if node_zero:
        (tmp_path / "etc/assisted/node0").touch()
    for name in ("start-agent.sh", "common.sh"):
        script = tmp_path / "usr/local/bin" / name
        text = script.read_text().replace("/run/start-agent", f"{tmp_path}/run/start-agent")
        script.write_text(text.replace('pause "$every"', 'echo "$every" >>"$STATE/pauses"; pause 0.1'))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        env["SERVICE_PORT"] = str(listener.getsockname()[1])
        script = tmp_path / "usr/local/bin/start-agent.sh"
        agent = subprocess.Popen(["bash", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with pytest.raises(subprocess.TimeoutExpired):
            agent.wait(0.7)
        assert not (tmp_path / "calls").exists(), "nobody is called before somebody listens"
        listener.listen()
        out, _ = agent.communicate(timeout=30)
    assert agent.returncode == 0, out
    assert set((tmp_path / "pauses").read_text().split()) == {every}
    *_, run = (tmp_path / "podman").read_text().splitlines()
    assert run.startswith("run ")
    assert "--infra-env-id i1 --agent-version a.example/b@sha256:0 --cacert /opt/agent/tls/ca.crt" in run
    assert "tok.en" not in run


def look_at_the_status(
    tmp_path: Path,
    last_lines: str,
    *,
    listens: bool = False,
    agent: str = "active",
    node_zero: bool = True,
    **environment: str,
) -> str:
    """One look of install-status.sh, where these are the last lines of each unit's journal; sshd's banner."""
    states = f'for unit in "${{@:2}}"; do [ "$unit" = agent.service ] && echo {agent} || echo active; done'
    # What podman itself writes to the journal of a container that has ended comes after that one's last words.
    events = "printf 'container %s 6b6c22\\n' died cleanup"
    journal = f'[[ " $* " = *" _TRANSPORT=stdout "* ]] && cat "$STATE/journal" || {events}'
    env = sandbox(tmp_path, systemctl=states, journalctl=journal)
    (tmp_path / "journal").write_text(last_lines + "\n")
    env_file = tmp_path / "etc/assisted/rendezvous-host.env"
    env_file.write_text(env_file.read_text().replace("NODE_ZERO_IP=fd00::5", "NODE_ZERO_IP=127.0.0.1"))
    if node_zero:
        (tmp_path / "etc/assisted/node0").touch()
    script = tmp_path / "usr/local/bin/install-status.sh"
    script.write_text(script.read_text().replace('pause "$every"', "exit 0"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if listens:
            listener.listen()
        env["SERVICE_PORT"] = str(listener.getsockname()[1])
        subprocess.run(["bash", script], env=env | environment, check=True, capture_output=True, timeout=30)
    return (tmp_path / "run/agent-installer/banner").read_text()


PULL_AGAIN = (
    'time="2026-11-25T16:06:29Z" level=warning msg="Failed, retrying in 1s ... (1/3). Error: initializing source '
    'docker://r.example/a@sha256:0: pinging container registry r.example: dial tcp: lookup r.example: i/o timeout"'
)


def test_a_pull_that_fails_is_on_the_console_and_in_the_banner(tmp_path):
    output = look_at_the_status(tmp_path, PULL_AGAIN)
    want = "Images cannot be pulled: assisted-service.service: "
    assert output.startswith(f"install-status: {want}")
    assert output.endswith('lookup r.example: i/o timeout"\n')
    assert (tmp_path / "etc/issue.d/75-agent-images.issue").read_text().startswith(want)


def test_a_pull_through_a_proxy_names_it_without_its_password(tmp_path):
    lines = (
        f"Error: initializing source docker://r.example/a: Access violation\n{PULL_AGAIN.split(' ')[0]} Trying to pull"
    )
    output = look_at_the_status(tmp_path, lines, HTTPS_PROXY="http://me:p%40ss@192.0.2.1:3128")
    assert output == (
        "install-status: Images cannot be pulled through the proxy http://192.0.2.1:3128: assisted-service.service: "
        "initializing source docker://r.example/a: Access violation\n"
    )


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (
            "dial tcp: lookup r.example on 192.0.2.53:53: read udp 192.0.2.9:41373->192.0.2.53:53: i/o timeout",
            "DNS server 192.0.2.53 does not answer (asked for r.example): ",
        ),
        (
            "dial tcp: lookup r.example on [fd00::1]:53: no such host",
            "DNS server [fd00::1] does not know r.example: ",
        ),
        ("unauthorized: authentication required", "the registry rejects the pull secret: "),
        ("x509: certificate signed by unknown authority", "the registry's certificate is not trusted here: "),
        (
            "x509: certificate has expired or is not yet valid: current time 2026",
            "the registry's certificate is out of date, or this clock is wrong: ",
        ),
        ("manifest unknown", "the registry has no such image: "),
        (
            "dial tcp 192.0.2.5:5000: connect: no route to host",
            "the registry at 192.0.2.5:5000 does not answer: ",
        ),
        (
            "proxyconnect tcp: dial tcp 192.0.2.5:3128: connect: connection refused",
            "the proxy at 192.0.2.5:3128 does not answer: ",
        ),
        # Of the source, which is tried last, a network without a way out says nothing new.
        (
            "(Mirrors also failed: [m.example/a: dial tcp 192.0.2.5:5000: connect: connection refused]): quay.io/a: "
            "dial tcp: lookup quay.io on 192.0.2.53:53: no such host",
            "the registry at 192.0.2.5:5000 does not answer: ",
        ),
        (
            "(Mirrors also failed: [m.example/a: dial tcp: lookup m.example on [fd00::1]:53: no such host]): "
            "quay.io/a: unauthorized",
            "DNS server [fd00::1] does not know m.example: ",
        ),
    ],
)
def test_the_cause_of_a_failed_pull_comes_first(tmp_path, reason, cause):
    # The names in front of it may be longer than a console's line, and than what is kept.
    source = f"initializing source docker://r.example/{'x' * 700}: pinging container registry r.example: "
    output = look_at_the_status(tmp_path, f"Error: {source}{reason}")
    assert output.startswith(f"install-status: Images cannot be pulled: assisted-service.service: {cause}initializing ")
    # As wait-for reads it
    line = remedies.remedy(output, Places())
    assert line.startswith(
        ("DNS server", "r.example ", "The certificate of r.example ", "The proxy at 192.0.2.5:3128 ")
    )
    assert ("out of date" in cause) == ("out of date" in line)


@pytest.mark.parametrize("alive", [True, False])
def test_dns_servers_that_do_not_answer_are_named_before_podman_does(tmp_path, alive):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/resolv.conf").write_text("search x.example\nnameserver 127.0.0.2\nnameserver 127.0.0.1\n")
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        questions = []

        def serve() -> None:
            question, peer = server.recvfrom(512)
            questions.append(question)
            server.sendto(question[:2] + b"\x81\x85" + question[4:], peer)  # REFUSED is an answer, too

        if alive:
            threading.Thread(target=serve, daemon=True).start()
        output = look_at_the_status(tmp_path, "", DNS_PORT=str(server.getsockname()[1]))
    expected = "" if alive else "install-status: DNS server 127.0.0.2 does not answer, nor does 127.0.0.1\n"
    assert output == expected
    if alive:
        assert questions == [bytes.fromhex("1234 0100 0001 0000 0000 0000 00 0002 0001")]
    else:
        assert remedies.remedy(output, Places()).startswith("DNS server 127.0.0.2 does not answer: ")


def test_the_mirrors_cause_comes_before_the_sources(tmp_path):
    """A pull secret that the mirror rejects was told as a DNS server's fault, which knows no source."""
    mirror = "reading manifest sha256:0 in mirror.lab:5000/ocp: unauthorized: authentication required"
    unknown = "dial tcp: lookup quay.io on 192.0.2.1:53: no such host"
    also = f"(Mirrors also failed: [mirror.lab:5000/ocp@sha256:0: {mirror}]): quay.io/ocp@sha256:0: {unknown}"
    output = look_at_the_status(tmp_path, f"Error: initializing source docker://quay.io/ocp@sha256:0: {also}")
    assert "pulled: assisted-service.service: the registry rejects the pull secret: initializing " in output
    assert remedies.remedy(output, Places()).startswith("mirror.lab:5000 rejects the pull secret: ")


SPOILT = "writing blob: happened during read: Digest did not match, expected sha256:1, got sha256:2"
NOT_OURS = (
    "choosing an image from manifest list docker://r.example/a:1: no image found in image index for architecture "
    'amd64, variant "", OS linux'
)
#: Words of podman 4.3 and of its runtimes, crun 1.8 and runc 1.1.
NO_PROGRAM = (
    "crun: executable file `/usr/bin/agent` not found in $PATH: No such file or directory: OCI runtime attempted to "
    "invoke a command that was not found"
)
CRUN = '{"msg":"%s","level":"error","time":"2026-11-26T17:48:52.674615Z"}'
FOREIGN = "exec container process `/usr/bin/agent`: Exec format error"
NO_LOADER = "exec container process (missing dynamic library?) `/usr/bin/agent`: No such file or directory"
RUNC = 'runc create failed: unable to start container process: exec: "/usr/bin/agent": permission denied'
AGAIN = "waiting for an infra-env at https://192.0.2.1:8090/\nagent"


@pytest.mark.parametrize("node_zero", [True, False], ids=["on-node0", "elsewhere"])
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (f"Error: {SPOILT}", f"pulled: agent.service: {SPOILT}"),
        (f"Error: {NOT_OURS}", f"pulled: agent.service: {NOT_OURS}"),
        (f"Error: {NO_PROGRAM}", f"run: agent.service: {NO_PROGRAM}"),
        (CRUN % FOREIGN, f"run: agent.service: {FOREIGN}"),
        (f"{CRUN % NO_LOADER}\n{AGAIN}", f"run: agent.service: {NO_LOADER}"),
        ("exec /usr/bin/agent: exec format error", "run: agent.service: exec /usr/bin/agent: exec format error"),
        (f"{RUNC}\nError: container create failed\n, error found\n{AGAIN}", f"run: agent.service: {RUNC}"),
    ],
    ids=["spoilt", "not-ours", "no-program", "foreign", "no-loader", "foreign-runc", "not-executable-runc"],
)
def test_an_agent_whose_image_is_spoilt_is_told_though_the_service_listens(tmp_path, lines, told, node_zero):
    assert look_at_the_status(tmp_path, lines, listens=True, agent="activating", node_zero=node_zero) == (
        "install-status: Not running: agent.service(activating). See journalctl -u UNIT.\n"
        f"install-status: Images cannot be {told}\n"
    )


def test_a_pull_that_succeeded_in_the_end_is_not_shown(tmp_path):
    lines = f"{PULL_AGAIN}\n5b87bdf48d56\nwaiting for an infra-env at https://192.0.2.1:8090/"
    assert look_at_the_status(tmp_path, lines) == ""


def test_a_host_that_is_not_the_rendezvous_host_complains_of_its_own_agent_alone(tmp_path):
    """Whatever the other one's service does, and though nobody listens there yet."""
    assert look_at_the_status(tmp_path, PULL_AGAIN, node_zero=False).startswith(
        "install-status: Images cannot be pulled: agent.service: initializing source docker://r.example/a@sha256:0: "
    )
    unit = (BIN.parent / "systemd/install-status.service").read_text()
    assert "Condition" not in unit
    assert "After=node-zero.service\n" in unit, "which host it is decides what it looks at"


def test_a_retried_pull_is_shown_until_the_next_message(tmp_path):
    """The agent's unit is active while podman pulls once more: the console and the banner do not flap."""
    env = sandbox(tmp_path, systemctl='. "$STATE/look"', journalctl='cat "$STATE/journal"')
    (tmp_path / "journal").write_text("Error: writing blob: Digest did not match\n")
    (tmp_path / "etc/assisted/node0").touch()
    for number, state in enumerate(("activating", "active", "active", "active")):
        said = "waiting for an infra-env\\nabc" if number > 1 else ""
        more = f"printf '{said}\\n' >\"$STATE/journal\"" if said else ":"
        (tmp_path / f"look{number}").write_text(f"printf 'active\\n{state}\\n'\n{more}\n")
    script = tmp_path / "usr/local/bin/install-status.sh"
    after = (
        f'cp "{tmp_path}/run/agent-installer/banner" "{tmp_path}/banner$((n))"; n=$((n + 1)); [ $n -lt 4 ] || exit 0; '
        f'cp "{tmp_path}/look$n" "{tmp_path}/look"'
    )
    text = script.read_text().replace('pause "$every"', after).replace("service_listens ||", ": ||")
    script.write_text("n=0\n" + text)
    (tmp_path / "look").write_text((tmp_path / "look0").read_text())
    done = subprocess.run(["bash", script], env=env, check=True, capture_output=True, text=True, timeout=30)
    notes = ["Images cannot be pulled" in (tmp_path / f"banner{number}").read_text() for number in range(4)]
    assert notes == [True, True, False, False]
    assert done.stdout.count("Images cannot be pulled") == 1


@pytest.mark.parametrize(
    ("line", "listens"),
    [
        (PULL_AGAIN, True),
        ("Trying to pull r.example/a@sha256:0...", False),
        ("Error: no container with that name", False),
    ],
)
def test_lines_that_are_no_failed_pull_are_not_shown(tmp_path, line, listens):
    assert look_at_the_status(tmp_path, line, listens=listens) == ""
    assert not (tmp_path / "etc/issue.d/75-agent-images.issue").exists()
