// The file as it was when it ran, and what each line cost.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, seconds, share, shortPath } from "../data/format";
import { highlightLine } from "../data/highlight";
import { cpuOf, linesOf, type LineRow } from "../data/lines";
import { METRICS } from "../data/metrics";
import { callsOfLine, filesOf, mergeByLine, type LineCall } from "../data/source_lines";
import { selfWeights, totalsOf } from "../data/weights";
import { css, heat } from "../draw/colour";
import { useApp } from "../ui/app_context";
import { ClassBar, Sparkline } from "../ui/bars";
import { functionName, functionPlace } from "../ui/names";

const ROW_PX = 20;
const OVERSCAN = 12;

// The text of a file: in the bundle, from the server, or null.
function useText(file: number): string | null | undefined {
	const { capture, source } = useApp();
	const [asked, setAsked] = useState<{ file: number; text: string | null } | null>(null);
	const names = capture.files.column("name");
	const row = names ? Array.prototype.indexOf.call(names, file) : -1;
	const text = row >= 0 ? capture.files.get("source", row) : 0;
	const inside = useMemo(() => (text ? capture.strings.text(text) : null), [capture, text]);
	useEffect(() => {
		if (inside !== null || row < 0) return undefined;
		let isCurrent = true;
		void source.sourceText(capture.strings.text(file)).then((answer) => isCurrent && setAsked({ file, text: answer }));
		return () => {
			isCurrent = false;
		};
	}, [inside, row, file]);
	if (inside !== null) return inside;
	if (row < 0 || !source.isServed) return null;
	return asked?.file === file ? asked.text : undefined;
}

function Files({ rows, file }: { rows: LineRow[]; file: number }) {
	const { capture, set } = useApp();
	const files = useMemo(() => filesOf(rows), [rows]);
	const whole = files.reduce((sum, f) => sum + f.cpu, 0);
	return (
		<nav class="files" aria-label="Files">
			{files.map((f) => (
				<button
					aria-current={f.file === file}
					title={capture.strings.get(f.file)}
					onClick={() => set({ file: f.file, line: 0 })}
				>
					<span>{shortPath(capture.strings.get(f.file)) || "(no file)"}</span>
					<small>
						{f.cpu > 0
							? `${seconds(f.cpu)} ${share(f.cpu, whole)}`
							: f.wait > 0
								? `waits ${seconds(f.wait)}`
								: bytes(f.alloc)}
					</small>
				</button>
			))}
		</nav>
	);
}

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
			<td class="bar">
				{cpu + row.wait > 0 && <ClassBar values={[row.python, row.native, row.system, 0, 0, row.wait]} />}
			</td>
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

function Code({ text, rows, file, line }: { text: string; rows: LineRow[]; file: number; line: number }) {
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

function Calls({ title, calls, whole, own }: { title: string; calls: LineCall[]; whole: number; own: number }) {
	const { capture, set } = useApp();
	return (
		<section>
			<h3>{title}</h3>
			{calls.length === 0 && <p class="faint">none</p>}
			<ul class="calls">
				{calls.map((c) => {
					const file = capture.functions.file[c.fn];
					const canGo = file !== 0 && c.line > 0 && capture.functions.kind[c.fn] === 1;
					return (
						<li>
							{canGo ? (
								<button class="link" onClick={() => set({ file, line: c.line, fn: c.fn })}>
									{functionName(capture, c.fn)}:{c.line}
								</button>
							) : (
								<button class="link" onClick={() => set({ view: "functions", fn: c.fn })}>
									{functionName(capture, c.fn)}
								</button>
							)}{" "}
							<small>{file === own ? "" : functionPlace(capture, c.fn)}</small> <b>{seconds(c.weight)}</b>{" "}
							<small>{share(c.weight, whole)}</small>
						</li>
					);
				})}
			</ul>
		</section>
	);
}

function LinePanel({ rows, file, line }: { rows: LineRow[]; file: number; line: number }) {
	const { capture, steps, set } = useApp();
	const total = useMemo(
		() => totalsOf(capture.nodes.parent, selfWeights(capture, METRICS[1], steps)),
		[capture, JSON.stringify(steps)],
	);
	const calls = useMemo(() => callsOfLine(capture, total, file, line), [total, file, line]);
	const row = mergeByLine(
		rows.filter((r) => r.line === line),
		file,
	).get(line);
	return (
		<aside class="line-panel" aria-label={`Line ${line}`}>
			<div>
				<h2>
					Line {line}{" "}
					<button class="close" aria-label="Close" onClick={() => set({ line: 0 })}>
						×
					</button>
				</h2>
				{row && (
					<p>
						{functionName(capture, row.fn)}: {seconds(cpuOf(row))} of CPU
						{row.plusMinus > 0 && ` ± ${seconds(row.plusMinus)}`}
						{row.wait > 0 && `, ${seconds(row.wait)} waiting`}
						{row.alloc > 0 && `, ${bytes(row.alloc)} allocated`}
						{row.copy > 0 && `, ${bytes(row.copy)} copied`}.
					</p>
				)}
			</div>
			<Calls title="Called from" calls={calls.callers} whole={total[0]} own={file} />
			<Calls title="Calls" calls={calls.callees} whole={total[0]} own={file} />
		</aside>
	);
}

// Without the text there is still a table of lines.
function Bare({ rows, file }: { rows: LineRow[]; file: number }) {
	const { set } = useApp();
	const byLine = [...mergeByLine(rows, file).values()].sort((a, b) => a.line - b.line);
	return (
		<div class="code">
			<p class="note">The text of this file was not kept with the profile; these are its lines.</p>
			<table class="table slim" aria-label="Lines">
				<thead>
					<tr>
						<th scope="col" class="number">
							Line
						</th>
						<th scope="col" class="number">
							CPU
						</th>
						<th scope="col" class="number">
							Waiting
						</th>
						<th scope="col" class="number">
							Allocated
						</th>
					</tr>
				</thead>
				<tbody>
					{byLine.map((r) => (
						<tr onClick={() => set({ line: r.line })}>
							<td class="number">{r.line}</td>
							<td class="number">{time(cpuOf(r))}</td>
							<td class="number">{time(r.wait)}</td>
							<td class="number">{r.alloc > 0 ? bytes(r.alloc) : ""}</td>
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}

export function SourceView() {
	const { capture, state, steps } = useApp();
	const rows = useMemo(() => linesOf(capture, steps), [capture, JSON.stringify(steps)]);
	const files = useMemo(() => filesOf(rows), [rows]);
	const file = state.file >= 0 ? state.file : (files[0]?.file ?? -1);
	const text = useText(file);
	if (file < 0)
		return (
			<section class="view">
				<p class="nothing">No line of source was seen in what the filter leaves.</p>
			</section>
		);
	return (
		<section class="view source" aria-label="Source">
			<Files rows={rows} file={file} />
			{text === undefined ? (
				<p class="nothing">Asking for the text…</p>
			) : text === null ? (
				<Bare rows={rows} file={file} />
			) : (
				<Code key={file} text={text} rows={rows} file={file} line={state.line} />
			)}
			{state.line > 0 && <LinePanel rows={rows} file={file} line={state.line} />}
		</section>
	);
}
