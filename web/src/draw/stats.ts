// SPDX-License-Identifier: Apache-2.0
// What the page's own drawing costs; tests and curious users read it as window.fathom.
export interface FrameStats {
	frames: number;
	lastMs: number;
	worstMs: number;
	totalMs: number;
	lastSpans: number;
	firstFlameMs: number; // since the page was asked for
}

export const stats: FrameStats = { frames: 0, lastMs: 0, worstMs: 0, totalMs: 0, lastSpans: 0, firstFlameMs: 0 };

export function recordFrame(ms: number, spans: number): void {
	stats.frames++;
	stats.lastMs = ms;
	stats.worstMs = Math.max(stats.worstMs, ms);
	stats.totalMs += ms;
	stats.lastSpans = spans;
	if (!stats.firstFlameMs) stats.firstFlameMs = performance.now();
}
