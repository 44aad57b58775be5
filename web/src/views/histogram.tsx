// SPDX-License-Identifier: Apache-2.0
// The distribution of a traced function's calls; dragging over a part of it lists those calls.
import { useMemo, useState } from "preact/hooks";
import type { Capture } from "../data/capture";
import { rangeOf } from "../data/filter";
import { count, seconds } from "../data/format";
import { histogramOf } from "../data/histogram";
import { useApp } from "../ui/app_context";
import { threadName } from "../ui/names";

const WIDTH = 320;
const HEIGHT = 90;
const LISTED = 30;

export function CallHistogram({ fn }: { fn: number }) {
	const { capture, steps, set, state } = useApp();
	const zones = capture.zones;
	const range = rangeOf(steps);
	const h = useMemo(() => histogramOf(capture, fn, range), [zones, fn, JSON.stringify(range)]);
	const [drag, setDrag] = useState<[number, number] | null>(null);
	const [isDown, setDown] = useState(false);
	if (!h || !zones) return null;
	const word = wordFor(capture, fn);
	const top = Math.max(...h.counts);
	const n = h.counts.length;
	// Logarithmic: the one slow call in a million is what one looks for.
	const height = (c: number) => (c > 0 ? 3 + ((HEIGHT - 3) * Math.log1p(c)) / Math.log1p(top) : 0);
	const bucketAt = (e: PointerEvent) => {
		const box = (e.currentTarget as SVGElement).getBoundingClientRect();
		return Math.max(0, Math.min(n - 1, Math.floor(((e.clientX - box.left) / box.width) * n)));
	};
	const chosen = drag ? [Math.min(...drag), Math.max(...drag)] : null;
	const listed = chosen
		? Array.from(h.calls)
				.filter(
					(c) =>
						zones.duration[c] >= h.edges[chosen[0]] * 0.999999 &&
						zones.duration[c] <= h.edges[chosen[1] + 1] * 1.000001,
				)
				.reverse()
		: [];
	return (
		<section>
			<h3>How long a {word === "calls" ? "call" : "stretch"} takes</h3>
			<p class="faint">
				{count(h.n)} {word}
				{range && (capture.head.limits?.zones_merged ?? 0) > 0 ? " that the page has one by one" : ""} · median{" "}
				{seconds(h.median)} · 95% below {seconds(h.p95)} · 99% below {seconds(h.p99)}
			</p>
			<svg
				class="histogram"
				viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
				role="img"
				aria-label={`Histogram of ${h.n} ${word} from ${seconds(h.edges[0])} to ${seconds(h.edges[n])}`}
				onPointerDown={(e) => {
					setDown(true);
					(e.currentTarget as SVGElement).setPointerCapture(e.pointerId);
					setDrag([bucketAt(e), bucketAt(e)]);
				}}
				onPointerMove={(e) => isDown && drag && setDrag([drag[0], bucketAt(e)])}
				onPointerUp={() => setDown(false)}
			>
				{Array.from(h.counts, (c, i) => (
					<rect
						class={chosen && i >= chosen[0] && i <= chosen[1] ? "on" : ""}
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
			{!chosen && <p class="faint">Drag over the bars to list those {word}.</p>}
			{chosen && listed.length === 0 && (
				<p class="faint">None of these is in the page one by one; zoom in on them in the timeline.</p>
			)}
			{chosen && (
				<table class="table slim" aria-label="Calls of that length">
					<tbody>
						{listed.slice(0, LISTED).map((c) => (
							<tr>
								<td>
									<button
										class="link"
										onClick={() =>
											set({
												view: "timeline",
												time: zoomAround(zones.start[c], zones.duration[c], capture.end),
												steps: state.steps,
											})
										}
									>
										at {zones.start[c].toFixed(6)} s
									</button>
								</td>
								<td class="number">{seconds(zones.duration[c])}</td>
								<td>{threadName(capture, zones.thread[c])}</td>
							</tr>
						))}
						{listed.length > LISTED && (
							<tr>
								<td colSpan={3} class="faint">
									and {count(listed.length - LISTED)} more
								</td>
							</tr>
						)}
					</tbody>
				</table>
			)}
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
