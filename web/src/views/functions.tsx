// SPDX-License-Identifier: Apache-2.0
// Functions: the table, and for the chosen one its callers, callees, lines and, when calls were traced, their distribution.
import { useMemo } from "preact/hooks";
import { KIND_NATIVE, KIND_PYTHON } from "../data/capture";
import { amount, count, seconds, share } from "../data/format";
import { edgesOf } from "../data/functions";
import { codeOf } from "../data/machine_code";
import { useApp } from "../ui/app_context";
import { Meter } from "../ui/bars";
import { functionMenu } from "../ui/function_menu";
import { functionName, functionPlace, moduleName } from "../ui/names";
import { CallHistogram } from "./histogram";
import { FunctionList, useFunctionRows } from "./function_list";

const TRACED = [
	["calls", "Calls"],
	["tracedOwn", "Own, traced"],
	["tracedTotal", "Total, traced"],
	["mean", "Mean"],
	["max", "Slowest"],
] as const;

function Neighbours({ title, rows, whole }: { title: string; rows: { fn: number; weight: number }[]; whole: number }) {
	const { capture, set, metric } = useApp();
	return (
		<section>
			<h3>{title}</h3>
			{rows.length === 0 ? (
				<p class="faint">none</p>
			) : (
				<table class="table slim" aria-label={title}>
					<tbody>
						{rows.slice(0, 40).map((r) => (
							<tr>
								<td>
									<button class="link" onClick={() => set({ fn: r.fn })}>
										{functionName(capture, r.fn)}
									</button>
								</td>
								<td class="number">
									<Meter value={r.weight} whole={whole}>
										{amount(r.weight, metric.unit)}
									</Meter>
								</td>
							</tr>
						))}
					</tbody>
				</table>
			)}
		</section>
	);
}

function Chosen({ fn }: { fn: number }) {
	const app = useApp();
	const { capture, metric, steps, set } = app;
	const edges = useMemo(() => edgesOf(capture, metric, steps), [capture, metric.id, JSON.stringify(steps)]);
	const table = useFunctionRows(app);
	const row = table.rows.find((r) => r.fn === fn);
	const callers = edges
		.filter((e) => e.callee === fn && e.caller !== fn)
		.map((e) => ({ fn: e.caller, weight: e.weight }));
	const callees = edges
		.filter((e) => e.caller === fn && e.callee !== fn)
		.map((e) => ({ fn: e.callee, weight: e.weight }));
	const whole = row?.total ?? 0;
	return (
		<aside class="chosen" aria-label="Chosen function">
			<h2>{functionName(capture, fn)}</h2>
			<p class="faint">
				{functionPlace(capture, fn)} <small>{moduleName(capture, fn)}</small>
			</p>
			{row && (
				<dl class="facts">
					<div>
						<dt>Self</dt>
						<dd>
							{amount(row.self, metric.unit)} <small>{share(row.self, app.whole)}</small>
						</dd>
					</div>
					<div>
						<dt>Total</dt>
						<dd>
							{amount(row.total, metric.unit)} <small>{share(row.total, app.whole)}</small>
						</dd>
					</div>
					{row.calls > 0 &&
						TRACED.map(([id, title]) => (
							<div>
								<dt>{title}</dt>
								<dd>{id === "calls" ? count(row.calls) : seconds(row[id])}</dd>
							</div>
						))}
				</dl>
			)}
			<div class="actions">
				<button onClick={() => set({ view: "flame", mode: "sandwich", zoom: null })}>Sandwich</button>
				<button onClick={() => set({ view: "flame", mode: "left", focus: fn, zoom: null })}>Focus</button>
				{capture.functions.kind[fn] === KIND_PYTHON && (
					<button
						onClick={() => set({ view: "source", file: capture.functions.file[fn], line: capture.functions.line[fn] })}
					>
						Source
					</button>
				)}
				{!capture.isDiff && codeOf(app.first, fn) && (
					<button onClick={() => set({ view: "assembly", fn })}>Assembly</button>
				)}
				<button
					aria-haspopup="menu"
					onClick={(e) =>
						app.openMenu({ x: e.clientX, y: e.clientY, title: functionName(capture, fn), items: functionMenu(app, fn) })
					}
				>
					More…
				</button>
			</div>
			{app.first.head.lacks_disassembler === true && capture.functions.kind[fn] === KIND_NATIVE && (
				<p class="faint">Its assembly is shown here where Capstone is installed: pip install capstone.</p>
			)}
			<CallHistogram fn={fn} />
			<Neighbours title="Called by" rows={callers} whole={whole} />
			<Neighbours title="Calls" rows={callees} whole={whole} />
		</aside>
	);
}

export function FunctionsView() {
	const { state, capture } = useApp();
	const isChosen = state.fn >= 0 && state.fn < capture.functions.n;
	return (
		<section class={isChosen ? "view functions two" : "view functions"} aria-label="Functions">
			<FunctionList isBeside={isChosen} />
			{isChosen && <Chosen fn={state.fn} />}
		</section>
	);
}
