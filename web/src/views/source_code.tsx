// The lines of one file beside their numbers. Only those in sight are in the page: a file of 50,000 lines scrolls like one of 50.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { shortPath } from "../data/format";
import { highlightLine } from "../data/highlight";
import { cpuOf, type LineRow } from "../data/lines";
import { mergeByLine } from "../data/source_lines";
import { css, heat } from "../draw/colour";
import { useApp } from "../ui/app_context";
import { cpuShare, LINE_COLUMNS, LineCells, LineHeads, usedColumns } from "./line_columns";

const ROW_PX = 20;
const OVERSCAN = 12;

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
	const { columns, hottest, largest } = useMemo(() => {
		const all = [...byLine.values()];
		const most = (f: (r: LineRow) => number) => all.reduce((top, r) => Math.max(top, f(r)), 0);
		const whole = rows.reduce((sum, r) => sum + cpuOf(r), 0);
		const { python, native, system, wait, kinds, alloc, peak, timeline, copy } = LINE_COLUMNS;
		const order = [cpuShare(whole), python, native, system, wait, kinds, alloc, peak, timeline, copy];
		return { columns: usedColumns(order, all), hottest: most(cpuOf), largest: most((r) => r.alloc) };
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
		if (!goal) for (const r of byLine.values()) if (cpuOf(r) > 0 && cpuOf(r) === hottest) goal = r.line;
		if (!goal) for (const r of byLine.values()) if (r.alloc > 0 && r.alloc === largest) goal = r.line;
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
						<LineHeads columns={columns} />
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
						const hot = row ? (hottest > 0 ? cpuOf(row) / hottest : largest > 0 ? row.alloc / largest : 0) : 0;
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
								<LineCells columns={columns} row={row} />
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
