// Writes bundles as docs/viewer-data.md says: the other half of src/data/bundle.ts, for tests.
import { gzipSync } from "node:zlib";

type Numbers = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

const TYPES = {
	u8: Uint8Array,
	u16: Uint16Array,
	u32: Uint32Array,
	i32: Int32Array,
	f32: Float32Array,
	f64: Float64Array,
};
const TYPE_NAMES = new Map<unknown, string>(Object.entries(TYPES).map(([name, type]) => [type, name]));

// How a column is made from the rows of its table.
type Cell<T> = [type: keyof typeof TYPES, value: (row: T, i: number) => number];

export class BundleWriter {
	private readonly columns: { name: string; values: Numbers }[] = [];
	private readonly texts: Uint8Array[] = [new Uint8Array(0)];
	private readonly known = new Map<string, number>([["", 0]]);
	head: Record<string, unknown> = {};
	report: Record<string, unknown> = {}; // the head's report with functions and lines

	string(text: string): number {
		let id = this.known.get(text);
		if (id === undefined) {
			id = this.texts.length;
			this.known.set(text, id);
			this.texts.push(new TextEncoder().encode(text));
		}
		return id;
	}

	column(name: string, values: Numbers): void {
		this.columns.push({ name, values });
	}
	table<T>(name: string, rows: ArrayLike<T>, columns: Record<string, Cell<T>>): void {
		for (const [column, [type, value]] of Object.entries(columns)) {
			const values = new TYPES[type](rows.length);
			for (let i = 0; i < rows.length; i++) values[i] = value(rows[i], i);
			this.column(`${name}.${column}`, values);
		}
	}
	u32 = (name: string, values: ArrayLike<number>) => this.column(name, Uint32Array.from(values));
	u8 = (name: string, values: ArrayLike<number>) => this.column(name, Uint8Array.from(values));
	f64 = (name: string, values: ArrayLike<number>) => this.column(name, Float64Array.from(values));
	f32 = (name: string, values: ArrayLike<number>) => this.column(name, Float32Array.from(values));

	bytes(): Uint8Array {
		const size = this.texts.reduce((sum, t) => sum + t.length, 0);
		const text = new Uint8Array(size);
		const offset = new Uint32Array(this.texts.length + 1);
		let at = 0;
		this.texts.forEach((t, i) => {
			text.set(t, at);
			at += t.length;
			offset[i + 1] = at;
		});
		const columns = [
			...this.columns,
			{ name: "string.bytes", values: text as Numbers },
			{ name: "string.offset", values: offset as Numbers },
		];
		const head = new TextEncoder().encode(
			JSON.stringify({
				schema: "fathom.view/1",
				...this.head,
				columns: columns.map((c) => ({ name: c.name, type: TYPE_NAMES.get(c.values.constructor), n: c.values.length })),
			}),
		);
		const headBytes = (head.length + 7) & ~7;
		const total = columns.reduce((sum, c) => sum + ((c.values.byteLength + 7) & ~7), 16 + headBytes);
		const out = new Uint8Array(total);
		out.set(new TextEncoder().encode("FMVIEW1\n"), 0);
		new DataView(out.buffer).setUint32(8, headBytes, true);
		out.fill(32, 16, 16 + headBytes);
		out.set(head, 16);
		let place = 16 + headBytes;
		for (const c of columns) {
			out.set(new Uint8Array(c.values.buffer, c.values.byteOffset, c.values.byteLength), place);
			place += (c.values.byteLength + 7) & ~7;
		}
		return out;
	}

	private element(id: string): string {
		const data = gzipSync(this.bytes(), { level: 6 }).toString("base64");
		return `<script id="${id}" type="application/octet-stream">${data}</script>`;
	}

	// The page with this bundle inside, as `fathom view --html` makes it; of two captures with their comparison.
	page(template: string, diff?: BundleWriter): string {
		return template.replace("<!--fathom-bundle-->", () => this.element("bundle") + (diff?.element("diff") ?? ""));
	}
}
