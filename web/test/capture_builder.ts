// Builds a capture from samples, memory and zones, and its tables by arithmetic of its own: the page's sums are held against these.
import { BundleWriter } from "./bundle_writer";
import { changeTable, functionTable, lineTable } from "./row_tables";

export interface Fn {
	name: string;
	file?: string;
	module: string;
	library?: string;
	line?: number;
	kind: number;
	flags?: number;
	roles?: number; // guessed where none are said
	package?: string;
}

export function rolesOf(f: Fn): number {
	const isMine = f.kind === 1 && !((f.flags ?? 0) & 1);
	return (isMine ? 1 : 0) | (f.name === "<module>" || f.kind !== 1 ? 8 : 0);
}

function packageOf(f: Fn): string {
	if (rolesOf(f) & 1 || (f.flags ?? 0) & 2 || f.kind > 1) return "";
	return f.module.split(".")[0];
}

export interface Cell {
	node: number;
	thread: number;
	cls: number;
	n: number;
	weight: number;
	base: number;
}

export interface Memory {
	alloc: number;
	peak: number;
	leak: number;
	copy: number;
}

interface Zone {
	thread: number;
	start: number;
	duration: number;
	name: string;
	fn: number;
	depth: number;
	place?: [file: string, line: number];
}

export class CaptureBuilder {
	readonly w = new BundleWriter();
	readonly fns: Fn[] = [];
	private readonly fnIds = new Map<string, number>();
	readonly parent: number[] = [0];
	readonly fn: number[] = [0];
	readonly line: number[] = [0];
	private readonly nodeIds = new Map<string, number>();
	private readonly cells = new Map<string, Cell>();
	readonly heap = new Map<number, Memory>();
	readonly samples: { time: number; thread: number; node: number; cls: number; weight: number }[] = [];
	readonly threads: {
		process: number;
		tid: number;
		name: string;
		cpu: number;
		wall: number;
		noCpu?: number;
		start: number;
		end: number;
	}[] = [];
	readonly processes: { pid: number; parent: number; command: string }[] = [
		{ pid: 4242, parent: 0xffffffff, command: "python3 report.py --year 2026" },
	];
	readonly sources = new Map<string, string>();
	readonly zones: Zone[] = [];
	isDiff = false;
	readonly changes: { list: number; name: string; file: string; line: number; base: number; after: number }[] = [];

	function(f: Fn): number {
		const key = JSON.stringify([f.name, f.file, f.line, f.module]);
		let id = this.fnIds.get(key);
		if (id === undefined) {
			id = this.fns.length;
			this.fns.push(f);
			this.fnIds.set(key, id);
		}
		return id;
	}

	node(parent: number, fn: number, line: number): number {
		const key = `${parent}:${fn}:${line}`;
		let id = this.nodeIds.get(key);
		if (id === undefined) {
			id = this.parent.length;
			this.parent.push(parent);
			this.fn.push(fn);
			this.line.push(line);
			this.nodeIds.set(key, id);
		}
		return id;
	}

	stack(frames: [number, number][]): number {
		return frames.reduce((above, [fn, line]) => this.node(above, fn, line), 0);
	}

	cell(node: number, thread: number, cls: number, weight: number, base = 0): void {
		const key = `${node}:${thread}:${cls}`;
		const c = this.cells.get(key) ?? { node, thread, cls, n: 0, weight: 0, base: 0 };
		c.n++;
		c.weight += weight;
		c.base += base;
		this.cells.set(key, c);
	}

	// A sample that ends at `end`.
	sample(end: number, thread: number, node: number, cls: number, weight: number): void {
		this.samples.push({ time: Math.max(0, end - weight), thread, node, cls, weight });
		this.cell(node, thread, cls, weight);
	}

	memory(node: number, alloc: number, peak: number, leak: number, copy: number): void {
		const h = this.heap.get(node) ?? { alloc: 0, peak: 0, leak: 0, copy: 0 };
		h.alloc += alloc;
		h.peak += peak;
		h.leak += leak;
		h.copy += copy;
		this.heap.set(node, h);
	}

