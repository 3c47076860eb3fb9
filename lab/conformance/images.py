"""Images that the specs of the conformance suite start, made of Debian's packages and the suite's own programs.

Their names and versions are those that e2e.test has built in (test/utils/image/manifest.go of Kubernetes 1.20.2); the
registry before them is replaced by KUBE_TEST_REPO_LIST. What the specs look for in an image stands beside its row.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from installer.common import certificates
from installer.common.certificates import YEAR
from installer.common.formats import YamlError, yamltext
from lab.conformance.errors import ConformanceError
from lab.release import images
from lab.release.image.debian import Packages, base, package_layers
from lab.release.image.layer import BLOB, Compression, Layer, LayerWriter
from lab.release.image.oci import Image, Layout
from lab.release.kubernetes import INFO, Inputs, build_tests
from lab.release.kubernetes import _build as build_programs
from lab.release.registry import has_manifest, loopback_registry, push
from lab.release.stage import progress
from lab.release.stage.keys import Built, File, host_packages
from lab.release.stage.store import Store

#: Where the images lie in a registry: each is REPOSITORY/NAME:VERSION.
REPOSITORY = "node0/conformance"

PACKAGES: Mapping[str, Packages] = {
    # What the Dockerfiles of agnhost and jessie-dnsutils install; coredns, which agnhost has too, is not in Debian.
    "e2e-tools": Packages(("bind9-dnsutils", "bind9-host", "curl", "iperf", "netcat-openbsd")),
    "e2e-apache2": Packages(("apache2-bin",), ("perl*",)),
    "e2e-nginx": Packages(("nginx",), ("debconf*", "perl*")),
    "e2e-busybox": Packages(("busybox-static",)),
    "etcd": Packages(("etcd-client", "etcd-server"), ("adduser", "libse*", "passwd")),
}
#: The aggregator's spec starts an API server of its own, whose flow control would want rights that the spec lacks.
SAMPLE = ("vendor/k8s.io/sample-apiserver",)

_HTTPD = """\
ServerRoot /etc
ServerName localhost
User www-data
Group www-data
PidFile /run/httpd.pid
ErrorLog /dev/stderr
Listen 80
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
StartServers 1
DocumentRoot /usr/local/apache2/htdocs
"""
_NGINX = """\
daemon off;
worker_processes 1;
error_log /dev/stderr;
pid /run/nginx.pid;
events {}
http {
  access_log /dev/stdout;
  server {
    listen 80;
    root /usr/share/nginx/html;
  }
}
"""
_PAGE = "<html><body><h1>It works!</h1></body></html>\n"
_SETUID = Path(__file__).with_name("data") / "setuid.c"

# What `agnhost porter` serves TLS with, to the API server's proxy; nobody checks who signed it.
_PAIR = ("localhost.crt", "localhost.key")


@dataclass(frozen=True)
class Parts:
    """Layers and programs that the images are put together from."""

    base: Layer
    packages: Mapping[str, Layer]
    tests: Path
    sample: Path
    setuid: Path
    porter: Path
    busybox: tuple[str, ...]
    pause: Image


@dataclass(frozen=True)
class Row:
    """One image: the key of its registry in KUBE_TEST_REPO_LIST, its name and version, and what it is made of.

    ``packages`` are keys of PACKAGES; without any and without ``plain`` it stands on Debian's base. ``fill`` adds the
    rest. Two versions of a name differ in a label alone, so that they have two digests.
    """

    registry: str
    name: str
    version: str
    packages: tuple[str, ...] = ()
    _: KW_ONLY
    fill: Callable[[Parts, LayerWriter], None] | None = None
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    plain: bool = False

    @property
    def tag(self) -> str:
        """Its name within a layout of images."""
        return f"{self.name}-{self.version}"


def _program(writer: LayerWriter, folder: Path, name: str, at: str) -> None:
    digests = json.loads((folder / INFO).read_text())["sha256"]
    writer.add_file(at, folder / name, 0o755, digests[name])


def _agnhost(parts: Parts, writer: LayerWriter) -> None:
    _program(writer, parts.tests, "agnhost", "agnhost")
    # A spec puts the second name in the entrypoint's place and looks which of them ran.
    writer.add_link("agnhost-2", "agnhost")
    writer.add_link("usr/bin/nc", "nc.openbsd")
    writer.add_link("usr/local/bin/iperf", "/usr/bin/iperf")
    writer.add_directory("uploads")
    for name in _PAIR:
        writer.add_file(name, parts.porter / name, 0o644)


def _picture(name: str) -> Callable[[Parts, LayerWriter], None]:
    def fill(parts: Parts, writer: LayerWriter) -> None:
        _program(writer, parts.tests, "agnhost", "agnhost")
        # The specs ask which picture a pod shows, not for the picture.
        writer.add_bytes("data.json", json.dumps({"image": f"{name}.jpg"}) + "\n")

    return fill


def _httpd(_parts: Parts, writer: LayerWriter) -> None:
    writer.add_bytes("etc/httpd.conf", _HTTPD)
    writer.add_bytes("usr/local/apache2/htdocs/index.html", _PAGE)


def _nginx(_parts: Parts, writer: LayerWriter) -> None:
    writer.add_bytes("etc/nginx.conf", _NGINX)
    writer.add_bytes("usr/share/nginx/html/index.html", _PAGE)
    writer.add_directory("var/lib/nginx")


def _busybox(parts: Parts, writer: LayerWriter) -> None:
    for folder in ("bin", "sbin"):
        writer.add_link(folder, f"usr/{folder}")
    writer.add_link("usr/sbin", "bin")
    for name in parts.busybox:
        writer.add_link(f"usr/bin/{name}", "busybox")
    writer.add_bytes("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    writer.add_bytes("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    writer.add_directory("tmp", 0o1777)
    for folder in ("root", "run", "home"):
        writer.add_directory(folder)


def _nonewprivs(parts: Parts, writer: LayerWriter) -> None:
    writer.add_file("usr/local/bin/nnp", parts.setuid, 0o6755)


def _etcd(_parts: Parts, writer: LayerWriter) -> None:
    writer.add_link("usr/local/bin/etcd", "/usr/bin/etcd")


def _sample(parts: Parts, writer: LayerWriter) -> None:
    _program(writer, parts.sample, "sample-apiserver", "sample-apiserver")


_AGNHOST = ("/agnhost",)
_APACHE = ("/usr/sbin/apache2", "-D", "FOREGROUND", "-f", "/etc/httpd.conf")
_SAMPLE = ("/sample-apiserver", "--feature-gates=APIPriorityAndFairness=false")
_SERVER = ("test-webserver",)
E2E, LIBRARY, GC, PROMOTED = "e2eRegistry", "dockerLibraryRegistry", "gcRegistry", "promoterE2eRegistry"

ROWS: tuple[Row, ...] = (
    Row(PROMOTED, "agnhost", "2.21", ("e2e-tools",), fill=_agnhost, entrypoint=_AGNHOST, cmd=("pause",)),
    Row(LIBRARY, "busybox", "1.29", ("e2e-busybox",), fill=_busybox, cmd=("sh",), plain=True),
    Row(GC, "etcd", "3.4.13-0", ("etcd",), fill=_etcd),
    Row(LIBRARY, "httpd", "2.4.38-alpine", ("e2e-apache2",), fill=_httpd, cmd=_APACHE),
    Row(LIBRARY, "httpd", "2.4.39-alpine", ("e2e-apache2",), fill=_httpd, cmd=_APACHE),
    Row(E2E, "jessie-dnsutils", "1.0", ("e2e-tools",)),
    Row(E2E, "kitten", "1.0", fill=_picture("kitten"), entrypoint=_AGNHOST, cmd=_SERVER, plain=True),
    Row(E2E, "nautilus", "1.0", fill=_picture("nautilus"), entrypoint=_AGNHOST, cmd=_SERVER, plain=True),
    Row(LIBRARY, "nginx", "1.14-alpine", ("e2e-nginx",), fill=_nginx, cmd=("nginx", "-c", "/etc/nginx.conf")),
    Row(E2E, "nonewprivs", "1.0", fill=_nonewprivs, cmd=("/usr/local/bin/nnp",), plain=True),
    Row(GC, "pause", "3.2"),
    Row(E2E, "sample-apiserver", "1.17", fill=_sample, entrypoint=_SAMPLE, plain=True),
)


def repo_list(registry: str) -> str:
    """Return the text of KUBE_TEST_REPO_LIST: where e2e.test is to take these images from. `registry` is HOST:PORT."""
    return yamltext.dump({row.registry: f"{registry}/{REPOSITORY}" for row in ROWS})


@dataclass(frozen=True)
class SetuidInputs:
    """Inputs of the set-uid program; the compiler and the C library, which is linked in, by version."""

    source: File
    tools: Mapping[str, str]


def _setuid(store: Store, inputs: SetuidInputs, out: Path) -> None:
    argv = [progress.need("gcc", "gcc libc6-dev"), "-static", "-Os", "-s", "-Wall", "-Werror", "-Wl,--build-id=none"]
    progress.run([*argv, "-o", str(out / "nnp"), str(inputs.source.path)], label="nnp", log=store.log("nnp"))


@dataclass(frozen=True)
class PairInputs:
    """Inputs of a certificate that signs itself: for which host, and how long it is good for."""

    host: str
    years: int


def _pair(_store: Store, inputs: PairInputs, out: Path) -> None:
    pair = certificates.authority(inputs.host, lifetime=inputs.years * YEAR)
    for name, text in zip(_PAIR, (pair.certificate, pair.key), strict=True):
        (out / name).write_text(text)


@dataclass(frozen=True)
class TakenInputs:
    """Inputs of a program that is taken out of a layer: the layer, and its name in /usr/bin."""

    layer: Built
    name: str


def program(store: Store, layer: Layer, name: str) -> Path:
    """Return a program of a layer's /usr/bin, for this machine to run."""
    return store.stage(f"program-{name}", TakenInputs(Built(layer.blob.parent), name), _taken) / "usr/bin" / name


