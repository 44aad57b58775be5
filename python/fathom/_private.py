# SPDX-License-Identifier: Apache-2.0
"""Files and folders for their owner only, as the program makes them: captures and logs may hold command lines and sources."""

import os
import subprocess
from typing import Optional


def ask(*question: str) -> str:
    """What files and folders are called, and which are believed, is the program's to say (core/cli/commands/place.c). ValueError has its words."""
    from fathom import program_path

    command = [program_path(), "place", "--", *question]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False).stdout
    word, _, text = os.fsdecode(answer).partition(" ")
    if word != "ok":
        raise ValueError(text.rstrip("\n") or "%s gave no answer" % command[0])
    return text[:-1]


def opener(path: str, flags: int) -> int:
    """For open(): the umask can only narrow this."""
    return os.open(path, flags, 0o600)


def make_folders(path: str) -> None:
    """os.makedirs() makes only the last one as it is told."""
    if not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent and parent != path:
            make_folders(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise


def distrust(path: str) -> Optional[str]:
    """What speaks against writing into a folder that is there, because others decide where its files go."""
    return ask("distrust", path) or None
