// The same capture in speedscope and in Fathom's page, one after the other, several times over: CPU seconds of the page's main
// thread until the left-heavy flame graph is drawn, and milliseconds of it for a frame while panning. CPU, because the clock
// also measures what else the machine does.
//   node bench/viewers.mjs FATHOM PROFILE.fathom [ROUNDS] [--viewport WIDTHxHEIGHT]
// Needs Chromium and tests/web's packages (scripts/bootstrap.sh test).
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { serve, withPage } from "../tests/web/browser.mjs";
import { mainThread, takeViewport } from "./measure.mjs";

const args = process.argv.slice(2);
const viewport = takeViewport(args);
const [fathom, profile, rounds = "3"] = args;
if (!fathom || !profile) {
	console.error("usage: node bench/viewers.mjs FATHOM PROFILE.fathom [ROUNDS] [--viewport WIDTHxHEIGHT]");
	process.exit(2);
}
const FRAMES = 90;
const folder = mkdtempSync(join(tmpdir(), "fathom-viewers-"));
const json = join(folder, "profile.json");
const html = join(folder, "profile.html");
const require = createRequire(new URL("../tests/web/package.json", import.meta.url));
const app = join(dirname(require.resolve("speedscope/package.json")), "dist", "release");

// Moves the largest canvas sideways, one wheel event a frame.
const pan = (page) => page.evaluate(async (frames) => {
	const canvas = [...document.querySelectorAll("canvas")].sort((a, b) => b.clientWidth * b.clientHeight - a.clientWidth * a.clientHeight)[0];
	const box = canvas.getBoundingClientRect();
	const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, cancelable: true };
	const target = document.elementFromPoint(at.clientX, at.clientY) ?? canvas;
	for (let i = 0; i < 12; i++)
		target.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -40, ctrlKey: true, metaKey: true }));
	const began = performance.now();
	for (let i = 0; i < frames; i++) {
		target.dispatchEvent(new WheelEvent("wheel", { ...at, deltaX: i % 60 < 30 ? 12 : -12 }));
		await new Promise(requestAnimationFrame);
	}
	return (1000 * frames) / (performance.now() - began);
}, FRAMES);

async function measure(name, open) {
	let figures;
	await withPage(async (page) => {
		await page.setViewportSize(viewport);
		const cpu = await mainThread(page);
		const start = await cpu();
		await open(page);
		await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
		const first = await cpu();
		const fps = await pan(page);
		figures = { name, open_s: first - start, frame_ms: (1000 * (await cpu() - first)) / FRAMES, fps };
	});
	return figures;
}

try {
	execFileSync(fathom, ["export", "-f", "speedscope", "-o", json, profile]);
	execFileSync(fathom, ["view", "--html", html, profile]);
	const mb = (file) => (statSync(file).size / 1e6).toFixed(1);
	console.log(`speedscope's file ${mb(json)} MB, Fathom's page ${mb(html)} MB`);
	for (let round = 0; round < Number(rounds); round++) {
		const server = await serve(app, { "/profile.json": json });
		const theirs = await measure("speedscope", async (page) => {
			await page.goto(`${server.url}/#profileURL=${encodeURIComponent(`${server.url}/profile.json`)}`);
			await page.getByText("Left Heavy").first().click({ timeout: 120000 });
			await page.waitForSelector("canvas", { timeout: 60000 });
		});
		server.close();
		const ours = await measure("fathom", async (page) => {
			await page.goto(`${pathToFileURL(resolve(html)).href}#view=flame`);
			await page.waitForSelector("canvas", { timeout: 60000 });
		});
		for (const f of [theirs, ours])
			console.log(`${f.name.padEnd(11)} ${f.open_s.toFixed(2)} s of CPU to open, ${f.frame_ms.toFixed(1)} ms a frame, ${f.fps.toFixed(0)} frames a second here`);
		console.log(`            to open ${(theirs.open_s / ours.open_s).toFixed(1)} times, a frame ${(theirs.frame_ms / ours.frame_ms).toFixed(1)} times Fathom's`);
	}
} finally {
	rmSync(folder, { recursive: true, force: true });
}
