// SPDX-License-Identifier: Apache-2.0
// The file as it was when it ran, and what each line cost.
import { useEffect, useMemo, useState } from "preact/hooks";
import { amount, bytes, seconds, share, shortPath } from "../data/format";
import { cpuOf, linesOf, type LineRow } from "../data/lines";
import { callsOfLine, filesOf, mergeByLine, type LineCall } from "../data/source_lines";
import { selfWeights, totalsOf } from "../data/weights";
import { useApp } from "../ui/app_context";
import { functionName, functionPlace } from "../ui/names";
import { Code } from "./source_code";

// The text of a file: in the bundle, from the server, or null.
function useText(file: number): string | null | undefined {
	const { capture, source } = useApp();
	const [asked, setAsked] = useState<{ file: number; text: string | null } | null>(null);
	const names = capture.files.column("name");
	const row = names ? Array.prototype.indexOf.call(names, file) : -1;
	const text = row >= 0 ? capture.files.get("source", row) : 0;
	const inside = useMemo(() => (text ? capture.strings.lines(text) : null), [capture, text]);
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
	const { capture, set, cpu } = useApp();
	const files = useMemo(() => filesOf(rows), [rows]);
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
							? `${seconds(f.cpu)} ${share(f.cpu, cpu)}`
							: f.wait > 0
								? `waits ${seconds(f.wait)}`
								: bytes(f.alloc)}
					</small>
				</button>
			))}
		</nav>
	);
}

function Calls({ title, calls, own }: { title: string; calls: LineCall[]; own: number }) {
	const { capture, set, metric, whole } = useApp();
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
							<small>{file === own ? "" : functionPlace(capture, c.fn)}</small> <b>{amount(c.weight, metric.unit)}</b>{" "}
							<small>{share(c.weight, whole)}</small>
						</li>
					);
				})}
			</ul>
		</section>
	);
}

function LinePanel({ rows, file, line }: { rows: LineRow[]; file: number; line: number }) {
	const { capture, steps, set, metric } = useApp();
	const total = useMemo(
		() => totalsOf(capture.nodes.parent, selfWeights(capture, metric, steps)),
		[capture, metric.id, JSON.stringify(steps)],
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
						{row.copy > 0 && `, ${bytes(row.copy)} copied`}
						{row.kept > 0 && `, ${bytes(row.kept)} kept to the end`}
						{row.types && ` (${row.types})`}.
					</p>
				)}
			</div>
			<Calls title={`Called from, by ${metric.label}`} calls={calls.callers} own={file} />
			<Calls title={`Calls, by ${metric.label}`} calls={calls.callees} own={file} />
		</aside>
	);
}

// Without the text there is still a table of lines.
function Bare({ rows, file }: { rows: LineRow[]; file: number }) {
	const { set, cpu } = useApp();
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
							<td class="number">
								{cpuOf(r) > 0 && (
									<>
										{seconds(cpuOf(r))} <small>{share(cpuOf(r), cpu)}</small>
									</>
								)}
							</td>
							<td class="number">{r.wait > 0 ? seconds(r.wait) : ""}</td>
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
