"""A headless Chromium for tests of pages, steered by its DevTools protocol over a pipe, without any other package.

Tests have it by the fixture `chromium`, which a test file, or the conftest.py of a folder, takes over by its name.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MOST_SECONDS = 600
_READ_BYTES = 1 << 16
# A radio button's focus is shown by its label.
_FOCUSED = """(() => {
  const here = document.activeElement;
  if (here === null || here === document.body) return null;
  const shows = here.matches(".choice") ? here.nextElementSibling : here;
  const box = shows.getBoundingClientRect(), outline = getComputedStyle(shows);
  const all = [...document.querySelectorAll("a[href], button, input, summary, [tabindex]")]
    .filter((one) => one.tabIndex >= 0);
  return {
    place: all.indexOf(here),
    text: (here.getAttribute("aria-label") || shows.textContent || here.title).trim(),
    outlined: outline.outlineStyle !== "none" && parseFloat(outline.outlineWidth) >= 2,
    inSight: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    height: box.height,
  };
})()"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for all tests of a file. Where there is none, they are skipped."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium or Chrome on this machine (apt-get install chromium)")
    with Browser(program) as started:
        yield started


class Browser:
    """One Chromium with one page. It has no network: whatever a page asks for outside of its file fails, and is told.

    Use it as a context manager.
    """

    def __init__(self, program: str) -> None:
        # Kept for as long as the browser, which writes into it.
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"]
        options += [
            "--no-first-run",
            f"--user-data-dir={self._profile.name}",
            "--host-resolver-rules=MAP * 127.0.0.1:9",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, *options, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._received = b""
        self._session: str | None = None
        self._loaded = False
        # What the page said that it should not have: errors, warnings, requests.
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def show(self, file: Path, width: int = 1200, height: int = 800, dark: bool = False, scripts: bool = True) -> None:
        """Loads a page, as on a screen of so many CSS pixels, and waits until it is drawn."""
        self.complaints.clear()
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        # What moves the page moves it at once.
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        self._call("Emulation.setEmulatedMedia", features=[scheme, motion])
        self._loaded = False
        self._call("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._take(self._receive())

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        # Of some keys Chromium knows by this number alone what they do.
        number = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number)

    def walk_by_keyboard(self) -> list[dict[str, Any]]:
        """What the Tab key comes to from the top of the page, in this order: its text, and how it shows the focus."""
        found = []
        while len(found) < 1000:
            self.press("Tab")
            here = self.value(_FOCUSED)
            if here is None or (found and here["place"] == 0):
                return found
            found.append(here)
        raise AssertionError("the Tab key comes to no end")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._take(answer)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _MOST_SECONDS
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            assert ready, f"Chromium has not answered for {_MOST_SECONDS} s"
            chunk = os.read(self._in, _READ_BYTES)
            assert chunk, "Chromium has ended"
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def _take(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{told['type']}: {told['args']}")
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith(("file:", "data:")):
            self.complaints.append(f"asks for {told['request']['url']}")
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"opens a dialog: {told['message']}")
