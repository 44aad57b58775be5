// SPDX-License-Identifier: Apache-2.0
// A sortable table that a screen reader can read: real rows and headers, the first few hundred rows and more on demand. Columns are as
// wide as what is in them, until one is dragged.
import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

export interface Column<Row> {
	id: string;
	title: string;
	hint?: string;
	isNumber?: boolean;
	isSpare?: boolean; // not beside something else, unless the screen is wide
	isMinor?: boolean; // not where there is little room
	value: (row: Row) => number | string;
	cell?: (row: Row) => ComponentChildren;
}

interface Props<Row> {
	label: string;
	columns: Column<Row>[];
	rows: Row[];
	sort: string; // "-self": by self, largest first
	onSort: (sort: string) => void;
	keyOf: (row: Row) => string | number;
	selected?: string | number;
	onRow?: (row: Row) => void;
	onMenu?: (row: Row, x: number, y: number) => void;
	page?: number;
}

export function sortRows<Row>(rows: Row[], columns: Column<Row>[], sort: string): Row[] {
	const isDown = sort.startsWith("-");
	const column = columns.find((c) => c.id === sort.replace(/^-/, "")) ?? columns[0];
	const sign = isDown ? -1 : 1;
	return [...rows].sort((a, b) => {
		const x = column.value(a);
		const y = column.value(b);
		return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
	});
}

const classOf = (c: { isNumber?: boolean; isMinor?: boolean; isSpare?: boolean }) =>
	[c.isNumber && "number", c.isMinor && "minor", c.isSpare && "spare"].filter(Boolean).join(" ");

// On the side that the cells do not align to, so that titles stand above their figures.
function Arrow({ sort }: { sort: string }) {
	return (
		<span class="arrow" aria-hidden="true">
			{sort && (sort.startsWith("-") ? "▾" : "▴")}
		</span>
	);
}

const LEAST_COLUMN_PX = 36;
const COLUMN_STEP_PX = 16;

type Widths = Record<string, number>; // of columns, in CSS pixels; 0: not shown
const sumOf = (widths: Widths) => Object.values(widths).reduce((a, b) => a + b, 0);
const dragged = new Map<string, Widths>(); // by table, for as long as the page is open

// Widths that somebody chose. The first choice takes all columns as they are now, so that nothing but the one that is dragged moves.
function useWidths(label: string) {
	const [widths, setWidths] = useState<Widths | null>(dragged.get(label) ?? null);
	const table = useRef<HTMLTableElement>(null);
	const now = useRef(widths);
	now.current = widths;
	const put = (next: Widths | null) => {
		if (next) dragged.set(label, next);
		else dragged.delete(label);
		now.current = next;
		setWidths(next);
	};
	const measured = (): Widths => {
		const heads = [...(table.current?.querySelectorAll<HTMLElement>("thead th[data-column]") ?? [])];
		return Object.fromEntries(heads.map((th) => [th.dataset.column ?? "", th.offsetWidth]));
	};
	const widthOf = (id: string) => (now.current ?? measured())[id] ?? LEAST_COLUMN_PX;
	const change = (id: string, width: number) =>
		put({ ...(now.current ?? measured()), [id]: Math.max(LEAST_COLUMN_PX, Math.round(width)) });
	return { widths, table, widthOf, change, reset: () => put(null) };
}

type Resizing = ReturnType<typeof useWidths>;

// The border to the right of a column. Keys do it on the title.
function Grip({ id, resizing }: { id: string; resizing: Resizing }) {
	const from = useRef<{ x: number; width: number } | null>(null);
	return (
		<span
			class="grip"
			aria-hidden="true"
			title="Drag to change the width; double-click: as wide as what is in it"
			onPointerDown={(e) => {
				e.currentTarget.setPointerCapture(e.pointerId);
				from.current = { x: e.clientX, width: resizing.widthOf(id) };
			}}
			onPointerMove={(e) => from.current && resizing.change(id, from.current.width + e.clientX - from.current.x)}
			onPointerUp={() => (from.current = null)}
			onPointerCancel={() => (from.current = null)}
			onDblClick={resizing.reset}
		/>
	);
}

