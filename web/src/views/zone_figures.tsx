// SPDX-License-Identifier: Apache-2.0
// What the views of zones share: what a zone is called, the list of all, and the figures of two beside each other.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { NONE, type Capture } from "../data/capture";
import { count, seconds } from "../data/format";
import { matcherOf } from "../data/search";
import { KIND_ZONE, type ZoneStats } from "../data/zone_stats";
import { useApp } from "../ui/app_context";
import { percentChange } from "../ui/change";
import { functionPlace, whatName, whatPlace } from "../ui/names";
import { Table, type Column } from "../ui/table";

export function zonePlace(capture: Capture, what: number): string {
	const fn = capture.whats.fn[what];
	return whatPlace(capture, what) || (fn !== NONE && fn < capture.functions.n ? functionPlace(capture, fn) : "");
}

export function nameColumn<Row extends { what: number }>(capture: Capture): Column<Row> {
	return {
		id: "name",
		title: "Zone",
		value: (r) => whatName(capture, r.what),
		cell: (r) => (
			<span class="function" title={whatName(capture, r.what)}>
				<b>{whatName(capture, r.what)}</b> <small>{zonePlace(capture, r.what)}</small>
			</span>
		),
	};
}

export const FIGURES: [string, (s: ZoneStats) => number, (v: number) => string][] = [
	["Count", (s) => s.n, count],
	["Sum", (s) => s.sum, seconds],
	["Mean", (s) => s.mean, seconds],
	["Fastest", (s) => s.min, seconds],
	["P50", (s) => s.p50, seconds],
	["P99", (s) => s.p99, seconds],
	["P99.9", (s) => s.p999, seconds],
	["Slowest", (s) => s.max, seconds],
	["CV", (s) => s.cv, (v) => v.toFixed(2)],
];

interface BesideProps {
	label: string;
	names: [string, string];
	one: ZoneStats | null; // null: not there
	other: ZoneStats | null;
}

// What the other one has more or less of.
export function FiguresBeside({ label, names, one, other }: BesideProps) {
	return (
		<table class="table slim beside" aria-label={label}>
			<thead>
				<tr>
					{["", ...names, ""].map((name, i) => (
						<th scope="col" class={i > 0 ? "number" : ""} title={name}>
							{name}
						</th>
					))}
				</tr>
			</thead>
			<tbody>
				{FIGURES.map(([name, of, write]) => (
					<tr>
						<td>{name}</td>
						<td class="number">{one ? write(of(one)) : "none"}</td>
						<td class="number">{other ? write(of(other)) : "none"}</td>
						<td class="number faint">
							{one && other && of(one) !== of(other) ? percentChange(of(one), of(other)) : ""}
						</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

interface ListProps<Row> {
	capture: Capture; // whose zones they are
	all: Row[];
	columns: Column<Row>[];
	sort: string; // where nobody chose another
	note: ComponentChildren; // how they were counted
}

// Those that the search leaves; calls beside zones where somebody wants them, or there are no zones.
export function ZoneList<Row extends { what: number }>({ capture, all, columns, sort, note }: ListProps<Row>) {
	const { state, set } = useApp();
	const { kind } = capture.whats;
	const hasZones = useMemo(() => kind.includes(KIND_ZONE), [capture]);
	const isWithCalls = state.calls || !hasZones;
	const rows = useMemo(() => {
		const matcher = matcherOf(state.search);
		return all.filter(
			(r) =>
				(isWithCalls || kind[r.what] === KIND_ZONE) &&
				(!matcher || matcher.test(whatName(capture, r.what)) || matcher.test(zonePlace(capture, r.what))),
		);
	}, [all, isWithCalls, state.search]);
	return (
		<div class="zone-list">
			<div class="controls">
				{hasZones && (
					<label class="toggle" title="Functions that were traced stand beside zones">
						<input type="checkbox" checked={state.calls} onChange={(e) => set({ calls: e.currentTarget.checked })} />{" "}
						Calls, too
					</label>
				)}
				<span class="faint">
					{count(rows.length)} {rows.length === 1 ? "name" : "names"}
					{note}
				</span>
			</div>
			{rows.length === 0 ? (
				<p class="nothing">{state.search ? "No zone matches the search." : "The filter leaves no zone."}</p>
			) : (
				<Table
					label="Zones"
					columns={columns}
					rows={rows}
					sort={state.zsort || sort}
					onSort={(zsort) => set({ zsort })}
					keyOf={(r) => r.what}
					selected={state.what}
					onRow={(r) => set({ what: r.what, pick: null })}
				/>
			)}
		</div>
	);
}
