#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures and the terminal sample of README.md from the demo program, so that they stay true. Needs a build and Chromium.

scripts/make_pictures.py              docs/images/*.png, and the sample between its marks in README.md
scripts/make_pictures.py --check      only says whether the sample still has the shape of what is printed
scripts/make_pictures.py --bench F    only the comparison, between its marks, from what `make bench BENCH_ARGS="--json F"` has written
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Tuple

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
FATHOM = Path(os.environ.get("FATHOM_BUILD_DIR", ROOT / "build")) / "fathom"
SAMPLE = ("<!-- sample -->\n```\n", "```\n<!-- end of sample -->\n")
COMPARISON = ("<!-- comparison -->\n", "<!-- end of comparison -->\n")
PICTURES = {"viewer.png": "#view=source", "flame.png": "#view=flame"}
TAKE = """
import { chromium } from %r;
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
for (let i = 3; i < process.argv.length; i += 2) {
  await page.goto('about:blank');
  await page.goto('file://' + process.argv[2] + process.argv[i]);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: process.argv[i + 1] });
}
await browser.close();
"""


def run(command: List[str], folder: Path) -> str:
    return subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def shape(sample: str) -> List[str]:
    """What stays the same from run to run: numbers and the lines that they order do not."""
    return sorted(
        {
            re.sub(r"[\d.,_:]+", "N", line.split("  ")[0])
            for line in sample.splitlines()
            if line.endswith(":") or "Top" in line
        }
    )


def part(text: str, marks: Tuple[str, str]) -> Tuple[str, str, str]:
    """What stands before the marks, between and after them; the marks are in the first and the last."""
    before, rest = text.split(marks[0])
    between, after = rest.split(marks[1])
    return before + marks[0], between, marks[1] + after


def paste_comparison(path: str) -> None:
    sys.path.insert(0, str(ROOT / "bench"))
    from harness import tables

    facts = json.loads(Path(path).read_text())
    before, _, after = part(README.read_text(), COMPARISON)
    README.write_text(before + tables.front_page(facts, facts["summary"]) + after)


def main() -> int:
    if sys.argv[1:2] == ["--bench"]:
        paste_comparison(sys.argv[2])
        return 0
    with tempfile.TemporaryDirectory(prefix="fathom-pictures-") as name:
        folder = Path(name) / "demo"
        folder.mkdir()
        (folder / "log_digest.py").write_bytes((ROOT / "examples" / "log_digest.py").read_bytes())
        printed = run([str(FATHOM), "run", "log_digest.py"], folder)
        sample = printed[printed.index("Finished in") :].rstrip() + "\n"
        before, old, after = part(README.read_text(), SAMPLE)
        if "--check" in sys.argv[1:]:
            return 0 if shape(old) == shape(sample) else 1
        README.write_text(before + sample + after)
        capture = next((folder / ".fathom").rglob("profile.fathom"))
        run([str(FATHOM), "view", "--html", str(folder / "page.html"), str(capture)], folder)
        script = folder / "take.mjs"
        script.write_text(TAKE % str(ROOT / "tests" / "web" / "node_modules" / "playwright-core" / "index.mjs"))
        places = [
            text for picture, view in PICTURES.items() for text in (view, str(ROOT / "docs" / "images" / picture))
        ]
        run(["node", str(script), str(folder / "page.html"), *places], folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
