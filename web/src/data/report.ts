// SPDX-License-Identifier: Apache-2.0
// The part of `fathom report --json` that the head of a bundle carries. A key that an older program does not write is
// undefined: ask before use.
export interface Exit {
	code: number | null;
	signal: number | null;
}

// A sentence on what stands out, and where it is seen.
export interface Verdict {
	rule?: string; // "line", "imports", ...
	text: string;
	file?: string; // "": nowhere in particular
	line?: number;
}

export interface Report {
	schema?: string;
	command?: string[];
	python?: string;
	started?: string;
	exit?: Exit;
	wall_s?: number;
	cpu_s?: number;
	no_cpu_s?: number;
	verdict?: Verdict[];
	rate_hz?: number;
	engine?: string;
	samples?: number; // of every class
	wait_samples?: number; // of these, looks at threads that waited
	dropped?: number;
	failed_unwinds?: number;
	overhead_s?: number;
	max_rss_bytes?: number;
	threads?: { name?: string; cpu_s?: number }[];
	coverage?: { what: string; why: string }[];
	time?: Partial<Record<"python_s" | "native_s" | "system_s" | "gc_s" | "gil_wait_s" | "wait_s", number>>;
	memory?: { peak_bytes?: number; alloc_bytes?: number; growth_rate?: number };
}

// As the text report has it: what a second of CPU time was asked for is counted, looks at threads that waited are told beside it.
export function sampleCounts(r: {
	samples?: number;
	wait_samples?: number;
}): { running: number; waiting: number } | null {
	if (r.samples === undefined) return null;
	const waiting = r.wait_samples ?? 0;
	return { running: r.samples - waiting, waiting };
}
