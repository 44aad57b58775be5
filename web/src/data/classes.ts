// What a thread was doing: the numbers of core/format/model.h.
export const CLASS_PYTHON = 0;
export const CLASS_NATIVE = 1;
export const CLASS_SYSTEM = 2;
export const CLASS_GC = 3;
export const CLASS_GIL_WAIT = 4;
export const CLASS_WAIT = 5;
export const N_CLASSES = 6;

export const CLASS_NAMES = [
	"Python",
	"native",
	"system",
	"garbage collector",
	"waiting for the GIL",
	"waiting",
] as const;
export const CLASS_KEYS = ["python", "native", "system", "gc", "gil", "wait"] as const;
export const REPORT_KEYS = ["python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"] as const;
