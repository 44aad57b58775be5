// The lines of one file beside their numbers. Only those in sight are in the page: a file of 50,000 lines scrolls like one of 50.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, seconds, share, shortPath } from "../data/format";
import { highlightLine } from "../data/highlight";
import { classesOf, cpuOf, type LineRow } from "../data/lines";
import { mergeByLine } from "../data/source_lines";
import { css, heat } from "../draw/colour";
import { useApp } from "../ui/app_context";
import { ClassBar, Sparkline } from "../ui/bars";

const ROW_PX = 20;
const OVERSCAN = 12;

interface Shown {
	hasNative: boolean;
	hasSystem: boolean;
	hasWait: boolean;
	hasMemory: boolean;
	hasCopy: boolean;
	hasTimeline: boolean;
	hottest: number;
	whole: number;
	largest: number;
}

function time(v: number): string {
	return v > 0 ? seconds(v) : "";
}

function Cells({ row, shown }: { row: LineRow | undefined; shown: Shown }) {
	const empty = (n: number) => Array.from({ length: n }, () => <td />);
	if (!row)
		return (
			<>
				{empty(
					3 +
						Number(shown.hasNative) +
						Number(shown.hasSystem) +
						Number(shown.hasWait) +
						2 * Number(shown.hasMemory) +
						Number(shown.hasTimeline) +
						Number(shown.hasCopy),
				)}
			</>
		);
	const cpu = cpuOf(row);
	return (
		<>
			<td class="number strong" title={row.plusMinus > 0 ? `± ${seconds(row.plusMinus)}` : ""}>
				{cpu > 0 ? share(cpu, shown.whole) : ""}
			</td>
			<td class="number">{time(row.python)}</td>
			{shown.hasNative && <td class="number">{time(row.native)}</td>}
			{shown.hasSystem && <td class="number">{time(row.system)}</td>}
			{shown.hasWait && <td class="number">{time(row.wait)}</td>}
			<td class="bar">{cpu + row.wait > 0 && <ClassBar values={classesOf(row)} />}</td>
			{shown.hasMemory && (
				<>
					<td class="number" title={row.alloc > 0 ? `${share(row.pythonShare, 1)} of it by Python` : ""}>
						{row.alloc > 0 ? bytes(row.alloc) : ""}
					</td>
					<td class="number">{row.peak > 0 ? bytes(row.peak) : ""}</td>
				</>
			)}
			{shown.hasTimeline && (
				<td>{row.timeline && <Sparkline values={row.timeline} label={`memory of line ${row.line} over time`} />}</td>
			)}
			{shown.hasCopy && <td class="number">{row.copy > 0 ? bytes(row.copy) : ""}</td>}
		</>
	);
}

