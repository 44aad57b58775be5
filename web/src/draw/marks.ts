// Marks of a program on the lanes of its threads: a line where it was set, and what it says.
import type { Capture } from "../data/capture";
import { ACTIVITY_PX, type Lane } from "./timeline_painter";

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
	const top = new Map(lanes.filter((l) => l.kind === "thread").map((l) => [l.index, l.top]));
	context.fillStyle = isLight ? "#7a2e8e" : "#d79be8";
	let written = 0;
	for (let i = 0; i < marks.n; i++) {
		const t = marks.get("time_s", i);
		const y = top.get(marks.get("thread", i));
		if (t < from || t > to || y === undefined) continue;
		const x = Math.round(((t - from) / (to - from)) * width);
		context.fillRect(x, (y - scroll) * ratio, Math.max(1, ratio), (ACTIVITY_PX - 2) * ratio);
		if (written++ >= MAX_TEXTS) continue;
		const text = capture.strings.get(marks.get("text", i)).slice(0, MAX_CHARS);
		const colour: string | CanvasGradient | CanvasPattern = context.fillStyle;
		context.fillStyle = isLight ? "rgb(255 255 255 / 0.85)" : "rgb(22 27 33 / 0.8)";
		context.fillRect(x + 2 * ratio, (y - scroll + 4) * ratio, context.measureText(text).width + 4 * ratio, 14 * ratio);
		context.fillStyle = colour;
		context.fillText(text, x + 4 * ratio, (y - scroll + 11.5) * ratio);
	}
}
