// Captures made by arithmetic, so that every number on the page is known: a program of 50 threads, two to compare, a hostile one.
import { RULES } from "../src/views/proofs";
import type { BundleWriter } from "./bundle_writer";
import { CaptureBuilder } from "./capture_builder";
import { dice } from "./dice";

const PY = 1;

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
		"\u061cmarks\u200e\u200f and C1 \u009b31m",
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
		`# </textarea><script>window.pwned=1</script>\n${'"""'.repeat(3)}\n\ty = "\u202e\u200f\u061c\u001b[2J\u009b"\nx = '${"y".repeat(200000)}'\n`,
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

// Something of each kind that a verdict may be about, and a sentence of each rule: without a line, with one of a file that is here, and
// with one of a file that is not. A queue stands out most.
export function verdicts(): BundleWriter {
	const b = new CaptureBuilder();
	const file = "/home/ann/queue.py";
	const top = b.function({ name: "<module>", file, module: "__main__", line: 1, kind: PY });
	const work = b.function({ name: "work", file, module: "__main__", line: 3, kind: PY });
	const bring = b.function({ name: "_find_and_load", module: "importlib._bootstrap", kind: PY, flags: 1, roles: 4 });
	const heavy = b.function({
		name: "<module>",
		file: "/usr/lib/heavy.py",
		module: "heavy",
		kind: PY,
		flags: 1,
		roles: 8,
	});
	b.threads.push({ process: 0, tid: 1, name: "MainThread", cpu: 0, wall: 2, noCpu: 0.5, start: 0, end: 2 });
	b.threads.push({ process: 0, tid: 2, name: "worker", cpu: 0, wall: 2, start: 0, end: 2 });
	for (let cls = 0; cls < 6; cls++) b.sample(0.2 * (cls + 1), 0, b.stack([[top, 8], [work, 3 + (cls % 3)]]), cls, 0.2); // prettier-ignore
	b.sample(1.5, 0, b.stack([[top, 2], [bring, 0], [heavy, 1]]), 0, 0.3); // prettier-ignore
	b.sample(2, 1, b.stack([[work, 5]]), 5, 1.9);
	b.memory(b.stack([[top, 8], [work, 4]]), 9e6, 8e6, 7e6, 0); // prettier-ignore
	const said = (rule: string) => [
		{ rule, text: `${rule} alone.`, file: "", line: 0 },
		{ rule, text: `${rule} here.`, file, line: rule === "function" ? 3 : 5 },
		{ rule, text: `${rule} gone.`, file: "/gone/away.py", line: 3 },
	];
	const rules = ["lock", ...Object.keys(RULES).filter((rule) => rule !== "lock")];
	return b.finish({ report: { verdict: rules.flatMap(said) } });
}
