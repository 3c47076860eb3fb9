"""The promises of drivers (docs/writing-a-driver.md), kept through every vendor's BMC."""

import os
from http.server import SimpleHTTPRequestHandler

import msgspec
import pytest
from sushy import connector
from werkzeug.test import Client

from drivers.container import Request
from drivers.errors import ConnectionFailedError, DriverError, MediaError
from drivers.protocols import Boot, BootDevice, Power, PowerState, VirtualMedia
from drivers.redfish import service, system
from installer.common.redfish import connection, media
from lab.bmcs.front import Front
from lab.bmcs.profile import profile, working
from lab.daemons import httpd
from lab.testing.bmcs import PASSWORD, USER, Clock, Running, running

# BMCs do not verify whom they fetch images from (sushy-tools:resources/vmedia.py).
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]
WORKING = working()
#: The same without TLS, which test_a_wrong_password has with each of them.
UNENCRYPTED = [pytest.param((name, False), id=name) for name in WORKING]


def known(bmc: Running):
    """Return the machine by its id: without one, as in the first test, it takes three times as many requests."""
    return bmc.service().system(bmc.profile.system, "master-0")


@pytest.fixture
def clock(monkeypatch):
    """Provide the clock of the BMC, of the driver and of sushy."""
    clock = Clock()
    for module in (connection, media, service, system, connector):
        monkeypatch.setattr(module, "time", clock)
    return clock.monotonic


@pytest.fixture
def bmc(request, tmp_path, clock):
    """Provide the BMC of a profile, with its delays; the power-off of one that takes its time is a timer's."""
    name, encrypted = request.param if isinstance(request.param, tuple) else (request.param, True)
    slow = profile(name)
    quick = msgspec.structs.replace(slow, power=msgspec.structs.replace(slow.power, off_seconds=0.1))
    with running(name, tmp_path, quick if slow.power.off_seconds else slow, encrypted=encrypted, clock=clock) as bmc:
        yield bmc


@pytest.fixture
def image(bmc, serve, tmp_path):
    """Provide the URL of an image, in a form that this BMC reads."""
    (tmp_path / "some.iso").write_bytes(b"no image at all" * 4096)
    (tmp_path / "state/some.iso").write_bytes(b"no image at all" * 4096)
    # Old enough to be told from other versions, however fast this machine is: a second insert downloads nothing.
    os.utime(tmp_path / "some.iso", (0, 0))
    schemes = bmc.profile.media.schemes
    if "http" in schemes:
        yield f"{serve(SimpleHTTPRequestHandler)}/some.iso"
    elif "nfs" in schemes:
        yield "nfs://files.example/export/some.iso"
    else:
        with httpd.serving(tmp_path, "127.0.0.1", 0, (tmp_path / "server.crt", tmp_path / "server.key")) as port:
            yield f"https://127.0.0.1:{port}/some.iso"


@pytest.mark.parametrize("bmc", UNENCRYPTED, indirect=True)
def test_a_machine_is_powered_and_boots_what_is_inserted(bmc: Running, image):
    assert bmc.service().system("", "master-0").state() is PowerState.OFF
    machine = known(bmc)
    for protocol in (Power, VirtualMedia, Boot):
        assert isinstance(machine, protocol)
    assert machine.inserted() is None
    machine.insert(image)
    assert machine.inserted() == image
    asked = machine.boot_once(BootDevice.CD)
    machine.on()
    machine.on()
    assert machine.state() is PowerState.ON
    assert bmc.machine.booted == ["cdrom"]
    kept = machine.booted()
    once = bmc.profile.boot.once
    assert (asked, kept) == (once != "ignored", once == "kept")
    # It is installed, and starts again by itself: from its disk, whatever the BMC has made of Once.
    bmc.machine.installed = True
    bmc.machine.boot()
    assert bmc.machine.booted == ["cdrom", "hd"]
    machine.eject()
    assert machine.inserted() is None
    machine.eject()
    machine.off()
    assert machine.state() is PowerState.OFF
    machine.off()


