// SPDX-License-Identifier: Apache-2.0
// What a thread was doing: the numbers of core/format/model.h, and one that no sample has.
export const CLASS_PYTHON = 0;
export const CLASS_NATIVE = 1;
export const CLASS_SYSTEM = 2;
export const CLASS_GC = 3;
export const CLASS_GIL_WAIT = 4;
export const CLASS_WAIT = 5;
export const CLASS_NO_CPU = 6; // ready, and no CPU was free
export const N_CLASSES = 7;

export const CLASS_NAMES = [
	"Python",
	"native",
	"system",
	"garbage collector",
	"waiting for the GIL",
	"waiting",
	"no CPU was free",
] as const;
export const REPORT_KEYS = ["python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"] as const;
