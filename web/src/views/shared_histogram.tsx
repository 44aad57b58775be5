// SPDX-License-Identifier: Apache-2.0
// Two distributions over one axis: the one is an outline, the other is filled.
import { count, seconds } from "../data/format";
import type { SharedBars } from "../data/shared_bars";

const WIDTH = 320;
const HEIGHT = 90;

export function SharedHistogram({ bars, names }: { bars: SharedBars; names: [string, string] }) {
	const { edges, counts } = bars;
	const [one, other] = counts;
	const n = one.length;
	const top = Math.max(...one, ...other);
	// Logarithmic, as one distribution alone is drawn.
	const height = (c: number) => (c > 0 ? 3 + ((HEIGHT - 4) * Math.log1p(c)) / Math.log1p(top) : 0);
	const x = (i: number) => (i * WIDTH) / n;
	const steps = Array.from(one, (c, i) => `V${HEIGHT - height(c)}H${x(i + 1)}`).join("");
	return (
		<figure class="shared">
			<svg
				class="shared-histogram"
				viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
				preserveAspectRatio="none"
				role="img"
				aria-label={`How long one takes, ${names[0]} and ${names[1]}, from ${seconds(edges[0])} to ${seconds(edges[n])}`}
			>
				{Array.from(other, (c, i) => (
					<rect class="filled" x={x(i)} y={HEIGHT - height(c)} width={WIDTH / n - 0.6} height={height(c)} />
				))}
				<path d={`M0 ${HEIGHT}${steps}V${HEIGHT}`} />
				{Array.from(other, (c, i) => (
					<rect class="reach" x={x(i)} y={0} width={WIDTH / n} height={HEIGHT}>
						<title>{`${seconds(edges[i])} to ${seconds(edges[i + 1])}: ${names[0]} ${count(one[i])}, ${names[1]} ${count(c)}`}</title>
					</rect>
				))}
			</svg>
			<div class="histogram-axis">
				<span>{seconds(edges[0])}</span>
				<span>{seconds(edges[n >> 1])}</span>
				<span>{seconds(edges[n])}</span>
			</div>
			<figcaption>
				<span>
					<i class="outline" /> {names[0]}
				</span>
				<span>
					<i class="filled" /> {names[1]}
				</span>
			</figcaption>
		</figure>
	);
}
