// SPDX-License-Identifier: Apache-2.0
// Times below or above a picture.
import { niceStep } from "../data/format";

const TICK_PX = 48; // what stands beside a tick takes
const APART_PX = 110;

function tickText(t: number, step: number): string {
	if (+t.toPrecision(10) === 0) return "0";
	if (step >= 0.1) return `${+t.toFixed(2)} s`;
	return step >= 1e-4 ? `${+(t * 1e3).toFixed(3)} ms` : `${+(t * 1e6).toFixed(3)} µs`;
}

export function Ticks({ from, to, width }: { from: number; to: number; width: number }) {
	const ticks: number[] = [];
	const step = niceStep(to - from, width / APART_PX);
	for (let t = Math.ceil(from / step) * step; t <= to && ticks.length < 60; t += step) ticks.push(t);
	const x = (t: number) => ((t - from) / (to - from)) * 100;
	const isCut = (t: number) => width * (1 - x(t) / 100) < TICK_PX;
	return (
		<div class="ticks" aria-hidden="true">
			{ticks.map((t) => (
				<span style={{ left: `${x(t)}%` }}>{isCut(t) ? "" : tickText(t, step)}</span>
			))}
		</div>
	);
}
