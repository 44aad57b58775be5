// SPDX-License-Identifier: Apache-2.0
// Where time and memory went, on one page.
import { useMemo } from "preact/hooks";
import { FLAG_PLUMBING, isMine, NONE } from "../data/capture";
import { cpuByThread, livedIn } from "../data/clock";
import { rangeOf } from "../data/filter";
import { bytes, seconds, share, shortPath } from "../data/format";
import { useApp, type App } from "../ui/app_context";
import { Meter } from "../ui/bars";
import { StateLink } from "../ui/state_link";
import { functionName, functionPlace, processName, threadName } from "../ui/names";
import { ending, FilteredFacts, RunFacts } from "./facts";
import { useFunctionRows } from "./function_list";
import { TopLines } from "./top_lines";
import { Verdicts } from "./verdicts";
import { WhereTime } from "./where_time";

function TopFunctions({ app, isOwn }: { app: App; isOwn: boolean }) {
	const { capture } = app;
	const table = useFunctionRows(app);
	const rows = useMemo(() => {
		const { flags } = capture.functions;
		const own = (fn: number) => isMine(capture.functions, fn);
		return table.rows
			.filter((r) => (isOwn ? r.total > 0 && own(r.fn) : r.self > 0 && !(flags[r.fn] & FLAG_PLUMBING)))
			.sort((a, b) => (isOwn ? b.total - a.total : b.self - a.self))
			.slice(0, 8);
	}, [table, isOwn]);
	if (rows.length === 0) return null;
	return (
		<section class="card">
			<h2>{isOwn ? "Your functions, with all they call" : "Functions by what they take themselves"}</h2>
			<table class="table slim" aria-label={isOwn ? "Your functions" : "All functions"}>
				<tbody>
					{rows.map((r) => (
						<tr>
							<td>
								<StateLink class="link" patch={{ view: "functions", fn: r.fn }}>
									{functionName(capture, r.fn)}
								</StateLink>{" "}
								<small>{functionPlace(capture, r.fn)}</small>
							</td>
							<td class="number">
								<Meter value={isOwn ? r.total : r.self} whole={app.whole}>
									{app.metric.unit === "s" ? seconds(isOwn ? r.total : r.self) : bytes(isOwn ? r.total : r.self)}
								</Meter>
							</td>
							<td class="number faint">
								{!isOwn && r.plusMinus > 0 ? `± ${seconds(r.plusMinus)}` : share(isOwn ? r.total : r.self, app.whole)}
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

function Threads({ app }: { app: App }) {
	const { capture } = app;
	const { threads } = capture;
	const cpu = useMemo(() => cpuByThread(capture, app.steps), [capture, JSON.stringify(app.steps)]);
	const range = rangeOf(app.state.steps);
	const order = Array.from({ length: threads.n }, (_, t) => t).sort((a, b) => cpu[b] - cpu[a]);
	const most = order.length > 0 ? cpu[order[0]] : 0;
	return (
		<section class="card">
			<h2>
				{threads.n} thread{threads.n === 1 ? "" : "s"}
				{capture.processes.n > 1 ? ` in ${capture.processes.n} processes` : ""}
			</h2>
			<table class="table slim" aria-label="Threads">
				<tbody>
					{order.slice(0, 8).map((t) => (
						<tr>
							<td>
								<StateLink class="link" patch={{ view: "flame", thread: t }}>
									{threadName(capture, t)}
								</StateLink>{" "}
								{capture.processes.n > 1 && <small>{processName(capture, threads.process[t])}</small>}
							</td>
							<td class="number">
								<Meter value={cpu[t]} whole={most}>
									{seconds(cpu[t])}
								</Meter>
							</td>
							<td class="number faint">of {seconds(livedIn(app.first, t, range))}</td>
						</tr>
					))}
				</tbody>
			</table>
			{order.length > 8 && (
				<p class="faint">
					<StateLink class="link" patch={{ view: "timeline" }}>
						and {order.length - 8} more in the timeline
					</StateLink>
				</p>
			)}
		</section>
	);
}

function Leaks({ app }: { app: App }) {
	const { capture } = app;
	const t = capture.leaks;
	if (t.n === 0) return null;
	return (
		<section class="card">
			<h2>Likely leaks</h2>
			<table class="table slim" aria-label="Leaks">
				<thead>
					<tr>
						<th scope="col">Line</th>
						<th scope="col" class="number">
							Likelihood
						</th>
						<th scope="col" class="number">
							Growth
						</th>
						<th scope="col" class="number">
							Held
						</th>
					</tr>
				</thead>
				<tbody>
					{Array.from({ length: Math.min(10, t.n) }, (_, i) => {
						const file = capture.files.get("name", t.get("file", i));
						return (
							<tr>
								<td>
									{t.get("file", i) === NONE ? (
										<StateLink class="link" patch={{ view: "functions", fn: t.get("function", i) }}>
											{functionName(capture, t.get("function", i))}
										</StateLink>
									) : (
										<>
											<StateLink class="link" patch={{ view: "source", file, line: t.get("line", i) }}>
												{shortPath(capture.strings.get(file))}:{t.get("line", i)}
											</StateLink>{" "}
											<small>{functionName(capture, t.get("function", i))}</small>
										</>
									)}{" "}
									<small class="faint">{capture.strings.get(t.get("types", i))}</small>
								</td>
								<td class="number">{share(t.get("likelihood", i), 1)}</td>
								<td class="number">{bytes(t.get("velocity", i))}/s</td>
								<td class="number">{bytes(t.get("bytes", i))}</td>
							</tr>
						);
					})}
				</tbody>
			</table>
		</section>
	);
}

function Coverage({ app }: { app: App }) {
	const r = app.capture.report;
	const notes = r.coverage ?? [];
	return (
		<section class="card">
			<h2>What was not seen</h2>
			{notes.length === 0 ? (
				<p class="good">Nothing: every thread, process and stack is in the profile.</p>
			) : (
				<ul class="coverage">
					{notes.map((c) => (
						<li>
							<b>{c.what}</b> <span>{c.why}</span>
						</li>
					))}
				</ul>
			)}
		</section>
	);
}

// What no filter changes.
function WholeRun({ app }: { app: App }) {
	return (
		<>
			<Verdicts app={app} />
			<RunFacts app={app} />
		</>
	);
}

// Under a filter, what it leaves comes first, and what is said of the whole run stands below under its name.
export function SummaryView() {
	const app = useApp();
	const isFiltered = app.steps.length > 0 || app.isExact;
	const r = app.capture.report;
	return (
		<section class="view summary" aria-label="Summary">
			<header class="run">
				<h1>
					<code>
						{(r.command ?? []).map((w) => (w.length > 200 ? `${w.slice(0, 200)}…` : w)).join(" ") || "(no command)"}
					</code>
				</h1>
				<p class="faint">
					{[r.python ? `Python ${r.python}` : "", r.started ? new Date(r.started).toLocaleString() : "", ending(app)]
						.filter(Boolean)
						.join(" · ")}
				</p>
			</header>
			{isFiltered ? <FilteredFacts app={app} /> : <WholeRun app={app} />}
			<WhereTime app={app} />
			<TopLines app={app} />
			<div class="cards">
				<TopFunctions app={app} isOwn={true} />
				<TopFunctions app={app} isOwn={false} />
				<Threads app={app} />
				{!isFiltered && <Leaks app={app} />}
				{!isFiltered && <Coverage app={app} />}
			</div>
			{isFiltered && (
				<>
					<h2 class="tiles-head">The whole run</h2>
					<WholeRun app={app} />
					<div class="cards">
						<Leaks app={app} />
						<Coverage app={app} />
					</div>
				</>
			)}
		</section>
	);
}
