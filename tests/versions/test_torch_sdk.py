"""tools/torch_sdk.py and tools/wheel_files.py, on a package index of this test's own."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import os
import random
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
FILES = {
    "torch/include/c10/core/Allocator.h": b"struct Allocator {};\n" * 50,
    "torch/include/torch/headeronly/version.h": b"#define TORCH_VERSION_MINOR 77\n",
    "torch/lib/libc10.so": b"\x7fELF c10",
    "torch/lib/libc10_cuda.so": b"\x7fELF c10_cuda",
    "torch/version.py": b"__version__ = '2.77.0'\n",
}


@dataclass
class Index:
    """A package index with one wheel of one package, on the loopback interface."""

    wheel: Path
    with_ranges: bool = True
    sent: int = 0
    environment: dict[str, str] = field(default_factory=dict)


def make_wheel(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in FILES.items():
            wheel.writestr(name, data)
        # What is not wanted: most of it, as in torch's.
        wheel.writestr("torch/lib/libtorch_cuda.so", random.Random(1).randbytes(4 << 20))
        wheel.writestr("torch-2.77.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.77.0\n")
        wheel.writestr("torch-2.77.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("torch-2.77.0.dist-info/RECORD", "")
    return path


def handler(index: Index) -> type[http.server.SimpleHTTPRequestHandler]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        """Gives lists of folders and files as they are, and of the wheel, where ranges are served, a part."""

        def send_head(self) -> BinaryIO | None:
            if not (index.with_ranges and self.path.endswith(".whl")):
                return super().send_head()
            data = index.wheel.read_bytes()
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            start, end = (int(wanted[1]), int(wanted[2]) + 1) if wanted else (0, len(data))
            part = data[start:end]
            self.send_response(206 if wanted else 200)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            index.sent += len(part) if self.command == "GET" else 0
            return io.BytesIO(part)

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(make_wheel(tmp_path / "index" / "simple" / "torch" / "torch-2.77.0-py3-none-any.whl"))
    serve = functools.partial(handler(index), directory=tmp_path / "index")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("PIP_", "HTTP"))}
    index.environment = kept | {
        "HOME": str(tmp_path / "home"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"http://127.0.0.1:{server.server_port}/simple/",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_RETRIES": "0",
        "NO_PROXY": "127.0.0.1",
    }
    yield index
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(index: Index, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, TOOLS / "torch_sdk.py", *(arguments or ["2.77.0"])]
    return subprocess.run(command, env=index.environment, capture_output=True, text=True)


def check_complete(folder: Path) -> None:
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found.pop("SHA256SUMS")
    assert found == {name.removeprefix("torch/"): data for name, data in FILES.items()}


def test_only_what_is_needed_is_fetched(index: Index) -> None:
    done = fetch(index)
    assert done.returncode == 0, done.stderr
    check_complete(Path(done.stdout.strip()))
    assert index.sent < 1 << 20 < index.wheel.stat().st_size


def test_a_server_without_ranges_gives_all_of_it(index: Index) -> None:
    index.with_ranges = False
    done = fetch(index)
    assert done.returncode == 0, done.stderr
    check_complete(Path(done.stdout.strip()))
    assert "downloading all of torch==2.77.0" in done.stderr


def test_what_is_kept_needs_no_network(index: Index) -> None:
    first = fetch(index)
    index.environment["PIP_NO_INDEX"] = "1"
    again = fetch(index)
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")


@pytest.mark.parametrize("change", ["cut off", "gone"])
def test_what_is_damaged_is_fetched_again(index: Index, change: str) -> None:
    folder = Path(fetch(index).stdout.strip())
    header = folder / "include/c10/core/Allocator.h"
    header.write_bytes(b"struct") if change == "cut off" else header.unlink()
    assert fetch(index).returncode == 0
    check_complete(folder)


def test_damaged_wheel_leaves_nothing(index: Index) -> None:
    name = "torch/lib/libc10.so"
    index.wheel.write_bytes(index.wheel.read_bytes().replace(FILES[name], FILES[name].upper(), 1))
    done = fetch(index)
    assert done.returncode != 0
    assert not list(Path(index.environment["HOME"]).rglob("include"))


def test_without_a_network_one_line_says_so(index: Index) -> None:
    index.environment["PIP_NO_INDEX"] = "1"
    done = fetch(index)
    assert done.returncode == 1
    assert "has it a network?" in done.stderr
    assert "torch==2.77.0" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_pin_names_the_headers(index: Index) -> None:
    done = fetch(index, "--pin", "2.77.0")
    headers = {name.removeprefix("torch/"): data for name, data in FILES.items() if "/include/" in name}
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(headers.items()))
    assert done.stdout == f"2.77.0 {hashlib.sha256(lines.encode()).hexdigest()}\n"


def test_known_version_with_other_headers_is_refused(index: Index, tmp_path: Path) -> None:
    # As 2.77.0, but the list of versions knows it with other headers.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("torch_sdk.py", "wheel_files.py"):
        (tools / name).write_text((TOOLS / name).read_text())
    (tools / "torch_versions.txt").write_text(f"# one\n2.77.0 {'0' * 64}\n")
    done = subprocess.run(
        [sys.executable, tools / "torch_sdk.py"], env=index.environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("torch_sdk: the headers of the torch 2.77.0 that pip finds are not")
