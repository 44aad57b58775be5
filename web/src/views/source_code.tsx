// SPDX-License-Identifier: Apache-2.0
// The lines of one file beside their numbers. Only those in sight are in the page: a file of 50,000 lines scrolls like one of 50.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, shortPath } from "../data/format";
import { highlightLine } from "../data/highlight";
import { lineChanges } from "../data/changes";
import { cpuOf, type LineRow } from "../data/lines";
import { matcherOf } from "../data/search";
import { mergeByLine } from "../data/source_lines";
import { css, heat } from "../draw/colour";
import { useApp } from "../ui/app_context";
import {
	changeColumns,
	cpuShare,
	LINE_COLUMNS,
	LineCells,
	LineHeads,
	usedColumns,
	type LineColumn,
} from "./line_columns";

const ROW_PX = 20;
const OVERSCAN = 12;
const LEAST_HOT = 0.005;

// For each line, what is open where it begins: a string of three quotes goes on.
function useMarks(lines: string[], isPython: boolean): string[] {
	return useMemo(() => {
		const marks: string[] = [];
		let mark = "";
		for (const l of lines) {
			marks.push(mark);
			mark = highlightLine(l, mark, isPython).open;
		}
		return marks;
	}, [lines]);
}

// Which lines are in sight, and the way to one: the chosen, or without a wish the heaviest, for that is why one came.
function useScroll(goal: number, isWish: boolean, key: string) {
	const box = useRef<HTMLDivElement>(null);
	const [scroll, setScroll] = useState(0);
	const [height, setHeight] = useState(600);
	useEffect(() => {
		const element = box.current;
		if (!element) return undefined;
		const observer = new ResizeObserver(() => setHeight(element.clientHeight));
		observer.observe(element);
		return () => observer.disconnect();
	}, []);
	useEffect(() => {
		const element = box.current;
		if (!element) return;
		const top = (goal - 1) * ROW_PX;
		const bottom = element.scrollTop + element.clientHeight - 3 * ROW_PX;
		const isInSight = isWish && top > element.scrollTop && top < bottom;
		if (!isInSight) element.scrollTop = Math.max(0, top - element.clientHeight / 3);
		setScroll(element.scrollTop);
	}, [key]);
	const first = Math.max(0, Math.floor(scroll / ROW_PX) - OVERSCAN);
	const last = Math.ceil((scroll + height) / ROW_PX) + OVERSCAN;
	return { box, first, last, onScroll: (e: { currentTarget: HTMLElement }) => setScroll(e.currentTarget.scrollTop) };
}

// Lines whose text has what is searched for; Enter goes to the next.
function useFound(lines: string[], line: number): Set<number> | null {
	const { state, set } = useApp();
	const found = useMemo(() => {
		const matcher = matcherOf(state.search);
		return matcher ? lines.flatMap((text, i) => (matcher.test(text) ? [i + 1] : [])) : null;
	}, [lines, state.search]);
	useEffect(() => {
		const onNext = (e: Event) => {
			if (!found || found.length === 0) return;
			const isDown = (e as CustomEvent<number>).detail > 0;
			const after = isDown ? found.find((l) => l > line) : [...found].reverse().find((l) => l < line);
			const next = after ?? found[isDown ? 0 : found.length - 1];
			set({ line: next });
		};
		addEventListener("fathom-next", onNext);
		return () => removeEventListener("fathom-next", onNext);
	}, [found, line]);
	return useMemo(() => (found ? new Set(found) : null), [found]);
}

interface RowProps {
	number: number;
	row: LineRow | undefined;
	hot: number; // from 0 to 1
	look: string;
	columns: readonly LineColumn[];
	children: ComponentChildren;
}

function CodeRow({ number, row, hot, look, columns, children }: RowProps) {
	const { theme, set } = useApp();
	const strength = hot * (theme === "light" ? 0.7 : 0.35);
	const choose = (e: Event) => {
		e.stopPropagation();
		set({ line: number });
	};
	return (
		<tr
			aria-rowindex={number}
			class={hot > LEAST_HOT ? `${look} hot` : look}
			style={hot > LEAST_HOT ? { "--heat": css(heat(strength, theme)) } : undefined}
			onClick={row && choose}
		>
			<td class="number lineno">
				{row ? (
					<button class="link" onClick={choose}>
						{number}
					</button>
				) : (
					number
				)}
			</td>
			<LineCells columns={columns} row={row} />
			<td class="text">{children}</td>
		</tr>
	);
}

