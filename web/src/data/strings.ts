// SPDX-License-Identifier: Apache-2.0
// Strings stay bytes until somebody looks at one: a capture has a hundred thousand names, a screen shows two hundred.

// Longer ones are cut for the screen; no name that helps is longer, and a megabyte of text in one cell stops a browser.
const SHOWN_CHARS = 2000;

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
			text = this.decoder
				.decode(bytes.subarray(0, SHOWN_CHARS * 2))
				.replace(/[\u0000-\u001f\u007f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
			if (text.length > SHOWN_CHARS || bytes.length > SHOWN_CHARS * 2) text = text.slice(0, SHOWN_CHARS) + "…";
			this.cache[i] = text;
		}
		return text;
	}

	// The whole text as it is: source files.
	text(i: number): string {
		return this.decoder.decode(this.slice(i));
	}
}
