// Captures made by arithmetic, so that every number on the page is known: a shop's report, a program of 50 threads, a big one,
// a hostile one, and two to compare.
import { BundleWriter } from "./bundle_writer";

// A small generator of numbers that is the same on every machine.
export function dice(seed: number): () => number {
	let s = seed >>> 0;
	return () => {
		s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
		return s / 0x100000000;
	};
}

const CLASS_COLUMNS = ["python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"];

interface Fn {
	name: string;
	file?: string;
	module: string;
	library?: string;
	line?: number;
	kind: number;
	flags?: number;
}

export class CaptureBuilder {
	readonly w = new BundleWriter();
	private readonly fns: Fn[] = [];
	private readonly fnIds = new Map<string, number>();
	readonly parent: number[] = [0];
	readonly fn: number[] = [0];
	readonly line: number[] = [0];
	private readonly nodeIds = new Map<string, number>();
	private readonly cells = new Map<
		string,
		{ node: number; thread: number; cls: number; n: number; weight: number; base: number }
	>();
	private readonly heap = new Map<number, { alloc: number; peak: number; leak: number; copy: number }>();
	readonly samples: { time: number; thread: number; node: number; cls: number; weight: number }[] = [];
	readonly threads: {
		process: number;
		tid: number;
		name: string;
		cpu: number;
		wall: number;
		start: number;
		end: number;
	}[] = [];
	readonly processes: { pid: number; parent: number; command: string }[] = [
		{ pid: 4242, parent: 0xffffffff, command: "python3 report.py --year 2026" },
	];
	readonly sources = new Map<string, string>();
	readonly zones: { thread: number; start: number; duration: number; name: string; fn: number; depth: number }[] = [];
	isDiff = false;
	private functionFacts: object[] = [];
	private lineFacts: object[] = [];

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
		w.u32(
			"function.name",
			this.fns.map((f) => s(f.name)),
		);
		w.u32(
			"function.full_name",
			this.fns.map((f) => s(f.name)),
		);
		w.u32(
			"function.file",
			this.fns.map((f) => s(f.file ?? "")),
		);
		w.u32(
			"function.module",
			this.fns.map((f) => s(f.module)),
		);
		w.u32(
			"function.library",
			this.fns.map((f) => s(f.library ?? "")),
		);
		w.u32(
			"function.line",
			this.fns.map((f) => f.line ?? 0),
		);
		w.u8(
			"function.kind",
			this.fns.map((f) => f.kind),
		);
		w.u8(
			"function.flags",
			this.fns.map((f) => f.flags ?? 0),
		);
		w.u32("node.parent", this.parent);
		w.u32("node.function", this.fn);
		w.u32("node.line", this.line);
		w.u8(
			"node.flags",
			this.parent.map(() => 0),
		);
		const cells = [...this.cells.values()];
		w.u32(
			"cell.node",
			cells.map((c) => c.node),
		);
		w.u32(
			"cell.thread",
			cells.map((c) => c.thread),
		);
		w.u8(
			"cell.class",
			cells.map((c) => c.cls),
		);
		w.u32(
			"cell.n",
			cells.map((c) => c.n),
		);
		w.f64(
			"cell.weight_s",
			cells.map((c) => c.weight),
		);
		if (this.isDiff)
			w.f64(
				"cell.base_s",
				cells.map((c) => c.base),
			);
		const heap = [...this.heap];
		if (heap.length > 0) {
			w.u32(
				"heap.node",
				heap.map(([node]) => node),
			);
			w.u32(
				"heap.thread",
				heap.map(() => 0),
			);
			for (const k of ["alloc", "peak", "leak", "copy"] as const)
				w.f64(
					`heap.${k}`,
					heap.map(([, h]) => h[k]),
				);
		}
		const cpuOf = (t: number) => cells.filter((c) => c.thread === t && c.cls < 4).reduce((a, c) => a + c.weight, 0);
		w.u32(
			"thread.process",
			this.threads.map((t) => t.process),
		);
		w.u32(
			"thread.tid",
			this.threads.map((t) => t.tid),
		);
		w.u32(
			"thread.name",
			this.threads.map((t) => s(t.name)),
		);
		w.f64(
			"thread.cpu_s",
			this.threads.map((_, i) => cpuOf(i)),
		);
		w.f64(
			"thread.wall_s",
			this.threads.map((t) => t.end - t.start),
		);
		w.f64(
			"thread.start_s",
			this.threads.map((t) => t.start),
		);
		w.f64(
			"thread.end_s",
			this.threads.map((t) => t.end),
		);
		w.u32(
			"process.pid",
			this.processes.map((p) => p.pid),
		);
		w.u32(
			"process.parent",
			this.processes.map((p) => p.parent),
		);
		w.u32(
			"process.command",
			this.processes.map((p) => s(p.command)),
		);
		w.u32(
			"process.python",
			this.processes.map(() => s("3.13.0")),
		);
		w.f64(
			"process.start_s",
			this.processes.map(() => 0),
		);
		w.f64(
			"process.end_s",
			this.processes.map(() => 10),
		);
		w.column(
			"process.exit_code",
			Int32Array.from(this.processes, () => 0),
		);
		w.column(
			"process.exit_signal",
			Int32Array.from(this.processes, () => 0),
		);
		const files = [...new Set(this.fns.filter((f) => f.kind === 1 && f.file).map((f) => f.file as string))];
		w.u32("file.name", files.map(s));
		w.u32(
			"file.source",
			files.map((f) => (this.sources.has(f) ? s(this.sources.get(f) as string) : 0)),
		);
		w.u8(
			"file.flags",
			files.map(() => 0),
		);
		if (!("noLines" in extra)) this.lineTable(files, cells);
		this.functionTable(cells);
		const samples = [...this.samples].sort((a, b) => a.thread - b.thread || a.time - b.time);
		if (samples.length > 0) {
			w.f64(
				"sample.time_s",
				samples.map((x) => x.time),
			);
			w.u32(
				"sample.thread",
				samples.map((x) => x.thread),
			);
			w.u32(
				"sample.node",
				samples.map((x) => x.node),
			);
			w.u8(
				"sample.class",
				samples.map((x) => x.cls),
			);
			w.f32(
				"sample.weight_s",
				samples.map((x) => x.weight),
			);
		}
		if (this.zones.length > 0) {
			w.u32(
				"zone.thread",
				this.zones.map((z) => z.thread),
			);
			w.f64(
				"zone.start_s",
				this.zones.map((z) => z.start),
			);
			w.f64(
				"zone.duration_s",
				this.zones.map((z) => z.duration),
			);
			w.u32(
				"zone.name",
				this.zones.map((z) => s(z.name)),
			);
			w.u32(
				"zone.function",
				this.zones.map((z) => z.fn),
			);
			w.column(
				"zone.depth",
				Uint16Array.from(this.zones, (z) => z.depth),
			);
			w.u8(
				"zone.kind",
				this.zones.map(() => 0),
			);
		}
		const byClass = [0, 1, 2, 3, 4, 5].map((c) => cells.filter((x) => x.cls === c).reduce((a, x) => a + x.weight, 0));
		w.head = {
			report: {
				schema: "fathom.report/1",
				command: ["python3", "report.py", "--year", "2026"],
				python: "3.13.0",
				started: "2026-11-16T07:00:00Z",
				exit: { code: 0, signal: null },
				wall_s: Math.max(...this.threads.map((t) => t.end), 0),
				cpu_s: byClass[0] + byClass[1] + byClass[2] + byClass[3],
				rate_hz: 1000,
				samples: cells.reduce((a, c) => a + c.n, 0),
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
				...((extra.report as object | undefined) ?? {}),
			},
			limits: { nodes_left_out: 0, samples_left_out: 0 },
			...Object.fromEntries(Object.entries(extra).filter(([k]) => k !== "report" && k !== "noLines")),
		};
		w.report = { ...(w.head.report as object), functions: this.functionFacts, lines: this.lineFacts };
		return w;
	}

	private lineTable(files: string[], cells: { node: number; cls: number; weight: number; base: number }[]): void {
		const { w } = this;
		const rows = new Map<
			string,
			{ file: number; line: number; fn: number; v: number[]; alloc: number; peak: number; copy: number; base: number }
		>();
		const row = (node: number) => {
			let at = node;
			while (
				at > 0 &&
				!(this.fns[this.fn[at]].kind === 1 && !((this.fns[this.fn[at]].flags ?? 0) & 1) && this.line[at] > 0)
			)
				at = this.parent[at];
			if (at === 0) return null;
			const f = this.fn[at];
			const key = `${f}:${this.line[at]}`;
			const known = rows.get(key) ?? {
				file: files.indexOf(this.fns[f].file ?? ""),
				line: this.line[at],
				fn: f,
				v: [0, 0, 0, 0, 0, 0],
				alloc: 0,
				peak: 0,
				copy: 0,
				base: 0,
			};
			rows.set(key, known);
			return known;
		};
		for (const c of cells) {
			const r = row(c.node);
			if (!r) continue;
			r.v[c.cls] += c.weight;
			if (c.cls < 4) r.base += c.base;
		}
		for (const [node, h] of this.heap) {
			const r = row(node);
			if (!r) continue;
			r.alloc += h.alloc;
			r.peak += h.peak;
			r.copy += h.copy;
		}
		const list = [...rows.values()];
		this.lineFacts = list.map((r) => ({ file: files[r.file], line: r.line, total_s: r.v[0] + r.v[1] + r.v[2] }));
		w.u32(
			"line.file",
			list.map((r) => r.file),
		);
		w.u32(
			"line.line",
			list.map((r) => r.line),
		);
		w.u32(
			"line.function",
			list.map((r) => r.fn),
		);
		CLASS_COLUMNS.forEach((name, i) =>
			w.f64(
				`line.${name}`,
				list.map((r) => r.v[i]),
			),
		);
		w.f64(
			"line.plus_minus_s",
			list.map((r) => 1.96 * Math.sqrt((r.v[0] + r.v[1] + r.v[2]) * 0.001)),
		);
		w.f64(
			"line.alloc_bytes",
			list.map((r) => r.alloc),
		);
		w.f64(
			"line.peak_bytes",
			list.map((r) => r.peak),
		);
		w.f64(
			"line.avg_bytes",
			list.map((r) => r.peak / 2),
		);
		w.f64(
			"line.copy_bytes",
			list.map((r) => r.copy),
		);
		w.f32(
			"line.python_share",
			list.map(() => 0.6),
		);
		const points: number[] = [];
		w.u32(
			"line.timeline",
			list.map((r) => {
				if (!(r.peak > 0)) return 0xffffffff;
				const first = points.length;
				for (let i = 0; i < 32; i++) points.push(r.peak * (0.2 + 0.8 * Math.abs(Math.sin(i / 5 + r.line))));
				return first;
			}),
		);
		if (points.length > 0) w.f32("line_timeline.bytes", points);
		if (this.isDiff) {
			w.f64(
				"line.base_s",
				list.map((r) => r.base),
			);
			w.u8(
				"line.significant",
				list.map((r) => Number(Math.abs(r.base - r.v[0] - r.v[1] - r.v[2]) > 0.05)),
			);
		}
	}

	private functionTable(cells: { node: number; cls: number; weight: number; base: number }[]): void {
		const { w, fns } = this;
		const self = new Float64Array(fns.length);
		const total = new Float64Array(fns.length);
		const baseTotal = new Float64Array(fns.length);
		const classes = CLASS_COLUMNS.map(() => new Float64Array(fns.length));
		const nodeTotal = new Float64Array(this.parent.length);
		const baseNode = new Float64Array(this.parent.length);
		for (const c of cells) {
			const f = this.fn[c.node];
			classes[c.cls][f] += c.weight;
			if (c.cls >= 4) continue;
			if (c.node > 0) self[f] += c.weight;
			nodeTotal[c.node] += c.weight;
			baseNode[c.node] += c.base;
		}
		for (let i = this.parent.length - 1; i > 0; i--) {
			nodeTotal[this.parent[i]] += nodeTotal[i];
			baseNode[this.parent[i]] += baseNode[i];
			let above = this.parent[i];
			let guard = 0;
			while (above > 0 && this.fn[above] !== this.fn[i] && guard++ < 3000) above = this.parent[above];
			if (above > 0) continue;
			total[this.fn[i]] += nodeTotal[i];
			baseTotal[this.fn[i]] += baseNode[i];
		}
		const ids = fns.map((_, i) => i);
		this.functionFacts = fns
			.map((f, i) => ({ name: f.name, self_s: self[i], total_s: total[i] }))
			.filter((_, i) => !((fns[i].flags ?? 0) & 2));
		w.u32("func_row.function", ids);
		w.f64("func_row.self_s", self);
		w.f64("func_row.total_s", total);
		CLASS_COLUMNS.forEach((name, i) => w.f64(`func_row.${name}`, classes[i]));
		w.f64(
			"func_row.self_plus_minus_s",
			ids.map((i) => 1.96 * Math.sqrt(self[i] * 0.001)),
		);
		w.f64(
			"func_row.plus_minus_s",
			ids.map((i) => 1.96 * Math.sqrt(total[i] * 0.001)),
		);
		w.f64(
			"func_row.alloc_bytes",
			ids.map(() => 0),
		);
		w.f64(
			"func_row.peak_bytes",
			ids.map(() => 0),
		);
		const calls = ids.map((i) => this.zones.filter((z) => z.fn === i));
		w.f64(
			"func_row.calls",
			calls.map((c) => c.length),
		);
		w.f64(
			"func_row.min_s",
			calls.map((c) => (c.length ? Math.min(...c.map((z) => z.duration)) : 0)),
		);
		w.f64(
			"func_row.mean_s",
			calls.map((c) => (c.length ? c.reduce((a, z) => a + z.duration, 0) / c.length : 0)),
		);
		w.f64(
			"func_row.max_s",
			calls.map((c) => (c.length ? Math.max(...c.map((z) => z.duration)) : 0)),
		);
		if (this.isDiff) {
			w.f64("func_row.base_total_s", baseTotal);
			w.u8(
				"func_row.significant",
				ids.map((i) => Number(Math.abs(baseTotal[i] - total[i]) > 0.05)),
			);
		}
	}
}

