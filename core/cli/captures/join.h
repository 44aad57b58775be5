// SPDX-License-Identifier: Apache-2.0
// Several captures of one command as one: for what shows a single capture (report, view, export) to
// show all repeated runs.
#pragma once

#include "cli/captures/captures.h"

// The runs of a results folder added up into one capture, one after the other in time, with a note
// on how much they differ. It is kept as runs.fathom beside them, where that can be written, and
// made anew when one of them is newer; else it is there until this process ends. *ret is its path,
// the caller's to free. With one capture, that capture's own.
FM_MUST_CHECK enum fm_err fm_join_runs(const struct fm_captures *captures, char **ret, struct fm_diag *diag);
