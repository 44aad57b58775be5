// SPDX-License-Identifier: Apache-2.0
// The columns of figures that tables of lines have: each knows its title, what it shows, and whether a line has any of it.
import type { ComponentChildren } from "preact";
import { bytes, seconds, share } from "../data/format";
import { classesOf, cpuOf, type LineRow } from "../data/lines";
import { ClassBar, Sparkline } from "../ui/bars";

export interface LineColumn {
	title: ComponentChildren;
	hint?: string;
	kind: "number" | "bar" | "";
	isStrong?: boolean;
	isFaint?: boolean;
	isMinor?: boolean; // gives its room to the text where there is little
	has: (row: LineRow) => boolean;
	cell: (row: LineRow) => ComponentChildren;
	tip?: (row: LineRow) => string;
}

// A figure that is left empty where it is nothing: a column of zeroes hides the one that is not.
function figure(
	title: string,
	value: (row: LineRow) => number,
	write: (value: number) => string,
	more: Partial<LineColumn> = {},
): LineColumn {
	const has = (row: LineRow) => value(row) > 0;
	return { title, kind: "number", has, cell: (row) => (has(row) ? write(value(row)) : ""), ...more };
}

const plusMinus = (row: LineRow) => (row.plusMinus > 0 ? `± ${seconds(row.plusMinus)}` : "");

export const LINE_COLUMNS = {
	python: figure("Python", (r) => r.python, seconds, { has: () => true, isMinor: true }),
	native: figure("Native", (r) => r.native, seconds, { isMinor: true }),
	system: figure("System", (r) => r.system, seconds, { isMinor: true }),
	wait: figure("Waiting", (r) => r.wait, seconds),
	plusMinus: figure("±", (r) => r.plusMinus, seconds, { isFaint: true }),
	kinds: {
		title: <span class="hidden">Kinds of time</span>,
		kind: "bar",
		has: () => true,
		cell: (r) => cpuOf(r) + r.wait > 0 && <ClassBar values={classesOf(r)} />,
	} as LineColumn,
	alloc: figure("Allocated", (r) => r.alloc, bytes, {
		tip: (r) => (r.alloc > 0 && r.pythonShare > 0 ? `${share(r.pythonShare, 1)} of it by Python` : ""),
	}),
	peak: figure("Peak", (r) => r.peak, bytes),
	timeline: {
		title: "Over time",
		kind: "",
		isMinor: true,
		has: (r) => r.timeline !== null,
		cell: (r) => r.timeline && <Sparkline values={r.timeline} label={`memory of line ${r.line} over time`} />,
	} as LineColumn,
	copy: figure("Copied", (r) => r.copy, bytes, { isMinor: true }),
};

export const cpuHint = (whole: number) => `share of all CPU time, ${seconds(whole)}`;

export function cpuShare(whole: number): LineColumn {
	const hint = cpuHint(whole);
	return figure("CPU", cpuOf, (v) => share(v, whole), { hint, isStrong: true, has: () => true, tip: plusMinus });
}

// Those that at least one of the rows has something in.
export function usedColumns(columns: readonly LineColumn[], rows: readonly LineRow[]): LineColumn[] {
	return columns.filter((c) => rows.some(c.has));
}

const classOf = (c: LineColumn) =>
	[c.kind, c.isStrong ? "strong" : "", c.isFaint ? "faint" : "", c.isMinor ? "minor" : ""].filter(Boolean).join(" ");

export function LineHeads({ columns }: { columns: readonly LineColumn[] }) {
	return (
		<>
			{columns.map((c) => (
				<th scope="col" class={c.isMinor ? `${c.kind} minor` : c.kind} title={c.hint}>
					{c.title}
				</th>
			))}
		</>
	);
}

export function LineCells({ columns, row }: { columns: readonly LineColumn[]; row: LineRow | undefined }) {
	return (
		<>
			{columns.map((c) => (
				<td class={row ? classOf(c) : c.isMinor ? "minor" : ""} title={(row && c.tip?.(row)) || undefined}>
					{row && c.cell(row)}
				</td>
			))}
		</>
	);
}