def test_a_machine_that_keeps_its_order_until_it_is_off_boots_its_cd_once_and_not_for_good(tmp_path):
    """A virtual one: it would be installed for ever."""
    with running("xcc", tmp_path, encrypted=False, restarts=False) as bmc:
        machine = known(bmc)
        bmc.machine.ask(Request(op="media", machine="master-0", value="/some.iso"))
        bmc.machine.installed = True
        assert machine.boot_once(BootDevice.CD)
        machine.cycle()
        assert not machine.booted()
        machine.cycle()
        machine.set_first(BootDevice.CD)
        machine.cycle()
    assert bmc.machine.booted == ["cdrom", "hd", "hd"]


def test_what_is_asked_for_once_stays_asked_for_while_a_virtual_machine_restarts_by_itself(tmp_path):
    with running("xcc", tmp_path, encrypted=False, restarts=False) as bmc:
        machine = known(bmc)
        bmc.machine.ask(Request(op="media", machine="master-0", value="/some.iso"))
        bmc.machine.installed = True
        machine.on()
        assert machine.boot_once(BootDevice.CD)
        path = f"{bmc.front.state.system}/Actions/ComputerSystem.Reset"
        Client(bmc.front).post(path, json={"ResetType": "GracefulRestart"}, auth=(USER, PASSWORD))
        assert machine.first() is BootDevice.CD
        machine.cycle()
        assert machine.first() is not BootDevice.CD
    assert bmc.machine.booted == ["hd", "hd", "cdrom"]


@pytest.mark.parametrize("bmc", UNENCRYPTED, indirect=True)
def test_an_image_takes_the_place_of_another(bmc: Running, image):
    machine = known(bmc)
    machine.insert(image)
    machine.insert(image)
    assert machine.inserted() == image
    with pytest.raises(MediaError, match=r"insert .*missing"):
        machine.insert(image.replace("some.iso", "missing.iso"))
    assert machine.inserted() is None


@pytest.mark.parametrize("bmc", ["ilo", "xcc", "fujitsu"], indirect=True)
def test_a_bmc_that_is_started_again_knows_what_its_drive_holds(bmc: Running, image):
    client = known(bmc)
    client.insert(image)
    state = bmc.front.state
    again = Front(bmc.profile, state.name, state.inner.application, state.account)
    vars(bmc.front).update(vars(again))
    assert (client.inserted() or "").endswith("/some.iso")


@pytest.mark.parametrize("bmc", UNENCRYPTED, indirect=True)
def test_the_boot_target_can_be_set_for_good(bmc: Running):
    machine = known(bmc)
    for device in (BootDevice.NETWORK, BootDevice.DISK, BootDevice.CD):
        machine.set_first(device)
        assert machine.first() is device


@pytest.mark.parametrize("bmc", [("nobody", False)], indirect=True)
def test_a_machine_is_switched_off_and_on_at_once(bmc: Running):
    """By a BMC that takes time to switch it off, and answers nothing for a while after that."""
    machine = known(bmc)
    for _ in range(2):
        machine.cycle()
        assert machine.state() is PowerState.ON
    assert len(bmc.machine.booted) == 2


@pytest.mark.parametrize(("name", "status"), [("idrac", 503), ("idrac10", 409), ("ilo", 400)])
def test_a_bmc_that_says_not_yet_is_asked_again(name, status, tmp_path, clock):
    with running(name, tmp_path, encrypted=False, clock=clock) as bmc:
        machine = known(bmc)
        machine.on()
        machine.cycle()
        assert machine.state() is PowerState.ON
        assert status in bmc.statuses


# -- what cannot be done is told in one line ---------------------------------------------------------------------------


