// Two captures made by arithmetic, as `fathom view A B` gives them: the new one with threads, memory, zones and machine code, and their
// comparison. The program does half as much again of everything, and its second thread is new.
import type { BundleWriter } from "./bundle_writer";
import { CaptureBuilder } from "./capture_builder";

const PARTS = 512; // of the longer one, as the program has it
const END = 6;
const BASE_END = 4;
const MB = 1e6;
const FILE = "/home/ann/app.py";
const SOURCE = `import libhot

def load(path):
    with open(path) as f:
        return f.read()

def main():
    rows = load("rows.csv")
    for row in rows:
        libhot.hot(row, 1000)

main()
`;
const HOT_C = [
	"double s = 0;",
	"for (size_t i = 0; i < n; i++)",
	"s += term(x, i);",
	"return x / (double)(i * i + 1);",
	"return s;",
];

// What machine code of `hot` looks like: text, its share of the time, line, who was inlined there.
const HOT: [text: string, share: number, line: number, inlined?: string][] = [
	["test rdi, rdi", 0, 10],
	["je 0x1178", 0, 10],
	["pxor xmm2, xmm2", 0.01, 9],
	["xor eax, eax", 0, 10],
	["mov rdx, rax", 0.05, 5, "term"],
	["imul rdx, rax", 0.11, 5, "term"],
	["add rdx, 1", 0.03, 5, "term"],
	["cvtsi2sd xmm1, rdx", 0.08, 5, "term"],
	["movapd xmm3, xmm0", 0.02, 5, "term"],
	["divsd xmm3, xmm1", 0.42, 5, "term"],
	["add rax, 1", 0.04, 10],
	["addsd xmm2, xmm3", 0.21, 11],
	["cmp rdi, rax", 0.02, 10],
	["jne 0x1148", 0.01, 10],
	["movapd xmm0, xmm2", 0, 12],
	["ret", 0, 12],
];
const LINES = new Map([9, 10, 11, 5, 12].map((line, i) => [line, HOT_C[i]]));

function people(b: CaptureBuilder) {
	b.sources.set(FILE, SOURCE);
	const py = (name: string, line: number) => b.function({ name, file: FILE, module: "app", line, kind: 1 });
	const main = py("main", 7);
	const load = py("load", 3);
	const hot = b.function({ name: "hot", file: "/home/ann/hot.c", module: "libhot.so", library: "/home/ann/libhot.so", kind: 0 }); // prettier-ignore
	return { main, load, hot, inHot: b.stack([[main, 10], [hot, 0]]), inLoad: b.stack([[main, 8], [load, 5]]) }; // prettier-ignore
}

export function newCapture(): BundleWriter {
	const b = new CaptureBuilder();
	const { load, hot, inHot, inLoad } = people(b);
	b.threads.push({ process: 0, tid: 1, name: "MainThread", cpu: 0, wall: END, start: 0, end: END });
	b.threads.push({ process: 0, tid: 2, name: "loader", cpu: 0, wall: 3, start: 1, end: 4 });
	const step = 0.05;
	const each = (from: number, to: number, f: (end: number) => void) => {
		for (let i = 0; i < Math.round((to - from) / step); i++) f(from + (i + 1) * step);
	};
	each(0, 1.5, (end) => b.sample(end, 0, inLoad, end < 1 ? 0 : 5, step));
	each(1.5, END, (end) => b.sample(end, 0, inHot, 1, step));
	each(1, 4, (end) => b.sample(end, 1, b.stack([[load, 5]]), end < 2 ? 2 : 5, step));
	for (let i = 0; i < 60; i++)
		b.zones.push({ thread: 0, start: 1.5 + i * 0.07, duration: i % 6 === 5 ? 0.04 : 0.03, name: "row", fn: 0xffffffff, depth: 0 }); // prettier-ignore
	b.w.table("memory", new Array(120).fill(0), {
		time_s: ["f64", (_, i) => (i * END) / 120],
		heap: ["f64", (_, i) => MB * (10 + 60 * Math.min(1, i / 40))],
		rss: ["f64", (_, i) => MB * (40 + 80 * Math.min(1, i / 40))],
	});
	const s = (text: string) => b.w.string(text);
	const time = END - 1.5;
	b.w.table("code", [hot], {
		function: ["u32", (f) => f],
		image: ["u32", () => s("libhot.so")],
		n: ["u32", () => HOT.length],
		start: ["f64", () => 0x1130],
		end: ["f64", () => 0x1130 + 4 * HOT.length],
		self_s: ["f64", () => time],
	});
	b.w.table("instruction", HOT, {
		at: ["f64", (_, i) => 0x1130 + 4 * i],
		self_s: ["f64", ([, share]) => share * time],
		n: ["u32", ([, share]) => Math.round(share * 90)],
		function: ["u32", ([, share]) => (share > 0 ? hot : 0xffffffff)],
		gap: ["u8", () => 0],
		text: ["u32", ([text]) => s(text)],
		inlined: ["u32", ([, , , inlined]) => s(inlined ?? "")],
		file: ["u32", () => s("/home/ann/hot.c")],
		line: ["u32", ([, , line]) => line],
		source: ["u32", ([, , line]) => s(LINES.get(line) ?? "")],
	});
	return b.finish();
}

