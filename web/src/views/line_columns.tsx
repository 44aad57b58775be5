// SPDX-License-Identifier: Apache-2.0
// The columns of figures that tables of lines have: each knows its title, what it shows, and whether a line has any of it.
import type { ComponentChildren } from "preact";
import type { LineChange } from "../data/changes";
import { amount, bytes, count, seconds, share } from "../data/format";
import { classesOf, cpuOf, type LineRow } from "../data/lines";
import { ClassBar, Sparkline } from "../ui/bars";
import { signed, type Unit } from "../ui/change";

export interface LineColumn {
	title: ComponentChildren;
	hint?: string;
	kind: "number" | "bar" | "";
	isStrong?: boolean;
	isFaint?: boolean;
	isMinor?: boolean; // gives its room to the text where there is little
	isLeast?: boolean; // only where there is much
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
	allocs: figure("Blocks", (r) => r.allocs, count, { hint: "how many were allocated", isLeast: true }),
	peak: figure("Peak", (r) => r.peak, bytes),
	kept: figure("Kept", (r) => r.kept, bytes, {
		hint: "held at the end of the run",
		tip: (r) => r.types,
		isLeast: true,
	}),
	life: figure("Lived", (r) => r.life, seconds, {
		hint: "how long a byte was held, as a mean; what is never freed lives to the end",
		isLeast: true,
	}),
	timeline: {
		title: "Over time",
		kind: "",
		isMinor: true,
		has: (r) => r.timeline !== null,
		cell: (r) => r.timeline && <Sparkline values={r.timeline} label={`memory of line ${r.line} over time`} />,
	} as LineColumn,
	copy: figure("Copied", (r) => r.copy, bytes, { isMinor: true }),
};

// Before, and what changed since: bold where chance does not explain it.
export function changeColumns(lines: Map<number, LineChange>, key: "time" | "memory", unit: Unit): LineColumn[] {
	const of = (r: LineRow) => lines.get(r.line)?.[key] ?? null;
	const has = (r: LineRow) => of(r) !== null;
	const what = key === "time" ? "CPU time" : "peak";
	const tip = (r: LineRow) => {
		const c = of(r);
		if (!c) return "";
		const sure = c.isSignificant ? "more than noise" : "within noise";
		return `${what} ${amount(c.before, unit)} before, ${amount(c.after, unit)} after, ± ${amount(c.plusMinus, unit)}: ${sure}`;
	};
	return [
		{
			title: "Before",
			hint: `${what} of the line in the other capture`,
			kind: "number",
			has,
			tip,
			cell: (r) => (of(r)?.isNew ? <small>not there</small> : has(r) ? amount(of(r)?.before ?? 0, unit) : ""),
		},
		{
			title: "Change",
			hint: `of its ${what}, with ± of the change; bold: more than noise`,
			kind: "number",
			has,
			tip,
			cell: (r) => {
				const c = of(r);
				if (!c) return "";
				const text = signed(c.after - c.before, unit);
				return (
					<>
						{c.isSignificant ? <b class={c.after > c.before ? "more-than" : "less-than"}>{text}</b> : text}{" "}
						<small>± {amount(c.plusMinus, unit)}</small>
					</>
				);
			},
		},
	];
}

export const cpuHint = (whole: number) => `share of all CPU time, ${seconds(whole)}`;

export function cpuShare(whole: number): LineColumn {
	const hint = cpuHint(whole);
	return figure("CPU", cpuOf, (v) => share(v, whole), { hint, isStrong: true, has: () => true, tip: plusMinus });
}

// Those that at least one of the rows has something in.
export function usedColumns(columns: readonly LineColumn[], rows: readonly LineRow[]): LineColumn[] {
	return columns.filter((c) => rows.some(c.has));
}

const roomOf = (c: LineColumn) => (c.isMinor ? "minor" : c.isLeast ? "least" : "");
const classOf = (c: LineColumn) =>
	[c.kind, c.isStrong ? "strong" : "", c.isFaint ? "faint" : "", roomOf(c)].filter(Boolean).join(" ");

export function LineHeads({ columns }: { columns: readonly LineColumn[] }) {
	return (
		<>
			{columns.map((c) => (
				<th scope="col" class={[c.kind, roomOf(c)].join(" ").trim()} title={c.hint}>
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
				<td class={row ? classOf(c) : roomOf(c)} title={(row && c.tip?.(row)) || undefined}>
					{row && c.cell(row)}
				</td>
			))}
		</>
	);
}
