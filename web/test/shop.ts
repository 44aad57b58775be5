// A shop's report: the small program that most tests look at, with every kind of data.
import type { BundleWriter } from "./bundle_writer";
import { CaptureBuilder } from "./capture_builder";
import { dice } from "./dice";

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
	b.sample(0.5, 0, from(33, [load, 11], [sleep, 0]), 5, 0.5);
	let t = 0.5;
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
		b.w.table("memory", new Array(240).fill(0), {
			time_s: ["f64", (_, i) => (i * 6) / 240],
			heap: ["f64", (_, i) => MB * (20 + 180 * Math.min(1, i / 80) - (i > 150 ? 60 : 0))],
			rss: ["f64", (_, i) => MB * (60 + 230 * Math.min(1, i / 75))],
		});
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
		b.zones.push({
			thread: 0,
			start: 3.31,
			duration: 0.9,
			name: "ranking",
			fn: rank,
			depth: 1,
			place: ["/src/rank.c", 12],
		});
		b.w.u32("mark.thread", [0, 0]);
		b.w.f64("mark.time_s", [1.1, 4.2]);
		b.w.u32("mark.text", [b.w.string("loaded"), b.w.string("ranked")]);
		b.w.table("counter", new Array(40).fill(0), {
			name: ["u32", () => b.w.string("queue length")],
			time_s: ["f64", (_, i) => i * 0.15],
			value: ["f64", (_, i) => 5 + 4 * Math.sin(i / 3)],
		});
	}
	return b.finish({
		report: {
			memory: { peak_bytes: 214 * MB, alloc_bytes: 312 * MB, growth_rate: 0.02 },
			verdict: [
				{
					rule: "line",
					text: "Line 5 of report.py takes a third of the CPU time.",
					file: report,
					line: 5,
					share: 0.33,
				},
				{ rule: "waiting", text: "Threads wait for the disk.", file: "", line: 0, share: 0.2 },
			],
			coverage: [
				{ what: "1 process could not be followed", why: "it replaced its environment before the agent was loaded" },
			],
		},
	});
}
