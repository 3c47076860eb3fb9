"""Certificates are renewed before they end, and nothing is ever served that its readers do not trust."""

import datetime as dt
import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.common import certificates
from installer.common.certificates import DAY
from lab.release.cluster import tls
from lab.release.cluster.errors import ConfigError
from lab.release.cluster.kube.resources import NOT_AFTER
from lab.release.cluster.network import kubeletca
from lab.release.cluster.pki import rotation, store, syncer
from lab.release.cluster.pki.store import SIGNERS, TARGETS, Kept
from lab.release.cluster.pods import assets
from lab.testing.scaling import CONFIG

LEAVES = tls.leaves(CONFIG)
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SIGNER_OF = {asset: LEAVES[asset].signer for asset in TARGETS}


@functools.cache
def beginning():
    return tls.complete(CONFIG, {})


class Clock:
    """The time that certificates are made at."""

    def __init__(self, now):
        self.moment = now

    def now(self, zone):
        return self.moment.astimezone(zone)


@pytest.fixture
def clock(monkeypatch):
    made = Clock(dt.datetime.now(dt.UTC).replace(microsecond=0))
    monkeypatch.setattr(certificates, "datetime", made)
    return made


def ends(pair):
    return certificates.validity(pair.certificate)[1]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.sampled_from([None, *SIGNERS, *TARGETS])), min_size=8, max_size=8))
def test_whenever_it_looks_what_is_signed_is_trusted_and_has_not_ended(steps):
    clock = Clock(dt.datetime.now(dt.UTC).replace(microsecond=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "datetime", clock)
        day = rotation.SHORTEST_DAY
        kept = {asset: Kept(pair) for asset, pair in beginning().items() if asset in SIGNERS | TARGETS}
        trusted = dict.fromkeys(SIGNERS, "")
        seen_by_readers = dict.fromkeys(SIGNERS, "")
        for part, asked in steps:
            if asked:
                kept[asked] = Kept(kept[asked].pair, kept[asked].next, asked=True)
            plan = rotation.plan(LEAVES, kept, trusted, now=clock.moment, day=day)
            kept, trusted = kept | dict(plan.changed), dict(plan.trusted)
            assert plan.due > clock.moment
            for asset in TARGETS:
                pair, signer = kept[asset].pair, SIGNER_OF[asset]
                assert ends(pair) > clock.moment
                assert ends(pair) <= ends(kept[signer].pair), "it does not outlast its signer"
                known = seen_by_readers[signer] or trusted[signer]
                parts = [t + "-----END CERTIFICATE-----\n" for t in known.split("-----END CERTIFICATE-----\n") if t]
                assert any(certificates.signed_by(pair.certificate, ca) for ca in parts), "readers know its signer"
            # Readers see new CAs two minutes later at the latest; it is looked at again when something is due.
            if plan.due - clock.moment >= dt.timedelta(seconds=rotation.SETTLE_SECONDS):
                seen_by_readers = dict(trusted)
            clock.moment += (plan.due - clock.moment) * part


def test_a_signers_successor_is_trusted_first_then_signs_and_the_old_one_is_trusted_until_it_ends(clock):
    signer, leaf = "aggregator-signer", "aggregator-client"
    kept = {asset: Kept(pair) for asset, pair in beginning().items() if asset in SIGNERS | TARGETS}
    first = kept[signer].pair
    clock.moment += 16 * DAY
    plan = rotation.plan(LEAVES, kept, {}, now=clock.moment)
    assert plan.changed[signer].pair == first
    assert certificates.signed_by(plan.changed[leaf].pair.certificate, first.certificate), "the successor waits"
    assert plan.trusted[signer].count("BEGIN CERTIFICATE") == 2
    kept |= plan.changed
    clock.moment += rotation.SETTLE_DAYS * DAY
    plan = rotation.plan(LEAVES, kept, plan.trusted, now=clock.moment)
    assert set(plan.changed) == {signer, leaf}
    assert certificates.signed_by(plan.changed[leaf].pair.certificate, plan.changed[signer].pair.certificate)
    assert plan.reasons[leaf] == "its signer has changed"
    kept |= plan.changed
    clock.moment = ends(first)
    plan = rotation.plan(LEAVES, kept, plan.trusted, now=clock.moment)
    assert first.certificate not in plan.trusted[signer]


def test_after_years_without_power_all_but_the_way_back_is_made_anew(clock):
    kept = {asset: Kept(pair) for asset, pair in beginning().items() if asset in SIGNERS | TARGETS}
    clock.moment += 360 * DAY
    way_back = {"localhost-recovery-server", tls.RECOVERY, "etcd-client"}
    assert all(ends(kept[asset].pair) > clock.moment for asset in way_back)
    plan = rotation.plan(LEAVES, kept, {}, now=clock.moment)
    assert set(TARGETS) - set(plan.changed) == way_back
    assert all(ends(entry.pair) > clock.moment for entry in (kept | dict(plan.changed)).values())


def test_secrets_say_what_they_are_and_one_without_its_end_asks_to_be_renewed():
    pair = beginning()["kube-apiserver-lb-server"]
    stored = store.to_secret("kube-apiserver-lb-server", Kept(pair))
    assert store.from_secrets([stored]) == {"kube-apiserver-lb-server": Kept(pair)}
    del stored["metadata"]["annotations"][NOT_AFTER]
    kept = {asset: Kept(p) for asset, p in beginning().items() if asset in SIGNERS | TARGETS}
    kept |= store.from_secrets([stored])
    plan = rotation.plan(LEAVES, kept, {}, now=dt.datetime.now(dt.UTC))
    assert plan.reasons == {"kube-apiserver-lb-server": "somebody asks for it"}
    signer = Kept(pair, beginning()["kube-apiserver-localhost-server"])
    assert store.from_secrets([store.to_secret("kube-apiserver-lb-signer", signer)]) == {
        "kube-apiserver-lb-signer": signer
    }


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("1m30s", 90), ("24h", 86400), ("0.5h", 1800)])
def test_the_length_of_a_day_is_a_duration_of_go(text, seconds):
    assert rotation.parse_day(text) == dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["30", "s", "29s", "25h", "2y", "-30s", "1..5m", "30 s"])
def test_other_lengths_are_refused(text):
    with pytest.raises(ConfigError, match="base"):
        rotation.parse_day(text)


def test_what_is_no_certificate_never_takes_the_place_of_a_kubelets_ca(tmp_path):
    ca = beginning()["kube-apiserver-to-kubelet-signer"].certificate
    assert kubeletca.write(ca, tmp_path)
    with pytest.raises(ValueError, match="PEM"):
        kubeletca.write("no certificate", tmp_path)
    assert (tmp_path / kubeletca.FILE).read_text() == ca


def test_files_that_a_running_program_reads_again_are_written_and_no_others(tmp_path):
    cluster = assets.Cluster(CONFIG, beginning(), "r", {})
    files = assets.control_plane_files(cluster)
    assert set(files) >= assets.READ_AT_START
    written = syncer.write(files, tmp_path)
    assert set(written) == set(files) - assets.READ_AT_START
    assert syncer.write(files, tmp_path) == []
    changed = {"kube-scheduler/client.crt": "c", "kube-scheduler/client.key": "k", "etcd-certs/ca.crt": "other"}
    assert syncer.write(files | changed, tmp_path) == ["kube-scheduler/client.key", "kube-scheduler/client.crt"]
    assert (tmp_path / "kube-scheduler/client.key").stat().st_mode & 0o777 == 0o600
