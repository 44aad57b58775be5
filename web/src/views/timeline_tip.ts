// What the pointer is on, in words.
import { lowerBound, sampleAt } from "../data/activity";
import { FLAG_PLUMBING, type Capture } from "../data/capture";
import { CLASS_NAMES } from "../data/classes";
import { bytes, seconds } from "../data/format";
import { spanAt } from "../data/layout";
import type { ZoneRows } from "../data/zone_rows";
import { ACTIVITY_PX, ZONE_PX, type Curve, type Lane } from "../draw/timeline_painter";
import { functionName, processName, threadName, zoneName } from "../ui/names";

// y is below the lane's top, pixel how much time one is.
export function describe(
	capture: Capture,
	curves: Curve[],
	zones: ZoneRows | null,
	lane: Lane,
	y: number,
	t: number,
	pixel: number,
): string[] {
	if (lane.kind === "process") return [processName(capture, lane.index)];
	if (lane.kind === "curve") {
		const c = curves[lane.index];
		const i = Math.max(0, lowerBound(c.time, 0, c.time.length, t) - 1);
		return [
			c.name,
			c.values.map((v) => (c.unit === "bytes" ? bytes(v[i]) : String(+v[i].toPrecision(5)))).join(", "),
			`at ${seconds(t)}`,
		];
	}
	const lines = [threadName(capture, lane.index)];
	if (zones && y >= ACTIVITY_PX && zones.first[lane.index] >= 0) {
		const span = spanAt(zones.layout, zones.first[lane.index] + Math.floor((y - ACTIVITY_PX) / ZONE_PX), t);
		if (span >= 0 && capture.zones) {
			const zone = zones.layout.node[span];
			return [
				zoneName(capture, zone),
				seconds(capture.zones.duration[zone]),
				`at ${capture.zones.start[zone].toFixed(6)} s`,
				lines[0],
			];
		}
	}
	const s = capture.samples;
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