const REPORT_PY = `"""Prints what a shop sold: the example of the viewer's tests."""
import sys
import numpy as np

from orders import load_orders, Order


def parse_price(text):
    # Prices come as "12.50 EUR"
    amount, currency = text.split(" ")
    return float(amount) * RATES[currency]


def rank(orders):
    prices = np.array([o.price for o in orders])
    order = np.argsort(prices)
    return [orders[i] for i in order[::-1]]


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def summarise(orders):
    totals = {}
    for order in orders:
        totals[order.shop] = totals.get(order.shop, 0.0) + order.price
    return totals


def main():
    orders = load_orders(sys.argv[1])
    for order in orders:
        order.price = parse_price(order.text)
    best = rank(orders)
    fib(24)
    print(summarise(best))


if __name__ == "__main__":
    main()
`;
const ORDERS_PY = `import csv
import time


class Order:
    def __init__(self, row):
        self.shop, self.text = row[0], row[1]


def load_orders(path):
    time.sleep(0.5)  # wait for the disk of 1998
    with open(path) as f:
        rows = list(csv.reader(f))
    return [Order(row) for row in rows]
`;

const PY = 1;
const NATIVE = 0;

export function shop(
	options: { hasMemory?: boolean; hasZones?: boolean } = { hasMemory: true, hasZones: true },
): BundleWriter {
	const b = new CaptureBuilder();
	const report = "/home/ann/shop/report.py";
	const orders = "/home/ann/shop/orders.py";
	b.sources.set(report, REPORT_PY);
	b.sources.set(orders, ORDERS_PY);
	const own = (name: string, line: number, file = report) =>
		b.function({ name, file, module: file === report ? "__main__" : "orders", line, kind: PY });
	const native = (name: string, library: string, module = library, flags = 1) =>
		b.function({ name, library: `/usr/lib/${library}`, module, kind: NATIVE, flags });
	const start = native("_start", "python3.13", "python3.13", 2);
	const evalLoop = native("_PyEval_EvalFrameDefault", "python3.13", "python3.13", 2);
	const module = own("<module>", 1);
	const main = own("main", 32);
	const parse = own("parse_price", 8);
	const rank = own("rank", 14);
	const listcomp = own("rank.<listcomp>", 15);
	const fib = own("fib", 20);
	const summarise = own("summarise", 24);
	const load = own("load_orders", 10, orders);
	const init = own("Order.__init__", 6, orders);
	const argsortPy = b.function({
		name: "argsort",
		file: "/usr/lib/python3/site-packages/numpy/core/fromnumeric.py",
		module: "numpy",
		line: 1032,
		kind: PY,
		flags: 1,
	});
	const argsort = native("npy_aquicksort<double>", "numpy/_multiarray_umath.so", "numpy");
	const split = native("unicode_split", "python3.13", "python3.13", 1);
	const reader = native("Reader_iternext", "_csv.so", "csv");
	const read = native("read", "[kernel]", "[kernel]");
	const sleep = native("clock_nanosleep", "libc.so.6", "libc");
	const collect = native("gc_collect_main", "python3.13", "python3.13", 1);
	const malloc = native("malloc", "libc.so.6", "libc");
	const worker = b.function({
		name: "Thread.run",
		file: "/usr/lib/python3.13/threading.py",
		module: "threading",
		line: 990,
		kind: PY,
		flags: 1,
	});
	const base: [number, number][] = [
		[start, 0],
		[evalLoop, 0],
		[module, 43],
		[main, 0],
	];
	const from = (line: number, ...rest: [number, number][]) => b.stack([...base.slice(0, 3), [main, line], ...rest]);
	b.threads.push({ process: 0, tid: 4242, name: "MainThread", cpu: 0, wall: 6, start: 0, end: 6 });
	for (let t = 1; t < 4; t++)
		b.threads.push({ process: 0, tid: 4242 + t, name: `worker-${t}`, cpu: 0, wall: 5, start: 0.6, end: 5.6 });
	const random = dice(7);
	const tick = 0.001;
	const at = (time: number, node: number, cls: number, n = 1) => b.sample(time, 0, node, cls, tick * n);
	let t = 0;
	b.sample(0.5, 0, from(33, [load, 11], [sleep, 0]), 5, 0.5);
	t = 0.5;
	for (let i = 0; i < 600; i++) {
		t += tick;
		const r = random();
		at(
			t,
			r < 0.5
				? from(33, [load, 13], [reader, 0])
				: r < 0.6
					? from(33, [load, 13], [reader, 0], [read, 0])
					: r < 0.75
						? from(33, [load, 14], [init, 7], [malloc, 0])
						: from(33, [load, 14], [init, 7]),
			r < 0.5 ? 1 : r < 0.6 ? 2 : r < 0.75 ? 1 : 0,
		);
	}
	for (let i = 0; i < 2200; i++) {
		t += tick;
		const r = random();
		if (r < 0.04) at(t, from(35, [parse, 10], [collect, 0]), 3);
		else
			at(
				t,
				r < 0.55 ? from(35, [parse, 11]) : r < 0.85 ? from(35, [parse, 10], [split, 0]) : from(35),
				r >= 0.55 && r < 0.85 ? 1 : 0,
			);
	}
	for (let i = 0; i < 900; i++) {
		t += tick;
		const r = random();
		at(
			t,
			r < 0.6
				? from(36, [rank, 16], [argsortPy, 1130], [argsort, 0])
				: r < 0.8
					? from(36, [rank, 15], [listcomp, 15])
					: from(36, [rank, 17]),
			r < 0.6 ? 1 : 0,
		);
	}
	for (let i = 0; i < 1100; i++) {
		t += tick;
		const depth = 3 + Math.floor(random() * 12);
		at(t, from(37, ...Array.from({ length: depth }, (): [number, number] => [fib, 21])), 0);
	}
	for (let i = 0; i < 500; i++) {
		t += tick;
		at(t, from(38, [summarise, random() < 0.8 ? 27 : 26]), 0);
	}
	for (let w = 1; w < 4; w++) {
		let wt = 0.6;
		while (wt < 5.5) {
			const r = random();
			const length = 0.002 + 0.03 * r;
			const cls = r < 0.35 ? 4 : r < 0.7 ? 5 : r < 0.85 ? 0 : 1;
			const node = b.stack(
				cls === 5
					? [
							[start, 0],
							[worker, 1012],
							[load, 11],
							[sleep, 0],
						]
					: cls === 1
						? [
								[start, 0],
								[worker, 1012],
								[rank, 16],
								[argsort, 0],
							]
						: [
								[start, 0],
								[worker, 1012],
								[parse, 11],
							],
			);
			wt += length;
			b.sample(wt, w, node, cls, length);
		}
	}
	const MB = 1048576;
	if (options.hasMemory) {
		b.memory(from(33, [load, 13], [reader, 0]), 180 * MB, 96 * MB, 0, 22 * MB);
		b.memory(from(33, [load, 14], [init, 7]), 64 * MB, 60 * MB, 6 * MB, 0);
		b.memory(from(36, [rank, 16], [argsortPy, 1130], [argsort, 0]), 40 * MB, 40 * MB, 0, 160 * MB);
		b.memory(from(36, [rank, 15], [listcomp, 15]), 28 * MB, 14 * MB, 0, 0);
		const n = 240;
		b.w.f64(
			"memory.time_s",
			Array.from({ length: n }, (_, i) => (i * 6) / n),
		);
		b.w.f64(
			"memory.heap",
			Array.from({ length: n }, (_, i) => MB * (20 + 180 * Math.min(1, i / 80) - (i > 150 ? 60 : 0))),
		);
		b.w.f64(
			"memory.rss",
			Array.from({ length: n }, (_, i) => MB * (60 + 230 * Math.min(1, i / 75))),
		);
		b.w.u32("leak.file", [1]);
		b.w.u32("leak.line", [7]);
		b.w.u32("leak.function", [init]);
		b.w.f64("leak.likelihood", [0.97]);
		b.w.f64("leak.velocity", [1.1 * MB]);
		b.w.f64("leak.bytes", [6 * MB]);
		b.w.u32("leak.types", [0]);
	}
	if (options.hasZones) {
		b.zones.push({ thread: 0, start: 0, duration: 5.8, name: "", fn: main, depth: 0 });
		b.zones.push({ thread: 0, start: 0.001, duration: 1.098, name: "", fn: load, depth: 1 });
		let zt = 1.1;
		for (let i = 0; i < 1500; i++) {
			const d = 0.0009 + random() ** 6 * 0.01;
			if (zt + d > 3.3) break;
			b.zones.push({ thread: 0, start: zt, duration: d, name: "", fn: parse, depth: 1 });
			zt += d + 0.0002;
		}
		b.zones.push({ thread: 0, start: 3.31, duration: 0.9, name: "ranking", fn: rank, depth: 1 });
		b.w.u32("mark.thread", [0, 0]);
		b.w.f64("mark.time_s", [1.1, 4.2]);
		b.w.u32("mark.text", [b.w.string("loaded"), b.w.string("ranked")]);
		b.w.u32(
			"counter.name",
			Array.from({ length: 40 }, () => b.w.string("queue length")),
		);
		b.w.f64(
			"counter.time_s",
			Array.from({ length: 40 }, (_, i) => i * 0.15),
		);
		b.w.f64(
			"counter.value",
			Array.from({ length: 40 }, (_, i) => 5 + 4 * Math.sin(i / 3)),
		);
	}
	return b.finish({
		report: {
			memory: { peak_bytes: 214 * MB, alloc_bytes: 312 * MB, growth_rate: 0.02 },
			coverage: [
				{ what: "1 process could not be followed", why: "it replaced its environment before the agent was loaded" },
			],
		},
	});
}