// Lengths of zones in buckets: [from, to, before, after].
const ROWS: [number, number, number, number][] = [
	[0.0189, 0.021, 50, 0],
	[0.0252, 0.0273, 10, 0],
	[0.0294, 0.0315, 0, 50],
	[0.0399, 0.042, 0, 10],
];

export function comparisonOfTwo(): BundleWriter {
	const b = new CaptureBuilder();
	b.isDiff = true;
	const { inHot, inLoad } = people(b);
	b.threads.push({ process: 0, tid: 1, name: "", cpu: 0, wall: END, start: 0, end: END });
	b.cell(inHot, 0, 1, 4.5, 3);
	b.cell(inLoad, 0, 0, 1, 1);
	b.cell(inLoad, 0, 2, 1, 0);
	const inLoading = (t: number, end: number) => t < end / 4;
	const at = (i: number) => (i * END) / PARTS;
	b.w.table("series", new Array(PARTS).fill(0), {
		time_s: ["f64", (_, i) => at(i)],
		cpu: ["f64", (_, i) => (at(i) < 1 || (at(i) >= 1.5 && at(i) >= 2) ? 1 : at(i) < 1.5 ? 1 : 2)],
		base_cpu: ["f64", (_, i) => (at(i) < BASE_END ? 1 : 0)],
		heap: ["f64", (_, i) => MB * (10 + 60 * Math.min(1, at(i) / 2))],
		base_heap: ["f64", (_, i) => (at(i) < BASE_END ? MB * (inLoading(at(i), BASE_END) ? 20 : 45) : 0)],
		rss: ["f64", (_, i) => MB * (40 + 80 * Math.min(1, at(i) / 2))],
		base_rss: ["f64", (_, i) => (at(i) < BASE_END ? MB * 80 : 0)],
	});
	b.w.table("what", ["row"], {
		name: ["u32", (name) => b.w.string(name)],
		function: ["u32", () => 0xffffffff],
		kind: ["u8", () => 1],
		file: ["u32", () => 0],
		line: ["u32", () => 0],
		spans: ["f64", () => 60],
		sum_s: ["f64", () => 1.9],
		min_s: ["f64", () => 0.03],
		max_s: ["f64", () => 0.04],
		base_spans: ["f64", () => 60],
		base_sum_s: ["f64", () => 1.26],
		base_min_s: ["f64", () => 0.02],
		base_max_s: ["f64", () => 0.026],
	});
	b.w.table("duration", ROWS, {
		what: ["u32", () => 0],
		from_s: ["f64", ([from]) => from],
		to_s: ["f64", ([, to]) => to],
		n: ["u32", ([, , , after]) => after],
		base_n: ["u32", ([, , before]) => before],
	});
	return b.finish({ diff: true, base: { threads: [{ name: "MainThread", cpu_s: 4 }], wall_s: BASE_END, cpu_s: 4 } });
}
