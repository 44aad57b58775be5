// SPDX-License-Identifier: Apache-2.0
// Which class of time a frame stands for most, callees included.
import type { Capture } from "./capture";
import { N_CLASSES } from "./classes";
import type { Step } from "./filter";
import type { Tree } from "./tree";
import { eachTime } from "./weights";

export function dominantClasses(
	capture: Capture,
	tree: Tree,
	steps: readonly Step[],
	classes: readonly number[],
): Uint8Array {
	const sums = new Float32Array(tree.n * N_CLASSES);
	const wanted = classes.length > 0 ? classes : [0, 1, 2, 3, 4, 5];
	eachTime(capture, steps, false, (node, cls, seconds) => {
		const at = tree.of[node];
		if (at >= 0 && cls < N_CLASSES) sums[at * N_CLASSES + cls] += seconds;
	});
	const best = new Uint8Array(tree.n);
	for (let i = tree.n - 1; i >= 0; i--) {
		let top = wanted[0];
		for (const c of wanted) if (sums[i * N_CLASSES + c] > sums[i * N_CLASSES + top]) top = c;
		best[i] = top;
		if (i > 0) for (let c = 0; c < N_CLASSES; c++) sums[tree.parent[i] * N_CLASSES + c] += sums[i * N_CLASSES + c];
	}
	return best;
}