export function manyThreads(): BundleWriter {
	const b = new CaptureBuilder();
	b.processes.push({ pid: 4300, parent: 0, command: "python3 -c worker" });
	const run = b.function({
		name: "Thread.run",
		file: "/usr/lib/python3.13/threading.py",
		module: "threading",
		line: 990,
		kind: PY,
		flags: 1,
	});
	const work = b.function({ name: "work", file: "/home/ann/pool.py", module: "pool", line: 3, kind: PY });
	const random = dice(3);
	for (let t = 0; t < 50; t++) {
		b.threads.push({ process: t < 30 ? 0 : 1, tid: 100 + t, name: `pool-${t}`, cpu: 0, wall: 4, start: 0, end: 4 });
		let at = 0.01 * t;
		while (at < 3.9) {
			const length = 0.005 + 0.05 * random();
			at += length;
			b.sample(
				at,
				t,
				b.stack([
					[run, 1012],
					[work, 4 + Math.floor(random() * 3)],
				]),
				random() < 0.3 ? 4 : random() < 0.5 ? 5 : 0,
				length,
			);
		}
	}
	return b.finish();
}

export function comparison(): BundleWriter {
	const b = new CaptureBuilder();
	b.isDiff = true;
	const file = "/home/ann/app.py";
	b.sources.set(
		file,
		"def slow(n):\n    return sum(range(n))\n\ndef same():\n    pass\n\ndef gone():\n    pass\n\ndef main():\n    slow(10)\n    same()\n    gone()\n\nmain()\n",
	);
	const f = (name: string, line: number) => b.function({ name, file, module: "app", line, kind: PY });
	const [main, slow, same, gone] = [f("main", 10), f("slow", 1), f("same", 4), f("gone", 7)];
	b.threads.push({ process: 0, tid: 1, name: "MainThread", cpu: 0, wall: 4, start: 0, end: 4 });
	b.cell(
		b.stack([
			[main, 11],
			[slow, 2],
		]),
		0,
		0,
		2.5,
		1,
	);
	b.cell(
		b.stack([
			[main, 12],
			[same, 5],
		]),
		0,
		0,
		1.01,
		1,
	);
	b.cell(
		b.stack([
			[main, 13],
			[gone, 8],
		]),
		0,
		0,
		0,
		0.75,
	);
	return b.finish({ diff: true });
}

