"""Kubernetes 1.20 for the lab's cluster, built from Debian's source package (feasibility.md, "kube-apiserver").

No registry that can be reached offline has binaries of it. Debian bookworm's source package holds the whole tree; it is
built with Debian's Go 1.19 in GOPATH mode (its go.mod is too old for module mode), after one vendored library is
replaced by Debian's newer one: reflect2 1.0.1 makes the server fault on the first object with a filled map. A few
lines are others (CHANGES).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.release.stage import progress
from lab.release.stage.apt import close_apt, open_apt
from lab.release.stage.errors import RecipeMismatch, ToolMissing
from lab.release.stage.keys import file_sha256, host_packages
from lab.release.stage.store import Store, default_cache

SOURCE = "kubernetes"
UPSTREAM = "1.20.2"
#: What is built, as make's targets: the last part of each is the program's name.
BINARIES = (
    "cmd/kube-apiserver",
    "cmd/kube-controller-manager",
    "cmd/kube-proxy",
    "cmd/kube-scheduler",
    "cmd/kubelet",
)
#: Kubernetes' own tests, the program that runs them in parallel, and the image that most of them start.
TESTS = ("test/e2e/e2e.test", "test/images/agnhost", "vendor/github.com/onsi/ginkgo/ginkgo")
GO_ROOT = Path("/usr/lib/go-1.19")
REFLECT2 = Path("/usr/share/gocode/src/github.com/modern-go/reflect2")
VENDORED_REFLECT2 = Path("vendor/github.com/modern-go/reflect2")
INFO = "kubernetes.json"

#: Changes of the sources, as (file below the source tree, text, text in its place). All but the last are rhythms of the
#: kubelet and of the API server: what a node does stays the same.
#: The first six look less often, since emulated processors cannot bear it: measured on an idle one-node cluster under
#: TCG, 0.20 of a core for the kubelet and 0.07 for containerd, which it asks each second, and 42 % of the API server
#: for histograms that take a sample a millisecond.
#: The others wait less: a kubelet slept 5 s at each start for a docker that is not there, and a node that came up
#: before its API server lost up to a minute, since what had failed meanwhile (its CSR, its look at Node and Pod) was
#: tried again only each half minute, and a new certificate was noticed only each 10 s.
#: The last: built with Go 1.19, whose DeepEqual looks into reflect.Values, the API server took an empty text for null,
#: and refused definitions and objects with `""` in a field that has a type.
CHANGES: tuple[tuple[str, str, str], ...] = (
    ("pkg/kubelet/kubelet.go", "housekeepingPeriod = time.Second * 2", "housekeepingPeriod = time.Second * 10"),
    (
        "pkg/kubelet/kubelet.go",
        "evictionMonitoringPeriod = time.Second * 10",
        "evictionMonitoringPeriod = time.Second * 60",
    ),
    ("pkg/kubelet/kubelet.go", "plegRelistPeriod = time.Second * 1", "plegRelistPeriod = time.Second * 3"),
    (
        "pkg/kubelet/volumemanager/volume_manager.go",
        "reconcilerLoopSleepPeriod = 100 * time.Millisecond",
        "reconcilerLoopSleepPeriod = 500 * time.Millisecond",
    ),
    (
        "pkg/kubelet/volumemanager/volume_manager.go",
        "desiredStateOfWorldPopulatorLoopSleepPeriod = 100 * time.Millisecond",
        "desiredStateOfWorldPopulatorLoopSleepPeriod = 500 * time.Millisecond",
    ),
    (
        "staging/src/k8s.io/apiserver/pkg/util/flowcontrol/metrics/metrics.go",
        "NewSampleAndWaterMarkHistogramsPairGenerator(clock.RealClock{}, time.Millisecond,",
        "NewSampleAndWaterMarkHistogramsPairGenerator(clock.RealClock{}, time.Second,",
    ),
    (
        "vendor/github.com/google/cadvisor/container/docker/factory.go",
        "rootDirRetryPeriod time.Duration = 1000 * time.Millisecond",
        "rootDirRetryPeriod time.Duration = 10 * time.Millisecond",
    ),
    (
        "staging/src/k8s.io/client-go/tools/cache/reflector.go",
        "NewExponentialBackoffManager(800*time.Millisecond, 30*time.Second,",
        "NewExponentialBackoffManager(800*time.Millisecond, 5*time.Second,",
    ),
    (
        "staging/src/k8s.io/client-go/util/certificate/certificate_manager.go",
        "Duration: 2 * time.Second,\n\t\t\tFactor:   2,",
        "Duration: 2 * time.Second,\n\t\t\tFactor:   1,",
    ),
    (
        "staging/src/k8s.io/client-go/util/certificate/certificate_manager.go",
        "wait.PollInfinite(32*time.Second, m.rotateCerts)",
        "wait.PollInfinite(4*time.Second, m.rotateCerts)",
    ),
    (
        "pkg/kubelet/certificate/transport.go",
        "return updateTransport(stopCh, 10*time.Second,",
        "return updateTransport(stopCh, 2*time.Second,",
    ),
    (
        "vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go",
        "if data == nil || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data)) {",
        "if data == nil {",
    ),
)

#: The environment of make, in addition to paths. The caller's environment is not used.
ENVIRONMENT: Mapping[str, str] = {
    "PATH": f"{GO_ROOT / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "GO111MODULE": "off",
    "CGO_ENABLED": "0",
    "GOFLAGS": "",
    "LC_ALL": "C.UTF-8",
    "KUBE_GIT_TREE_STATE": "archive",
    "KUBE_GIT_COMMIT": "0" * 40,
    "KUBE_GIT_VERSION": f"v{UPSTREAM}",
    "KUBE_GIT_MAJOR": "1",
    "KUBE_GIT_MINOR": "20",
    "SOURCE_DATE_EPOCH": "1610000000",
}
LINK_FLAGS = "-s -w"

_HOST_PACKAGES = ("golang-1.19-go", "golang-1.19-src", "golang-github-modern-go-reflect2-dev")


@dataclass(frozen=True)
class Inputs:
    """All that the binaries are made from: the source package by name and upstream version, the host's ``packages`` by
    version (Go, and the sources of the library that is replaced), and what is done to them."""

    source: str
    upstream: str
    targets: tuple[str, ...]
    packages: Mapping[str, str]
    changes: tuple[tuple[str, str, str], ...]
    environment: Mapping[str, str]
    link_flags: str

    @classmethod
    def now(cls, targets: tuple[str, ...]) -> Inputs:
        """Return them for these targets as this module and this host have them. Raises ToolMissing."""
        packages = host_packages(*_HOST_PACKAGES)
        return cls(SOURCE, UPSTREAM, targets, packages, CHANGES, ENVIRONMENT, LINK_FLAGS)

    @property
    def programs(self) -> list[str]:
        """Return the programs' names."""
        return [target.rpartition("/")[2] for target in self.targets]


