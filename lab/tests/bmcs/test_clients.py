"""BMCs as clients use them that are not ours: DMTF's redfish library with Tacklebox, redfishtool, curl and sushy."""

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
import redfish
import redfish_utilities as tacklebox
import sushy
from redfish.messages import RedfishOperationFailedError

from drivers.container import Request
from installer.common.ports import free_port
from lab import topology
from lab.bmcs.profile import profile, profiles
from lab.daemons import services
from lab.layout import Layout
from lab.testing.bmcs import PASSWORD, USER, Memory, Running, hurried, owned, running
from lab.waiting import wait_until

# Clients that were not told of the lab's authority do not verify.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]
# TLS 1.1 is more than an hour's work for some clients.
EVERY = [name for name in profiles() if name not in ("bare", "liar")]
# How a client has to name what it is after: the drive (None: any that takes a CD), and the CD as boot target.
DRIVES = {"lab": None, "idrac": None, "idrac10": "1", "ilo": None, "xcc": "EXT1", "supermicro": None}
TARGETS = {"supermicro": "UsbCd"}


@pytest.fixture
def bmc(request, tmp_path):
    """Provide a BMC of that profile without its delays, over plain HTTP."""
    with running(request.param, tmp_path, hurried(profile(request.param), 0), encrypted=False) as bmc:
        bmc.machine.installed = True
        yield bmc


@pytest.fixture
def image(serve, tmp_path):
    (tmp_path / "some.iso").write_bytes(b"no image at all")
    return f"{serve(SimpleHTTPRequestHandler)}/some.iso"


@pytest.fixture
def session(bmc):
    client = redfish.redfish_client(base_url=bmc.url, username=USER, password=PASSWORD)
    client.login(auth="session")
    yield client
    assert client.get("/redfish/v1/Systems").status == 200
    token = client.get_session_key()
    client.logout()
    again = redfish.redfish_client(base_url=bmc.url, sessionkey=token)
    assert again.get("/redfish/v1/Systems").status == 401


def overridden(session):
    boot = tacklebox.get_system_boot(session)
    return boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]


@pytest.mark.parametrize("bmc", EVERY, indirect=True)
def test_dmtfs_tacklebox_finds_a_machine_and_switches_it(bmc: Running, session):
    [identity] = tacklebox.get_system_ids(session)
    assert identity == (bmc.profile.system or bmc.machine.uuid)
    [chassis] = tacklebox.get_system_inventory(session)
    assert "DISK-0" in [drive["SerialNumber"] for drive in chassis["Drives"]]
    _, [parameter] = tacklebox.get_system_reset_info(session)
    assert {"On", "ForceOff", "ForceRestart", "GracefulShutdown"} <= set(parameter["AllowableValues"])
    for kind, state in (("On", "On"), ("ForceRestart", "On"), ("GracefulShutdown", "Off"), ("On", "On")):
        tacklebox.system_reset(session, reset_type=kind)
        assert tacklebox.get_system(session).dict["PowerState"] == state
    with pytest.raises(RedfishOperationFailedError, match=r"Base\.1"):
        tacklebox.system_reset(session, reset_type="Suspend")


@pytest.mark.parametrize("bmc", DRIVES, indirect=True)
def test_dmtfs_tacklebox_boots_an_image(bmc: Running, session, image, request):
    name = request.node.callspec.params["bmc"]
    drive, target = DRIVES[name], TARGETS.get(name, "Cd")
    tacklebox.insert_virtual_media(session, image, media_id=drive)
    [used] = [drive["Id"] for drive in tacklebox.get_virtual_media(session) if drive["Inserted"]]
    assert drive in (None, used)
    if name in ("idrac10", "supermicro"):
        # Tacklebox knows no Settings resource and no UsbCd.
        path = f"/redfish/v1/Systems/{bmc.profile.system}{'/Settings' * bmc.profile.boot.settings}"
        boot = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}
        assert session.patch(path, body={"Boot": boot}).status == 204
    else:
        tacklebox.set_system_boot(session, ov_target=target, ov_enabled="Once")
        assert overridden(session)[0] == target
        with pytest.raises(RedfishOperationFailedError, match="Floppy"):
            tacklebox.set_system_boot(session, ov_target="Floppy", ov_enabled="Once")
        assert overridden(session)[0] == target
    tacklebox.system_reset(session, reset_type="On")
    assert bmc.machine.booted == ["cdrom"]
    tacklebox.eject_virtual_media(session, used)
    assert bmc.machine.ask(Request(op="list"))[0].media == ""


