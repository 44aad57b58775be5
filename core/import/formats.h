// SPDX-License-Identifier: Apache-2.0
// The importers of the table in import.c, a file each.
#pragma once

#include "import/import.h"

bool fm_collapsed_recognise(const uint8_t *head, size_t n);
enum fm_err fm_collapsed_import(struct fm_import *in);

bool fm_perf_data_recognise(const uint8_t *head, size_t n);
enum fm_err fm_perf_data_import(struct fm_import *in);

bool fm_perf_script_recognise(const uint8_t *head, size_t n);
enum fm_err fm_perf_script_import(struct fm_import *in);

bool fm_speedscope_recognise(const uint8_t *head, size_t n);
enum fm_err fm_speedscope_import(struct fm_import *in);

bool fm_pprof_recognise(const uint8_t *head, size_t n);
enum fm_err fm_pprof_import(struct fm_import *in);

bool fm_gecko_recognise(const uint8_t *head, size_t n);
enum fm_err fm_gecko_import(struct fm_import *in);

bool fm_pstats_recognise(const uint8_t *head, size_t n);
enum fm_err fm_pstats_import(struct fm_import *in);

bool fm_callgrind_recognise(const uint8_t *head, size_t n);
enum fm_err fm_callgrind_import(struct fm_import *in);

bool fm_chrome_recognise(const uint8_t *head, size_t n);
enum fm_err fm_chrome_import(struct fm_import *in);

bool fm_tachyon_recognise(const uint8_t *head, size_t n);
enum fm_err fm_tachyon_import(struct fm_import *in);

bool fm_mojo_recognise(const uint8_t *head, size_t n);
enum fm_err fm_mojo_import(struct fm_import *in);

bool fm_scalene_recognise(const uint8_t *head, size_t n);
enum fm_err fm_scalene_import(struct fm_import *in);

bool fm_memray_recognise(const uint8_t *head, size_t n);
enum fm_err fm_memray_import(struct fm_import *in);
bool fm_memray_csv_recognise(const uint8_t *head, size_t n);
enum fm_err fm_memray_csv_import(struct fm_import *in);
