// SPDX-License-Identifier: Apache-2.0
// The bytes of docs/viewer-data.md as a head and typed columns. Everything that comes from outside passes here: what is
// not as the document says ends in one sentence, never in a wrong picture.
import type { Report } from "./report";

export type Column = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

export interface Limits {
	nodes_left_out?: number;
	samples_left_out?: number;
	max_samples?: number;
	functions_left_out?: number;
	lines_left_out?: number;
	texts_left_out?: number;
	block_grain_s?: number; // the width of a slot of `block`
	block_step_s?: number; // how closely its times are known, as a mean over bytes
	zones?: number; // of the trace
	zones_merged?: number; // of these, those that have no row of their own here
	zone_pixels?: number; // the width that the rows are made for; 0 when each zone has its own
	zones_left_out?: number; // too deep, or too many for the program's memory
	counter_values_left_out?: number;
}

// What all samples of a capture are, for intervals of parts.
export interface Sampled {
	whole_s: number;
	n: number;
	sq: number; // sum of squared weights, s²
	heavy_sq: number; // of samples for a gap, in which nobody looked
	misplaced_s: number; // time whose place is not certain
}

export interface Head {
	schema: string;
	report: Report;
	columns: { name: string; type: string; n: number }[];
	limits?: Limits;
	title?: string;
	live?: boolean;
	diff?: boolean; // a comparison: cells have a base
	lacks_disassembler?: boolean; // machine code could be shown if there were one
	can_diff?: boolean; // the server has one to give
	base?: Report;
	sampled?: Sampled; // of a comparison: the new capture's, and the other's
	base_sampled?: Sampled;
}

export interface Bundle {
	head: Head;
	columns: Map<string, Column>;
}

const MAGIC = "FMVIEW1\n";
const PREFIX_BYTES = 16;

const TYPES: Record<string, { bytes: number; make: (buffer: ArrayBuffer, at: number, n: number) => Column }> = {
	u8: { bytes: 1, make: (b, at, n) => new Uint8Array(b, at, n) },
	u16: { bytes: 2, make: (b, at, n) => new Uint16Array(b, at, n) },
	u32: { bytes: 4, make: (b, at, n) => new Uint32Array(b, at, n) },
	i32: { bytes: 4, make: (b, at, n) => new Int32Array(b, at, n) },
	f32: { bytes: 4, make: (b, at, n) => new Float32Array(b, at, n) },
	f64: { bytes: 8, make: (b, at, n) => new Float64Array(b, at, n) },
};

export class BundleError extends Error {}

export function decodeBundle(buffer: ArrayBuffer): Bundle {
	if (buffer.byteLength < PREFIX_BYTES || new TextDecoder("latin1").decode(new Uint8Array(buffer, 0, 8)) !== MAGIC)
		throw new BundleError("This is no data of Fathom's viewer; make the page again with fathom view --html.");
	const headBytes = new DataView(buffer).getUint32(8, true);
	if (headBytes % 8 !== 0 || PREFIX_BYTES + headBytes > buffer.byteLength)
		throw new BundleError("The page's data is cut off inside its head; make the page again.");
	let head: Head;
	try {
		head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, PREFIX_BYTES, headBytes))) as Head;
	} catch {
		throw new BundleError("The head of the page's data is damaged; make the page again.");
	}
	if (
		head.schema !== "fathom.view/1" ||
		!Array.isArray(head.columns) ||
		typeof head.report !== "object" ||
		!head.report
	)
		throw new BundleError(
			`The page's data is of the kind ${String(head.schema).slice(0, 40)}; this page reads fathom.view/1.`,
		);
	const columns = new Map<string, Column>();
	let at = PREFIX_BYTES + headBytes;
	for (const { name, type, n } of head.columns) {
		const kind = Object.hasOwn(TYPES, type) ? TYPES[type] : undefined;
		if (!kind || !Number.isInteger(n) || n < 0)
			throw new BundleError(
				`Column ${String(name).slice(0, 40)} of the page's data has an unknown type; make the page again.`,
			);
		if (at + n * kind.bytes > buffer.byteLength)
			throw new BundleError(
				`The page's data is cut off inside column ${String(name).slice(0, 40)}; make the page again.`,
			);
		columns.set(name, kind.make(buffer, at, n));
		at += (n * kind.bytes + 7) & ~7;
	}
	return { head, columns };
}

export async function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
	if (bytes.length < 2 || bytes[0] !== 0x1f || bytes[1] !== 0x8b)
		return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
	try {
		return await new Response(stream).arrayBuffer();
	} catch {
		throw new BundleError("The page's data cannot be unpacked, it is damaged; make the page again.");
	}
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
	let binary: string;
	try {
		binary = atob(text.trim());
	} catch {
		throw new BundleError("The data inside this page is damaged; make the page again.");
	}
	const bytes = new Uint8Array(binary.length);
	for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
	return bytes;
}
