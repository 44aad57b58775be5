// SPDX-License-Identifier: Apache-2.0
// The writers behind fm_formats, one file each.
#pragma once

#include <stdio.h>

#include "aggregate/analysis/analysis.h"
#include "base/err.h"

enum fm_err fm_write_text(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_markdown(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_json(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_collapsed(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_speedscope(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_flamegraph(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_chrometrace(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_perfetto(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_perf_data(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_html(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_bundle(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_calls(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_pstats(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_callgrind(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_csv(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_cpuprofile(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_gecko(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_otlp(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_pprof(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_dot(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_callgraph_svg(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_lines_csv(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
enum fm_err fm_write_sqlite(FILE *out, struct fm_analysis *a, struct fm_diag *diag);

// The viewer in one file, as fm_write_html; base: the capture to compare with, or NULL.
FM_MUST_CHECK enum fm_err fm_html_write(FILE *out, struct fm_analysis *base, struct fm_analysis *a,
					struct fm_diag *diag);
