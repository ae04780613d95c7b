"""A real browser without a window: what a page becomes in it, and how it looks."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from tests.machine import IS_ROOT

Pixel = tuple[int, int, int]


@dataclass(frozen=True)
class Browser:
    """Opens pages; each call is a browser of its own."""

    program: str
    home: Path

    def dom(self, page: Path) -> tuple[str, list[str]]:
        """Return the document after its scripts have run, and what the console said."""
        done = self._run(page, "--dump-dom", "--virtual-time-budget=3000")
        console = re.findall(r"CONSOLE[(:]\d+[)\]]+ (.*)", done.stderr)
        return done.stdout, console

    def screenshot(
        self, page: Path, picture: Path, *, size: tuple[int, int], is_dark: bool = False
    ) -> list[list[Pixel]]:
        """Put a picture of the page into a file, and return its rows of pixels."""
        scheme = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
        self._run(page, f"--screenshot={picture}", f"--window-size={size[0]},{size[1]}", *scheme)
        return read_png(picture.read_bytes())

    def _run(self, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        root = ["--no-sandbox"] if IS_ROOT else []
        common = [
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--enable-logging=stderr",
            f"--user-data-dir={self.home}",
        ]
        return subprocess.run(
            [self.program, *common, *root, *flags, page.as_uri()],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )


def read_png(data: bytes) -> list[list[Pixel]]:
    """Return the rows of pixels. Source: PNG specification (W3C), clauses 5, 7 and 9."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks: dict[bytes, bytes] = {}
    offset = 8
    while offset < len(data):
        length, kind = struct.unpack_from(">I4s", data, offset)
        chunks[kind] = chunks.get(kind, b"") + data[offset + 8 : offset + 8 + length]
        offset += 12 + length
    width, _, depth, colour, *_, interlace = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, interlace) == (8, 0)
    step = {2: 3, 6: 4}[colour]
    raw = zlib.decompress(chunks[b"IDAT"])
    rows: list[list[Pixel]] = []
    above = bytearray(width * step)
    for start in range(0, len(raw), width * step + 1):
        line = _unfilter(
            raw[start], bytearray(raw[start + 1 : start + 1 + width * step]), above, step
        )
        rows.append([(line[i], line[i + 1], line[i + 2]) for i in range(0, len(line), step)])
        above = line
    return rows


def _unfilter(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            add = left
        elif kind == 2:
            add = above[i]
        elif kind == 3:
            add = (left + above[i]) // 2
        elif kind == 4:
            guess = left + above[i] - corner
            add = min((left, above[i], corner), key=lambda value: abs(guess - value))
        else:
            return line
        line[i] = (line[i] + add) & 0xFF
    return line