def one_line(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("master-0: BMC https://127.0.0.1:")
    return text


@pytest.mark.parametrize("bmc", WORKING, indirect=True)
def test_a_wrong_password(bmc: Running):
    with pytest.raises(ConnectionFailedError) as caught:
        bmc.service("wrong").system("", "master-0").state()
    assert "refuses the account (401)" in one_line(caught)


@pytest.mark.parametrize("bmc", ["bare"], indirect=True)
def test_a_bmc_without_virtual_media(bmc: Running):
    with pytest.raises(MediaError) as caught:
        known(bmc).insert("http://files.example/some.iso")
    assert "no virtual CD drive" in one_line(caught)


@pytest.mark.parametrize("bmc", ["liar"], indirect=True)
def test_a_bmc_that_says_that_it_inserted_and_did_not(bmc: Running, image, monkeypatch):
    monkeypatch.setattr("installer.common.redfish.media.BUSY_SECONDS", 1.0)
    with pytest.raises(MediaError) as caught:
        known(bmc).insert(image)
    assert "the BMC took it, but the drive holds nothing" in one_line(caught)


@pytest.mark.parametrize(
    ("bmc", "url", "cause"),
    [
        ("supermicro", "https://files.example/some.iso", "does not support the specified protocol https"),
        ("xcc", "https://files.example/some.iso", "does not support the specified protocol https"),
        ("openbmc", "http://files.example/some.iso", "does not support the specified protocol http"),
        ("fujitsu", "http://files.example/some.iso", "NFS and SMB shares only"),
        ("nobody", f"http://files.example/{'x' * 255}.iso", "exceeds the length limit 255"),
    ],
    indirect=["bmc"],
)  # fmt: skip
def test_an_address_that_the_bmc_does_not_read(bmc: Running, url, cause):
    with pytest.raises(MediaError) as caught:
        known(bmc).insert(url)
    assert cause in one_line(caught)


@pytest.mark.parametrize("bmc", ["nobody"], indirect=True)
def test_a_bmc_with_old_tls(bmc: Running):
    with pytest.raises(ConnectionFailedError) as caught:
        bmc.service(tls="1.2").system("", "master-0").state()
    assert "TLS: it speaks none of the versions that are allowed here" in one_line(caught)


@pytest.mark.parametrize("bmc", ["idrac"], indirect=True)
def test_a_certificate_of_another_authority(bmc: Running, tmp_path):
    (other := tmp_path / "other").mkdir()
    with running("idrac", other) as second:
        client = system.Service(f"{bmc.url}/redfish/v1/", "admin", "right", ca=second.ca, timeout=5)
        with pytest.raises(ConnectionFailedError) as caught:
            client.system("", "master-0").state()
    assert "TLS: its certificate is not accepted" in one_line(caught)


@pytest.mark.parametrize("bmc", ["idrac"], indirect=True)
def test_a_bmc_that_is_not_ready_for_longer_than_it_is_waited_for(bmc: Running):
    known(bmc).on()
    stopped = bmc.front.state.clock()
    bmc.front.state.clock = lambda: stopped  # the time of its reset never passes
    with pytest.raises(DriverError) as caught:
        bmc.service(patience=3).system("", "master-0").off()
    assert "still not ready after" in one_line(caught)
    assert "503: iDRAC is currently unable" in str(caught.value)


@pytest.mark.parametrize("bmc", ["ilo"], indirect=True)
def test_nobody_listens(bmc: Running):
    client = system.Service("https://127.0.0.1:1/redfish/v1/", "admin", "right", timeout=5)
    with pytest.raises(ConnectionFailedError) as caught:
        client.system("", "master-0").state()
    assert "nobody listens there" in one_line(caught)


# -- what the profiles do, seen past the driver ------------------------------------------------------------------------


@pytest.mark.parametrize("bmc", ["xcc", "fujitsu", "nobody"], indirect=True)
def test_a_change_without_entity_tag_is_refused(bmc: Running):
    path = f"/redfish/v1/Systems/{bmc.profile.system}"
    body = {"Boot": {"BootSourceOverrideTarget": "Hdd", "BootSourceOverrideEnabled": "Continuous"}}
    assert patch(bmc, path, body).status_code == 428
    assert patch(bmc, path, body, {"If-Match": '"another"'}).status_code == 412
    assert patch(bmc, path, body, {"If-Match": "*"}).status_code == 204


def patch(bmc: Running, path: str, body: object, headers: dict[str, str] | None = None):
    client = Client(bmc.front)
    auth = ("admin", "right") if "basic" in bmc.profile.logins else None
    more = dict(headers or {})
    if auth is None:
        session = client.post("/redfish/v1/SessionService/Sessions", json={"UserName": "admin", "Password": "right"})
        more["X-Auth-Token"] = session.headers["X-Auth-Token"]
    return client.patch(path, json=body, auth=auth, headers=more)