def test_redfishtool_reads_and_sets(tmp_path):
    with running("lab", tmp_path) as bmc:

        def tool(*words, login="Session"):
            program = Path(sys.executable).with_name("redfishtool")
            argv = [program, "-r", bmc.url.partition("//")[2], "-u", USER, "-p", PASSWORD, "-S", "Always", "-A", login]
            argv = [sys.executable, *argv, *words]
            return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False).stdout

        assert bmc.machine.uuid in tool("Systems", "list", login="Basic")
        assert '"On"' not in tool("Systems", "-1", "reset", "On")
        assert bmc.machine.ask(Request(op="list"))[0].on
        assert '"BootSourceOverrideEnabled": "Once"' in tool("Systems", "-1", "setBootOverride", "Once", "Pxe")
        assert bmc.machine.ask(Request(op="list"))[0].first == "network"
        assert '"Members@odata.count": 1' in tool("SessionService", "Sessions")


@contextmanager
def started(layout, port):
    """Provide the lab's daemon of BMCs, as a lab starts it, at a port of the loopback interface; its account."""
    prepared = services.prepare(layout, "clients", None, None)
    [service] = [service for service in prepared.plan.services if service.name == "bmc"]
    config = Path(service.argv[-1])
    with config.open("a") as settings:
        settings.write(f"SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n")
    with subprocess.Popen(service.argv, env={**os.environ, **service.env}, stderr=subprocess.DEVNULL) as daemon:
        try:
            wait_until(lambda: listens(port), 60, "the BMC listens")
            yield prepared.credentials.bmc_user, prepared.credentials.bmc_password
        finally:
            daemon.kill()


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_curl_logs_in_and_out_of_the_daemon_that_labs_start(tmp_path):
    machine = Memory()
    layout = Layout(tmp_path / "lab", topology.sno().with_machines("container"))
    port = free_port()
    with started(layout, port) as (user, password), owned(machine, layout.machined):

        def curl(path, *words):
            url = f"https://127.0.0.1:{port}/redfish/v1/{path}"
            argv = ["curl", "-sS", "-i", "-m", "60", "--noproxy", "*", "--cacert", str(layout.ca), url, *words]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
            head, _, body = done.stdout.partition("\n\n")
            status, *fields = head.splitlines()
            return int(status.split()[1]), dict(field.split(": ", 1) for field in fields), body

        # As users type it: without a content type.
        login = json.dumps({"UserName": user, "Password": password})
        status, fields, _ = curl("SessionService/Sessions", "-d", login)
        assert status == 201
        token = ("-H", f"X-Auth-Token: {fields['X-Auth-Token']}")
        reset = f"Systems/{machine.uuid}/Actions/ComputerSystem.Reset"
        assert curl(reset, *token, "-d", '{"ResetType": "On"}')[0] == 204
        assert machine.ask(Request(op="list"))[0].on
        status, _, body = curl(reset, *token, "-d", '{"ResetType": "Explode"}')
        assert status == 400
        assert "Explode" in json.loads(body)["error"]["@Message.ExtendedInfo"][0]["Message"]
        assert curl(fields["Location"].removeprefix("/redfish/v1/"), *token, "-X", "DELETE")[0] == 204
        assert curl("Systems", *token)[0] == 401
        assert curl("Systems", "-u", f"{user}:{password}")[0] == 200
        assert curl("Systems", "-u", f"{user}:{password}x")[0] == 401
    log = [json.loads(line) for line in (layout.log / "bmc-requests.jsonl").read_text().splitlines()]
    assert [(entry["method"], entry["status"]) for entry in log] == [
        ("POST", 201), ("POST", 204), ("POST", 400), ("DELETE", 204), ("GET", 401), ("GET", 200), ("GET", 401),
    ]  # fmt: skip
    assert password not in str(log)
    assert fields["X-Auth-Token"] not in str(log)


@pytest.mark.parametrize("bmc", ["lab"], indirect=True)
def test_sushy_uses_a_session_of_the_labs_bmc(bmc: Running):
    root = sushy.Sushy(f"{bmc.url}/redfish/v1/", auth=sushy.auth.SessionAuth(USER, PASSWORD))
    [system] = root.get_system_collection().get_members()
    assert [drive.capacity_bytes for drive in system.storage.get_members()[0].drives] == [10 << 30]
    assert system.simple_storage.max_size_bytes == 10 << 30
    with pytest.raises(sushy.exceptions.InvalidParameterValueError):
        system.set_system_boot_options(target=sushy.BOOT_SOURCE_TARGET_UEFI_HTTP)
    system.set_system_boot_options(enabled=sushy.BOOT_SOURCE_ENABLED_DISABLED)
