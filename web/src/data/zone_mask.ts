// SPDX-License-Identifier: Apache-2.0
// Which zones a filter leaves. Steps on functions and modules are about samples, and leave all.
import type { Capture } from "./capture";
import { rangeOf, threadMask, type Step } from "./filter";

// 1 for each zone that is here by itself and that the filter leaves.
export function zoneMask(capture: Capture, steps: readonly Step[]): Uint8Array {
	const { zones } = capture;
	const range = rangeOf(steps);
	const threads = threadMask(capture, steps);
	const mask = new Uint8Array(zones?.n ?? 0);
	for (let i = 0; zones && i < zones.n; i++) {
		if ((zones.count && zones.count[i] > 1) || (threads && !threads[zones.thread[i]])) continue;
		if (range && (zones.start[i] + zones.duration[i] < range[0] || zones.start[i] > range[1])) continue;
		mask[i] = 1;
	}
	return mask;
}

export const isOfPart = (steps: readonly Step[]) =>
	steps.some((s) => s.kind === "range" || s.kind === "thread" || s.kind === "process");

// Whether zones are missing here that the filter leaves: then figures are of those that are here.
export function isPartial(capture: Capture, steps: readonly Step[]): boolean {
	const { zones_merged: merged = 0, zones_left_out: missing = 0 } = capture.head.limits ?? {};
	return isOfPart(steps) && merged + missing > 0;
}