def build_kubernetes(cache: Path | None = None) -> Path:
    """Return the directory with the programs of BINARIES (static, stripped, amd64).

    Built once for all Inputs (about 10 minutes of CPU); later calls return at once. The directory also holds
    ``kubernetes.json``: the source package's version and each binary's SHA-256.
    """
    return Store(cache or default_cache()).stage("kubernetes", Inputs.now(BINARIES), _build)


def build_tests(cache: Path | None = None) -> Path:
    """Return the directory with the programs of TESTS, built like `build_kubernetes`'s (about 12 minutes of CPU)."""
    return Store(cache or default_cache()).stage("kubernetes-tests", Inputs.now(TESTS), _build)


def _build(store: Store, inputs: Inputs, out: Path) -> None:
    for program, package in (("rsync", "rsync"), ("jq", "jq"), ("make", "make"), ("dpkg-source", "dpkg-dev")):
        progress.need(program, package)
    work = store.scratch("kubernetes-src")
    try:
        tree, version = _source(store, inputs, work)
        _replace_reflect2(tree)
        _change(tree, inputs.changes)
        built = _make(store, inputs, work, tree)
        for name in inputs.programs:
            shutil.copy2(built / name, out / name)
            (out / name).chmod(0o755)
        info = {
            "version": inputs.upstream,
            "source": f"{inputs.source} {version}",
            "sha256": {name: file_sha256(out / name) for name in inputs.programs},
        }
        (out / INFO).write_text(json.dumps(info, indent=1) + "\n")
    finally:
        # Go's own caches are read-only directories; shutil.rmtree alone stops at them.
        subprocess.run(["chmod", "-R", "u+w", str(work)], check=False)
        shutil.rmtree(work, ignore_errors=True)


