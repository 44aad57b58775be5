// SPDX-License-Identifier: Apache-2.0
// A bundle as the tables of docs/viewer-data.md, checked once: after this every index points into its table, every
// parent comes before its child, and nobody has to look again.
import { BundleError, type Bundle, type Column, type Head } from "./bundle";
import type { Report } from "./report";
import { Strings } from "./strings";

export const NONE = 0xffffffff;

export const KIND_NATIVE = 0;
export const KIND_PYTHON = 1;
export const KIND_ERROR = 2;
export const KIND_THREAD = 3;
export const FLAG_LIBRARY = 1;
export const FLAG_PLUMBING = 2;
export const FLAG_UNKNOWN = 4;
export const ROLE_USERS = 1;
export const ROLE_COMPREHENSION = 2;
export const ROLE_IMPORT = 4;
export const ROLE_MODULE = 8;
export const ROLE_BEGINS = 16;
export const ROLE_GENERATED = 32;

export interface Functions {
	n: number;
	name: Uint32Array;
	fullName: Uint32Array;
	file: Uint32Array;
	module: Uint32Array;
	library: Uint32Array;
	line: Uint32Array;
	kind: Uint8Array;
	flags: Uint8Array;
	roles: Uint8Array; // ROLE_...: whose code it is, as the program judged it
	package: Uint32Array; // that it is folded into; 0: none
}

// The user's own Python code.
export const isMine = (f: Functions, fn: number): boolean =>
	f.kind[fn] === KIND_PYTHON && (f.roles[fn] & ROLE_USERS) !== 0;

export interface Nodes {
	n: number;
	parent: Uint32Array;
	fn: Uint32Array;
	line: Uint32Array;
}

export interface Cells {
	n: number;
	node: Uint32Array;
	thread: Uint32Array;
	class: Uint8Array;
	weight: Float64Array;
	base: Float64Array | null;
	looks: Looks | null; // of a comparison
}

// Samples and the sums of their squared weights, in both captures; of CPU time.
export type Looks = Record<"n" | "baseN" | "sq" | "baseSq", ArrayLike<number>>;

export interface Heap {
	n: number;
	node: Uint32Array;
	thread: Uint32Array;
	alloc: Float64Array;
	peak: Float64Array;
	leak: Float64Array;
	copy: Float64Array;
	base?: Record<"alloc" | "peak" | "leak" | "copy", Float64Array>; // of the other capture
}

// What was allocated when: for the memory of a range.
export interface Blocks {
	n: number;
	node: Uint32Array;
	thread: Uint32Array;
	born: Uint16Array; // slots of time, grain seconds each
	died: Uint16Array; // NEVER_DIED: it was not freed
	kind: Uint8Array; // BLOCK_...
	bytes: Float64Array;
	grain: number;
}
export const BLOCK_LEAKED = 1;
export const BLOCK_COPIED = 2;
export const NEVER_DIED = 0xffff;

export interface Threads {
	n: number;
	process: Uint32Array;
	tid: Uint32Array;
	name: Uint32Array;
	cpu: Float64Array;
	wall: Float64Array;
	noCpu: Float64Array; // ready without a CPU; 0 where that is not known
	start: Float64Array;
	end: Float64Array;
}

export interface Samples {
	n: number;
	time: Float64Array;
	thread: Uint32Array;
	node: Uint32Array;
	class: Uint8Array;
	weight: Float32Array;
	first: Uint32Array; // of each thread, and one more
}

// What zones are of.
export interface Whats {
	n: number;
	name: Uint32Array;
	fn: Uint32Array; // NONE where the name is all there is
	kind: Uint8Array;
	file: Uint32Array; // where a zone of C code begins; "" and 0: not known
	line: Uint32Array;
}

// Each a zone, or several that are too narrow for a picture of this width: then `what` is the longest of them.
export interface Zones {
	n: number;
	thread: Uint32Array;
	start: Float64Array;
	duration: Float64Array; // from the first to the end of the last
	what: Uint32Array;
	depth: Uint16Array;
	count: Uint32Array | null; // zones in each; null = one
	busy: Float64Array | null; // the sum of their durations
}

