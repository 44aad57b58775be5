// SPDX-License-Identifier: Apache-2.0
// Strings stay bytes until somebody looks at one: a capture has a hundred thousand names, a screen shows two hundred.

// Longer ones are cut for the screen; no name that helps is longer, and a megabyte of text in one cell stops a browser.
const SHOWN_CHARS = 2000;

// What no name should do to a screen: control characters, and marks that turn the order of letters around (core/base/utf8.c
// has the same).
const UNFIT = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function fitName(text: string): string {
	return text.replace(UNFIT, "\ufffd");
}

// Of a text of several lines, whose ends and tabs stay.
export function fitLines(text: string): string {
	return text.replace(UNFIT, (c) => (c === "\n" || c === "\t" || c === "\r" ? c : "\ufffd"));
}

export class Strings {
	readonly n: number;
	private readonly cache: (string | undefined)[] = [];
	private readonly added: string[] = [];
	private readonly decoder = new TextDecoder();

	constructor(
		private readonly bytes: Uint8Array,
		private readonly offset: Uint32Array,
	) {
		this.n = Math.max(0, offset.length - 1);
	}

	private slice(i: number): Uint8Array {
		return i < this.n
			? this.bytes.subarray(this.offset[i], Math.max(this.offset[i], this.offset[i + 1]))
			: this.bytes.subarray(0, 0);
	}

	// A further one, after those of the bundle.
	add(text: string): number {
		this.added.push(text);
		return this.n + this.added.length - 1;
	}

	// A name for the screen: one line, of bounded length.
	get(i: number): string {
		let text = this.cache[i];
		if (text === undefined && i >= this.n) return this.added[i - this.n] ?? "";
		if (text === undefined) {
			const bytes = this.slice(i);
			text = fitName(this.decoder.decode(bytes.subarray(0, SHOWN_CHARS * 2)));
			if (text.length > SHOWN_CHARS || bytes.length > SHOWN_CHARS * 2) text = text.slice(0, SHOWN_CHARS) + "…";
			this.cache[i] = text;
		}
		return text;
	}

	// The whole text as it is: what the server is asked for by.
	text(i: number): string {
		return this.decoder.decode(this.slice(i));
	}

	// The whole text for the screen: source files.
	lines(i: number): string {
		return fitLines(this.text(i));
	}
}
