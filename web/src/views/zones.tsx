// SPDX-License-Identifier: Apache-2.0
// Zones: a table of all names, and for the chosen one how long it took: the distribution, by thread, over time, and single ones.
import { useMemo } from "preact/hooks";
import { rangeOf } from "../data/filter";
import { count, seconds } from "../data/format";
import { histogramOf, type Histogram } from "../data/histogram";
import { countsOf, sharedBars } from "../data/shared_bars";
import { isPartial } from "../data/zone_mask";
import { byThread, overTime, zoneStats, type ZoneStats } from "../data/zone_stats";
import { useApp, type App } from "../ui/app_context";
import { Meter } from "../ui/bars";
import { threadName, whatName } from "../ui/names";
import type { Column } from "../ui/table";
import { CallList, HistogramBars, pickedOf } from "./histogram";
import { SharedHistogram } from "./shared_histogram";
import { FIGURES, FiguresBeside, nameColumn, ZoneList, zonePlace } from "./zone_figures";
import { ZonesOfTwo } from "./zones_of_two";

const COLUMNS = 120;
const HEIGHT = 60;

function figure(id: keyof ZoneStats, title: string, hint: string, isMinor = false): Column<ZoneStats> {
	return { id, title, hint, isNumber: true, isMinor, value: (r) => r[id], cell: (r) => seconds(r[id]) };
}

function columnsOf(app: App, isNarrow: boolean): Column<ZoneStats>[] {
	const { first: capture } = app;
	return [
		nameColumn(capture),
		{ id: "n", title: "Count", isNumber: true, value: (r) => r.n, cell: (r) => count(r.n) },
		figure("sum", "Sum", "of all their lengths; one inside another counts in both"),
		figure("mean", "Mean", "of one"),
		...(isNarrow ? [] : [figure("min", "Fastest", "of one", true)]),
		figure("p50", "P50", "half of them take no longer; right to 7%"),
		figure("p99", "P99", "99 of 100 take no longer; right to 7%"),
		...(isNarrow ? [] : [figure("p999", "P99.9", "999 of 1000 take no longer; right to 7%")]),
		figure("max", "Slowest", "of one"),
		{
			id: "cv",
			title: "CV",
			hint: "coefficient of variation: the standard deviation as a share of the mean. 0: all alike",
			isNumber: true,
			value: (r) => r.cv,
			cell: (r) => r.cv.toFixed(2),
		},
	];
}

const QUICK: [string, (s: ZoneStats) => [number, number]][] = [
	["Slowest 1%", (s) => [s.p99, s.max]],
	["Slowest 0.1%", (s) => [s.p999, s.max]],
	["Faster half", (s) => [s.min, s.p50]],
	["All", (s) => [s.min, s.max]],
];

// The longest over the run, and what of it is picked.
function OverTime({ app, list }: { app: App; list: ArrayLike<number> }) {
	const { first: capture, state } = app;
	const longest = useMemo(() => overTime(capture, list, COLUMNS), [capture, list]);
	const top = longest.reduce((a, b) => Math.max(a, b), 0);
	const range = rangeOf(state.steps);
	if (!(top > 0)) return null;
	return (
		<section>
			<h3>
				Over time <small>the longest in each part of the run, up to {seconds(top)}</small>
			</h3>
			<svg
				class="over-time"
				viewBox={`0 0 ${COLUMNS} ${HEIGHT}`}
				preserveAspectRatio="none"
				role="img"
				aria-label={`The longest in each part of the run, up to ${seconds(top)}`}
			>
				{Array.from(longest, (v, i) =>
					v > 0 ? (
						<rect x={i} width={0.9} y={HEIGHT - 2 - (HEIGHT - 2) * (v / top)} height={2 + (HEIGHT - 2) * (v / top)} />
					) : null,
				)}
			</svg>
			<div class="histogram-axis">
				<span>0 s</span>
				{range && <span>of the range</span>}
				<span>{seconds(capture.end)}</span>
			</div>
		</section>
	);
}