// Arrows go from row to row; one of them is where Tab stops.
function walkRows(e: KeyboardEvent): void {
	const row = (e.target as HTMLElement).closest("tr");
	const rows = row?.parentElement?.children;
	if (!row || !rows || e.target !== row) return;
	const to =
		e.key === "ArrowDown"
			? row.nextElementSibling
			: e.key === "ArrowUp"
				? row.previousElementSibling
				: e.key === "Home"
					? rows[0]
					: e.key === "End"
						? rows[rows.length - 1]
						: null;
	if (!(to instanceof HTMLElement)) return;
	e.preventDefault();
	row.tabIndex = -1;
	to.tabIndex = 0;
	to.focus();
}

// A click sorts by the column, the largest number or the first name first; another one the other way round.
interface HeadProps<Row> {
	column: Column<Row>;
	sort: string;
	onSort: (sort: string) => void;
	resizing: Resizing;
}

function Head<Row>({ column: c, sort, onSort, resizing }: HeadProps<Row>) {
	const width = resizing.widths?.[c.id];
	const onKey = (e: KeyboardEvent) => {
		const by = e.key === "ArrowRight" ? COLUMN_STEP_PX : e.key === "ArrowLeft" ? -COLUMN_STEP_PX : 0;
		if (!e.shiftKey || by === 0) return;
		e.preventDefault();
		e.stopPropagation();
		resizing.change(c.id, resizing.widthOf(c.id) + by);
	};
	const isBy = sort.replace(/^-/, "") === c.id;
	const isDown = sort.startsWith("-");
	const first = c.isNumber ? `-${c.id}` : c.id;
	const other = c.isNumber ? c.id : `-${c.id}`;
	const arrow = <Arrow sort={isBy ? sort : ""} />;
	return (
		<th
			scope="col"
			class={classOf(c)}
			data-column={c.id}
			style={width ? { width: `${width}px` } : undefined}
			aria-sort={isBy ? (isDown ? "descending" : "ascending") : "none"}
		>
			<button title={c.hint} onClick={() => onSort(sort === first ? other : first)} onKeyDown={onKey}>
				{c.isNumber && arrow}
				{c.title}
				{!c.isNumber && arrow}
			</button>
			<Grip id={c.id} resizing={resizing} />
		</th>
	);
}

export function Table<Row>({
	label,
	columns,
	rows,
	sort,
	onSort,
	keyOf,
	selected,
	onRow,
	onMenu,
	page = 200,
}: Props<Row>) {
	const [shown, setShown] = useState(page);
	const resizing = useWidths(label);
	const sorted = useMemo(() => sortRows(rows, columns, sort), [rows, sort, columns.map((c) => c.id).join()]);
	const list = sorted.slice(0, shown);
	const stop = list.some((row) => keyOf(row) === selected) ? selected : undefined;
	return (
		<div class="table-box">
			<table
				class={resizing.widths ? "table dragged" : "table"}
				style={resizing.widths ? { width: `${sumOf(resizing.widths)}px` } : undefined}
				ref={resizing.table}
				aria-label={label}
				aria-rowcount={rows.length}
			>
				<thead>
					<tr>
						{columns.map((c) => (
							<Head column={c} sort={sort} onSort={onSort} resizing={resizing} />
						))}
					</tr>
				</thead>
				<tbody onKeyDown={walkRows}>
					{list.map((row, i) => {
						const key = keyOf(row);
						return (
							<tr
								key={key}
								class={key === selected ? "selected" : ""}
								aria-selected={key === selected}
								tabIndex={onRow ? (key === stop || (stop === undefined && i === 0) ? 0 : -1) : undefined}
								onClick={onRow && (() => onRow(row))}
								onKeyDown={(e) => {
									if (e.key === "Enter" && e.target === e.currentTarget) onRow?.(row);
								}}
								onContextMenu={
									onMenu &&
									((e) => {
										e.preventDefault();
										onMenu(row, e.clientX, e.clientY);
									})
								}
							>
								{columns.map((c) => (
									<td class={classOf(c)}>{c.cell ? c.cell(row) : c.value(row)}</td>
								))}
							</tr>
						);
					})}
				</tbody>
			</table>
			{sorted.length > shown && (
				<button class="more" onClick={() => setShown(shown + 1000)}>
					Show more ({sorted.length - shown} left)
				</button>
			)}
		</div>
	);
}
