// SPDX-License-Identifier: Apache-2.0
// Numbers for people: three digits that matter, a unit, no more.
function digits(v: number): string {
	const a = Math.abs(v);
	return a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : v.toFixed(2);
}

export function seconds(s: number): string {
	const a = Math.abs(s);
	if (a === 0) return "0 s";
	if (a >= 100 * 60) return `${digits(s / 3600)} h`;
	if (a >= 1) return `${digits(s)} s`;
	if (a >= 1e-3) return `${digits(s * 1e3)} ms`;
	if (a >= 1e-6) return `${digits(s * 1e6)} µs`;
	return `${digits(s * 1e9)} ns`;
}

export function bytes(b: number): string {
	const units = ["B", "kB", "MB", "GB", "TB"]; // as the terminal has them
	let v = b;
	let u = 0;
	while (Math.abs(v) >= 1000 && u < units.length - 1) {
		v /= 1000;
		u++;
	}
	return u === 0 ? `${Math.round(v)} B` : `${digits(v)} ${units[u]}`;
}

export function amount(v: number, unit: "s" | "bytes"): string {
	return unit === "s" ? seconds(v) : bytes(v);
}

export function share(part: number, whole: number): string {
	if (!(whole > 0)) return "–";
	const p = (100 * part) / whole;
	return p >= 99.95 ? "100%" : p >= 10 ? `${p.toFixed(1)}%` : `${p.toFixed(2)}%`;
}

export function count(n: number): string {
	return Math.round(n).toLocaleString("en-US");
}

// Steps for an axis: 1, 2 or 5 times a power of ten.
export function niceStep(span: number, parts: number): number {
	const rough = span / Math.max(1, parts);
	const power = 10 ** Math.floor(Math.log10(rough));
	const m = rough / power;
	return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * power;
}

// "/a/long/way/to/file.py" -> "to/file.py": what one recognises a file by.
export function shortPath(path: string): string {
	const parts = path.split("/");
	return parts.length <= 2 ? path : parts.slice(-2).join("/");
}
