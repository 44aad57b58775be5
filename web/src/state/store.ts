// The state and the address, kept equal. A change of what is looked at is a new entry of the history, so that Back
// undoes it; a change on the way (zooming, typing) replaces the entry.
import { readHash, writeHash, type State } from "./state";

type Listener = (state: State) => void;

export class Store {
	state: State;
	private readonly listeners = new Set<Listener>();
	private pending = 0;

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
		this.state = state;
		for (const listener of this.listeners) listener(state);
	}

	private flush(): void {
		if (!this.pending) return;
		clearTimeout(this.pending);
		this.pending = 0;
		history.replaceState(null, "", writeHash(this.state));
	}

	set(patch: Partial<State>, replace = false): void {
		const next = { ...this.state, ...patch };
		if (replace) {
			this.state = next;
			// Browsers refuse more than some 100 changes of the address in ten seconds; panning makes 60 a second.
			clearTimeout(this.pending);
			this.pending = window.setTimeout(() => this.flush(), 250);
		} else {
			this.flush();
			const hash = writeHash(next);
			if (hash !== location.hash) history.pushState(null, "", hash);
			this.state = next;
		}
		for (const listener of this.listeners) listener(next);
	}

	subscribe(listener: Listener): () => void {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	}
}
