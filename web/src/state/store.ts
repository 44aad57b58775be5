// SPDX-License-Identifier: Apache-2.0
// The state and the address, kept equal. What is done is a new entry of the history, so that Back undoes it; a movement (zooming,
// typing) is one entry from its begin to its end, however many steps it has.
import { readHash, writeHash, type State } from "./state";

type Listener = (state: State) => void;

const PAUSE_MS = 1000; // ends a movement
const SETTLE_MS = 250;

export class Store {
	state: State;
	private readonly listeners = new Set<Listener>();
	private pending = 0;
	private movement = { keys: [] as string[], at: 0 };

	constructor() {
		this.state = readHash(location.hash);
		addEventListener("popstate", () => this.accept(readHash(location.hash)));
		addEventListener("hashchange", () => {
			if (location.hash !== writeHash(this.state)) this.accept(readHash(location.hash));
		});
	}

	private accept(state: State): void {
		clearTimeout(this.pending);
		this.pending = 0;
		this.movement.keys = [];
		this.tell(state);
	}

	private tell(state: State): void {
		this.state = state;
		for (const listener of this.listeners) listener(state);
	}

	private flush(): void {
		if (!this.pending) return;
		clearTimeout(this.pending);
		this.pending = 0;
		history.replaceState(null, "", writeHash(this.state));
	}

	// Whether this change goes on with the last movement.
	private continues(next: State): boolean {
		const changed = (Object.keys(next) as (keyof State)[]).filter((k) => next[k] !== this.state[k]);
		const now = performance.now();
		const { keys, at } = this.movement;
		// Its first step may change more than the others: a new range ends a zoom, once.
		const isSame = changed.length > 0 && changed[0] === keys[0] && changed.every((k) => keys.includes(k));
		const isSoon = now - at < PAUSE_MS;
		this.movement = { keys: isSame && isSoon ? keys : changed, at: now };
		return isSame && isSoon;
	}

	// "goes on": a movement whose begin was set before, however long ago.
	set(patch: Partial<State>, isMovement: boolean | "goes on" = false): void {
		const next = { ...this.state, ...patch };
		if (isMovement && (this.continues(next) || isMovement === "goes on")) {
			this.state = next;
			// Browsers refuse more than some 100 changes of the address in ten seconds; panning makes 60 a second.
			clearTimeout(this.pending);
			this.pending = window.setTimeout(() => this.flush(), SETTLE_MS);
		} else {
			if (!isMovement) this.movement.keys = [];
			this.flush();
			const hash = writeHash(next);
			if (hash !== location.hash) history.pushState(null, "", hash);
		}
		this.tell(next);
	}

	// Nobody did anything: the same place in other words, which Back need not know.
	amend(state: State): void {
		this.flush();
		history.replaceState(null, "", writeHash(state));
		this.tell(state);
	}

	subscribe(listener: Listener): () => void {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	}
}
