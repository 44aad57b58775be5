// SPDX-License-Identifier: Apache-2.0
// What the user has limited the capture to: an ordered list of steps, so that the last can be undone. Every view counts
// from the same list.
import type { Capture } from "./capture";

export type Step =
	| { kind: "thread"; keep: boolean; id: number }
	| { kind: "process"; keep: boolean; id: number }
	| { kind: "function"; keep: boolean; id: number }
	| { kind: "module"; keep: boolean; id: number } // a string index
	| { kind: "range"; from: number; to: number };

const LETTERS = { thread: "t", process: "p", function: "f", module: "m" } as const;
const KINDS: Record<string, keyof typeof LETTERS> = { t: "thread", p: "process", f: "function", m: "module" };

// "t+3,f-12,r1.25~2.5": short enough for an address.
export function writeSteps(steps: readonly Step[]): string {
	return steps
		.map((s) =>
			s.kind === "range"
				? `r${+s.from.toFixed(6)}~${+s.to.toFixed(6)}`
				: `${LETTERS[s.kind]}${s.keep ? "+" : "-"}${s.id}`,
		)
		.join(",");
}

export function readSteps(text: string): Step[] {
	const steps: Step[] = [];
	for (const word of text.split(",")) {
		const range = /^r(\d+(?:\.\d+)?)~(\d+(?:\.\d+)?)$/.exec(word);
		if (range) {
			const [from, to] = [Number(range[1]), Number(range[2])];
			if (to > from) steps.push({ kind: "range", from, to });
			continue;
		}
		const step = /^([tpfm])([+-])(\d{1,10})$/.exec(word);
		if (step) steps.push({ kind: KINDS[step[1]], keep: step[2] === "+", id: Number(step[3]) });
	}
	return steps;
}

export function rangeOf(steps: readonly Step[]): [number, number] | null {
	let range: [number, number] | null = null;
	for (const s of steps)
		if (s.kind === "range") range = range ? [Math.max(range[0], s.from), Math.min(range[1], s.to)] : [s.from, s.to];
	return range;
}

// 1 for each thread that is left, or null when all are.
export function threadMask(capture: Capture, steps: readonly Step[]): Uint8Array | null {
	const { n, process } = capture.threads;
	const own = steps.filter((s) => s.kind === "thread" || s.kind === "process");
	if (own.length === 0) return null;
	const mask = new Uint8Array(n).fill(1);
	const kept = own.filter((s) => s.keep);
	for (let t = 0; t < n; t++) {
		const hit = (s: Step) => (s.kind === "thread" ? s.id === t : s.kind === "process" && s.id === process[t]);
		// Several threads filtered in add up; what is filtered out is out.
		if (kept.length > 0 && !kept.some(hit)) mask[t] = 0;
		if (own.some((s) => !s.keep && hit(s))) mask[t] = 0;
	}
	return mask;
}

// 1 for each node whose stack passes the steps on functions and modules, or null when all do.
export function nodeMask(capture: Capture, steps: readonly Step[]): Uint8Array | null {
	const own = steps.filter((s) => s.kind === "function" || s.kind === "module");
	if (own.length === 0) return null;
	const { nodes, functions } = capture;
	const mask = new Uint8Array(nodes.n).fill(1);
	const on = new Uint8Array(nodes.n); // the stack up to here has the step's function or module
	for (const s of own) {
		const is = s.kind === "function" ? (fn: number) => fn === s.id : (fn: number) => functions.module[fn] === s.id;
		on[0] = 0;
		for (let i = 1; i < nodes.n; i++) {
			on[i] = on[nodes.parent[i]] | Number(is(nodes.fn[i]));
			if (on[i] !== Number(s.keep)) mask[i] = 0;
		}
		if (s.keep) mask[0] = 0;
	}
	return mask;
}
