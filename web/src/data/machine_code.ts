// SPDX-License-Identifier: Apache-2.0
// Instructions for people: each with the source line that it was made of, and what that line takes in all of the function.
import type { Capture, Code } from "./capture";

export interface InstructionRow {
	i: number; // in capture.instructions
	at: number;
	text: string;
	self: number;
	count: number;
	isAfterGap: boolean;
	isFirst: boolean; // of a run that was made of one line
	file: number;
	line: number;
	inlined: string;
	source: string;
	lineSelf: number; // of all instructions of this function that were made of the line
}

// Where a function's machine code is: its own, or the one that it is inlined into and takes most time in.
export function codeOf(capture: Capture, fn: number): Code | null {
	const { codes, instructions } = capture;
	const own = codes.find((c) => c.fn === fn);
	if (own) return own;
	let best: Code | null = null;
	let most = 0;
	for (const c of codes) {
		let sum = 0;
		for (let i = c.first; i < c.first + c.n; i++) if (instructions.fn[i] === fn) sum += instructions.self[i];
		if (sum > most) [best, most] = [c, sum];
	}
	return best;
}

export function rowsOf(capture: Capture, code: Code): InstructionRow[] {
	const { instructions: t, strings } = capture;
	const lines = new Map<string, number>();
	const keyOf = (i: number) => `${t.file[i]}:${t.line[i]}`;
	for (let i = code.first; i < code.first + code.n; i++) lines.set(keyOf(i), (lines.get(keyOf(i)) ?? 0) + t.self[i]);
	return Array.from({ length: code.n }, (_, k) => {
		const i = code.first + k;
		const isSame = k > 0 && keyOf(i) === keyOf(i - 1) && t.inlined[i] === t.inlined[i - 1] && t.gap[i] === 0;
		return {
			i,
			at: t.at[i],
			text: strings.get(t.text[i]),
			self: t.self[i],
			count: t.count[i],
			isAfterGap: t.gap[i] !== 0,
			isFirst: !isSame,
			file: t.file[i],
			line: t.line[i],
			inlined: strings.get(t.inlined[i]),
			source: strings.get(t.source[i]).trim(),
			lineSelf: lines.get(keyOf(i)) ?? 0,
		};
	});
}
