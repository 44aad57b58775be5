// From `fathom view` to the first picture in a browser that is already open, and what moving about costs then.
//   node bench/first_picture.mjs FATHOM PROFILE.fathom flame|timeline [ROUNDS] [--viewport WIDTHxHEIGHT]
// Needs Chromium and tests/web's packages (scripts/bootstrap.sh test). Prints one line of JSON for each round: cpu_ms is of the page's
// main thread for each picture, drag_all_ms of the whole browser.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { withPage } from "../tests/web/browser.mjs";
import { browserCpu, drag, mainThread, takeViewport } from "./measure.mjs";

const args = process.argv.slice(2);
const viewport = takeViewport(args);
const [fathom, profile, view, rounds = "3"] = args;
if (!fathom || !profile || !view) {
	console.error("usage: node bench/first_picture.mjs FATHOM PROFILE.fathom flame|timeline [ROUNDS] [--viewport WIDTHxHEIGHT]");
	process.exit(2);
}
const FRAMES = 120;

async function serve() {
	const began = Date.now();
	const server = spawn(fathom, ["view", "--no-open", profile], { stdio: ["ignore", "pipe", "ignore"] });
	const address = await new Promise((resolve) => createInterface({ input: server.stdout }).once("line", resolve));
	return { server, address, began };
}

async function until(page, condition) {
	for (let i = 0; i < 2000; i++) {
		if (await page.evaluate(condition).catch(() => false))
			return;
		await page.waitForTimeout(10);
	}
	throw new Error("no picture came");
}

// Zooms in step by step and moves to and fro at each step: pictures at all scales, known and yet to be asked for.
const move = (page, frames) => page.evaluate(async (n) => {
	const canvas = [...document.querySelectorAll("canvas")].sort((a, b) => b.clientWidth * b.clientHeight - a.clientWidth * a.clientHeight)[0];
	const box = canvas.getBoundingClientRect();
	const wheel = (options) => canvas.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + box.width * 0.6, clientY: box.top + 60, bubbles: true, cancelable: true, ...options }));
	const { stats } = window.fathom;
	const from = { frames: stats.frames, ms: stats.totalMs };
	stats.worstMs = 0;
	const began = performance.now();
	for (let i = 0; i < n; i++) {
		wheel(i % 10 === 9 ? { deltaY: -120, ctrlKey: true } : { deltaX: i % 60 < 30 ? 14 : -14 });
		await new Promise(requestAnimationFrame);
	}
	const seconds = (performance.now() - began) / 1000;
	return { fps: (stats.frames - from.frames) / seconds, drawMs: (stats.totalMs - from.ms) / (stats.frames - from.frames), worstMs: stats.worstMs };
}, frames);

await withPage(async (page, problems) => {
	await page.setViewportSize(viewport);
	const cpu = await mainThread(page);
	for (let round = 0; round < Number(rounds); round++) {
		await page.goto("about:blank");
		const blank = await cpu();
		const { server, address, began } = await serve();
		await page.goto(`${address}&view=${view}`);
		await until(page, () => window.fathom.stats.frames > 0);
		const first = await page.evaluate(() => performance.timeOrigin + window.fathom.stats.firstFlameMs);
		const before = await cpu();
		const figures = await move(page, FRAMES);
		const moving = await cpu() - before;
		const [own, all] = [await cpu(), browserCpu(server.pid)];
		const drag_fps = await drag(page, FRAMES);
		const perFrame = (seconds) => (1000 * seconds) / FRAMES;
		console.log(JSON.stringify({
			first_s: (first - began) / 1000, page_cpu_s: before - blank, ...figures, cpu_ms: perFrame(moving),
			drag_fps, drag_cpu_ms: perFrame(await cpu() - own), drag_all_ms: perFrame(browserCpu(server.pid) - all),
		}));
		await page.goto("about:blank");
		server.kill("SIGINT");
		await new Promise((done) => server.once("exit", done));
	}
	if (problems.length)
		console.error(problems.join("\n"));
});
