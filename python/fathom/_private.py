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