// Tables whose columns are only read by name: rows for people, not for loops over millions.
export class Table {
	readonly n: number;
	constructor(
		private readonly columns: Map<string, Column>,
		private readonly prefix: string,
	) {
		let n = 0;
		for (const [name, column] of columns)
			if (name.startsWith(prefix + ".")) n = n === 0 ? column.length : Math.min(n, column.length);
		this.n = n;
	}
	has(name: string): boolean {
		return this.columns.has(`${this.prefix}.${name}`);
	}
	get(name: string, row: number): number {
		return this.columns.get(`${this.prefix}.${name}`)?.[row] ?? 0;
	}
	names(): string[] {
		const start = `${this.prefix}.`;
		return [...this.columns.keys()].filter((k) => k.startsWith(start)).map((k) => k.slice(start.length));
	}
	column(name: string): Column | undefined {
		return this.columns.get(`${this.prefix}.${name}`);
	}
}

// The machine code of one hot native function: a run of instructions.
export interface Code {
	fn: number;
	image: number; // its library, a string
	first: number;
	n: number;
	start: number;
	end: number;
	self: number; // CPU seconds of its instructions
}

export interface Instructions {
	n: number;
	at: Float64Array;
	self: Float64Array; // CPU seconds of samples that stood there
	count: Uint32Array; // these samples
	fn: Uint32Array; // whose own time that is; NONE without a sample
	gap: Uint8Array; // what comes before it is left out
	text: Uint32Array;
	inlined: Uint32Array;
	file: Uint32Array;
	line: Uint32Array;
	source: Uint32Array;
}

export interface Capture {
	head: Head;
	report: Report;
	strings: Strings;
	functions: Functions;
	nodes: Nodes;
	cells: Cells;
	heap: Heap | null;
	blocks: Blocks | null;
	isPart: boolean; // counted by the server for a range of time: tables of rows have the whole run's memory
	threads: Threads;
	processes: Table;
	files: Table;
	lines: Table;
	functionRows: Table;
	edges: Table;
	samples: Samples | null;
	memory: Table;
	whats: Whats;
	whatRows: Table; // sums over all zones of each, as the program counted them
	zones: Zones | null;
	durations: Table; // of all zones by what they are of, whatever of them is here
	marks: Table;
	counters: Table;
	leaks: Table;
	codes: Code[]; // most CPU time first
	instructions: Instructions;
	series: Table; // of a comparison: both over time
	changes: Table; // of a comparison: the rows of `fathom diff`
	lineTimeline: Float32Array | null;
	isDiff: boolean;
	end: number; // seconds since the start
}

class Reader {
	constructor(private readonly columns: Map<string, Column>) {}

	private take<T extends Column>(name: string, make: new (n: number) => T, n?: number): T {
		const column = this.columns.get(name);
		if (!column) return new make(n ?? 0);
		if (!(column instanceof make))
			throw new BundleError(`Column ${name} of the page's data has the wrong type; make the page again.`);
		if (n !== undefined && column.length !== n)
			throw new BundleError(
				`Column ${name} of the page's data has ${column.length} rows for ${n}; make the page again.`,
			);
		return column;
	}
	u8 = (name: string, n?: number) => this.take(name, Uint8Array, n);
	u16 = (name: string, n?: number) => this.take(name, Uint16Array, n);
	u32 = (name: string, n?: number) => this.take(name, Uint32Array, n);
	f32 = (name: string, n?: number) => this.take(name, Float32Array, n);
	f64 = (name: string, n?: number) => this.take(name, Float64Array, n);
	has = (name: string) => this.columns.has(name);

	index(name: string, n: number | undefined, below: number): Uint32Array {
		const column = this.u32(name, n);
		for (let i = 0; i < column.length; i++)
			if (column[i] >= below)
				throw new BundleError(`Column ${name} of the page's data points outside its table; make the page again.`);
		return column;
	}
}

function readNodes(r: Reader, nFunctions: number): Nodes {
	const parent = r.u32("node.parent");
	const n = parent.length;
	for (let i = 1; i < n; i++)
		if (parent[i] >= i) throw new BundleError("The call tree of the page's data is damaged; make the page again.");
	const fn = r.u32("node.function", n);
	for (let i = 1; i < n; i++)
		if (fn[i] >= nFunctions)
			throw new BundleError("The call tree of the page's data names unknown functions; make the page again.");
	return { n, parent, fn, line: r.u32("node.line", n) };
}

