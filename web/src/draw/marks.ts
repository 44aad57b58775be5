// SPDX-License-Identifier: Apache-2.0
// Marks of a program on the lanes of its threads: a line where it was set, and what it says where there is room for it.
import type { Capture } from "../data/capture";
import type { Lane } from "./timeline_painter";

const MAX_TEXTS = 100;
const MAX_CHARS = 24;

export function drawMarks(
	capture: Capture,
	context: CanvasRenderingContext2D,
	lanes: Lane[],
	from: number,
	to: number,
	scroll: number,
	ratio: number,
	width: number,
	isLight: boolean,
): void {
	const { marks } = capture;
	if (marks.n === 0) return;
	const laneOf = new Map(lanes.filter((l) => l.kind === "thread").map((l) => [l.index, l]));
	const writtenTo = new Map<number, number>(); // by thread: texts do not cover one another
	context.fillStyle = isLight ? "#7a2e8e" : "#d79be8";
	let written = 0;
	for (let i = 0; i < marks.n; i++) {
		const t = marks.get("time_s", i);
		const lane = laneOf.get(marks.get("thread", i));
		if (t < from || t > to || !lane) continue;
		const y = lane.top;
		const x = Math.round(((t - from) / (to - from)) * width);
		context.fillRect(x, (y - scroll) * ratio, Math.max(1, ratio), (lane.zoneTop - 2) * ratio);
		if (x < (writtenTo.get(lane.index) ?? -1) || written++ >= MAX_TEXTS) continue;
		const text = capture.strings.get(marks.get("text", i)).slice(0, MAX_CHARS);
		const colour: string | CanvasGradient | CanvasPattern = context.fillStyle;
		context.fillStyle = isLight ? "rgb(255 255 255 / 0.85)" : "rgb(22 27 33 / 0.8)";
		const wide = context.measureText(text).width + 4 * ratio;
		context.fillRect(x + 2 * ratio, (y - scroll + 4) * ratio, wide, 14 * ratio);
		writtenTo.set(lane.index, x + wide + 4 * ratio);
		context.fillStyle = colour;
		context.fillText(text, x + 4 * ratio, (y - scroll + 11.5) * ratio);
	}
}
