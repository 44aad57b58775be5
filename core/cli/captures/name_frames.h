// SPDX-License-Identifier: Apache-2.0
// The names of sampled native functions, written into the profile while the files are still what
// they were.
#pragma once

struct fm_writer;

// Called when the target has ended and the file is still open (fm_capture_options.at_end). Function
// names only, from the images' own symbol tables (and what the cache knows); takes at most
// FM_NAME_FRAMES_SECONDS. What is missing is looked up by the report.
#define FM_NAME_FRAMES_SECONDS 2
void fm_name_frames(struct fm_writer *w, void *unused);
// The same for files that are not to be had by their paths (fm_writer_keep_file): for who reads the
// profile at once.
void fm_name_frames_elsewhere(struct fm_writer *w, void *unused);
