"""Nothing secret is left, and nothing else is gone: against the corpus, against chance, and in pieces."""

from __future__ import annotations

import base64
import io
import json
import random
import re
import string
import subprocess
import sys
import urllib.parse
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.common.redact import MARK, Redactor, redact, redactor, shortened, without_login
from installer.common.redact.hint import promising
from installer.common.redact.program import program
from installer.common.redact.testing import corpus, syntaxes, values

VECTORS = {vector.name: vector for vector in corpus.vectors()}


def around(text: str) -> str:
    return f"{corpus.BEFORE}\n{text}\n{corpus.AFTER}\n"


def through(data: bytes, size: int = 1 << 20) -> bytes:
    class Slow(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            return super().read(size)

    return b"".join(Redactor().stream(Slow(data)))


def opened(text: str, depth: int = 3) -> str:
    """Return the text and whatever is encoded in it: by means of its own, as the redactor's are what is in question."""
    forms = [text, urllib.parse.unquote(text)]
    for run in re.findall(r"[A-Za-z0-9+/]{12,}", forms[1]) if depth else ():
        run = run[: len(run) - (len(run) % 4 == 1)]
        raw = base64.b64decode(run + "=" * (-len(run) % 4))
        raw = zlib.decompressobj(31).decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        forms.append(opened(raw.decode(errors="replace"), depth - 1))
    return "\n".join(forms)


def faults(vector: values.Vector, text: str) -> list[str]:
    """List what is wrong once a text that has the vector is redacted."""
    clean = redact(around(text))
    everything = opened(clean)
    found = [f"left {secret}" for secret in vector.secrets if secret in everything]
    found += [f"lost {kept}" for kept in (*vector.stays, corpus.BEFORE, corpus.AFTER) if kept not in clean]
    found += ["not marked"] if MARK not in everything else []
    found += ["changes again"] if redact(clean) != clean else []
    return [f"{vector.name}: {fault}" for fault in found]


def test_no_secret_of_the_corpus_is_left_and_nothing_else_is_gone() -> None:
    """In one test: a thousand cost more than what they tested."""
    assert [fault for vector in VECTORS.values() for fault in faults(vector, vector.text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("head", ["Nov 21 10:00:01.012345 master-0 cat[7]: ", "2024-11-21T10:00:01.5Z stdout F "])
def test_nothing_of_the_corpus_is_left_when_each_line_is_one_of_a_journal(head: str) -> None:
    texts = {name: "".join(f"{head}{line}\n" for line in vector.text.splitlines()) for name, vector in VECTORS.items()}
    assert [fault for name, vector in VECTORS.items() for fault in faults(vector, texts[name])] == []


def test_nothing_of_the_corpus_is_left_in_one_journal() -> None:
    """All of it, one after the other, as journald has it: what is NUL ends a line, and empty lines are none."""
    head = "Nov 21 10:00:01.012345 master-0 planted[7]: "
    lines = [line for vector in VECTORS.values() for line in re.split("[\n\0]", vector.text) if line]
    clean = redact("".join(f"{head}{line}\n" for line in lines))
    everything = opened(clean)
    assert {secret for vector in VECTORS.values() for secret in vector.secrets if secret in everything} == set()


def test_what_is_no_secret_stays() -> None:
    texts = [form for text in corpus.HARMLESS for form in (text, around(text))]
    assert [text for text in texts if redact(text) != text] == []


# A secret as people and programs make them; "0" keeps everyday words and object names out.
PASSWORDS = st.text(string.ascii_letters + string.digits + "!#%*+,-./:=?@^_~()$&;", min_size=6, max_size=40).map(
    lambda text: f"Sy{text}z0x"
)
WORDS = st.text(string.ascii_letters + string.digits + string.punctuation + " \t\u00e9\u4e2d", max_size=60).map(
    lambda text: text.replace('"', "").replace("'", "")
)


@settings(max_examples=120, deadline=None)
@given(PASSWORDS, st.sampled_from(sorted(syntaxes.SYNTAXES)), st.sampled_from(["password", "pullSecret", "agentToken"]))
def test_any_secret_in_any_syntax_is_gone(secret: str, syntax: str, field: str) -> None:
    write, stays = syntaxes.SYNTAXES[syntax]
    if set(secret) & set(syntaxes.SPECIAL.get(syntax, "")):
        return
    clean = redact(around(write(field, secret)))
    everything = opened(clean)
    assert secret not in everything
    # Neither is a piece of it that would tell the rest.
    assert secret[:-2] not in everything
    assert secret[2:] not in everything
    for text in (*stays, corpus.BEFORE, corpus.AFTER):
        assert text in clean
    assert redact(clean) == clean


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, max_size=8), st.sampled_from(sorted(VECTORS)), st.lists(WORDS, max_size=8))
def test_once_is_enough_whatever_is_around(before: list[str], name: str, after: list[str]) -> None:
    text = "\n".join((*before, VECTORS[name].text, *after))
    once = redact("text: " + text)
    assert redact(once) == once


@settings(max_examples=100, deadline=None)
@given(st.text(string.ascii_lowercase + " .,()\n\t<>/[]{}", max_size=400))
def test_prose_stays(text: str) -> None:
    assert redact(f" {text}") == f" {text}"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(VECTORS)), max_size=6), st.integers(1, 1000), st.integers(400, 3000))
