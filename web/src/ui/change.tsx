// SPDX-License-Identifier: Apache-2.0
// How a change between two captures is written and drawn, wherever there is one.
import { amount } from "../data/format";

export type Unit = "s" | "bytes";

export function signed(v: number, unit: Unit): string {
	return v === 0 ? amount(0, unit) : `${v > 0 ? "+" : "−"}${amount(Math.abs(v), unit)}`;
}

export function percentChange(before: number, after: number): string {
	if (!(before > 0)) return after > 0 ? "new" : "";
	if (after >= 10 * before) return `${(after / before).toFixed(0)}×`;
	return `${after >= before ? "+" : "−"}${Math.abs((100 * (after - before)) / before).toFixed(1)}%`;
}

const HALF = 36; // percent of the cell for bars to either side; what is left is the number's

export function Change({ delta, most, unit }: { delta: number; most: number; unit: Unit }) {
	const width = most > 0 ? (HALF * Math.abs(delta)) / most : 0;
	return (
		<span class="change">
			<i
				class={delta > 0 ? "slower" : "faster"}
				style={{ width: `${width}%`, marginLeft: `${delta > 0 ? HALF : HALF - width}%` }}
			/>
			<span>{signed(delta, unit)}</span>
		</span>
	);
}
