"""Access to a BMC, the lab's own or a vendor's: accounts and sessions (DSP0266, "Sessions")."""

import pytest
from werkzeug.test import Client

from lab.bmcs.front import Front
from lab.bmcs.profile import profile
from lab.bmcs.shared import Shared
from lab.testing.bmcs import PASSWORD, USER, Clock, Contained, Memory, emulated

SESSIONS = "/redfish/v1/SessionService/Sessions"
SECRETS = {"UserName": USER, "Password": PASSWORD}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["lab", "idrac", "nobody"])
def client(request, tmp_path, clock):
    def account(user, password):
        return (user, password) == (USER, PASSWORD)

    with emulated(Contained(Memory()), tmp_path) as app:
        kind = profile(request.param)
        now = clock.monotonic
        front = Front(kind, "master-0", app, account, clock=now) if kind.system else Shared(app, account, clock=now)
        yield Client(front)


def seen(client, token):
    return client.get("/redfish/v1/Systems", headers={"X-Auth-Token": token}).status_code


def begin(client):
    answer = client.post(SESSIONS, json=SECRETS)
    assert answer.status_code == 201
    return answer.headers["X-Auth-Token"], answer.headers["Location"]


def test_a_session_is_found_used_and_ended(client):
    root = client.get("/redfish/v1/").get_json()
    assert root["Links"]["Sessions"]["@odata.id"] == SESSIONS
    token, place = begin(client)
    other, _ = begin(client)
    assert len(token) > 20
    assert token != other
    assert seen(client, token) == 200
    own = client.get(place, headers={"X-Auth-Token": token}).get_json()
    assert (own["@odata.id"], own["UserName"]) == (place, USER)
    assert token not in str(own)
    assert client.delete(place, headers={"X-Auth-Token": token}).status_code == 204
    assert (seen(client, token), seen(client, other)) == (401, 200)
    assert client.delete(place, headers={"X-Auth-Token": other}).status_code == 404


def test_a_session_that_nobody_uses_ends(client, clock, request):
    token, place = begin(client)
    other, _ = begin(client)
    service = client.get("/redfish/v1/SessionService", headers={"X-Auth-Token": token}).get_json()
    idle = profile(request.node.callspec.params["client"]).session_seconds
    assert service["SessionTimeout"] >= idle
    for _ in range(3):
        clock.sleep(idle * 0.9)
        assert seen(client, token) == 200
    # The other one has not been used for that long.
    assert seen(client, other) == 401
    members = client.get(SESSIONS, headers={"X-Auth-Token": token}).get_json()["Members"]
    assert members == [{"@odata.id": place}]
    clock.sleep(idle * 1.1)
    assert seen(client, token) == 401


@pytest.mark.parametrize("token", ["", "x", "é", "R" * 32, "\x7f" * 9000])
def test_an_unknown_token_is_none(client, token):
    begin(client)
    answer = client.get("/redfish/v1/Systems", headers={"X-Auth-Token": token})
    assert answer.status_code == 401
    assert answer.get_json()["error"]["@Message.ExtendedInfo"][0]["MessageId"] == "Base.1.8.NoValidSession"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({**SECRETS, "Password": "wrong"}, 401), ({**SECRETS, "UserName": "nobody"}, 401), ({"UserName": USER}, 401),
        ({**SECRETS, "Password": ["right"]}, 401), ({}, 401), ([], 400), ("x", 400),
    ],
)  # fmt: skip
def test_a_session_wants_the_account(client, body, status):
    answer = client.post(SESSIONS, json=body)
    assert answer.status_code == status
    assert "X-Auth-Token" not in answer.headers
    assert answer.get_json()["error"]["@Message.ExtendedInfo"][0]["Message"]


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_the_list_of_sessions_is_not_changed_itself(client, method):
    token, place = begin(client)
    headers = {"X-Auth-Token": token, "If-Match": "*"}
    for path in (SESSIONS, "/redfish/v1/SessionService", place)[: None if method != "DELETE" else 2]:
        answer = client.open(path, method=method, json={"SessionTimeout": 1}, headers=headers)
        assert answer.status_code == 405
    assert seen(client, token) == 200


@pytest.mark.parametrize(
    "login", ["", "Basic", "Basic !", "Basic eA==", "Bearer x", "Basic YWRtaW46cmlnaHQ=x", "Digest username=admin"]
)
def test_a_login_that_is_none_is_refused(client, login):
    answer = client.get("/redfish/v1/Systems", headers={"Authorization": login})
    assert answer.status_code == 401
    assert answer.is_json


@pytest.mark.parametrize("client", ["lab", "idrac"], indirect=True)
def test_the_account_itself_may_ask(client):
    assert client.get("/redfish/v1/Systems", auth=(USER, PASSWORD)).status_code == 200
    assert client.get("/redfish/v1/Systems", auth=(USER, "wrong")).status_code == 401


@pytest.mark.parametrize(
    "path", ["/redfish", "/redfish/v1", "/redfish/v1/", "/redfish/v1/odata", "/redfish/v1/$metadata"]
)
def test_what_anybody_may_read(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    head = client.head(path)
    assert (head.status_code, head.get_data()) == (200, b"")
    assert answer.headers["OData-Version"] == "4.0"


def drives_of(client, system, headers):
    for owner in (system, client.get(system, headers=headers).get_json()["Links"]["ManagedBy"][0]["@odata.id"]):
        media = client.get(owner, headers=headers).get_json().get("VirtualMedia")
        if media:
            members = client.get(media["@odata.id"], headers=headers).get_json()["Members"]
            return [member["@odata.id"] for member in members]
    raise AssertionError("it has no drives")


def test_a_head_is_answered_as_a_get_without_its_body(client):
    token, _ = begin(client)
    headers = {"X-Auth-Token": token}
    [system] = client.get("/redfish/v1/Systems", headers=headers).get_json()["Members"]
    drives = drives_of(client, system["@odata.id"], headers)
    for path in ("/redfish/v1/Systems", system["@odata.id"], f"{system['@odata.id']}/Storage/sata", *drives, SESSIONS):
        answer, head = client.get(path, headers=headers), client.head(path, headers=headers)
        assert (head.status_code, head.get_data()) == (200, b"")
        assert head.headers["Content-Type"] == answer.headers["Content-Type"]
