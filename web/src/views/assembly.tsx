// SPDX-License-Identifier: Apache-2.0
// The machine code of hot native functions beside its source: what each instruction took, and each line.
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Code } from "../data/capture";
import { count, seconds, share, shortPath } from "../data/format";
import { highlightLine } from "../data/highlight";
import { codeOf, rowsOf, type InstructionRow } from "../data/machine_code";
import { CPU } from "../data/metrics";
import { matcherOf } from "../data/search";
import { wholeOf } from "../data/weights";
import { css, heat } from "../draw/colour";
import { useApp } from "../ui/app_context";
import { functionName } from "../ui/names";

const LEAST_HOT = 0.005;

// All of the run's: samples of instructions know no filter.
function useCpu(): number {
	const { first: capture } = useApp();
	return useMemo(() => wholeOf(capture, CPU, []), [capture]);
}

function Functions({ codes, chosen }: { codes: Code[]; chosen: Code }) {
	const { first: capture, set } = useApp();
	const cpu = useCpu();
	return (
		<nav class="files" aria-label="Native functions">
			{codes.map((c) => (
				<button
					aria-current={c === chosen}
					title={`${functionName(capture, c.fn)}, ${capture.strings.get(c.image)}`}
					onClick={() => set({ fn: c.fn })}
				>
					<span>{functionName(capture, c.fn)}</span>
					<small>
						{seconds(c.self)} {share(c.self, cpu)}
					</small>
				</button>
			))}
		</nav>
	);
}

function SourceCell({ row }: { row: InstructionRow }) {
	const { first: capture } = useApp();
	if (!row.isFirst || row.line === 0) return <td class="text" />;
	const tokens = row.source ? highlightLine(row.source, "", false).tokens : [];
	return (
		<td class="text">
			<small title={capture.strings.get(row.file)}>
				{shortPath(capture.strings.get(row.file))}:{row.line}
				{row.inlined && <> in {row.inlined}, inlined</>}
			</small>{" "}
			<code>{tokens.map((t) => (t.kind === "text" ? t.text : <span class={`t-${t.kind}`}>{t.text}</span>))}</code>
		</td>
	);
}

interface InstructionProps {
	row: InstructionRow;
	cpu: number;
	hot: number; // from 0 to 1
	isMatch: boolean;
}

function Instruction({ row, cpu, hot, isMatch }: InstructionProps) {
	const { theme } = useApp();
	const isHot = hot > LEAST_HOT;
	const look = [isHot ? "hot" : "", isMatch ? "match" : "", row.isAfterGap ? "after-gap" : ""].join(" ").trim();
	const strength = hot * (theme === "light" ? 0.7 : 0.35);
	return (
		<tr class={look} style={isHot ? { "--heat": css(heat(strength, theme)) } : undefined} data-at={row.i}>
			<td
				class="number strong"
				title={row.count ? `${count(row.count)} ${row.count === 1 ? "sample" : "samples"}` : ""}
			>
				{row.count > 0 && share(row.self, cpu)}
			</td>
			<td class="number">{row.count > 0 && seconds(row.self)}</td>
			<td class="number address">{row.at.toString(16)}</td>
			<td class="instruction">
				<code>{row.text}</code>
			</td>
			<td class="number line-self">{row.isFirst && row.line > 0 && row.lineSelf > 0 && seconds(row.lineSelf)}</td>
			<SourceCell row={row} />
		</tr>
	);
}

// The instruction that one came for: the heaviest.
function useWay(rows: InstructionRow[], key: number) {
	const box = useRef<HTMLDivElement>(null);
	useEffect(() => {
		const top = rows.reduce((a, b) => (b.self > a.self ? b : a), rows[0]);
		const element = top && box.current?.querySelector<HTMLElement>(`[data-at="${top.i}"]`);
		if (element && box.current) box.current.scrollTop = element.offsetTop - box.current.clientHeight / 3;
	}, [key]);
	return box;
}

function Listing({ code }: { code: Code }) {
	const { first: capture, state, filter } = useApp();
	const cpu = useCpu();
	const rows = useMemo(() => rowsOf(capture, code), [capture, code]);
	const most = rows.reduce((top, r) => Math.max(top, r.self), 0);
	const matcher = matcherOf(state.search);
	const found = matcher ? rows.filter((r) => matcher.test(r.text) || matcher.test(r.source)).length : null;
	const box = useWay(rows, code.first);
	const hasLines = rows.some((r) => r.line > 0);
	return (
		<div class="code assembly-code" ref={box}>
			<p class="assembly-head">
				<b>{functionName(capture, code.fn)}</b> <small>{capture.strings.get(code.image)}</small>{" "}
				<span>
					{seconds(code.self)} of CPU time in these instructions, inlined calls with them
					{filter.length > 0 && "; of the whole run, whatever the filter leaves"}.
				</span>
				{!hasLines && <span class="faint"> Its debug information is not here, so no source lines are known.</span>}
				{found !== null && (
					<small class="found" role="status">
						{found === 0 ? " no instruction matches" : ` ${count(found)} ${found === 1 ? "row matches" : "rows match"}`}
					</small>
				)}
			</p>
			<table aria-label={`Instructions of ${functionName(capture, code.fn)}`}>
				<thead>
					<tr>
						<th scope="col" class="number" title="share of all CPU time">
							CPU
						</th>
						<th scope="col" class="number" title="CPU time of samples that stood at this instruction">
							Time
						</th>
						<th scope="col" class="number">
							Address
						</th>
						<th scope="col">Instruction</th>
						<th scope="col" class="number" title="of all instructions of this function that were made of the line">
							Line's time
						</th>
						<th scope="col" class="text">
							Source line
						</th>
					</tr>
				</thead>
				<tbody>
					{rows.map((row) => (
						<Instruction
							key={row.i}
							row={row}
							cpu={cpu}
							hot={most > 0 ? row.self / most : 0}
							isMatch={matcher !== null && (matcher.test(row.text) || matcher.test(row.source))}
						/>
					))}
				</tbody>
			</table>
		</div>
	);
}

export function AssemblyView() {
	const { first: capture, state } = useApp();
	const code = codeOf(capture, state.fn) ?? capture.codes[0];
	if (!code) return <p class="nothing">This capture has no native function whose machine code is on this machine.</p>;
	return (
		<section class="view source assembly" aria-label="Assembly">
			<Functions codes={capture.codes} chosen={code} />
			<Listing code={code} />
		</section>
	);
}