def _taken(store: Store, inputs: TakenInputs, out: Path) -> None:
    blob = inputs.layer.path / BLOB
    argv = ["tar", "--zstd", "-C", str(out), "-xf", str(blob), f"usr/bin/{inputs.name}"]
    progress.run(argv, label=f"unpack-{inputs.name}", log=store.log(f"unpack-{inputs.name}"))


def _applets(busybox: Path) -> tuple[str, ...]:
    """Return the commands that it has, as it says itself."""
    listed = subprocess.run([busybox, "--list"], check=True, timeout=60, stdout=subprocess.PIPE, text=True)
    return tuple(name for name in listed.stdout.split() if name != "busybox")


def parts(store: Store) -> Parts:
    """Build, or find built, all that the images are made of. Raises ReleaseError."""
    packages = package_layers(store, PACKAGES)
    setuid = SetuidInputs(File.of(_SETUID), host_packages("gcc", "libc6-dev"))
    return Parts(
        base=Layer.load(base(store)),
        packages=packages,
        tests=build_tests(store.cache),
        sample=store.stage("kubernetes-sample", Inputs.now(SAMPLE), build_programs),
        setuid=store.stage("setuid", setuid, _setuid) / "nnp",
        porter=store.stage("e2e-porter", PairInputs("localhost", 10), _pair),
        busybox=_applets(program(store, packages["e2e-busybox"], "busybox")),
        pause=images.pod_image(store),
    )


