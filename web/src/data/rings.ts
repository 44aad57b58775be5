// SPDX-License-Identifier: Apache-2.0
// A tree as rings: each frame an arc as long as its share, below the frame chosen as the middle.
import type { Tree } from "./tree";

export interface Arc {
	node: number;
	depth: number;
	from: number; // of a turn, 0 to 1
	to: number;
}

// What is thinner than the eye sees is left out, which bounds the number of arcs by depth / least.
export function arcsOf(tree: Tree, root: number, maxDepth: number, least: number): Arc[] {
	const total = tree.total[root];
	if (!(total > 0)) return [];
	const depth = new Int32Array(tree.n).fill(-1);
	depth[root] = 0;
	const kids = new Map<number, number[]>();
	for (let i = 1; i < tree.n; i++) {
		const above = depth[tree.parent[i]];
		if (i === root || above < 0 || above >= maxDepth || tree.total[i] < least * total) continue;
		depth[i] = above + 1;
		const list = kids.get(tree.parent[i]);
		if (list) list.push(i);
		else kids.set(tree.parent[i], [i]);
	}
	const arcs: Arc[] = [];
	let ring: { node: number; from: number }[] = [{ node: root, from: 0 }];
	for (let d = 1; ring.length > 0; d++) {
		const next: { node: number; from: number }[] = [];
		for (const { node, from } of ring) {
			let at = from;
			for (const child of (kids.get(node) ?? []).sort((a, b) => tree.total[b] - tree.total[a])) {
				const size = tree.total[child] / total;
				arcs.push({ node: child, depth: d, from: at, to: at + size });
				next.push({ node: child, from: at });
				at += size;
			}
		}
		ring = next;
	}
	return arcs;
}
