// SPDX-License-Identifier: Apache-2.0
// How long calls took: the distribution, and a list of those in a part of it that is dragged over.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Capture } from "../data/capture";
import { count, seconds } from "../data/format";
import { histogramOf, whatsOf, type Histogram } from "../data/histogram";
import { isPartial } from "../data/zone_mask";
import { useApp } from "../ui/app_context";
import { threadName } from "../ui/names";

const WIDTH = 320;
const HEIGHT = 90;
const LISTED = 30;

type Pick = [number, number]; // lengths, seconds

interface BarsProps {
	h: Histogram;
	word: string;
	pick: Pick | null;
	onPick: (pick: Pick, isMovement: boolean) => void;
}

export function HistogramBars({ h, word, pick, onPick }: BarsProps) {
	const from = useRef(-1);
	const top = Math.max(...h.counts);
	const n = h.counts.length;
	// Logarithmic: the one slow call in a million is what one looks for.
	const height = (c: number) => (c > 0 ? 3 + ((HEIGHT - 3) * Math.log1p(c)) / Math.log1p(top) : 0);
	const bucketAt = (e: PointerEvent) => {
		const box = (e.currentTarget as SVGElement).getBoundingClientRect();
		return Math.max(0, Math.min(n - 1, Math.floor(((e.clientX - box.left) / box.width) * n)));
	};
	const drag = (at: number, isMovement: boolean) =>
		onPick([h.edges[Math.min(from.current, at)], h.edges[Math.max(from.current, at) + 1]], isMovement);
	// By its middle: edges are rounded in an address.
	const isOn = (i: number) => {
		const middle = (h.edges[i] + h.edges[i + 1]) / 2;
		return pick !== null && middle >= pick[0] && middle <= pick[1];
	};
	return (
		<>
			<svg
				class="histogram"
				viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
				preserveAspectRatio="none"
				role="img"
				aria-label={`Histogram of ${h.n} ${word} from ${seconds(h.edges[0])} to ${seconds(h.edges[n])}`}
				onPointerDown={(e) => {
					(e.currentTarget as SVGElement).setPointerCapture(e.pointerId);
					from.current = bucketAt(e);
					drag(from.current, false);
				}}
				onPointerMove={(e) => from.current >= 0 && drag(bucketAt(e), true)}
				onPointerUp={() => (from.current = -1)}
				onPointerCancel={() => (from.current = -1)}
			>
				{Array.from(h.counts, (c, i) => (
					<rect
						class={isOn(i) ? "on" : ""}
						x={(i * WIDTH) / n}
						y={HEIGHT - height(c)}
						width={WIDTH / n - 0.6}
						height={height(c)}
					>
						<title>{`${count(c)} ${word}, ${seconds(h.edges[i])} to ${seconds(h.edges[i + 1])}`}</title>
					</rect>
				))}
			</svg>
			<div class="histogram-axis">
				<span>{seconds(h.edges[0])}</span>
				<span>{seconds(h.edges[n >> 1])}</span>
				<span>{seconds(h.edges[n])}</span>
			</div>
		</>
	);
}

// Those of a length, the longest first.
export function pickedOf(capture: Capture, h: Histogram, pick: Pick): number[] {
	const { zones } = capture;
	if (!zones) return [];
	return Array.from(h.calls)
		.filter((c) => zones.duration[c] >= pick[0] * 0.999999 && zones.duration[c] <= pick[1] * 1.000001)
		.reverse();
}

// Each leads to its place in the timeline, and to what was sampled inside it.
export function CallList({ list, label }: { list: number[]; label: string }) {
	const { first: capture, set, state } = useApp();
	const { zones } = capture;
	if (!zones) return null;
	const inside = (c: number) => {
		const others = state.steps.filter((s) => s.kind !== "range" && s.kind !== "thread");
		const range = { kind: "range" as const, from: zones.start[c], to: zones.start[c] + zones.duration[c] };
		const thread = { kind: "thread" as const, keep: true, id: zones.thread[c] };
		set({ view: "flame", mode: "left", thread: -1, steps: [...others, thread, range], zoom: null });
	};
	return (
		<table class="table slim" aria-label={label}>
			<tbody>
				{list.slice(0, LISTED).map((c) => (
					<tr>
						<td class="call-at">
							<button
								class="link"
								onClick={() =>
									set({ view: "timeline", time: zoomAround(zones.start[c], zones.duration[c], capture.end) })
								}
							>
								at {zones.start[c].toFixed(6)} s
							</button>
						</td>
						<td class="number">{seconds(zones.duration[c])}</td>
						<td class="call-thread">{threadName(capture, zones.thread[c])}</td>
						<td>
							<button
								class="link"
								title="The flame graph of this one: time and memory inside it"
								onClick={() => inside(c)}
							>
								Inside
							</button>
						</td>
					</tr>
				))}
				{list.length > LISTED && (
					<tr>
						<td colSpan={4} class="faint">
							and {count(list.length - LISTED)} more
						</td>
					</tr>
				)}
			</tbody>
		</table>
	);
}

export function CallHistogram({ fn }: { fn: number }) {
	const { first: capture, filter } = useApp();
	const key = JSON.stringify(filter);
	const h = useMemo(
		() => (fn < capture.functions.n ? histogramOf(capture, whatsOf(capture, fn), filter) : null),
		[capture, fn, key],
	);
	const [pick, setPick] = useState<Pick | null>(null);
	if (!h) return null;
	const word = wordFor(capture, fn);
	const listed = pick ? pickedOf(capture, h, pick) : [];
	return (
		<section>
			<h3>How long a {word === "calls" ? "call" : "stretch"} takes</h3>
			<p class="faint">
				{count(h.n)} {word}
				{isPartial(capture, filter) ? " that the page has one by one" : ""} · median {seconds(h.median)} · 95% below{" "}
				{seconds(h.p95)} · 99% below {seconds(h.p99)}
			</p>
			<HistogramBars h={h} word={word} pick={pick} onPick={setPick} />
			{!pick && <p class="faint">Drag over the bars to list those {word}.</p>}
			{pick && listed.length === 0 && (
				<p class="faint">None of these is in the page one by one; zoom in on them in the timeline.</p>
			)}
			{pick && <CallList list={listed} label="Calls of that length" />}
		</section>
	);
}

// A generator runs in stretches, more of them than it has calls; what was counted has to be said.
function wordFor(capture: Capture, fn: number): string {
	const t = capture.functionRows;
	for (let i = 0; i < t.n; i++)
		if (t.get("function", i) === fn && t.get("spans", i) > t.get("calls", i))
			return `stretches of ${count(t.get("calls", i))} calls`;
	return "calls";
}

function zoomAround(start: number, duration: number, end: number): [number, number] {
	const pad = duration * 2;
	return [Math.max(0, (start - pad) / end), Math.min(1, (start + duration + pad) / end)];
}
