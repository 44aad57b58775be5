// A sortable table that a screen reader can read: real rows and headers, the first few hundred rows and more on demand.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

export interface Column<Row> {
	id: string;
	title: string;
	hint?: string;
	isNumber?: boolean;
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
	const by = sort.replace(/^-/, "");
	return (
		<div class="table-box">
			<table class="table" aria-label={label} aria-rowcount={rows.length}>
				<thead>
					<tr>
						{columns.map((c) => (
							<th
								scope="col"
								class={c.isNumber ? "number" : ""}
								aria-sort={c.id === by ? (sort.startsWith("-") ? "descending" : "ascending") : "none"}
							>
								<button
									title={c.hint}
									onClick={() =>
										onSort(
											c.id === by && sort.startsWith("-") === Boolean(c.isNumber)
												? c.isNumber
													? c.id
													: `-${c.id}`
												: c.isNumber
													? `-${c.id}`
													: c.id,
										)
									}
								>
									{c.title}
									<span class="arrow" aria-hidden="true">
										{c.id === by ? (sort.startsWith("-") ? "▾" : "▴") : ""}
									</span>
								</button>
							</th>
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
									<td class={c.isNumber ? "number" : ""}>{c.cell ? c.cell(row) : c.value(row)}</td>
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
