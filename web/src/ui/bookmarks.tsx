// SPDX-License-Identifier: Apache-2.0
// Places with a name: the dialog that asks for it, and the menu that lists them. They are part of the address.
import { useEffect, useRef, useState } from "preact/hooks";
import { rangeOf } from "../data/filter";
import { seconds } from "../data/format";
import { MOST_BOOKMARKS, NAME_LENGTH, NOTE_LENGTH, type Bookmark } from "../state/bookmarks";
import { placeOf, readHash, type State } from "../state/state";
import type { App, MenuItem } from "./app_context";
import { functionName, threadName } from "./names";
import { VIEW_NAMES } from "./view_list";

// What one would call a place that has no name yet.
export function suggestedName(app: App): string {
	const { state, capture } = app;
	const range = rangeOf(state.steps);
	const parts = [VIEW_NAMES[state.view]];
	const isAbout = (fn: number) => fn >= 0 && fn < capture.functions.n;
	if (state.view === "source" && state.line > 0) parts.push(`line ${state.line}`);
	else if (state.view === "functions" && isAbout(state.fn)) parts.push(functionName(capture, state.fn));
	else if (state.view === "flame" && isAbout(state.focus)) parts.push(functionName(capture, state.focus));
	if (state.thread >= 0 && state.thread < capture.threads.n) parts.push(threadName(capture, state.thread));
	if (range) parts.push(`${seconds(range[0])} to ${seconds(range[1])}`);
	return parts.join(", ").slice(0, NAME_LENGTH);
}

// The name that a range was given, or "".
export function nameOfRange(kept: readonly Bookmark[], range: [number, number]): string {
	const close = (a: number, b: number) => Math.abs(a - b) < 2e-6; // an address has microseconds
	return (
		kept.find((b) => {
			const other = rangeOf(readHash(b.place).steps);
			return other && close(other[0], range[0]) && close(other[1], range[1]);
		})?.name ?? ""
	);
}

export function bookmarkMenu(app: App): MenuItem[] {
	const { state } = app;
	const items: MenuItem[] = [{ label: "Keep this place…", hint: "b", run: () => app.keep() }];
	state.kept.forEach((b, i) => {
		items.push({ label: b.name, hint: b.note.slice(0, 60), run: () => app.go(readHash(b.place)) });
		items.push({ label: `Change or remove “${b.name}”…`, isMinor: true, run: () => app.keep(i) });
	});
	if (state.kept.length > 0) items.push({ label: "Copy a link with all of them", run: () => void copyLink(app) });
	if (state.kept.length > 0 && !app.source.isServed)
		items.push({ label: "Save this page with all of them", run: () => savePage(app) });
	return items;
}

function savePage(app: App): void {
	const url = URL.createObjectURL(new Blob([app.source.pageWith(app.state.kept)], { type: "text/html" }));
	const link = document.createElement("a");
	link.href = url;
	link.download = decodeURIComponent(location.pathname.split("/").pop() || "report.html");
	link.click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
	app.say("Saved a copy of this page, with its bookmarks");
}

async function copyLink(app: App): Promise<void> {
	try {
		await navigator.clipboard.writeText(location.href);
		app.say("Copied a link to this place, with its bookmarks");
	} catch {
		app.say("This browser does not let the page copy; the address has the bookmarks.");
	}
}

interface Props {
	app: App;
	index: number; // of the bookmark that is changed, or -1 for a new one
	close: () => void;
}

export function BookmarkDialog({ app, index, close }: Props) {
	const { state, set } = app;
	const dialog = useRef<HTMLDialogElement>(null);
	const old = state.kept[index];
	const [name, setName] = useState(old?.name ?? suggestedName(app));
	const [note, setNote] = useState(old?.note ?? "");
	useEffect(() => {
		dialog.current?.showModal();
		dialog.current?.querySelector("input")?.select();
	}, []);
	const isFull = !old && state.kept.length >= MOST_BOOKMARKS;
	const finish = (patch: Partial<State>, said: string) => {
		set(patch);
		app.say(said);
		dialog.current?.close();
	};
	const keep = (e: Event) => {
		e.preventDefault();
		const made = { name: name.trim() || suggestedName(app), note: note.trim(), place: old?.place ?? placeOf(state) };
		const kept = old ? state.kept.map((b, i) => (i === index ? made : b)) : [...state.kept, made];
		finish({ kept }, `Kept as ${made.name}; the address has it`);
	};
	const remove = () => finish({ kept: state.kept.filter((_, i) => i !== index) }, `Removed ${old?.name ?? ""}`);
	return (
		<dialog
			ref={dialog}
			class="help bookmark"
			onClose={close}
			aria-label={old ? "Change a bookmark" : "Keep this place"}
		>
			<form onSubmit={keep}>
				<h2>{old ? "Bookmark" : "Keep this place"}</h2>
				<label>
					Name
					<input maxLength={NAME_LENGTH} value={name} onInput={(e) => setName(e.currentTarget.value)} />
				</label>
				<label>
					Note
					<textarea maxLength={NOTE_LENGTH} rows={4} value={note} onInput={(e) => setNote(e.currentTarget.value)} />
				</label>
				<p class="faint">
					View, range, filters and what is chosen. It is part of the address: a copied link has it, and so has a saved
					page.
				</p>
				{isFull && <p class="faint">There is room for {MOST_BOOKMARKS}; remove one first.</p>}
				<div class="actions">
					<button type="submit" disabled={isFull}>
						{old ? "Change" : "Keep"}
					</button>
					{old && (
						<button type="button" onClick={remove}>
							Remove
						</button>
					)}
					<button type="button" onClick={() => dialog.current?.close()}>
						Cancel
					</button>
				</div>
			</form>
		</dialog>
	);
}