function readSamples(r: Reader, nThreads: number, nNodes: number): Samples | null {
	if (!r.has("sample.time_s")) return null;
	const time = r.f64("sample.time_s");
	const n = time.length;
	const thread = r.index("sample.thread", n, nThreads);
	const first = new Uint32Array(nThreads + 1);
	for (let i = 0; i < n; i++) {
		if (i > 0 && (thread[i] < thread[i - 1] || (thread[i] === thread[i - 1] && !(time[i] >= time[i - 1]))))
			throw new BundleError("The samples of the page's data are out of order; make the page again.");
		first[thread[i] + 1]++;
	}
	for (let t = 0; t < nThreads; t++) first[t + 1] += first[t];
	return {
		n,
		time,
		thread,
		node: r.index("sample.node", n, nNodes),
		class: r.u8("sample.class", n),
		weight: r.f32("sample.weight_s", n),
		first,
	};
}

function readInstructions(r: Reader): Instructions {
	const at = r.f64("instruction.at");
	const n = at.length;
	return {
		n,
		at,
		self: r.f64("instruction.self_s", n),
		count: r.u32("instruction.n", n),
		fn: r.u32("instruction.function", n),
		gap: r.u8("instruction.gap", n),
		text: r.u32("instruction.text", n),
		inlined: r.u32("instruction.inlined", n),
		file: r.u32("instruction.file", n),
		line: r.u32("instruction.line", n),
		source: r.u32("instruction.source", n),
	};
}

function readCodes(r: Reader, nFunctions: number, nInstructions: number): Code[] {
	const fn = r.index("code.function", undefined, nFunctions);
	const image = r.u32("code.image", fn.length);
	const counts = r.u32("code.n", fn.length);
	const [start, end] = [r.f64("code.start", fn.length), r.f64("code.end", fn.length)];
	const self = r.f64("code.self_s", fn.length);
	let first = 0;
	const codes = Array.from(fn, (f, i) => {
		const code = { fn: f, image: image[i], first, n: counts[i], start: start[i], end: end[i], self: self[i] };
		first += counts[i];
		return code;
	});
	if (first !== nInstructions)
		throw new BundleError("The machine code of the page's data is damaged; make the page again.");
	return codes;
}

function readBlocks(r: Reader, nNodes: number, nThreads: number, grain: number | undefined): Blocks | null {
	if (!r.has("block.node") || !grain || !(grain > 0)) return null;
	const node = r.index("block.node", undefined, nNodes);
	const n = node.length;
	return {
		n,
		node,
		thread: r.index("block.thread", n, nThreads),
		born: r.u16("block.born", n),
		died: r.u16("block.died", n),
		kind: r.u8("block.kind", n),
		bytes: r.f64("block.bytes", n),
		grain,
	};
}

function readWhats(r: Reader): Whats {
	const name = r.u32("what.name");
	const n = name.length;
	const u32 = (column: string) => r.u32(column, n);
	const kind = r.u8("what.kind", n);
	return { n, name, fn: u32("what.function"), kind, file: u32("what.file"), line: u32("what.line") };
}

function zonesIn(r: Reader, nWhats: number, nThreads: number): Zones | null {
	if (!r.has("zone.start_s")) return null;
	const start = r.f64("zone.start_s");
	const n = start.length;
	const hasCounts = r.has("zone.n");
	return {
		n,
		thread: r.index("zone.thread", n, nThreads),
		start,
		duration: r.f64("zone.duration_s", n),
		what: r.index("zone.what", n, nWhats),
		depth: r.u16("zone.depth", n),
		count: hasCounts ? r.u32("zone.n", n) : null,
		busy: hasCounts ? r.f64("zone.busy_s", n) : null,
	};
}

// A part of the trace that was asked for later, in the numbering of the capture.
export function readZones(bundle: Bundle, capture: Capture): Zones | null {
	return zonesIn(new Reader(bundle.columns), capture.whats.n, capture.threads.n);
}

