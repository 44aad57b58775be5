// SPDX-License-Identifier: Apache-2.0
// What the pointer is on, in words.
import { lowerBound, sampleAt } from "../data/activity";
import { FLAG_PLUMBING, type Capture, type Samples, type Zones } from "../data/capture";
import { CLASS_NAMES } from "../data/classes";
import { bytes, count, seconds } from "../data/format";
import type { Curve, Lane } from "../draw/timeline_painter";
import { functionName, processName, threadName, whatName, whatPlace } from "../ui/names";

export function curveValue({ unit }: Curve, value: number): string {
	if (unit === "cores") return value.toFixed(2);
	return unit === "bytes" ? bytes(value) : String(+value.toPrecision(5));
}

// found is the zone there, pixel how much time one is.
export function describe(
	capture: Capture,
	samples: Samples | null,
	curves: Curve[],
	found: { zones: Zones; zone: number } | null,
	lane: Lane,
	t: number,
	pixel: number,
): string[] {
	if (lane.kind === "process") return [processName(capture, lane.index)];
	if (lane.kind === "curve") {
		const c = curves[lane.index];
		const i = Math.max(0, lowerBound(c.time, 0, c.time.length, t) - 1);
		return [c.name, c.values.map((v) => curveValue(c, v[i])).join(", "), `at ${seconds(t)}`];
	}
	const lines = [threadName(capture, lane.index)];
	if (found) {
		const { zones, zone } = found;
		const many = zones.count?.[zone] ?? 1;
		const name = whatName(capture, zones.what[zone]);
		const at = `at ${zones.start[zone].toFixed(6)} s`;
		const place = whatPlace(capture, zones.what[zone]);
		if (many === 1) return [name, ...(place ? [place] : []), seconds(zones.duration[zone]), at, lines[0]];
		return [
			`${count(many)} calls in ${seconds(zones.duration[zone])}`,
			`${seconds(zones.busy?.[zone] ?? 0)} in all, the longest of ${name}`,
			at,
			lines[0],
		];
	}
	const s = samples;
	if (s) {
		const i = sampleAt(s, lane.index, t);
		if (i < s.first[lane.index + 1] && s.time[i] <= t + pixel && s.time[i] + s.weight[i] >= t - pixel) {
			lines.push(CLASS_NAMES[s.class[i]] ?? "?");
			for (let node = s.node[i], k = 0; node > 0 && k < 6; node = capture.nodes.parent[node]) {
				const fn = capture.nodes.fn[node];
				if (capture.functions.flags[fn] & FLAG_PLUMBING) continue;
				lines.push(
					`${k === 0 ? "in" : "←"} ${functionName(capture, fn).slice(0, 60)}${capture.nodes.line[node] ? `:${capture.nodes.line[node]}` : ""}`,
				);
				k++;
			}
		} else lines.push("nothing seen here");
	}
	lines.push(`at ${seconds(t)}`);
	return lines;
}
