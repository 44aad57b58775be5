// SPDX-License-Identifier: Apache-2.0
// Where the bundle comes from: the page itself, or the server that gave the page.
import { readBookmarks, writeBookmarks, type Bookmark } from "./bookmarks";
import { BundleError, decodeBundle, fromBase64, gunzip } from "../data/bundle";
import { readCapture, readZones, type Capture, type Zones } from "../data/capture";
import type { LiveNow } from "../data/live";
import { fitLines } from "../data/strings";

const HOLD_TRIES = 6;
const HOLD_MS = 10_000; // between two tries: together the minute that a server waits
const TOKEN_KEY = "fathom-token";

// The token is in the address once. It is taken out, so that a copied link does not carry it, and kept for a reload and for other tabs
// of this browser: what is kept belongs to this server's address, and is worth nothing when the server has ended.
export function takeToken(): string {
	const match = /(?:^#|&)token=([A-Za-z0-9_-]+)/.exec(location.hash);
	try {
		if (match) {
			localStorage.setItem(TOKEN_KEY, match[1]);
			history.replaceState(
				null,
				"",
				"#" +
					location.hash
						.slice(1)
						.replace(/(^|&)token=[A-Za-z0-9_-]+/, "")
						.replace(/^&/, ""),
			);
		}
		return match?.[1] ?? localStorage.getItem(TOKEN_KEY) ?? "";
	} catch {
		return match?.[1] ?? "";
	}
}

export class Source {
	readonly isServed: boolean;
	private readonly element: HTMLElement | null;
	private readonly token: string;
	private readonly asItCame: string; // the page itself, when it is a file

	constructor() {
		this.token = takeToken();
		this.element = document.getElementById("bundle");
		this.isServed = this.element === null;
		this.asItCame = this.element ? `<!doctype html>\n${document.documentElement.outerHTML}` : "";
	}

	// Bookmarks that the file was saved with.
	kept(): Bookmark[] {
		try {
			return readBookmarks(decodeURIComponent(document.getElementById("kept")?.textContent ?? ""));
		} catch {
			return []; // what somebody wrote there by hand
		}
	}

	// The page with these bookmarks inside. They are data: the policy names the one script that runs, and this is none.
	pageWith(list: readonly Bookmark[]): string {
		const text = encodeURIComponent(writeBookmarks(list));
		const element = `<script id="kept" type="text/plain">${text}</script>\n`;
		return this.asItCame
			.replace(/<script id="kept" type="text\/plain">[^<]*<\/script>\n?/, "")
			.replace('<script id="bundle"', (bundle) => element + bundle);
	}

	private ask(path: string, init: RequestInit = {}): Promise<Response> {
		return fetch(`api/${path}`, { ...init, headers: { "X-Fathom-Token": this.token }, cache: "no-store" });
	}

	async load(): Promise<Capture> {
		if (this.element) return this.unpack(this.element);
		if (location.protocol === "file:")
			throw new BundleError("This page has no profile in it; make one with: fathom view --html OUT profile.fathom");
		return this.loadFrom("bundle");
	}

	async loadFrom(path: string): Promise<Capture> {
		let answer: Response;
		try {
			answer = await this.ask(path);
		} catch {
			throw new BundleError("The server of this page has ended; start it again with fathom view.");
		}
		if (answer.status === 401 || answer.status === 403)
			throw new BundleError(
				"This address is not the one that fathom view printed: its token is missing or old. Open the printed address.",
			);
		if (!answer.ok)
			throw new BundleError(`The server of this page answered ${answer.status}; start it again with fathom view.`);
		return readCapture(decodeBundle(await gunzip(new Uint8Array(await answer.arrayBuffer()))));
	}

	// Part of a trace at the width that it is looked at; null when the server cannot say.
	async zones(question: string, capture: Capture): Promise<Zones | null> {
		const answer = this.isServed ? await this.ask(`zones?${question}`).catch(() => null) : null;
		if (!answer?.ok) return null;
		return readZones(decodeBundle(await gunzip(new Uint8Array(await answer.arrayBuffer()))), capture);
	}

	// What `fathom view BASE NEW` compares, or null.
	async loadDiff(capture: Capture): Promise<Capture | null> {
		if (capture.isDiff) return capture;
		const element = document.getElementById("diff");
		if (element) return this.unpack(element);
		return this.isServed && capture.head.can_diff ? this.loadFrom("diff") : null;
	}

	private async unpack(element: HTMLElement): Promise<Capture> {
		const bytes = fromBase64(element.textContent ?? "");
		element.textContent = ""; // it would be held twice
		return readCapture(decodeBundle(await gunzip(bytes)));
	}

	async sourceText(name: string): Promise<string | null> {
		if (!this.isServed) return null;
		const answer = await this.ask(`source?file=${encodeURIComponent(name)}`).catch(() => null);
		return answer?.ok ? fitLines(await answer.text()) : null;
	}

	// Calls back for each `update` the server announces, and for each `now` that it tells. True: the program has ended.
	// By fetch, because EventSource cannot send the token.
	async follow(onUpdate: () => void, onNow: (now: LiveNow) => void): Promise<boolean> {
		const answer = await this.ask("live").catch(() => null);
		if (!answer?.ok || !answer.body || !(answer.headers.get("content-type") ?? "").startsWith("text/event-stream"))
			return false;
		const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = "";
		for (;;) {
			const { value, done } = await reader.read().catch(() => ({ value: undefined, done: true }));
			if (done) return false;
			rest += value;
			const messages = rest.split(/\r?\n\r?\n/);
			rest = messages.pop() ?? "";
			if (messages.some((m) => /^event: ?update$/m.test(m))) onUpdate();
			const now = messages.filter((m) => /^event: ?now$/m.test(m)).pop();
			if (now) onNow(JSON.parse(/^data: ?(.*)$/m.exec(now)?.[1] ?? "{}") as LiveNow);
			if (messages.some((m) => /^event: ?end$/m.test(m))) return true;
		}
	}

	// Keeps a stream open, so that the server knows that somebody is there. One tab does it for all of a browser, which has few
	// connections to one address.
	async hold(): Promise<void> {
		if (!this.isServed) return;
		const keep = async () => {
			for (let tries = 0; tries < HOLD_TRIES; tries++) {
				await this.follow(
					() => (tries = 0),
					() => undefined,
				);
				await new Promise((done) => setTimeout(done, HOLD_MS));
			}
		};
		await (navigator.locks ? navigator.locks.request("fathom-hold", keep) : keep());
	}

	sayBye(): void {
		if (this.isServed) void this.ask("bye", { method: "POST", keepalive: true }).catch(() => undefined);
	}
}
