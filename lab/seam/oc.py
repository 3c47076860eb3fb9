"""The part of `oc` that openshift-install runs: `oc adm release info` and `oc image extract`, by skopeo.

Source: openshift/installer, pkg/asset/rhcos/releaseextract.go (image of a release, files of an image, mirrors by an
ImageContentSourcePolicy file) and pkg/asset/agent/common.go (architecture of the release).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from installer.common.formats import yamltext
from lab.subject.contents import extract

# The file of a release image that names its parts (docs/reference/installer.md §7).
REFERENCES = "release-manifests/image-references"
METADATA = "release-manifests/release-metadata"
ARCHITECTURE = "release.openshift.io/architecture"
_COPY_SECONDS = 900


class _OcError(Exception):
    """The text that oc prints after "error: "."""


def mirrored(name: str, policy: dict[str, object]) -> list[str]:
    """Return an image's names by digest, its mirrors first, the name itself last.

    `policy` is an ImageContentSourcePolicy: `spec.repositoryDigestMirrors[]` with `source` and `mirrors`. The longest
    source that is the name's repository, or a part of its path, counts (operator/v1alpha1).
    """
    spec = policy.get("spec")
    entries = spec.get("repositoryDigestMirrors") if isinstance(spec, dict) else None
    repository, at, digest = name.partition("@")
    best: tuple[int, list[str]] = (-1, [])
    for entry in entries or []:
        source = str(entry.get("source", "")).rstrip("/")
        if repository == source or repository.startswith(f"{source}/"):
            names = [f"{mirror}{repository[len(source) :]}" for mirror in entry.get("mirrors") or []]
            best = max(best, (len(source), names), key=lambda pair: pair[0])
    return [*(f"{mirror}{at}{digest}" for mirror in best[1]), name] if at else [name]


@contextmanager
def fetched(names: Sequence[str], arguments: argparse.Namespace) -> Iterator[Path]:
    """Provide a folder with an image's manifest.json and blobs, from the first of these names that answers. Raises
    _OcError."""
    with tempfile.TemporaryDirectory(prefix="oc-") as folder:
        output = []
        for name in names:
            target = Path(folder, "image")
            shutil.rmtree(target, ignore_errors=True)
            system, _, machine = arguments.filter_by_os.partition("/")
            argv = ["skopeo", "--override-os", system, "--override-arch", machine or "amd64", "copy", "--quiet"]
            if arguments.insecure:
                argv.append("--src-tls-verify=false")
            if arguments.registry_config:
                argv.append(f"--src-authfile={arguments.registry_config}")
            argv += [f"docker://{name}", f"dir:{target}"]
            completed = subprocess.run(argv, capture_output=True, text=True, timeout=_COPY_SECONDS)
            if completed.returncode == 0:
                yield target
                return
            output.append(f"{name}: {' '.join(completed.stderr.split())}")
        raise _OcError(f"unable to read image {'; '.join(output)}")


def layers(image: Path) -> list[Path]:
    """Return the blobs of a fetched image's layers, the lowest first."""
    manifest = json.loads((image / "manifest.json").read_bytes())
    return [image / layer["digest"].partition(":")[2] for layer in manifest["layers"]]


def release_info(image: Path, arguments: argparse.Namespace) -> str:
    """Return what `adm release info` prints: a part's name by digest, or the release's architecture. Raises
    _OcError."""
    with tempfile.TemporaryDirectory(prefix="oc-") as folder:
        for name in (REFERENCES, METADATA):
            extract(layers(image), name, Path(folder))
        references = Path(folder, "image-references")
        if not references.exists():
            raise _OcError(f"{arguments.name} is no release image: it has no /{REFERENCES}")
        if arguments.image_for:
            tags = {tag["name"]: tag["from"]["name"] for tag in json.loads(references.read_bytes())["spec"]["tags"]}
            if arguments.image_for not in tags:
                raise _OcError(f'no image tag "{arguments.image_for}" exists in the release image {arguments.name}')
            return str(tags[arguments.image_for])
        if ARCHITECTURE not in arguments.output:
            raise _OcError(f"this oc prints --image-for=TAG and {ARCHITECTURE}, nothing else of a release")
        metadata = Path(folder, "release-metadata")
        labels = json.loads(metadata.read_bytes()).get("metadata") or {} if metadata.exists() else {}
        config = json.loads((image / "manifest.json").read_bytes())["config"]["digest"].partition(":")[2]
        return str(labels.get(ARCHITECTURE) or json.loads((image / config).read_bytes())["architecture"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oc", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    release = commands.add_parser("adm").add_subparsers(required=True).add_parser("release")
    info = release.add_subparsers(required=True).add_parser("info", help="what a release image says of itself")
    info.add_argument("--image-for", metavar="TAG", default="", help="print this part's name by digest")
    info.add_argument("-o", "--output", metavar="go-template=TEMPLATE", default="", help="print the architecture")
    copying = commands.add_parser("image").add_subparsers(required=True)
    extracting = copying.add_parser("extract", help="copy files out of an image")
    extracting.add_argument("--path", metavar="FILE:DIRECTORY", required=True, help="what to copy, and where to")
    extracting.add_argument("--confirm", action="store_true", help="overwrite what is there")
    for command, run in ((info, _info), (extracting, _extract)):
        command.add_argument("name", metavar="IMAGE")
        command.add_argument("--filter-by-os", default="linux/amd64", metavar="OS/ARCHITECTURE")
        command.add_argument("--insecure", nargs="?", const="true", default="", type=lambda text: text == "true")
        command.add_argument("--registry-config", metavar="FILE", default="", help="the pull secret")
        command.add_argument("--icsp-file", metavar="FILE", default="", help="mirrors to ask first")
        command.set_defaults(run=run)
    return parser


def _info(image: Path, arguments: argparse.Namespace) -> None:
    print(release_info(image, arguments))


def _extract(image: Path, arguments: argparse.Namespace) -> None:
    pattern, _, folder = arguments.path.rpartition(":")
    if not Path(folder).is_dir():
        raise _OcError(f"--path: {folder} is no directory")
    extract(layers(image), pattern, Path(folder))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        policy = yamltext.load(Path(arguments.icsp_file).read_bytes()) if arguments.icsp_file else {}
        with fetched(mirrored(arguments.name, policy), arguments) as image:
            arguments.run(image, arguments)
    except (
        *(_OcError, OSError, subprocess.TimeoutExpired, tarfile.TarError),
        # What an image says of itself may be anything.
        *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
    ) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
