"""Takes some files out of a package's wheel without installing it, and mostly without downloading all of it.

    python tools/wheel_files.py torch==2.15.0 FOLDER 'torch/include/c10/*' torch/version.py

A wheel is a zip file, whose directory is at its end: where the index's server answers range requests, only the
directory and the files that are wanted are fetched (1.3 MB of torch's 900). Else pip downloads the whole wheel into a
temporary folder. Either way pip finds it, with the index, the certificates and the proxies that it is configured for.

Runs with the pip of the Python that runs it. That a wheel may be for another Python than that is meant: what is taken
out does not depend on it, and is then the same whoever takes it.
"""

import contextlib
import fnmatch
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

# One that every torch from 2.9 on has wheels for.
WANTED = [
    "--no-deps",
    "--only-binary=:all:",
    "--python-version=3.12",
    *(f"--platform=manylinux_{version}_x86_64" for version in ("2_28", "2_27", "2_17")),
    "--platform=manylinux2014_x86_64",
]
# Two files this near to each other are fetched in one request.
NEAR = 256 << 10


@contextlib.contextmanager
def _remote_wheel(requirement: str):
    """The wheel as a ZipFile that fetches what is read from it.

    By pip's own internals, which have no promise to stay as they are: the caller is ready for any exception.
    """
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands import create_command
    from pip._internal.network.lazy_wheel import LazyZipOverHTTP
    from pip._vendor.packaging.requirements import Requirement

    command = create_command("download")
    with command.main_context():
        options, _ = command.parse_args([*WANTED, requirement])
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, target_python=make_target_python(options))
        wanted = Requirement(requirement)
        best = finder.find_best_candidate(wanted.name, wanted.specifier).best_candidate
        if best is None:
            sys.exit(f"wheel_files: pip finds no wheel of {requirement} for Linux on x86-64; has it a network?")
        with LazyZipOverHTTP(best.link.url_without_fragment, session) as remote, zipfile.ZipFile(remote) as wheel:
            yield wheel


@contextlib.contextmanager
def _downloaded_wheel(requirement: str):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-cache-dir", "--dest", folder, *WANTED, requirement]
        if subprocess.run(command, stdout=sys.stderr).returncode:
            sys.exit(f"wheel_files: pip cannot download {requirement}; its messages are above")
        with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
            yield wheel


def _fetch_together(wheel: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> None:
    """Reads what lies near to each other in one go; the remote file keeps what it has read."""
    runs: list[list[int]] = []
    for member in sorted(members, key=lambda member: member.header_offset):
        end = member.header_offset + member.compress_size + 512  # its own header, name and extra fields
        if runs and member.header_offset - runs[-1][1] < NEAR:
            runs[-1][1] = end
        else:
            runs.append([member.header_offset, end])
    for start, end in runs:
        wheel.fp.seek(start)
        wheel.fp.read(end - start)


def _extract(wheel: zipfile.ZipFile, patterns: list[str], target: pathlib.Path) -> None:
    members = [m for m in wheel.infolist() if any(fnmatch.fnmatchcase(m.filename, pattern) for pattern in patterns)]
    found = [pattern for pattern in patterns if any(fnmatch.fnmatchcase(m.filename, pattern) for m in members)]
    if missing := sorted(set(patterns) - set(found)):
        sys.exit(f"wheel_files: {pathlib.Path(str(wheel.filename or 'the wheel')).name} has no {', '.join(missing)}")
    _fetch_together(wheel, members)
    for member in members:
        wheel.extract(member, target)  # checks its CRC


def main(requirement: str, folder: str, *patterns: str) -> None:
    if importlib.util.find_spec("pip") is None:
        sys.exit(f"wheel_files: {sys.executable} has no pip to fetch {requirement} with; use a Python that has it")
    target = pathlib.Path(folder)
    try:
        with _remote_wheel(requirement) as wheel:
            _extract(wheel, list(patterns), target)
    except Exception as error:
        print(f"wheel_files: downloading all of {requirement} ({type(error).__name__}: {error})", file=sys.stderr)
        shutil.rmtree(target, ignore_errors=True)
        with _downloaded_wheel(requirement) as wheel:
            _extract(wheel, list(patterns), target)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