def _source(store: Store, inputs: Inputs, work: Path) -> tuple[Path, str]:
    """Download and unpack the source package; return its tree and its Debian version."""
    apt = open_apt(store, "deb-src")
    try:
        apt.get(["source", "--download-only", inputs.source], "kubernetes-source", cwd=work)
    finally:
        close_apt(apt)
    descriptions = sorted(work.glob(f"{inputs.source}_*.dsc"))
    if len(descriptions) != 1:
        raise RecipeMismatch(f"expected one .dsc of {inputs.source}, found {[d.name for d in descriptions]}")
    version = descriptions[0].name.removeprefix(f"{inputs.source}_").removesuffix(".dsc")
    if inputs.upstream not in version:
        raise RecipeMismatch(f"the apt source has {inputs.source} {version}, the recipe is for {inputs.upstream}")
    # GOPATH mode wants the tree at src/k8s.io/kubernetes; unpacked right there, no link is needed.
    tree = work / "go" / "src" / "k8s.io" / "kubernetes"
    tree.parent.mkdir(parents=True)
    argv = ["dpkg-source", "--no-check", "-x", str(descriptions[0]), str(tree)]
    progress.run(argv, label="kubernetes-unpack", log=store.log("kubernetes-unpack"), cwd=work)
    return tree, version


def _replace_reflect2(tree: Path) -> None:
    """Put Debian's reflect2 (1.0.2) in the place of the vendored 1.0.1, sources and assembler both."""
    vendored = tree / VENDORED_REFLECT2
    if not vendored.is_dir():
        raise RecipeMismatch(f"{VENDORED_REFLECT2} is not in the source package")
    sources = [p for p in sorted(REFLECT2.glob("*")) if p.suffix in (".go", ".s") and not p.name.endswith("_test.go")]
    if not sources:
        raise ToolMissing(f"sources of reflect2 in {REFLECT2}", f"apt-get install {_HOST_PACKAGES[-1]}")
    for old in vendored.iterdir():
        if old.suffix in (".go", ".s"):
            old.unlink()
    for path in sources:
        shutil.copy(path, vendored / path.name)


def _change(tree: Path, changes: Iterable[tuple[str, str, str]]) -> None:
    """Make these changes in the tree; RecipeMismatch when it has not the text that one replaces."""
    for name, old, new in changes:
        path = tree / name
        text = path.read_text() if path.is_file() else ""
        if old not in text:
            raise RecipeMismatch(f"{name} of the source package has no {old!r}")
        path.write_text(text.replace(old, new))


def _make(store: Store, inputs: Inputs, work: Path, tree: Path) -> Path:
    """Run the tree's own make (its generators are needed); return the directory with the binaries."""
    home = work / "home"
    home.mkdir()
    version_file = work / "version.sh"
    version_file.write_text(
        "".join(f"{key}='{value}'\n" for key, value in inputs.environment.items() if key.startswith("KUBE_GIT"))
    )
    places = {
        "HOME": str(home),
        "GOPATH": str(work / "go"),
        "GOCACHE": str(work / "gocache"),
        # make and go both derive the package path from PWD, not from the directory's own name.
        "PWD": str(tree),
        "KUBE_GIT_VERSION_FILE": str(version_file),
    }
    argv = ["make", f"WHAT={' '.join(inputs.targets)}", f"GOLDFLAGS={inputs.link_flags}"]
    environment = {**inputs.environment, **places}
    progress.run(argv, label="kubernetes-make", log=store.log("kubernetes-make"), cwd=tree, env=environment)
    built = tree / "_output" / "bin"
    absent = [name for name in inputs.programs if not (built / name).exists()]
    if absent:
        raise RecipeMismatch(f"make ended well but left no {', '.join(absent)} in {built}")
    return built