export function Code({ text, rows, file, line }: { text: string; rows: LineRow[]; file: number; line: number }) {
	const { capture, theme, set } = useApp();
	const box = useRef<HTMLDivElement>(null);
	const [scroll, setScroll] = useState(0);
	const [height, setHeight] = useState(600);
	const lines = useMemo(() => text.split("\n"), [text]);
	const isPython =
		/\.pyw?$|\.ipynb$/.test(capture.strings.get(file)) ||
		!/\.(c|cc|cpp|cxx|h|hpp|rs|cu|pyx)$/.test(capture.strings.get(file));
	const open = useMemo(() => {
		const marks: string[] = [];
		let mark = "";
		for (const l of lines) {
			marks.push(mark);
			mark = highlightLine(l, mark, isPython).open;
		}
		return marks;
	}, [lines]);
	const byLine = useMemo(() => mergeByLine(rows, file), [rows, file]);
	const shown: Shown = useMemo(() => {
		const all = [...byLine.values()];
		const most = (f: (r: LineRow) => number) => all.reduce((top, r) => Math.max(top, f(r)), 0);
		return {
			hasNative: all.some((r) => r.native > 0),
			hasSystem: all.some((r) => r.system > 0),
			hasWait: all.some((r) => r.wait > 0),
			hasMemory: all.some((r) => r.alloc > 0 || r.peak > 0),
			hasCopy: all.some((r) => r.copy > 0),
			hasTimeline: all.some((r) => r.timeline),
			hottest: most(cpuOf),
			whole: rows.reduce((sum, r) => sum + cpuOf(r), 0),
			largest: most((r) => r.alloc),
		};
	}, [byLine, rows]);
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
		let goal = line;
		// Without a wish, the hottest line: that is why one came.
		if (!goal) for (const r of byLine.values()) if (cpuOf(r) > 0 && cpuOf(r) === shown.hottest) goal = r.line;
		if (!goal) for (const r of byLine.values()) if (r.alloc > 0 && r.alloc === shown.largest) goal = r.line;
		const top = (goal - 1) * ROW_PX;
		const isInSight =
			line > 0 && top > element.scrollTop && top < element.scrollTop + element.clientHeight - 3 * ROW_PX;
		if (!isInSight) element.scrollTop = Math.max(0, top - element.clientHeight / 3);
		setScroll(element.scrollTop);
	}, [text, line, file]);
	const first = Math.max(0, Math.floor(scroll / ROW_PX) - OVERSCAN);
	const last = Math.min(lines.length, Math.ceil((scroll + height) / ROW_PX) + OVERSCAN);
	const visible: number[] = [];
	for (let i = first; i < last; i++) visible.push(i);
	return (
		<div class="code" ref={box} onScroll={(e) => setScroll(e.currentTarget.scrollTop)}>
			<table aria-label={`Lines of ${capture.strings.get(file)}`} aria-rowcount={lines.length}>
				<thead>
					<tr>
						<th scope="col" class="number">
							Line
						</th>
						<th scope="col" class="number" title="share of all CPU time">
							CPU
						</th>
						<th scope="col" class="number">
							Python
						</th>
						{shown.hasNative && (
							<th scope="col" class="number">
								Native
							</th>
						)}
						{shown.hasSystem && (
							<th scope="col" class="number">
								System
							</th>
						)}
						{shown.hasWait && (
							<th scope="col" class="number">
								Waiting
							</th>
						)}
						<th scope="col" class="bar">
							<span class="hidden">Kinds of time</span>
						</th>
						{shown.hasMemory && (
							<th scope="col" class="number">
								Allocated
							</th>
						)}
						{shown.hasMemory && (
							<th scope="col" class="number">
								Peak
							</th>
						)}
						{shown.hasTimeline && <th scope="col">Over time</th>}
						{shown.hasCopy && (
							<th scope="col" class="number">
								Copied
							</th>
						)}
						<th scope="col" class="text">
							{shortPath(capture.strings.get(file))}
						</th>
					</tr>
				</thead>
				<tbody>
					{first > 0 && (
						<tr aria-hidden="true" class="pad">
							<td style={{ height: `${first * ROW_PX}px` }} />
						</tr>
					)}
					{visible.map((i) => {
						const row = byLine.get(i + 1);
						const hot = row
							? shown.hottest > 0
								? cpuOf(row) / shown.hottest
								: shown.largest > 0
									? row.alloc / shown.largest
									: 0
							: 0;
						return (
							<tr
								key={i}
								aria-rowindex={i + 1}
								class={i + 1 === line ? "selected" : row ? "known" : ""}
								style={
									hot > 0.005 ? { background: css(heat(hot * (theme === "light" ? 0.7 : 0.35), theme)) } : undefined
								}
								onClick={row && (() => set({ line: i + 1 }))}
							>
								<td class="number lineno">
									{row ? (
										<button
											class="link"
											onClick={(e) => {
												e.stopPropagation();
												set({ line: i + 1 });
											}}
										>
											{i + 1}
										</button>
									) : (
										i + 1
									)}
								</td>
								<Cells row={row} shown={shown} />
								<td class="text">
									<code>
										{highlightLine(lines[i], open[i], isPython).tokens.map((t) =>
											t.kind === "text" ? t.text : <span class={`t-${t.kind}`}>{t.text}</span>,
										)}
									</code>
								</td>
							</tr>
						);
					})}
					{last < lines.length && (
						<tr aria-hidden="true" class="pad">
							<td style={{ height: `${(lines.length - last) * ROW_PX}px` }} />
						</tr>
					)}
				</tbody>
			</table>
		</div>
	);
}
