// The rows of lines and functions of a made-up capture, counted as the program counts them. Each returns what a report would say.
import type { CaptureBuilder, Cell } from "./capture_builder";

const CLASS_COLUMNS = ["python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"];
const PERIOD_S = 0.001;
const plusMinus = (seconds: number) => 1.96 * Math.sqrt(seconds * PERIOD_S);
const cpuOf = (v: readonly number[]) => v[0] + v[1] + v[2];

interface Line {
	file: number;
	line: number;
	fn: number;
	v: number[]; // seconds by class
	alloc: number;
	peak: number;
	copy: number;
	base: number;
}

// The nearest line of the user's own code at or above each node, as one row.
function chargedLines(b: CaptureBuilder, files: string[], cells: Cell[]): Line[] {
	const rows = new Map<string, Line>();
	const row = (node: number) => {
		let at = node;
		while (at > 0 && !(b.fns[b.fn[at]].kind === 1 && !((b.fns[b.fn[at]].flags ?? 0) & 1) && b.line[at] > 0))
			at = b.parent[at];
		if (at === 0) return null;
		const fn = b.fn[at];
		const key = `${fn}:${b.line[at]}`;
		const file = files.indexOf(b.fns[fn].file ?? "");
		const none = { v: [0, 0, 0, 0, 0, 0], alloc: 0, peak: 0, copy: 0, base: 0 };
		const known = rows.get(key) ?? { file, line: b.line[at], fn, ...none };
		rows.set(key, known);
		return known;
	};
	for (const c of cells) {
		const r = row(c.node);
		if (!r) continue;
		r.v[c.cls] += c.weight;
		if (c.cls < 4) r.base += c.base;
	}
	for (const [node, h] of b.heap) {
		const r = row(node);
		if (!r) continue;
		r.alloc += h.alloc;
		r.peak += h.peak;
		r.copy += h.copy;
	}
	return [...rows.values()];
}

export function lineTable(b: CaptureBuilder, files: string[], cells: Cell[]): object[] {
	const { w } = b;
	const list = chargedLines(b, files, cells);
	const points: number[] = [];
	const timelineOf = (r: Line) => {
		if (!(r.peak > 0)) return 0xffffffff;
		for (let i = 0; i < 32; i++) points.push(r.peak * (0.2 + 0.8 * Math.abs(Math.sin(i / 5 + r.line))));
		return points.length - 32;
	};
	w.table("line", list, {
		file: ["u32", (r) => r.file],
		line: ["u32", (r) => r.line],
		function: ["u32", (r) => r.fn],
		plus_minus_s: ["f64", (r) => plusMinus(cpuOf(r.v))],
		alloc_bytes: ["f64", (r) => r.alloc],
		peak_bytes: ["f64", (r) => r.peak],
		avg_bytes: ["f64", (r) => r.peak / 2],
		copy_bytes: ["f64", (r) => r.copy],
		python_share: ["f32", () => 0.6],
		timeline: ["u32", timelineOf],
	});
	CLASS_COLUMNS.forEach((name, i) => w.table("line", list, { [name]: ["f64", (r) => r.v[i]] }));
	if (points.length > 0) w.f32("line_timeline.bytes", points);
	for (const r of b.isDiff ? list : [])
		b.changes.push({
			list: 1,
			name: b.fns[r.fn].name,
			file: files[r.file],
			line: r.line,
			base: r.base,
			after: cpuOf(r.v) + r.v[3],
		});
	return list.map((r) => ({ file: files[r.file], line: r.line, total_s: cpuOf(r.v) }));
}

export function functionTable(b: CaptureBuilder, cells: Cell[]): object[] {
	const { w, fns } = b;
	const self = new Float64Array(fns.length);
	const total = new Float64Array(fns.length);
	const baseTotal = new Float64Array(fns.length);
	const classes = CLASS_COLUMNS.map(() => new Float64Array(fns.length));
	const nodeTotal = new Float64Array(b.parent.length);
	const baseNode = new Float64Array(b.parent.length);
	for (const c of cells) {
		const f = b.fn[c.node];
		classes[c.cls][f] += c.weight;
		if (c.cls >= 4) continue;
		if (c.node > 0) self[f] += c.weight;
		nodeTotal[c.node] += c.weight;
		baseNode[c.node] += c.base;
	}
	for (let i = b.parent.length - 1; i > 0; i--) {
		nodeTotal[b.parent[i]] += nodeTotal[i];
		baseNode[b.parent[i]] += baseNode[i];
		let above = b.parent[i];
		let guard = 0;
		while (above > 0 && b.fn[above] !== b.fn[i] && guard++ < 3000) above = b.parent[above];
		if (above > 0) continue;
		total[b.fn[i]] += nodeTotal[i];
		baseTotal[b.fn[i]] += baseNode[i];
	}
	const calls = fns.map((_, i) => b.zones.filter((z) => z.fn === i).map((z) => z.duration));
	w.table("func_row", fns, {
		function: ["u32", (_, i) => i],
		self_s: ["f64", (_, i) => self[i]],
		total_s: ["f64", (_, i) => total[i]],
		self_plus_minus_s: ["f64", (_, i) => plusMinus(self[i])],
		plus_minus_s: ["f64", (_, i) => plusMinus(total[i])],
		alloc_bytes: ["f64", () => 0],
		peak_bytes: ["f64", () => 0],
		calls: ["f64", (_, i) => calls[i].length],
		min_s: ["f64", (_, i) => Math.min(...calls[i], calls[i].length ? Infinity : 0)],
		mean_s: ["f64", (_, i) => calls[i].reduce((a, d) => a + d, 0) / Math.max(1, calls[i].length)],
		max_s: ["f64", (_, i) => Math.max(0, ...calls[i])],
	});
	CLASS_COLUMNS.forEach((name, i) => w.f64(`func_row.${name}`, classes[i]));
	if (b.isDiff)
		fns.forEach((f, i) =>
			b.changes.push({
				list: 0,
				name: f.name,
				file: f.file ?? "",
				line: f.line ?? 0,
				base: baseTotal[i],
				after: total[i],
			}),
		);
	return fns
		.map((f, i) => ({ name: f.name, self_s: self[i], total_s: total[i] }))
		.filter((_, i) => !((fns[i].flags ?? 0) & 2));
}

// The rows of `fathom diff`, after those of functions and lines are known.
export function changeTable(b: CaptureBuilder): void {
	const { w } = b;
	w.table("change", b.changes, {
		list: ["u8", (r) => r.list],
		name: ["u32", (r) => w.string(r.name)],
		file: ["u32", (r) => w.string(r.file.slice(r.file.lastIndexOf("/") + 1))],
		text: ["u32", () => 0],
		line: ["u32", (r) => r.line],
		base: ["f64", (r) => r.base],
		new: ["f64", (r) => r.after],
		plus_minus: ["f64", (r) => plusMinus(r.base + r.after)],
		sides: ["u8", (r) => Number(r.base > 0) + 2 * Number(r.after > 0)],
		significant: ["u8", (r) => Number(Math.abs(r.base - r.after) > 0.05)],
	});
}
