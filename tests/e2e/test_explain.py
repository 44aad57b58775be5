# SPDX-License-Identifier: Apache-2.0
"""`fathom report --explain` and docs/report.md say the same, and explain every heading that a report has."""

import re
import subprocess
from pathlib import Path
from typing import Dict, List


def explained(fathom: Path) -> Dict[str, Dict[str, str]]:
    """{section: {term: text}}"""
    text = subprocess.run(
        [fathom, "report", "--explain", "--width", "80"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    sections: Dict[str, Dict[str, str]] = {}
    words: List[str] = []
    section = term = ""
    for line in text.splitlines() + [""]:
        if line.startswith("      "):
            words.append(line.strip())
            continue
        if words:
            sections[section][term] = " ".join(words)
            words = []
        if line.startswith("  "):
            term = line.strip()
        elif line:
            section = line
            sections[section] = {}
    return sections


def test_the_documentation_says_the_same(fathom, root):
    page = (root / "docs" / "report.md").read_text()
    glossary = page[page.index("## Every number") :]
    documented: Dict[str, Dict[str, str]] = {}
    for block in glossary.split("\n### ")[1:]:
        section, _, body = block.partition("\n")
        items = re.findall(r"^- \*\*(.+?)\*\*: (.*?)(?=\n- \*\*|\n\n|\Z)", body, re.M | re.S)
        documented[section] = {term: " ".join(text.split()) for term, text in items}
    assert documented == explained(fathom)


def test_every_heading_of_a_report_is_explained(fathom, build, tmp_path):
    profile = tmp_path / "known.fathom"
    subprocess.run([build / "tests" / "known_profile", profile], check=True)
    report = subprocess.run(
        [build / "tests" / "known_report", profile, "130"], stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    headings = re.findall(r"^(\S.*?):.*\n-{20,}$", report, re.M)
    assert len(headings) >= 9
    sections = explained(fathom)
    known = set(sections) | {term for terms in sections.values() for term in terms}
    tables = {"Threads", "Processes", "Native Code without Names or Lines", "Next"}  # these explain themselves
    for heading in headings:
        name = re.sub(r"^(Top )?\d+ ", r"\1", heading)
        assert name in known | tables
    for column in ("Python", "native", "system", "waiting", "peak", "timeline/%", "(MB/s)"):
        assert column in report
        assert any(term.endswith(column) for term in sections["Line tables"])
