"""Chromium without a screen, for tests of pages."""

import json
import shutil
import subprocess
from html import unescape

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=4000",
]


def title_of(page, width, dark=False):
    """Open a page and read its title, in which its probe has left what it found out as JSON."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    more = ["--blink-settings=preferredColorScheme=0"] if dark else []
    profile = page.parent / "profile"
    command = [CHROMIUM, *FLAGS, *more, f"--window-size={width},900", f"--user-data-dir={profile}", "--dump-dom"]
    out = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(unescape(out.split("<title>")[1].split("</title>")[0]))
