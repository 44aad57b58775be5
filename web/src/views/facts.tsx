// SPDX-License-Identifier: Apache-2.0
// The run in a few figures, and what a filter leaves of it, each under its name.
import { bytes, count, seconds, share } from "../data/format";
import { heapWeights, classTotals } from "../data/weights";
import { CLASS_GIL_WAIT, CLASS_WAIT } from "../data/classes";
import { sampleCounts } from "../data/report";
import type { App } from "../ui/app_context";

type Fact = [name: string, value: string, hint?: string];

export function ending(app: App): string {
	const { exit, wall_s } = app.capture.report;
	if (!exit) return "";
	if (exit.signal) return exit.signal === 2 ? "interrupted" : `ended by signal ${exit.signal}`;
	if (exit.code !== null) return exit.code === 0 ? "finished" : `ended with exit code ${exit.code}`;
	return app.capture.head.live ? "still running" : `watched for ${seconds(wall_s ?? 0)}`;
}

function memoryFacts(app: App): Fact[] {
	const { memory, max_rss_bytes: rss = 0 } = app.capture.report;
	const facts: Fact[] = [];
	const peak = memory?.peak_bytes ?? 0;
	const why =
		app.capture.processes.n > 1
			? "above the RSS, which is the first process's"
			: "above the RSS: estimated, and with what was never touched";
	if (peak > 0) facts.push(["Peak of the heap", bytes(peak), rss > 0 && peak > rss ? why : ""]);
	// The curve over time is of all processes; without a word the two would contradict each other.
	const together = Array.from(app.capture.memory.column("rss") ?? []).reduce((a, b) => Math.max(a, b), 0);
	const whose = `the first process's${together > rss ? `; all together ${bytes(together)}` : ""}`;
	if (rss > 0) facts.push(["Most memory (RSS)", bytes(rss), app.capture.processes.n > 1 ? whose : ""]);
	if (memory?.alloc_bytes) facts.push(["Allocated in all", bytes(memory.alloc_bytes)]);
	return facts;
}

function factsOf(app: App): Fact[] {
	const r = app.capture.report;
	const facts: Fact[] = [];
	if (r.wall_s !== undefined) facts.push(["Wall time", seconds(r.wall_s)]);
	if (r.cpu_s !== undefined)
		facts.push(["CPU time", seconds(r.cpu_s), r.wall_s ? `${(r.cpu_s / r.wall_s).toFixed(2)} cores on average` : ""]);
	if (r.no_cpu_s)
		facts.push([
			"No CPU was free",
			seconds(r.no_cpu_s),
			r.wall_s ? `${share(r.no_cpu_s, r.wall_s)} of the wall time, main thread` : "main thread",
		]);
	facts.push(...memoryFacts(app));
	const samples = sampleCounts(r);
	if (samples) {
		const rate = r.rate_hz ? [`${count(r.rate_hz)} a second of CPU time asked for`] : [];
		const n = samples.waiting;
		const looks = n > 0 ? [`and ${count(n)} ${n === 1 ? "look at a thread" : "looks at threads"} that waited`] : [];
		facts.push(["Samples", count(samples.running), [...rate, ...looks].join("; ")]);
	}
	if (r.overhead_s !== undefined)
		facts.push([
			"The profiler's own cost",
			seconds(r.overhead_s),
			r.cpu_s ? `${share(r.overhead_s, r.cpu_s)} of the CPU time` : "",
		]);
	return facts;
}

function filteredFacts(app: App): Fact[] {
	const { capture, steps } = app;
	const totals = classTotals(capture, steps);
	const facts: Fact[] = [["CPU time", seconds(app.cpu)]];
	const waited = totals[CLASS_WAIT] + totals[CLASS_GIL_WAIT];
	if (waited > 0) facts.push(["Waiting", seconds(waited)]);
	for (const [column, name] of [
		["alloc", "Allocated"],
		["peak", "Held at the peak"],
	] as const) {
		const sum = capture.heap ? heapWeights(capture, column, steps).reduce((a, b) => a + b, 0) : 0;
		if (sum > 0) facts.push([name, bytes(sum)]);
	}
	return facts;
}

function Tiles({ facts, label }: { facts: Fact[]; label: string }) {
	return (
		<dl class="tiles" aria-label={label}>
			{facts.map(([name, value, hint]) => (
				<div>
					<dt>{name}</dt>
					<dd>{value}</dd>
					{hint && <small>{hint}</small>}
				</div>
			))}
		</dl>
	);
}

export function FilteredFacts({ app }: { app: App }) {
	return (
		<>
			<h2 class="tiles-head">What the filter leaves</h2>
			<Tiles facts={filteredFacts(app)} label="What the filter leaves" />
		</>
	);
}

export function RunFacts({ app }: { app: App }) {
	return <Tiles facts={factsOf(app)} label="The whole run" />;
}