def test_a_stream_is_read_as_its_text_is(names: list[str], size: int, piece: int) -> None:
    text = "".join(around(VECTORS[name].text) for name in names)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(redactor, "PIECE", piece)
        patched.setattr(redactor, "NEAR", 1000)
        clean = through(text.encode(), size).decode()
    for name in names:
        for secret in VECTORS[name].secrets:
            assert secret not in clean
    for line in (corpus.BEFORE, corpus.AFTER):
        assert clean.count(line) == len(names)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 50))
def test_bytes_that_are_no_text_pass(data: bytes, size: int) -> None:
    assert through(data, size) == through(data)
    assert through(data) in (data, redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))


def test_a_line_that_does_not_end_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON of everything that a cluster holds is: the same as at once, and no more of it in memory than said."""
    monkeypatch.setattr(redactor, "PIECE", 1 << 10)
    monkeypatch.setattr(redactor, "LONGEST", 16 << 10)
    monkeypatch.setattr(redactor, "NEAR", 1 << 9)
    dice = random.Random(7)
    secrets = [f"Sy{dice.randrange(10**9)}-w0rd" for _ in range(1000)]
    items = [
        {
            "name": f"host-{n}",
            "bmc": {"password": s, "address": "x" * dice.randrange(90)},
            "text": json.dumps({"token": s}),
        }
        for n, s in enumerate(secrets)
    ]
    line = json.dumps(items)
    assert len(line) > 8 * redactor.LONGEST
    pieces = list(Redactor().stream(io.BytesIO(line.encode())))
    clean = b"".join(pieces).decode()
    assert [secret for secret in secrets if secret in clean] == []
    assert max(map(len, pieces)) <= redactor.LONGEST + redactor.PIECE
    assert len(json.loads(clean)) == len(items)
    assert clean == redact(line)


@pytest.mark.parametrize("packed", [False, True])
def test_a_word_that_does_not_end_is_not_let_through(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(redactor, "PIECE", 4 << 10)
    monkeypatch.setattr(redactor, "LONGEST", 64 << 10)
    monkeypatch.setattr(redactor, "NEAR", 2 << 10)
    content = random.Random(7).randbytes(300_000) + b"\npassword: hunter2x\n"
    run = base64.b64encode(zlib.compress(content, wbits=31) if packed else content).decode()
    clean = b"".join(Redactor().stream(io.BytesIO(f"before {run} after\nnext line\n".encode()))).decode()
    assert clean == f"before {MARK} after\nnext line\n"


@pytest.mark.parametrize("word", ["expired", "required", "is invalid", "not found", "open the file"])
@pytest.mark.parametrize(
    "write", ["  password: {}", "- password: {}", "PASSWORD={}", "{{password: {}, id: 7}}", "password = {}"]
)
def test_words_of_errors_are_passwords_in_a_document(word: str, write: str) -> None:
    """And are none at a line's start or behind a log's head."""
    assert word not in redact(write.format(word))
    for text in (f"password: {word}", f"error: password: {word}", f'level=error msg="get password: {word}"'):
        assert redact(text) == text


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_secret_object_of_which_a_piece_has_one_half(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Wherever it is cut, also as an item of a list, and with the value before its name."""
    monkeypatch.setattr(redactor, "PIECE", 120)
    monkeypatch.setattr(redactor, "NEAR", 80)
    data = ["  data:", "    opaque: aHVudGVyMng=", "    other: c2Vjb25k"]
    lines = ["- apiVersion: v1", *data, "  kind: Secret"] if kind == "after" else ["- kind: Secret", *data]
    lines += ["- env:", "  - value: hunter2x", "    name: DB_PASSWORD"]
    for before in range(40, 200):
        text = "\n".join(["x" * before, "items:", *lines, ""])
        clean = b"".join(Redactor().stream(io.BytesIO(text.encode()))).decode()
        for secret in ("aHVudGVyMng=", "c2Vjb25k", "hunter2x"):
            text = text.replace(secret, MARK)
        assert clean == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("httpProxy: http://u:s3cr3t-0123456789@p.example:1", "s3cr3t-0123456789"),
        (f"token was {values.TOKEN}, it is refused", values.TOKEN),
        (f"auth: {values.AUTH}", values.AUTH),
        (f"cannot use {values.KEYS['EC PRIVATE KEY'][0]}", values.KEY_LINES[0]),
    ],
)
def test_wherever_a_text_is_cut_nothing_of_a_secret_is_left(text: str, secret: str) -> None:
    text = f"level=error msg=cannot decode {text}"
    for most in range(4, len(text) + 10):
        short = shortened(text, most)
        assert len(short) <= most
        assert secret[:6] not in short
    # A text so long that it is not looked at to its end.
    for before in range(16 * 1024 - 100, 16 * 1024 + 100, 7):
        short = shortened(" " * before + text, 1000)
        assert len(short) <= 1000
        assert secret[:6] not in short
    assert shortened("as it is", 8) == "as it is"
    assert shortened("as it is", 7) == "as i..."


