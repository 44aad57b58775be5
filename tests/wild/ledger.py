"""Results on disk: one file for each case without Fathom and one under it, so that runs can stop, go on and share the folder."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

Record = Dict[str, Any]


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, side: str, key: str) -> Path:
        return self.folder / side / (key + ".json")

    def read(self, side: str, key: str) -> Optional[Record]:
        return read(self.path(side, key))

    def write(self, side: str, key: str, record: Record) -> None:
        path = self.path(side, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f"{path.name}.{os.getpid()}")
        scratch.write_text(json.dumps(record, indent=1, sort_keys=True))
        scratch.replace(path)

    def all(self, side: str) -> Iterator[Record]:
        for path in sorted((self.folder / side).glob("*/*/*.json")):
            record = read(path)
            if record:
                yield record

    def failure_folder(self, key: str, number: int) -> Path:
        folder = self.folder / "failures" / key.replace("/", "-") / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def read(path: Path) -> Optional[Record]:
    try:
        record: Record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record


def identity(files: List[Path]) -> str:
    """Of a build: results of another one are not its own."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