function ByThread({ app, list }: { app: App; list: ArrayLike<number> }) {
	const { first: capture } = app;
	const rows = useMemo(() => byThread(capture, list), [capture, list]);
	if (rows.length < 2) return null;
	return (
		<section>
			<h3>By thread</h3>
			<table class="table slim" aria-label="By thread">
				<tbody>
					{rows.slice(0, 20).map((r) => (
						<tr>
							<td>{threadName(capture, r.thread)}</td>
							<td class="number">{count(r.n)}</td>
							<td class="number">
								<Meter value={r.sum} whole={rows[0].sum}>
									{seconds(r.sum)}
								</Meter>
							</td>
							<td class="number faint">up to {seconds(r.max)}</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

// Beside the table's own columns only what tells most.
const SHOWN = ["Count", "Mean", "P50", "P99", "P99.9", "Slowest", "CV"];

function Figures({ stats }: { stats: ZoneStats }) {
	return (
		<dl class="facts zone-facts">
			{FIGURES.filter(([name]) => SHOWN.includes(name)).map(([name, of, write]) => (
				<div>
					<dt>{name}</dt>
					<dd>{write(of(stats))}</dd>
				</div>
			))}
		</dl>
	);
}

// Two zones beside each other: what the other one has more or less of, and how long it takes.
function Compared({ app, stats, other }: { app: App; stats: ZoneStats; other: ZoneStats }) {
	const { first: capture, filter } = app;
	const names: [string, string] = [whatName(capture, stats.what), whatName(capture, other.what)];
	const bars = useMemo(
		() => sharedBars(countsOf(capture, stats.what, filter), countsOf(capture, other.what, filter)),
		[capture, stats.what, other.what, JSON.stringify(filter)],
	);
	return (
		<section>
			<FiguresBeside label="Two zones" names={names} one={stats} other={other} />
			{bars && (
				<>
					<h3>How long one of both takes</h3>
					<SharedHistogram bars={bars} names={names} />
				</>
			)}
		</section>
	);
}

function OtherZone({ app, all, stats }: { app: App; all: ZoneStats[]; stats: ZoneStats }) {
	const { first: capture, state, set } = app;
	const others = all
		.filter((r) => r.what !== stats.what)
		.sort((a, b) => b.sum - a.sum)
		.slice(0, 500);
	if (others.length === 0) return null;
	return (
		<select
			aria-label="Compare with"
			title="Another zone beside this one"
			value={state.other}
			onChange={(e) => set({ other: Number(e.currentTarget.value) })}
		>
			<option value={-1}>Compare with…</option>
			{others.map((r) => (
				<option value={r.what}>{whatName(capture, r.what)}</option>
			))}
		</select>
	);
}

function Lengths({ app, stats, h }: { app: App; stats: ZoneStats; h: Histogram }) {
	const { first: capture, state, set } = app;
	const { pick } = state;
	const listed = useMemo(() => (pick ? pickedOf(capture, h, pick) : []), [capture, h, pick]);
	return (
		<section>
			<h3>How long one takes</h3>
			<HistogramBars h={h} word="zones" pick={pick} onPick={(next, isMovement) => set({ pick: next }, isMovement)} />
			<div class="actions">
				{QUICK.map(([name, of]) => (
					<button
						onClick={() => {
							const [from, to] = of(stats);
							set({ pick: [from * 0.999999, to * 1.000001] });
						}}
					>
						{name}
					</button>
				))}
				{pick && <button onClick={() => set({ pick: null })}>None</button>}
			</div>
			{!pick && <p class="faint">Drag over the bars to list those of that length.</p>}
			{pick && (
				<p class="faint" role="status">
					{count(listed.length)} from {seconds(pick[0])} to {seconds(pick[1])}
					{h.calls.length < h.n && `, of the ${count(h.calls.length)} that the page has one by one`}
				</p>
			)}
			{pick && <CallList list={listed} label="Zones of that length" />}
		</section>
	);
}

function Chosen({ app, stats, all }: { app: App; stats: ZoneStats; all: ZoneStats[] }) {
	const other = all.find((r) => r.what === app.state.other && r.what !== stats.what);
	const { first: capture, filter, set } = app;
	const { what } = stats;
	const fn = capture.whats.fn[what];
	const isOf = useMemo(
		() => Uint8Array.from({ length: capture.whats.n }, (_, w) => Number(w === what)),
		[capture, what],
	);
	const h = useMemo(() => histogramOf(capture, isOf, filter), [capture, isOf, JSON.stringify(filter)]);
	const none = useMemo(() => new Uint32Array(0), []);
	const list = h?.calls ?? none;
	return (
		<aside class="chosen" aria-label="Chosen zone">
			<h2>{whatName(capture, what)}</h2>
			<p class="faint">{zonePlace(capture, what)}</p>
			<Figures stats={stats} />
			<div class="actions">
				{fn < capture.functions.n && <button onClick={() => set({ view: "functions", fn })}>In Functions</button>}
				<OtherZone app={app} all={all} stats={stats} />
				<button onClick={() => set({ what: -1, pick: null, other: -1 })}>Close</button>
			</div>
			{other && <Compared app={app} stats={stats} other={other} />}
			{h && <Lengths app={app} stats={stats} h={h} />}
			<ByThread app={app} list={list} />
			<OverTime app={app} list={list} />
		</aside>
	);
}

function ZonesOfOne({ app }: { app: App }) {
	const { first: capture, filter, state } = app;
	const all = useMemo(() => zoneStats(capture, filter), [capture, JSON.stringify(filter)]);
	const chosen = all.find((r) => r.what === state.what);
	return (
		<section class={chosen ? "view functions zones two" : "view functions zones"} aria-label="Zones">
			<ZoneList
				capture={capture}
				all={all}
				columns={columnsOf(app, chosen !== undefined)}
				sort="-sum"
				note={isPartial(capture, filter) && ", counted from the zones that the page has one by one"}
			/>
			{chosen && <Chosen app={app} stats={chosen} all={all} />}
		</section>
	);
}

export function ZonesView() {
	const app = useApp();
	return app.capture.isDiff ? <ZonesOfTwo app={app} /> : <ZonesOfOne app={app} />;
}