// Names that would run if a page trusted them, a stack 100,000 deep, a name of a megabyte, numbers that are none.
export function hostile(): BundleWriter {
	const b = new CaptureBuilder();
	const evil = [
		"<script>window.pwned=1</script>",
		"<img src=x onerror=window.pwned=1>",
		"</script><script>window.pwned=1</script>",
		"javascript:window.pwned=1",
		"__proto__",
		"constructor",
		"\u202eevil\u0000name\n",
		"${window.pwned=1}",
		"x".repeat(1 << 20),
	];
	const fns = evil.map((name, i) =>
		b.function({
			name,
			file: i % 2 ? `/tmp/${name.slice(0, 200)}.py` : "",
			module: name.slice(0, 300),
			line: i,
			kind: i % 3 === 0 ? 0 : 1,
		}),
	);
	b.sources.set(
		`/tmp/${evil[1].slice(0, 200)}.py`,
		`# </textarea><script>window.pwned=1</script>\n${'"""'.repeat(3)}\nx = '${"y".repeat(200000)}'\n`,
	);
	b.threads.push({ process: 0, tid: 1, name: evil[0], cpu: 0, wall: 1, start: 0, end: 1 });
	b.threads.push({ process: 0, tid: 2, name: "<b>" + "t".repeat(5000), cpu: 0, wall: 1, start: 0, end: 1 });
	b.processes[0].command = evil[2];
	const recursive = b.function({ name: "recurse", file: "/tmp/deep.py", module: "deep", line: 1, kind: PY });
	let node = 0;
	for (let d = 0; d < 100_000; d++) {
		node = b.node(node, d % 50 === 49 ? fns[d % fns.length] : recursive, 1 + (d % 3));
		if (d % 1000 === 999) b.sample(0.001 * (d / 1000 + 1), 0, node, 0, 0.001);
	}
	fns.forEach((fn, i) => b.sample(0.5 + i * 0.01, 1, b.node(0, fn, i + 1), i % 6, 0.01));
	return b.finish({
		report: { command: evil.slice(0, 4), coverage: [{ what: evil[0], why: evil[1] }], python: evil[0] },
		title: evil[0],
	});
}

