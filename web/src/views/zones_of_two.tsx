// SPDX-License-Identifier: Apache-2.0
// Zones of two captures: how many there were and how long they took before and after, and for the chosen one both distributions.
import { useMemo } from "preact/hooks";
import { count, seconds } from "../data/format";
import { countsOf, sharedBars } from "../data/shared_bars";
import { zonePairs, type ZonePair, type ZoneStats } from "../data/zone_stats";
import type { App } from "../ui/app_context";
import { percentChange } from "../ui/change";
import { whatName } from "../ui/names";
import type { Column } from "../ui/table";
import { SharedHistogram } from "./shared_histogram";
import { FiguresBeside, nameColumn, ZoneList, zonePlace } from "./zone_figures";

const NAMES: [string, string] = ["Before", "After"];

type Figure = "n" | "sum" | "p50" | "p99";
const COLUMNS: [Figure, string, string][] = [
	["n", "Count", "how many there were, before and after"],
	["sum", "Sum", "of all their lengths, before and after; one inside another counts in both"],
	["p50", "P50", "half of them took no longer, before and after; right to 7%"],
	["p99", "P99", "99 of 100 took no longer, before and after; right to 7%"],
];

const of = (s: ZoneStats | null, id: Figure) => (s ? s[id] : 0);
const changeOf = (r: ZonePair, id: Figure) => of(r.after, id) - of(r.before, id);

function writeChange(r: ZonePair, id: Figure): string {
	const change = changeOf(r, id);
	const sign = change > 0 ? "+" : "−";
	return change === 0 ? "0" : `${sign}${id === "n" ? count(Math.abs(change)) : seconds(Math.abs(change))}`;
}

// A figure of both, and how it changed. How much zones of two runs differ by chance is not known from two runs, so no change has a ±.
function figures([id, title, hint]: (typeof COLUMNS)[number], isNarrow: boolean): Column<ZonePair>[] {
	const write = id === "n" ? count : seconds;
	const isMinor = id === "n" || id === "p99";
	return [
		{
			id,
			title,
			hint,
			isNumber: true,
			value: (r) => of(r.after, id),
			cell: (r) => (
				<>
					<small>{r.before ? write(r.before[id]) : "none"} →</small> {r.after ? write(r.after[id]) : "none"}
				</>
			),
		},
		{
			id: `${id}Change`,
			title: "Change",
			hint: `of ${title}; sorted by its size, whichever way`,
			isNumber: true,
			isMinor: isMinor || isNarrow,
			value: (r) => Math.abs(changeOf(r, id)),
			cell: (r) => (
				<>
					{writeChange(r, id)}{" "}
					{id !== "n" && changeOf(r, id) !== 0 && <small>{percentChange(of(r.before, id), of(r.after, id))}</small>}
				</>
			),
		},
	];
}

function Chosen({ app, pair }: { app: App; pair: ZonePair }) {
	const { capture, set } = app;
	const { what, before, after } = pair;
	const bars = useMemo(
		() => sharedBars(countsOf(capture, what, [], "base_"), countsOf(capture, what, [])),
		[capture, what],
	);
	return (
		<aside class="chosen" aria-label="Chosen zone">
			<h2>{whatName(capture, what)}</h2>
			<p class="faint">{zonePlace(capture, what)}</p>
			<div class="actions">
				{after && (
					<button title="Single zones, by thread and over time" onClick={() => set({ both: false })}>
						After alone
					</button>
				)}
				<button onClick={() => set({ what: -1, pick: null, other: -1 })}>Close</button>
			</div>
			<FiguresBeside label="Before and after" names={NAMES} one={before} other={after} />
			{bars && (
				<section>
					<h3>How long one takes</h3>
					<SharedHistogram bars={bars} names={["before", "after"]} />
				</section>
			)}
		</aside>
	);
}

export function ZonesOfTwo({ app }: { app: App }) {
	const { capture, state } = app;
	const all = useMemo(() => zonePairs(capture), [capture]);
	const chosen = all.find((r) => r.what === state.what);
	return (
		<section class={chosen ? "view functions zones two" : "view functions zones pairs"} aria-label="Zones">
			<ZoneList
				capture={capture}
				all={all}
				columns={[nameColumn<ZonePair>(capture), ...COLUMNS.flatMap((c) => figures(c, chosen !== undefined))]}
				sort="-sumChange"
				note=" in both together"
			/>
			{chosen && <Chosen app={app} pair={chosen} />}
		</section>
	);
}
