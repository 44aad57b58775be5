// The lines that one would change first: by CPU time, by waiting, by memory.
import { useMemo, useState } from "preact/hooks";
import { bytes, seconds, shortPath } from "../data/format";
import { classesOf, cpuOf, linesOf, type LineRow } from "../data/lines";
import type { App } from "../ui/app_context";
import { ClassBar, Meter, Sparkline } from "../ui/bars";
import { functionName } from "../ui/names";
import { StateLink } from "../ui/state_link";

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
	const [chosen, setChosen] = useState<Order>("cpu");
	const rows = useMemo(() => linesOf(capture, steps), [capture, JSON.stringify(steps)]);
	const orders = (Object.keys(ORDERS) as Order[]).filter((o) => rows.some((r) => ORDERS[o].value(r) > 0));
	const order = orders.includes(chosen) ? chosen : orders[0];
	if (!order) return null;
	const { value } = ORDERS[order];
	const shown = rows
		.filter((r) => value(r) > 0)
		.sort((a, b) => value(b) - value(a))
		.slice(0, SHOWN);
	const most = rows.reduce((sum, r) => sum + cpuOf(r), 0);
	const has = (f: (r: LineRow) => number) => shown.some((r) => f(r) > 0);
	const columns = { wait: has((r) => r.wait), memory: has((r) => r.alloc + r.peak), copy: has((r) => r.copy) };
	return (
		<section class="card wide">
			<div class="card-head">
				<h2>Lines to look at first</h2>
				{orders.length > 1 && (
					<div class="segments small" role="group" aria-label="Order of the lines">
						{orders.map((o) => (
							<button aria-pressed={o === order} onClick={() => setChosen(o)}>
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
						<th scope="col" class="number">
							CPU
						</th>
						<th scope="col" class="number">
							±
						</th>
						<th scope="col">Kinds</th>
						{columns.wait && (
							<th scope="col" class="number">
								Waiting
							</th>
						)}
						{columns.memory && (
							<>
								<th scope="col" class="number">
									Allocated
								</th>
								<th scope="col" class="number">
									Peak
								</th>
								<th scope="col">Over time</th>
							</>
						)}
						{columns.copy && (
							<th scope="col" class="number">
								Copied
							</th>
						)}
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
							</td>
							<td class="number">
								<Meter value={cpuOf(r)} whole={most}>
									{seconds(cpuOf(r))}
								</Meter>
							</td>
							<td class="number faint">{r.plusMinus > 0 ? seconds(r.plusMinus) : ""}</td>
							<td class="bar">
								<ClassBar values={classesOf(r)} />
							</td>
							{columns.wait && <td class="number">{r.wait > 0 ? seconds(r.wait) : ""}</td>}
							{columns.memory && (
								<>
									<td class="number">{r.alloc > 0 ? bytes(r.alloc) : ""}</td>
									<td class="number">{r.peak > 0 ? bytes(r.peak) : ""}</td>
									<td>{r.timeline && <Sparkline values={r.timeline} label="memory over time" />}</td>
								</>
							)}
							{columns.copy && <td class="number">{r.copy > 0 ? bytes(r.copy) : ""}</td>}
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}