// Many nodes and samples by formula, straight into columns: the builder's maps would be the slow part.
export function big(nNodes: number, nSamples: number, nFunctions = 4000): BundleWriter {
	const w = new BundleWriter();
	const random = dice(11);
	const parent = new Uint32Array(nNodes);
	const depth = new Uint8Array(nNodes);
	const fn = new Uint32Array(nNodes);
	for (let i = 1; i < nNodes; i++) {
		let p = i < 40 ? i - 1 : Math.floor(random() ** 0.6 * i);
		while (depth[p] > 60) p = parent[p];
		parent[i] = p;
		depth[i] = depth[p] + 1;
		fn[i] = Math.floor(random() ** 2 * nFunctions);
	}
	const names = Array.from({ length: nFunctions }, (_, i) => w.string(`package_${i % 37}.handle_${i}`));
	const file = w.string("/srv/app/handlers.py");
	const modules = Array.from({ length: 37 }, (_, i) => w.string(`package_${i}`));
	w.u32("function.name", names);
	w.u32("function.full_name", names);
	w.u32(
		"function.file",
		names.map(() => file),
	);
	w.u32(
		"function.module",
		names.map((_, i) => modules[i % 37]),
	);
	w.u32(
		"function.library",
		names.map(() => 0),
	);
	w.u32(
		"function.line",
		names.map((_, i) => i + 1),
	);
	w.u8(
		"function.kind",
		names.map((_, i) => (i % 3 ? 1 : 0)),
	);
	w.u8(
		"function.flags",
		names.map((_, i) => (i % 5 ? 0 : 1)),
	);
	w.column("node.parent", parent);
	w.column("node.function", fn);
	w.column(
		"node.line",
		Uint32Array.from({ length: nNodes }, (_, i) => i % 100),
	);
	w.column("node.flags", new Uint8Array(nNodes));
	const weights = Float64Array.from({ length: nNodes }, () => 0.00001 + random() ** 8 * 0.002);
	w.column(
		"cell.node",
		Uint32Array.from({ length: nNodes }, (_, i) => i),
	);
	w.column(
		"cell.thread",
		Uint32Array.from({ length: nNodes }, (_, i) => i % 8),
	);
	w.column(
		"cell.class",
		Uint8Array.from({ length: nNodes }, (_, i) => (i % 7 === 0 ? 1 : 0)),
	);
	w.column("cell.n", new Uint32Array(nNodes).fill(1));
	w.column("cell.weight_s", weights);
	const tick = 0.001;
	const perThread = Math.floor(nSamples / 8);
	const end = perThread * tick;
	w.u32("thread.process", new Array(8).fill(0));
	w.u32("thread.tid", [1, 2, 3, 4, 5, 6, 7, 8]);
	w.u32(
		"thread.name",
		Array.from({ length: 8 }, (_, i) => w.string(`worker-${i}`)),
	);
	w.f64("thread.cpu_s", new Array(8).fill(end));
	w.f64("thread.wall_s", new Array(8).fill(end));
	w.f64("thread.start_s", new Array(8).fill(0));
	w.f64("thread.end_s", new Array(8).fill(end));
	w.column(
		"sample.time_s",
		Float64Array.from({ length: perThread * 8 }, (_, i) => (i % perThread) * tick),
	);
	w.column(
		"sample.thread",
		Uint32Array.from({ length: perThread * 8 }, (_, i) => Math.floor(i / perThread)),
	);
	w.column(
		"sample.node",
		Uint32Array.from({ length: perThread * 8 }, () => Math.floor(random() * nNodes)),
	);
	w.column(
		"sample.class",
		Uint8Array.from({ length: perThread * 8 }, () => (random() < 0.2 ? 1 : 0)),
	);
	w.column("sample.weight_s", new Float32Array(perThread * 8).fill(tick));
	const all = weights.reduce((a, b) => a + b, 0);
	w.head = {
		report: {
			command: ["big"],
			wall_s: end,
			cpu_s: all,
			samples: nSamples,
			exit: { code: 0, signal: null },
			time: { python_s: all },
		},
		limits: {},
	};
	return w;
}

