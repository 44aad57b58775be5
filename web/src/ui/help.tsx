// SPDX-License-Identifier: Apache-2.0
// The list of keys, and what mouse and numbers mean.
import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
	["1  2  3", "time order, left heavy, sandwich"],
	["w  s  or  +  −", "zoom in, out"],
	["a  d  or  ←  →", "move left, right"],
	["↑  ↓", "scroll"],
	["Enter, then  ↑ ↓ ← →", "in the flame graph: choose a frame and walk to callers, callees and neighbours; Esc ends"],
	["Tab to the tree, then  ↑ ↓ ← →", "walk it; right opens, left closes, Enter goes to the hottest line"],
	["0", "show all"],
	["r", "collapse recursion"],
	["n  p", "next, previous thread"],
	["t", "choose a thread"],
	["Ctrl-F  or  /", "search; Enter and Shift-Enter go to the next and previous match"],
	["u", "undo the last filter"],
	["b", "keep this place as a bookmark"],
	[
		"Tab to the run, then  ←  →",
		"move the begin or the end of the range; Shift for large steps, Esc for the whole run",
	],
	[
		"g then s e f t o n z c d l",
		"go to Summary, call trEe, Flame graph, Timeline, sOurce, fuNctions, Zones, Call graph, Diff, Live",
	],
	["Space", "in Live: hold the picture, follow again"],
	["Esc", "close"],
	["?", "this list"],
];

export function Help({ close }: { close: () => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	useEffect(() => dialog.current?.showModal(), []);
	return (
		<dialog
			ref={dialog}
			class="help"
			onClose={close}
			onClick={(e) => e.target === e.currentTarget && close()}
			aria-label="Help"
		>
			<div>
				<h2>Keys</h2>
				<table class="table slim">
					<tbody>
						{KEYS.map(([keys, what]) => (
							<tr>
								<td>
									<kbd>{keys}</kbd>
								</td>
								<td>{what}</td>
							</tr>
						))}
					</tbody>
				</table>
				<h2>Mouse</h2>
				<p>
					Drag a flame graph to move it, double-click a frame to zoom to it, right-click for what can be done with it.
					Wheel scrolls, Ctrl-wheel zooms. Drag over the run at the top, or in the timeline, to limit every view to a
					range; drag the range or its ends to change it, click beside it to be rid of it.
				</p>
				<h2>Numbers</h2>
				<p>
					Self is what ends in a function itself, total is with all it calls. CPU time is sampled; ± is the half-width
					of its 95% interval. Every view is a link: copy the address to come back to it.
				</p>
				<button onClick={close}>Close</button>
			</div>
		</dialog>
	);
}