def image(store: Store, row: Row, made_of: Parts) -> Image:
    """Return the image of a row."""
    if row.name == "pause":
        return Image(row.tag, made_of.pause.layers, made_of.pause.entrypoint)
    layers = [] if row.plain else [made_of.base]
    layers += [made_of.packages[name] for name in row.packages]
    if (fill := row.fill) is not None:
        layers.append(images.layer_stage(store, f"e2e-{row.name}", Compression.ZSTD, lambda w: fill(made_of, w)))
    return Image(row.tag, tuple(layers), row.entrypoint, row.cmd, labels={"version": row.version})


def unknown(e2e: Path) -> list[str]:
    """Return the images of ROWS that an e2e.test does not know by name and version."""
    listed = subprocess.run([e2e, "--list-images"], check=True, timeout=60, stdout=subprocess.PIPE, text=True)
    known = {line.rpartition("/")[2] for line in listed.stdout.split()}
    return [name for row in ROWS if (name := f"{row.name}:{row.version}") not in known]


def storage_of(root: Path) -> Path:
    """Return the storage directory that the registry of the lab in `root` serves. Raises ConformanceError."""
    try:
        config = yamltext.load((root / "registry.yaml").read_text())
        return Path(config["storage"]["filesystem"]["rootdirectory"])
    except (OSError, KeyError, TypeError, YamlError) as error:
        raise ConformanceError(f"{root / 'registry.yaml'}: names no storage of a registry: {error}") from error


def push_images(store: Store, storage: Path) -> None:
    """Build the images and put those that it lacks into a registry's storage directory. Raises ReleaseError, and
    ConformanceError where the suite would not find them."""
    made_of = parts(store)
    if names := unknown(made_of.tests / "e2e.test"):
        raise ConformanceError(f"images that e2e.test does not know: {', '.join(names)}")
    wanted: Sequence[tuple[Row, Image]] = [(row, image(store, row, made_of)) for row in ROWS]
    work = store.scratch("conformance")
    try:
        layout = Layout(work / "oci")
        written = layout.write([made for _, made in wanted])
        missing = [
            row
            for (row, _), made in zip(wanted, written, strict=True)
            if not has_manifest(storage, made.digest, row.version, f"{REPOSITORY}/{row.name}")
        ]
        if missing:
            with progress.step(f"pushing {len(missing)} images"), loopback_registry(storage, work) as address:
                for row in missing:
                    log = store.log(f"push-{row.tag}")
                    to = f"{REPOSITORY}/{row.name}"
                    push(layout.root, row.tag, address, remote_tag=row.version, log=log, repository=to)
    finally:
        shutil.rmtree(work, ignore_errors=True)
