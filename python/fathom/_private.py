# SPDX-License-Identifier: Apache-2.0
"""Files and folders for their owner only, as the program makes them: captures and logs may hold command lines and sources."""

import os
import stat
from typing import Optional


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
    """What speaks against writing into a folder that is there, because others decide where its files go; the rules are core/base/owner.h's."""
    for look in (os.lstat, os.stat):
        try:
            found = look(path)
        except OSError:
            return None
        if found.st_uid not in (os.geteuid(), 0):
            return "belongs to another user"
        is_group_others = found.st_gid not in (os.geteuid(), 0)
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & (0o022 if is_group_others else 0o002):
            return "can be written by others"
    return None


def usual_output_dir(name: str) -> str:
    """Where results go unless a folder is named: at the root of the project, or here where there is none that we believe (core/cli/project)."""
    folder = os.getcwd()
    while True:
        if any(os.path.lexists(os.path.join(folder, sign)) for sign in (".git", "pyproject.toml")):
            return (
                name
                if distrust(folder)
                else os.path.join(os.path.relpath(folder), name)
                if folder != os.getcwd()
                else name
            )
        parent = os.path.dirname(folder)
        if parent in (folder, os.sep):
            return name
        folder = parent


def hide_from_git(folder: str) -> None:
    try:
        with open(os.path.join(folder, ".gitignore"), "x", opener=opener) as file:
            file.write("# made by fathom: results of this machine\n*\n")
    except OSError:
        pass  # it is there, or the folder is read-only