// A trace: calls nested ten deep on each of four threads, by formula.
export function zones(n: number): BundleWriter {
	const w = big(2000, 4000);
	const perThread = Math.floor(n / 4);
	const thread = new Uint32Array(perThread * 4);
	const start = new Float64Array(perThread * 4);
	const duration = new Float64Array(perThread * 4);
	const depth = new Uint16Array(perThread * 4);
	const fn = new Uint32Array(perThread * 4);
	const end = 0.5;
	for (let t = 0; t < 4; t++)
		for (let i = 0; i < perThread; i++) {
			const at = t * perThread + i;
			// Level d has 10 times the calls of the level above; the deepest has most of them.
			let d = 0;
			let size = perThread * 0.9;
			let rest = perThread - 1 - i;
			while (d < 6 && rest >= size) {
				rest -= Math.floor(size);
				size /= 10;
				d++;
			}
			const level = 6 - d;
			const calls = Math.max(1, Math.floor(size));
			const length = end / calls;
			thread[at] = t;
			start[at] = Math.min(end - length, (calls - 1 - Math.min(calls - 1, Math.floor(rest))) * length);
			duration[at] = length * 0.97;
			depth[at] = level;
			fn[at] = (i * 7 + level) % 4000;
		}
	w.column("zone.thread", thread);
	w.column("zone.start_s", start);
	w.column("zone.duration_s", duration);
	w.column("zone.name", new Uint32Array(perThread * 4));
	w.column("zone.function", fn);
	w.column("zone.depth", depth);
	w.column("zone.kind", new Uint8Array(perThread * 4));
	return w;
}