def test_known_secrets_in_every_form() -> None:
    secret = "p@ss wörd\"\\&'/+9"
    clean = Redactor((secret,))
    for text in (
        f"say {secret} aloud",
        json.dumps({"x": f"a {secret}"}),
        json.dumps({"x": json.dumps([f"a {secret}"])}),
        repr(["x", f"a {secret}"]),
        "x/" + urllib.parse.quote(secret, safe="") + "/y",
        "x?" + urllib.parse.urlencode({"q": secret}),
        "x: 'it is " + secret.replace("'", "''") + "'",
        # Among bytes that are no text, so that nothing tells but its value.
        *("b64 " + base64.b64encode(b"\xff" * n + secret.encode() + b"\xfe\xff").decode() for n in range(3)),
    ):
        assert MARK in clean.text(text), text
        for form in (secret, secret[3:10], urllib.parse.quote(secret, safe="")):
            assert form not in opened(clean.text(text))


def test_what_a_document_holds_is_known_from_then_on() -> None:
    clean = Redactor()
    clean.learn(json.dumps({"*installconfig.InstallConfig": {"pullSecret": values.PULL_SECRET, "name": "ostest"}}))
    clean.learn(
        "hosts:\n- bmc:\n    username: root\n    password: Rack7-w0rd\n    disableCertificateVerification: true\n"
    )
    clean.learn("TOKEN=0pen-Tok3n\nA=1\n")
    clean.learn("password: password\ntoken: calvin\n")
    text = f"Rack7-w0rd, 0pen-Tok3n, {values.AUTH}, pu11-Secret/Word: as password, calvin and root of ostest, true"
    assert (
        clean.text(text)
        == "[redacted], [redacted], [redacted], [redacted]: as password, calvin and root of ostest, true"
    )


def test_json_values() -> None:
    value = {
        "hosts": [{"bmc": {"password": "c4lvin!", "username": "root"}}],
        "args": ["--token", "abc", "--url", "https://u:p4ss@h/", "--append", "--password=x1y2z3"],
        "header": ["Authorization", "Basic cm9vdDpjNGx2aW4="],
        "overrides": json.dumps({"pullSecret": values.PULL_SECRET, "id": 7}),
        "secrets": {"kind": "Secret", "data": {"a": "Yg=="}, "metadata": {"name": "x"}},
        "env": [{"name": "BMC_PASSWORD", "value": "c4lvin!"}, {"name": "A", "value": "b"}],
        "pull_secret_set": True,
        "token": None,
        "tokens": ["abc", "def"],
        "password": 8675309,
        "secretRef": {"name": "pull-secret"},
    }
    assert redact(value) == {
        "hosts": [{"bmc": {"password": MARK, "username": "root"}}],
        "args": ["--token", MARK, "--url", f"https://u:{MARK}@h/", "--append", f"--password={MARK}"],
        "header": ["Authorization", MARK],
        "overrides": json.dumps({"pullSecret": MARK, "id": 7}),
        "secrets": {"kind": "Secret", "data": {"a": MARK}, "metadata": {"name": "x"}},
        "env": [{"name": "BMC_PASSWORD", "value": MARK}, {"name": "A", "value": "b"}],
        "pull_secret_set": True,
        "token": None,
        "tokens": [MARK, MARK],
        "password": MARK,
        "secretRef": {"name": "pull-secret"},
    }


