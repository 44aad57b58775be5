// SPDX-License-Identifier: Apache-2.0
// Numbers per function under a filter, and who calls whom. Without a filter the program's own tables are used: they are
// what `fathom report` prints, pruned nothing.
import { FLAG_PLUMBING, isMine, KIND_PYTHON, type Capture } from "./capture";
import type { Step } from "./filter";
import type { Metric } from "./metrics";
import { selfWeights, totalsOf } from "./weights";

export interface FunctionSums {
	self: Float64Array;
	total: Float64Array; // each function once per stack
	all: number;
}

const outermostOf = new WeakMap<Capture, Uint8Array>();

// 1 for each node whose function is not already on the stack above it: only those count for a function's total.
export function outermost(capture: Capture): Uint8Array {
	const known = outermostOf.get(capture);
	if (known) return known;
	const { n, parent, fn } = capture.nodes;
	const first = new Uint32Array(n + 1);
	for (let i = 1; i < n; i++) first[parent[i] + 1]++;
	for (let i = 0; i < n; i++) first[i + 1] += first[i];
	const list = new Uint32Array(Math.max(0, n - 1));
	const next = first.slice(0, n);
	for (let i = 1; i < n; i++) list[next[parent[i]]++] = i;
	const flags = new Uint8Array(n);
	const onStack = new Uint32Array(capture.functions.n);
	const at = first.slice(0, n);
	// A walk down and up without recursion: `node` is where we are, `at` how far its children are done.
	for (let node = 0; n > 0; ) {
		if (at[node] < first[node + 1]) {
			node = list[at[node]++];
			flags[node] = onStack[fn[node]]++ === 0 ? 1 : 0;
		} else {
			if (node === 0) break;
			onStack[fn[node]]--;
			node = parent[node];
		}
	}
	outermostOf.set(capture, flags);
	return flags;
}

// The node that pays for what ends in each: the nearest at or above it that is the user's own Python code; where there is none, the
// nearest Python code; 0 for neither. The program charges lines by the same rule.
export function ownersOf(capture: Capture): Uint32Array {
	const { nodes, functions } = capture;
	const user = new Uint32Array(nodes.n);
	const python = new Uint32Array(nodes.n);
	for (let i = 1; i < nodes.n; i++) {
		const f = nodes.fn[i];
		const isPython = functions.kind[f] === KIND_PYTHON && nodes.line[i] > 0;
		python[i] = isPython ? i : python[nodes.parent[i]];
		user[i] = isPython && isMine(functions, f) ? i : user[nodes.parent[i]];
	}
	return user.map((u, i) => u || python[i]);
}

// Memory as the table of functions has it: of native code what it asked for itself, of Python what its lines pay for.
export function chargedByFunction(capture: Capture, nodeSelf: Float64Array): Float64Array {
	const charged = new Float64Array(capture.functions.n);
	const { n, fn } = capture.nodes;
	const owner = ownersOf(capture);
	for (let i = 1; i < n; i++) {
		if (!(nodeSelf[i] > 0)) continue;
		if (capture.functions.kind[fn[i]] !== KIND_PYTHON) charged[fn[i]] += nodeSelf[i];
		if (owner[i] > 0) charged[fn[owner[i]]] += nodeSelf[i];
	}
	return charged;
}

export function functionSums(capture: Capture, metric: Metric, steps: readonly Step[]): FunctionSums {
	const nodeSelf = selfWeights(capture, metric, steps);
	const nodeTotal = totalsOf(capture.nodes.parent, nodeSelf);
	const counts = outermost(capture);
	const self = new Float64Array(capture.functions.n);
	const total = new Float64Array(capture.functions.n);
	const { n, fn } = capture.nodes;
	for (let i = 1; i < n; i++) {
		self[fn[i]] += nodeSelf[i];
		if (counts[i]) total[fn[i]] += nodeTotal[i];
	}
	return { self, total, all: n > 0 ? nodeTotal[0] : 0 };
}

export interface Edge {
	caller: number;
	callee: number;
	weight: number;
}

// Caller and callee by how much the callee took when called from there. Plumbing is looked through.
export function edgesOf(capture: Capture, metric: Metric, steps: readonly Step[]): Edge[] {
	const nodeTotal = totalsOf(capture.nodes.parent, selfWeights(capture, metric, steps));
	const { n, parent, fn } = capture.nodes;
	const { flags } = capture.functions;
	const counts = outermost(capture);
	const shown = new Uint32Array(n); // the nearest node at or above that is no plumbing
	const sums = new Map<number, number>();
	const nf = capture.functions.n;
	for (let i = 1; i < n; i++) {
		const isPlumbing = (flags[fn[i]] & FLAG_PLUMBING) !== 0;
		const above = shown[parent[i]];
		shown[i] = isPlumbing ? above : i;
		if (isPlumbing || above === 0 || !(nodeTotal[i] > 0) || (!counts[i] && fn[above] !== fn[i])) continue;
		const key = fn[above] * nf + fn[i];
		sums.set(key, (sums.get(key) ?? 0) + nodeTotal[i]);
	}
	const edges: Edge[] = [];
	for (const [key, weight] of sums) edges.push({ caller: Math.floor(key / nf), callee: key % nf, weight });
	return edges.sort((a, b) => b.weight - a.weight);
}
