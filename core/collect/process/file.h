// SPDX-License-Identifier: Apache-2.0
// Files that a process names: opened as it sees them, and with no more rights than it has. A
// collector that runs as root must not read for others what they may not read themselves.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FM_MAX_GROUPS 32

// By whom the kernel lets a process open files.
struct fm_rights {
	bool is_known;
	uid_t uid;
	gid_t gid;
	uint32_t n_groups; // the first FM_MAX_GROUPS of them
	gid_t groups[FM_MAX_GROUPS];
};

// As they are now; what was known before stays when the process is gone.
void fm_rights_read(uint32_t pid, struct fm_rights *rights);

// A regular file by its path, which begins at the process's root, or at its folder when it has no
// slash in front. Where the process is gone: as we see it. Rights that are not known are those of
// everybody. -1: none.
int fm_process_open_as(const struct fm_rights *rights, uint32_t pid, const char *path);
// The same, if it is no link, and the process's user's or root's and nobody else's to change
// (base/owner.h). Otherwise -1; *ret_why says what speaks against it, NULL = there is none.
int fm_process_open_believed(const struct fm_rights *rights, uint32_t pid, const char *path, const char **ret_why);
// The same with our own rights, for what is mapped into the process already and may have been out
// of its reach since: nothing but names and unwind rules is taken from there.
int fm_process_open(uint32_t pid, const char *path);

// Whether its files are found by other paths than ours: it has another root, or other file systems
// mounted, as in a container.
bool fm_process_is_elsewhere(uint32_t pid);
// As fm_process_open(), for a process of which that is true; -1 also when the same file is ours by
// that path.
int fm_process_open_elsewhere(uint32_t pid, const char *path);

// Whether it is in another time namespace: its clocks may be any time off ours.
bool fm_process_has_other_clock(uint32_t pid);
