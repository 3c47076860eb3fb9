"""Requests to the API: what comes back, and what each refusal is."""

import copy
import logging

import pytest

from installer.errors import ConfigError
from installer.hub.kube.api import Api, Conflict, Gone, Invalid, KubeError, NotFound, Unauthorized, Unreachable
from installer.hub.kube.kinds import AGENT, CLUSTER_IMAGE_SET, INFRA_ENV, SECRET, Key, frozen
from installer.testing.hub.apiserver import ApiServer, api_server

KEY = Key("edge", "one")


@pytest.fixture(name="server")
def fixture_server():
    with api_server() as server:
        yield server


def test_an_object_is_made_read_changed_and_removed(server):
    api = server.api()
    made = api.create(INFRA_ENV, INFRA_ENV.new(KEY, spec={"sshAuthorizedKey": "a", "proxy": {"noProxy": "b"}}))
    assert api.get(INFRA_ENV, KEY) == made
    changed = api.patch(INFRA_ENV, KEY, {"spec": {"proxy": None}})
    assert changed["spec"] == {"sshAuthorizedKey": "a"}
    assert changed["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        api.update(INFRA_ENV, made)
    with_status = api.update_status(INFRA_ENV, changed | {"status": {"isoDownloadURL": ""}, "spec": {}})
    assert (with_status["spec"], with_status["status"]) == ({"sshAuthorizedKey": "a"}, {"isoDownloadURL": ""})
    with pytest.raises(Conflict):
        api.delete(INFRA_ENV, KEY, uid="another")
    api.delete(INFRA_ENV, KEY, uid=made["metadata"]["uid"])
    api.delete(INFRA_ENV, KEY)
    assert api.get(INFRA_ENV, KEY) is None


def test_lists_are_of_a_namespace_and_of_labels_and_name_their_kind(server):
    api = server.api()
    for namespace, name in (("a", "1"), ("a", "2"), ("b", "1")):
        obj = AGENT.new(Key(namespace, name))
        obj["metadata"]["labels"] = {"n": name}
        api.create(AGENT, obj)
    items, version = api.list(AGENT, "a", "n=2")
    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [("Agent", "2")]
    assert len(api.list(AGENT)[0]) == 3
    assert int(version) > 1


def test_objects_of_the_cluster_have_no_namespace(server):
    api = server.api()
    api.create(CLUSTER_IMAGE_SET, CLUSTER_IMAGE_SET.new(Key("", "v1"), spec={"releaseImage": "x"}))
    assert api.get(CLUSTER_IMAGE_SET, Key("", "v1"))["spec"] == {"releaseImage": "x"}


def test_lists_and_watches_of_secrets_have_no_data(server):
    api = server.api()
    api.create(SECRET, SECRET.new(KEY, data={"password": "aHVudGVyMg=="}))
    items, version = api.list(SECRET)
    api.patch(SECRET, KEY, {"data": {"password": "aHVudGVyMw=="}})
    event, obj = next(iter(api.watch(SECRET, version, 5)))
    assert event == "MODIFIED"
    assert "data" not in items[0]
    assert "data" not in obj
    assert api.get(SECRET, KEY)["data"] == {"password": "aHVudGVyMw=="}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (401, Unauthorized), (403, Invalid), (409, Conflict), (410, Gone), (422, Invalid)],
)
def test_a_refusal_is_an_error_of_its_kind(server, status, kind):
    server.refusals.append(status)
    with pytest.raises(kind, match="refused by the test") as raised:
        server.api().get(INFRA_ENV, KEY)
    assert raised.value.status == status


def test_a_watch_from_too_long_ago_is_gone(server):
    api = server.api()
    _, version = api.list(INFRA_ENV)
    api.create(INFRA_ENV, INFRA_ENV.new(KEY))
    server.store.compact()
    with pytest.raises(Gone):
        list(api.watch(INFRA_ENV, version, 5))


def test_a_server_that_is_away_is_unreachable():
    server = ApiServer()
    server.close()
    with pytest.raises(Unreachable, match=r"^http://127.0.0.1:\d+: Failed .* Connection refused$"):
        server.api().list(INFRA_ENV)


def test_a_name_leads_to_no_other_namespace(server):
    api = server.api()
    api.create(SECRET, SECRET.new(Key("theirs", "login"), data={}))
    for name in ("../../theirs/secrets/login", "..", "login/../login", "%2e%2e/theirs", "login?x"):
        key = Key("ours", name)
        assert api.get(SECRET, key) is None
        with pytest.raises(NotFound, match="no object can have this name"):
            api.patch(SECRET, key, {"data": {"a": "b"}})
        api.delete(SECRET, key)
    assert api.get(SECRET, Key("theirs", "login"))["data"] == {}


def test_nothing_is_written_by_who_may_not(server):
    api = server.api(may_write=lambda: False)
    with pytest.raises(KubeError, match="another operator leads"):
        api.create(INFRA_ENV, INFRA_ENV.new(KEY))
    assert api.list(INFRA_ENV)[0] == []


def test_a_kubeconfig_s_token_is_sent_and_never_shown(server, tmp_path, caplog):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"clusters: [{{name: a, cluster: {{server: {server.url}}}}}]\nusers: [{{name: a, user: {{token: s3cret}}}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
    )
    with caplog.at_level(logging.DEBUG):
        api = Api.connect(kubeconfig)
        api.list(INFRA_ENV)
        with pytest.raises(NotFound):
            api.patch(INFRA_ENV, KEY, {})
    assert server.tokens[-1] == "Bearer s3cret"
    assert "s3cret" not in caplog.text + repr(api)


@pytest.mark.parametrize(
    ("server_url", "token"),
    [("http://x", '"s3cret\\n"'), ("http://x", "s3cret€"), ("5", "a"), ("http://x", "[b"), ("http://x", "a\0")],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_in_one_line(server_url, token, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"clusters: [{{name: a, cluster: {{server: {server_url}}}}}]\nusers: [{{name: a, user: {{token: {token}}}}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
    )
    with pytest.raises(ConfigError) as refused:
        Api.connect(kubeconfig).list(INFRA_ENV)
    assert str(refused.value).startswith(f"cannot use kubeconfig {kubeconfig}: ")
    assert "\n" not in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_what_threads_share_cannot_be_changed():
    value = frozen({"a": [{"b": 1}]})
    for change in (
        lambda: value.update(a=1),
        lambda: value["a"].append(1),
        lambda: value["a"][0].pop("b"),
        lambda: value["a"].sort(),
        lambda: value.__setitem__("a", 1),
        lambda: value.setdefault("c", 1),
    ):
        with pytest.raises(TypeError, match="copy"):
            change()
    changeable = copy.deepcopy(value)
    changeable["a"][0]["b"] = 2
    assert value == {"a": [{"b": 1}]}
