// SPDX-License-Identifier: Apache-2.0
// Finds functions by name, file or module. What is no valid regular expression is taken word for word.
import type { Capture } from "./capture";
import type { Tree } from "./tree";

export interface Matcher {
	text: string;
	test: (s: string) => boolean;
}

export function matcherOf(text: string): Matcher | null {
	if (text === "") return null;
	// Nested repetitions can take exponential time on a long name; such a pattern is searched for as plain text.
	const isRisky = /[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]/.test(text);
	try {
		if (!isRisky) {
			const pattern = new RegExp(text, "i");
			return { text, test: (s) => pattern.test(s) };
		}
	} catch {
		// below
	}
	const lower = text.toLowerCase();
	return { text, test: (s) => s.toLowerCase().includes(lower) };
}

export function matchingFunctions(capture: Capture, matcher: Matcher): Uint8Array {
	const { functions, strings } = capture;
	const hits = new Uint8Array(functions.n);
	const known = new Map<number, boolean>();
	const is = (s: number) => {
		let hit = known.get(s);
		if (hit === undefined) known.set(s, (hit = matcher.test(strings.get(s))));
		return hit;
	};
	for (let f = 0; f < functions.n; f++)
		hits[f] = Number(
			is(functions.name[f]) ||
				is(functions.file[f]) ||
				is(functions.module[f]) ||
				is(functions.fullName[f]) ||
				is(functions.library[f]),
		);
	return hits;
}

export interface TreeMatches {
	mask: Uint8Array; // of tree nodes
	weight: number; // of stacks with a match
	count: number;
}

export function matchTree(tree: Tree, functions: Uint8Array): TreeMatches {
	const mask = new Uint8Array(tree.n);
	const under = new Uint8Array(tree.n);
	let sum = 0;
	let count = 0;
	for (let i = 1; i < tree.n; i++) {
		if (functions[tree.fn[i]]) {
			mask[i] = 1;
			if (tree.total[i] > 0) count++;
			if (!under[tree.parent[i]]) sum += tree.total[i];
		}
		under[i] = under[tree.parent[i]] | mask[i];
	}
	return { mask, weight: sum, count };
}