def test_the_program(tmp_path: Path) -> None:
    """It runs with a Python alone, and takes secrets out of a stream, or of a tree's files in their place."""
    path = tmp_path / "agent-redact"
    path.write_bytes(program())
    known_file = tmp_path / "known"
    known_file.write_text("PULL_SECRET_TOKEN=0pen-Tok3n\n")
    command = [sys.executable, "-I", "-S", str(path), "--known", str(known_file), "--known", "/absent"]
    text = around("password: hunter2x\nsaid 0pen-Tok3n")
    done = subprocess.run(command, input=text.encode() + b"\xff\0", capture_output=True, check=True, timeout=60)
    assert done.stdout == around(f"password: {MARK}\nsaid {MARK}").encode() + b"\xff\0"
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a/file").write_text(text)
    (tree / "a/file").chmod(0o640)
    (tree / "link").symlink_to(known_file)
    subprocess.run([*command, "--tree", str(tree)], check=True, timeout=60)
    assert (tree / "a/file").read_text() == around(f"password: {MARK}\nsaid {MARK}")
    assert (tree / "a/file").stat().st_mode & 0o777 == 0o640
    assert "0pen-Tok3n" in known_file.read_text()
    assert sorted(path.name for path in tree.rglob("*")) == ["a", "file", "link"]


def test_a_secret_object_whose_kind_comes_in_the_next_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its data are."""
    monkeypatch.setattr(redactor, "PIECE", 100)
    monkeypatch.setattr(redactor, "NEAR", 60)
    long = "TG9uZw" * 50
    data = f"data:\n  long: {long}\n  opaque: aHVudGVyMng=\n  other: c2Vjb25k\n"
    for before in range(60, 140):
        for text in (f"{'x' * before}\n{data}kind: Secret\n", f"{'x' * before}\nkind: Secret\n{data}id: 7\n" * 2):
            pieces = list(Redactor().stream(io.BytesIO(text.encode())))
            assert len(pieces) > 1
            clean = b"".join(pieces).decode()
            assert clean == text.replace("aHVudGVyMng=", MARK).replace("c2Vjb25k", MARK).replace(long, MARK)


@pytest.mark.parametrize("name", ["password", "PassWord", "PASSWORD", "to\u212aen"])
@pytest.mark.parametrize("before", ["", "\u0130 "])
def test_a_name_in_any_case(name: str, before: str) -> None:
    """K has a third form, the unit Kelvin's sign; the dotted I is two characters in lower case."""
    assert redact(f"{before}{name}=hunter2x") == f"{before}{name}={MARK}"


def test_a_digest_alone_promises_no_secret() -> None:
    """Otherwise each command that names its release would load all rules."""
    pullspec = f"release.example/node0/release@sha256:{'0123456789abcdef' * 4}"
    assert not promising(f"Found override for release image ({pullspec}).")
    assert Redactor().text(pullspec) == redact(pullspec) == pullspec
    for near in (pullspec + "0", pullspec.replace("@", ":"), pullspec.replace("@", "/")):
        assert promising(near)


def test_a_digest_beside_it_hides_no_secret() -> None:
    digest = f"a/b@sha256:{'0123456789abcdef' * 4}"
    texts = [f"{digest} {vector.text}" for vector in VECTORS.values()]
    texts += [f"{vector.text} {digest}" for vector in VECTORS.values()]
    assert [text for text in texts if not promising(text)] == []


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://u:p@h/x", "https://u:[redacted]@h/x"),
        ("u:p@h", "u:[redacted]@h"),
        ("u:p/q@h.example/x", "u:[redacted]@h.example/x"),
        ("redfish://u:p@q#@h", "redfish://u:[redacted]@h"),
        ("https://u@h", "https://u@h"),
        ("a.example:5000/x", "a.example:5000/x"),
        ("a.example:5000/x@sha256:00", "a.example:5000/x@sha256:00"),
        ("https://[fd00::1]:80/x", "https://[fd00::1]:80/x"),
        ("http://h:80/x", "http://h:80/x"),
    ],
)
def test_an_address_is_shown_without_its_logins_password(address, shown):
    assert without_login(address) == shown
    assert without_login(shown) == shown


@pytest.mark.parametrize("depth", [400, 900])
def test_what_is_nested_too_deeply_is_not_let_through(depth: int) -> None:
    text = "[" * depth + '{"password": "hunter2-hunter2"}' + "]" * depth
    for value in (text, json.loads(text), {"inventory": text}):
        assert "hunter2" not in str(Redactor().value(value))
