// SPDX-License-Identifier: Apache-2.0
// A sortable table that a screen reader can read: real rows and headers, the first few hundred rows and more on demand.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

export interface Column<Row> {
	id: string;
	title: string;
	hint?: string;
	isNumber?: boolean;
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

const classOf = (c: { isNumber?: boolean; isMinor?: boolean }) =>
	[c.isNumber ? "number" : "", c.isMinor ? "minor" : ""].join(" ").trim();

// On the side that the cells do not align to, so that titles stand above their figures.
function Arrow({ sort }: { sort: string }) {
	return (
		<span class="arrow" aria-hidden="true">
			{sort && (sort.startsWith("-") ? "▾" : "▴")}
		</span>
	);
}

// A click sorts by the column, the largest number or the first name first; another one the other way round.
function Head<Row>({ column: c, sort, onSort }: { column: Column<Row>; sort: string; onSort: (sort: string) => void }) {
	const isBy = sort.replace(/^-/, "") === c.id;
	const isDown = sort.startsWith("-");
	const first = c.isNumber ? `-${c.id}` : c.id;
	const other = c.isNumber ? c.id : `-${c.id}`;
	const arrow = <Arrow sort={isBy ? sort : ""} />;
	return (
		<th scope="col" class={classOf(c)} aria-sort={isBy ? (isDown ? "descending" : "ascending") : "none"}>
			<button title={c.hint} onClick={() => onSort(sort === first ? other : first)}>
				{c.isNumber && arrow}
				{c.title}
				{!c.isNumber && arrow}
			</button>
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
	const sorted = useMemo(() => sortRows(rows, columns, sort), [rows, sort, columns.map((c) => c.id).join()]);
	return (
		<div class="table-box">
			<table class="table" aria-label={label} aria-rowcount={rows.length}>
				<thead>
					<tr>
						{columns.map((c) => (
							<Head column={c} sort={sort} onSort={onSort} />
						))}
					</tr>
				</thead>
				<tbody>
					{sorted.slice(0, shown).map((row) => {
						const key = keyOf(row);
						return (
							<tr
								key={key}
								class={key === selected ? "selected" : ""}
								aria-selected={key === selected}
								tabIndex={onRow ? 0 : undefined}
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