function Padding({ lines }: { lines: number }) {
	if (lines <= 0) return null;
	return (
		<tr aria-hidden="true" class="pad">
			<td style={{ height: `${lines * ROW_PX}px` }} />
		</tr>
	);
}

// Of two captures, what the lines of this file took before. Lines are the same where their text is; what a filter leaves is not compared.
function useCompared(name: string): LineColumn[] {
	const { diff, state, steps, metric } = useApp();
	return useMemo(() => {
		if (!diff || !state.both || steps.length > 0 || state.thread >= 0) return [];
		const lines = lineChanges(diff, name);
		return metric.unit === "s" ? changeColumns(lines, "time", "s") : changeColumns(lines, "memory", "bytes");
	}, [diff, name, state.both, steps.length, state.thread, metric.unit]);
}

function useFigures(byLine: Map<number, LineRow>, name: string) {
	const { cpu } = useApp();
	const compared = useCompared(name);
	return useMemo(() => {
		const all = [...byLine.values()];
		const most = (f: (r: LineRow) => number) => all.reduce((top, r) => Math.max(top, f(r)), 0);
		const { python, native, system, wait, kinds, alloc, allocs, life, peak, kept, timeline, copy } = LINE_COLUMNS;
		const order =
			compared.length > 0
				? [cpuShare(cpu), ...compared, wait, alloc, peak, timeline]
				: [cpuShare(cpu), python, native, system, wait, kinds, alloc, allocs, life, peak, kept, timeline, copy];
		const [hottest, largest] = [most(cpuOf), most((r) => r.alloc)];
		const hotOf = (r: LineRow) => (hottest > 0 ? cpuOf(r) / hottest : largest > 0 ? r.alloc / largest : 0);
		const heaviest = all.find((r) => hotOf(r) === 1)?.line ?? 0;
		return { columns: usedColumns(order, all), hotOf, heaviest };
	}, [byLine, cpu, compared]);
}

export function Code({ text, rows, file, line }: { text: string; rows: LineRow[]; file: number; line: number }) {
	const { capture } = useApp();
	const name = capture.strings.get(file);
	const lines = useMemo(() => text.split("\n"), [text]);
	const isPython = /\.pyw?$|\.ipynb$/.test(name) || !/\.(c|cc|cpp|cxx|h|hpp|rs|cu|pyx)$/.test(name);
	const open = useMarks(lines, isPython);
	const byLine = useMemo(() => mergeByLine(rows, file), [rows, file]);
	const { columns, hotOf, heaviest } = useFigures(byLine, name);
	const found = useFound(lines, line);
	const { box, first, last, onScroll } = useScroll(line || heaviest, line > 0, `${file}:${line}:${text.length}`);
	const shown = lines.slice(first, last);
	const lookOf = (n: number) =>
		[n === line ? "selected" : byLine.has(n) ? "known" : "", found?.has(n) ? "match" : ""].join(" ").trim();
	return (
		<div class="code" ref={box} onScroll={onScroll}>
			<table aria-label={`Lines of ${name}`} aria-rowcount={lines.length}>
				<thead>
					<tr>
						<th scope="col" class="number">
							Line
						</th>
						<LineHeads columns={columns} />
						<th scope="col" class="text">
							{shortPath(name)}
							{found && (
								<small class="found" role="status">
									{found.size === 0
										? " no line matches"
										: ` ${count(found.size)} ${found.size === 1 ? "line matches" : "lines match"}`}
								</small>
							)}
						</th>
					</tr>
				</thead>
				<tbody>
					<Padding lines={first} />
					{shown.map((source, i) => {
						const n = first + i + 1;
						const row = byLine.get(n);
						return (
							<CodeRow key={n} number={n} row={row} hot={row ? hotOf(row) : 0} look={lookOf(n)} columns={columns}>
								<code>
									{highlightLine(source, open[n - 1], isPython).tokens.map((t) =>
										t.kind === "text" ? t.text : <span class={`t-${t.kind}`}>{t.text}</span>,
									)}
								</code>
							</CodeRow>
						);
					})}
					<Padding lines={lines.length - last} />
				</tbody>
			</table>
		</div>
	);
}
