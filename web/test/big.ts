// Captures of any size by formula, straight into columns: the builder's maps would be the slow part.
import { BundleWriter } from "./bundle_writer";
import { dice } from "./dice";

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
	const file = w.string("/srv/app/handlers.py");
	const modules = Array.from({ length: 37 }, (_, i) => w.string(`package_${i}`));
	const names = Array.from({ length: nFunctions }, (_, i) => w.string(`package_${i % 37}.handle_${i}`));
	w.table("function", names, {
		name: ["u32", (name) => name],
		full_name: ["u32", (name) => name],
		file: ["u32", () => file],
		module: ["u32", (_, i) => modules[i % 37]],
		library: ["u32", () => 0],
		line: ["u32", (_, i) => i + 1],
		kind: ["u8", (_, i) => (i % 3 ? 1 : 0)],
		flags: ["u8", (_, i) => (i % 5 ? 0 : 1)],
		roles: ["u8", (_, i) => (i % 3 && i % 5 ? 1 : 0)],
		package: ["u32", (_, i) => (i % 3 && i % 5 ? 0 : modules[i % 37])],
	});
	const weights = Float64Array.from({ length: nNodes }, () => 0.00001 + random() ** 8 * 0.002);
	w.table("node", parent, {
		parent: ["u32", (above) => above],
		function: ["u32", (_, i) => fn[i]],
		line: ["u32", (_, i) => i % 100],
		flags: ["u8", () => 0],
	});
	w.table("cell", weights, {
		node: ["u32", (_, i) => i],
		thread: ["u32", (_, i) => i % 8],
		class: ["u8", (_, i) => (i % 7 === 0 ? 1 : 0)],
		n: ["u32", () => 1],
		weight_s: ["f64", (weight) => weight],
	});
	const tick = 0.001;
	const perThread = Math.floor(nSamples / 8);
	const end = perThread * tick;
	w.table("thread", new Array(8).fill(0), {
		process: ["u32", () => 0],
		tid: ["u32", (_, i) => i + 1],
		name: ["u32", (_, i) => w.string(`worker-${i}`)],
		cpu_s: ["f64", () => end],
		wall_s: ["f64", () => end],
		start_s: ["f64", () => 0],
		end_s: ["f64", () => end],
	});
	w.table("sample", new Uint8Array(perThread * 8), {
		time_s: ["f64", (_, i) => (i % perThread) * tick],
		thread: ["u32", (_, i) => Math.floor(i / perThread)],
		node: ["u32", () => Math.floor(random() * nNodes)],
		class: ["u8", () => (random() < 0.2 ? 1 : 0)],
		weight_s: ["f32", () => tick],
	});
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
	const what = new Uint32Array(perThread * 4);
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
			what[at] = (i * 7 + level) % 4000;
		}
	w.table("what", new Array(4000).fill(0), {
		name: ["u32", () => 0],
		function: ["u32", (_, i) => i],
		kind: ["u8", () => 0],
	});
	w.column("zone.thread", thread);
	w.column("zone.start_s", start);
	w.column("zone.duration_s", duration);
	w.column("zone.what", what);
	w.column("zone.depth", depth);
	return w;
}
