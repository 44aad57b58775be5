// SPDX-License-Identifier: Apache-2.0
// The lines that one would change first: by CPU time, by waiting, by memory.
import { useMemo } from "preact/hooks";
import { seconds, share, shortPath } from "../data/format";
import { cpuOf, linesOf, type LineRow } from "../data/lines";
import { sourceLine } from "../data/source_lines";
import type { App } from "../ui/app_context";
import { Meter } from "../ui/bars";
import { functionName } from "../ui/names";
import { StateLink } from "../ui/state_link";
import { cpuHint, LINE_COLUMNS, LineCells, LineHeads, usedColumns, type LineColumn } from "./line_columns";
import { orderOf } from "./proofs";

const SHOWN = 10;

const ORDERS = {
	cpu: { label: "CPU time", value: cpuOf },
	wait: { label: "Waiting", value: (r: LineRow) => r.wait },
	alloc: { label: "Allocated", value: (r: LineRow) => r.alloc },
	peak: { label: "Peak", value: (r: LineRow) => r.peak },
	copy: { label: "Copied", value: (r: LineRow) => r.copy },
} as const;
type Order = keyof typeof ORDERS;

export function TopLines({ app }: { app: App }) {
	const { capture, steps } = app;
	const rows = useMemo(() => linesOf(capture, steps), [capture, JSON.stringify(steps)]);
	const orders = (Object.keys(ORDERS) as Order[]).filter((o) => rows.some((r) => ORDERS[o].value(r) > 0));
	const order = orders.find((o) => o === (app.state.order || orderOf(capture))) ?? orders[0];
	if (!order) return null;
	const { value } = ORDERS[order];
	const shown = rows
		.filter((r) => value(r) > 0)
		.sort((a, b) => value(b) - value(a))
		.slice(0, SHOWN);
	const cpu: LineColumn = {
		title: "CPU",
		hint: cpuHint(app.cpu),
		kind: "number",
		has: () => true,
		cell: (r) => (
			<Meter value={cpuOf(r)} whole={app.cpu}>
				{seconds(cpuOf(r))}
				<small>{share(cpuOf(r), app.cpu)}</small>
			</Meter>
		),
	};
	const { plusMinus, kinds, wait, alloc, allocs, life, peak, kept, timeline, copy } = LINE_COLUMNS;
	const columns = usedColumns([cpu, plusMinus, kinds, wait, alloc, allocs, life, peak, kept, timeline, copy], shown);
	return (
		<section class="card wide">
			<div class="card-head">
				<h2>Lines to look at first</h2>
				{orders.length > 1 && (
					<div class="segments small" role="group" aria-label="Order of the lines">
						{orders.map((o) => (
							<button aria-pressed={o === order} onClick={() => app.set({ order: o })}>
								{ORDERS[o].label}
							</button>
						))}
					</div>
				)}
			</div>
			<table class="table slim" aria-label="Hottest lines">
				<thead>
					<tr>
						<th scope="col">Line</th>
						<LineHeads columns={columns} />
					</tr>
				</thead>
				<tbody>
					{shown.map((r) => (
						<tr>
							<td>
								<StateLink class="link" patch={{ view: "source", file: r.file, line: r.line, fn: r.fn }}>
									{shortPath(capture.strings.get(r.file))}:{r.line}
								</StateLink>{" "}
								<small>{functionName(capture, r.fn)}</small>
								<code class="snippet">{sourceLine(capture, r.file, r.line)}</code>
							</td>
							<LineCells columns={columns} row={r} />
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}