	finish(extra: Record<string, unknown> = {}): BundleWriter {
		const { w } = this;
		const s = (text: string) => w.string(text);
		const cells = [...this.cells.values()];
		w.table("function", this.fns, {
			name: ["u32", (f) => s(f.name)],
			full_name: ["u32", (f) => s(f.name)],
			file: ["u32", (f) => s(f.file ?? "")],
			module: ["u32", (f) => s(f.module)],
			library: ["u32", (f) => s(f.library ?? "")],
			line: ["u32", (f) => f.line ?? 0],
			kind: ["u8", (f) => f.kind],
			flags: ["u8", (f) => f.flags ?? 0],
			roles: ["u8", (f) => f.roles ?? rolesOf(f)],
			package: ["u32", (f) => s(f.package ?? packageOf(f))],
		});
		w.table("node", this.parent, {
			parent: ["u32", (parent) => parent],
			function: ["u32", (_, i) => this.fn[i]],
			line: ["u32", (_, i) => this.line[i]],
			flags: ["u8", () => 0],
		});
		w.table("cell", cells, {
			node: ["u32", (c) => c.node],
			thread: ["u32", (c) => c.thread],
			class: ["u8", (c) => c.cls],
			n: ["u32", (c) => c.n],
			weight_s: ["f64", (c) => c.weight],
			...(this.isDiff && { base_s: ["f64", (c: Cell) => c.base] as ["f64", (c: Cell) => number] }),
		});
		if (this.heap.size > 0)
			w.table("heap", [...this.heap], {
				node: ["u32", ([node]) => node],
				thread: ["u32", () => 0],
				alloc: ["f64", ([, h]) => h.alloc],
				peak: ["f64", ([, h]) => h.peak],
				leak: ["f64", ([, h]) => h.leak],
				copy: ["f64", ([, h]) => h.copy],
			});
		this.peopleTables(cells);
		const files = [...new Set(this.fns.filter((f) => f.kind === 1 && f.file).map((f) => f.file as string))];
		w.table("file", files, {
			name: ["u32", s],
			source: ["u32", (f) => (this.sources.has(f) ? s(this.sources.get(f) as string) : 0)],
			flags: ["u8", () => 0],
		});
		const lines = "noLines" in extra ? [] : lineTable(this, files, cells);
		const functions = functionTable(this, cells);
		if (this.isDiff) changeTable(this);
		this.timelineTables();
		w.head = {
			report: { ...this.report(cells), ...((extra.report as object | undefined) ?? {}) },
			limits: { nodes_left_out: 0, samples_left_out: 0 },
			...Object.fromEntries(Object.entries(extra).filter(([k]) => k !== "report" && k !== "noLines")),
		};
		w.report = { ...(w.head.report as object), functions, lines };
		return w;
	}

	private peopleTables(cells: Cell[]): void {
		const { w } = this;
		const cpuOf = (t: number) => cells.filter((c) => c.thread === t && c.cls < 4).reduce((a, c) => a + c.weight, 0);
		w.table("thread", this.threads, {
			process: ["u32", (t) => t.process],
			tid: ["u32", (t) => t.tid],
			name: ["u32", (t) => w.string(t.name)],
			cpu_s: ["f64", (_, i) => cpuOf(i)],
			wall_s: ["f64", (t) => t.end - t.start],
			no_cpu_s: ["f64", (t) => t.noCpu ?? 0],
			start_s: ["f64", (t) => t.start],
			end_s: ["f64", (t) => t.end],
		});
		w.table("process", this.processes, {
			pid: ["u32", (p) => p.pid],
			parent: ["u32", (p) => p.parent],
			command: ["u32", (p) => w.string(p.command)],
			python: ["u32", () => w.string("3.13.0")],
			start_s: ["f64", () => 0],
			end_s: ["f64", () => 10],
			exit_code: ["i32", () => 0],
			exit_signal: ["i32", () => 0],
		});
	}

	private timelineTables(): void {
		const { w, zones } = this;
		const samples = [...this.samples].sort((a, b) => a.thread - b.thread || a.time - b.time);
		if (samples.length > 0)
			w.table("sample", samples, {
				time_s: ["f64", (x) => x.time],
				thread: ["u32", (x) => x.thread],
				node: ["u32", (x) => x.node],
				class: ["u8", (x) => x.cls],
				weight_s: ["f32", (x) => x.weight],
			});
		if (zones.length === 0) return;
		const keyOf = (z: Zone) => `${z.fn}:${z.name}`;
		const whats = new Map(zones.map((z) => [keyOf(z), z]));
		const order = [...whats.keys()];
		w.table("what", [...whats.values()], {
			name: ["u32", (z) => w.string(z.name)],
			function: ["u32", (z) => z.fn],
			kind: ["u8", () => 0],
			file: ["u32", (z) => w.string(z.place?.[0] ?? "")],
			line: ["u32", (z) => z.place?.[1] ?? 0],
		});
		w.table("zone", zones, {
			thread: ["u32", (z) => z.thread],
			start_s: ["f64", (z) => z.start],
			duration_s: ["f64", (z) => z.duration],
			what: ["u32", (z) => order.indexOf(keyOf(z))],
			depth: ["u16", (z) => z.depth],
		});
	}

	private report(cells: Cell[]): object {
		const byClass = [0, 1, 2, 3, 4, 5].map((c) => cells.filter((x) => x.cls === c).reduce((a, x) => a + x.weight, 0));
		return {
			schema: "fathom.report/1",
			command: ["python3", "report.py", "--year", "2026"],
			python: "3.13.0",
			started: "2026-11-16T07:00:00Z",
			exit: { code: 0, signal: null },
			wall_s: Math.max(...this.threads.map((t) => t.end), 0),
			cpu_s: byClass[0] + byClass[1] + byClass[2] + byClass[3],
			rate_hz: 1000,
			samples: cells.reduce((a, c) => a + c.n, 0),
			wait_samples: cells.filter((c) => c.cls >= 4).reduce((a, c) => a + c.n, 0),
			dropped: 0,
			failed_unwinds: 0,
			overhead_s: 0.021,
			max_rss_bytes: 412 * 1048576,
			coverage: [],
			time: {
				python_s: byClass[0],
				native_s: byClass[1],
				system_s: byClass[2],
				gc_s: byClass[3],
				gil_wait_s: byClass[4],
				wait_s: byClass[5],
			},
		};
	}
}