export function readCapture(bundle: Bundle): Capture {
	const { head, columns } = bundle;
	const r = new Reader(columns);
	const strings = new Strings(r.u8("string.bytes"), r.u32("string.offset"));
	const name = r.u32("function.name");
	const nf = name.length;
	const functions: Functions = {
		n: nf,
		name,
		fullName: r.u32("function.full_name", nf),
		file: r.u32("function.file", nf),
		module: r.u32("function.module", nf),
		library: r.u32("function.library", nf),
		line: r.u32("function.line", nf),
		kind: r.u8("function.kind", nf),
		flags: r.u8("function.flags", nf),
		roles: r.u8("function.roles", nf),
		package: r.u32("function.package", nf),
	};
	const tid = r.u32("thread.tid");
	const nt = tid.length;
	const threads: Threads = {
		n: nt,
		process: r.u32("thread.process", nt),
		tid,
		name: r.u32("thread.name", nt),
		cpu: r.f64("thread.cpu_s", nt),
		wall: r.f64("thread.wall_s", nt),
		noCpu: r.f64("thread.no_cpu_s", nt),
		start: r.f64("thread.start_s", nt),
		end: r.f64("thread.end_s", nt),
	};
	const nodes = readNodes(r, nf);
	const nc = r.u32("cell.node").length;
	const cells: Cells = {
		n: nc,
		node: r.index("cell.node", nc, nodes.n),
		thread: nt > 0 ? r.index("cell.thread", nc, nt) : new Uint32Array(nc),
		class: r.u8("cell.class", nc),
		weight: r.f64("cell.weight_s", nc),
		base: r.has("cell.base_s") ? r.f64("cell.base_s", nc) : null,
		looks: r.has("cell.base_sq")
			? {
					n: r.u32("cell.n", nc),
					baseN: r.u32("cell.base_n", nc),
					sq: r.f64("cell.sq", nc),
					baseSq: r.f64("cell.base_sq", nc),
				}
			: null,
	};
	const nh = r.u32("heap.node").length;
	const heap: Heap | null = r.has("heap.node")
		? {
				n: nh,
				node: r.index("heap.node", nh, nodes.n),
				thread: nt > 0 ? r.index("heap.thread", nh, nt) : new Uint32Array(nh),
				alloc: r.f64("heap.alloc", nh),
				peak: r.f64("heap.peak", nh),
				leak: r.f64("heap.leak", nh),
				copy: r.f64("heap.copy", nh),
				...(r.has("heap.base_alloc") && {
					base: {
						alloc: r.f64("heap.base_alloc", nh),
						peak: r.f64("heap.base_peak", nh),
						leak: r.f64("heap.base_leak", nh),
						copy: r.f64("heap.base_copy", nh),
					},
				}),
			}
		: null;
	const samples = readSamples(r, nt, nodes.n);
	const whats = readWhats(r);
	const zones = zonesIn(r, whats.n, nt);
	let end = head.report.wall_s ?? 0;
	for (let t = 0; t < nt; t++) end = Math.max(end, threads.end[t]);
	if (samples)
		for (let t = 0; t < nt; t++) {
			const last = samples.first[t + 1] - 1;
			if (last >= samples.first[t]) end = Math.max(end, samples.time[last] + samples.weight[last]);
		}
	const instructions = readInstructions(r);
	const table = (prefix: string) => new Table(columns, prefix);
	return {
		head,
		report: head.report,
		strings,
		functions,
		nodes,
		cells,
		heap,
		blocks: readBlocks(r, nodes.n, nt, head.limits?.block_grain_s),
		isPart: false,
		threads,
		processes: table("process"),
		files: table("file"),
		lines: table("line"),
		functionRows: table("func_row"),
		edges: table("edge"),
		samples,
		memory: table("memory"),
		whats,
		whatRows: table("what"),
		zones,
		durations: table("duration"),
		marks: table("mark"),
		counters: table("counter"),
		leaks: table("leak"),
		codes: readCodes(r, nf, instructions.n),
		instructions,
		series: table("series"),
		changes: table("change"),
		lineTimeline: r.has("line_timeline.bytes") ? r.f32("line_timeline.bytes") : null,
		isDiff: cells.base !== null,
		end: end > 0 && Number.isFinite(end) ? end : 1,
	};
}
