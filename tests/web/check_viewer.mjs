// SPDX-License-Identifier: Apache-2.0
// Opens a page of the viewer and uses it as a person would.
//   node check_viewer.mjs views PAGE REPORT.json [--shots DIR] [--sizes]
//       every view, keys, links, filters; numbers against the report; with --sizes also on a small and a large screen
//   node check_viewer.mjs memory PAGE REPORT.json                a capture with memory
//   node check_viewer.mjs diff PAGE                              a page with a comparison inside
//   node check_viewer.mjs difftime PAGE                          two captures over time
//   node check_viewer.mjs hostile PAGE                           nothing in the data runs, nothing hangs
//   node check_viewer.mjs scale PAGE                             cost of the first flame graph and of panning; prints the figures
//   node check_viewer.mjs live ADDRESS                           a capture that still grows
//   node check_viewer.mjs trace PAGE                             a trace of tests/tools/gen_trace.c, larger than the page holds
//   node check_viewer.mjs hands PAGE                             keys, Back, links, search, what is told; of a capture with two threads or more
//   node check_viewer.mjs workbench PAGE                         the run above every view, ranges, bookmarks
//   node check_viewer.mjs verdicts PAGE                          what stands out, and the way to what proves it
//   node check_viewer.mjs assembly PAGE REPORT.json            a page with the machine code of `hot`, which `term` is inlined into
//   node check_viewer.mjs tabs ADDRESS                           a link copied from a served page
//   node check_viewer.mjs watch ADDRESS                          a program that listens: the Live view
// PAGE is a file or an http address.
import { copyFileSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { check, withPage } from "./browser.mjs";

const args = process.argv.slice(2);
const at = args.indexOf("--shots");
const shots = at >= 0 ? args.splice(at, 2)[1] : null;
const isSized = args.includes("--sizes");
const [mode, target, facts] = args.filter((a) => a !== "--sizes");
const url = /^https?:/.test(target ?? "") ? target : pathToFileURL(resolve(target ?? "")).href;

// "12.6 s" -> 12.6, "301 ms" -> 0.301
function number(text) {
	const match = /([+−-]?[\d.,]+)\s*(ns|µs|ms|s|h|B|kB|MB|GB|%)?/.exec(text ?? "");
	if (!match)
		return NaN;
	const unit = { ns: 1e-9, "µs": 1e-6, ms: 1e-3, h: 3600, kB: 1e3, MB: 1e6, GB: 1e9 }[match[2]] ?? 1;
	return Number(match[1].replaceAll(",", "").replace("−", "-")) * unit;
}
// Three digits are shown.
const same = (shown, real, what) => check(Math.abs(number(shown) - real) <= Math.abs(real) * 0.006 + 1e-12, `${what}: the page says ${shown}, the report ${real}`);

// A file is loaded anew; a served page stays and follows the link, for its server ends when the page is gone.
async function open(page, place = "view=summary") {
	// What a page opens by depends on what stands out of a real capture: these figures are of CPU time.
	const hash = mode === "views" && !place.includes("metric=") ? `${place}&metric=cpu` : place;
	const isServed = url.startsWith("http");
	if (!isServed)
		await page.goto("about:blank");
	if (!isServed || !page.url().startsWith("http"))
		await page.goto(isServed ? url : `${url}#${hash}`);
	if (isServed)
		await page.evaluate((h) => { location.hash = h; }, hash);
	await page.waitForSelector(".view, [role=alert]");
}

// Two frames: what was asked for has been drawn.
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

// Asks until it is true, 60 s at most. (Playwright's own waiting evaluates strings, which the page's policy forbids.)
async function until(page, condition) {
	for (let i = 0; i < 1200; i++) {
		if (await page.evaluate(condition))
			return true;
		await page.waitForTimeout(50);
	}
	return false;
}

// Keys, each a task of its own as those of a keyboard, faster than frames are drawn.
const pressAtOnce = (page, selector, keys) => page.evaluate(([s, pressed]) => new Promise((done) => {
	const { port1, port2 } = new MessageChannel();
	port1.onmessage = () => {
		const key = pressed.shift();
		if (key === undefined)
			return done();
		document.querySelector(s).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
		port2.postMessage(null);
	};
	port2.postMessage(null);
}), [selector, keys]);

async function shot(page, name) {
	if (!shots)
		return;
	for (const theme of ["light", "dark"]) {
		await page.emulateMedia({ colorScheme: theme });
		await settle(page);
		await page.screenshot({ path: join(shots, `${name}-${theme}.png`) });
	}
	await page.emulateMedia({ colorScheme: "light" });
}

// How many of the canvas's pixels are not its background.
const inked = (page, selector = "canvas") => page.evaluate((s) => {
	const canvas = document.querySelector(s);
	const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
	const words = new Uint32Array(data.buffer);
	const background = words[words.length - 1];
	let n = 0;
	for (const w of words)
		n += w !== background;
	return n;
}, selector);

const label = (page) => page.getAttribute("canvas", "aria-label");
const tab = (page, name) => page.click(`nav[aria-label=Views] a:has-text("${name}")`);

async function checkSummary(page, report) {
	await open(page);
	const tile = async (name) => page.textContent(`.tiles div:has(dt:text-is("${name}")) dd`);
	same(await tile("CPU time"), report.cpu_s, "CPU time");
	same(await tile("Wall time"), report.wall_s, "wall time");
	// As the text report counts: looks at threads that waited are no samples of a running one, and are told beside them.
	same(await tile("Samples"), report.samples - report.wait_samples, "samples");
	const looks = /and ([\d,]+) look(?:s at threads| at a thread) that waited/.exec(await page.textContent('.tiles div:has(dt:text-is("Samples"))'));
	same(looks?.[1] ?? "0", report.wait_samples, "looks at threads that waited");
	// Sums over all threads stand apart from what one did with the clock; of a single thread they are the same.
	const all = page.locator('section[aria-label="CPU time of all threads"] .legend li');
	const hasMany = await all.count() > 0;
	const legend = await (hasMany ? all : page.locator('section[aria-label="Where the time went"] .legend li')).allTextContents();
	for (const [name, key] of [["Python", "python_s"], ["native", "native_s"], ["system", "system_s"], ...(hasMany ? [] : [["waiting", "wait_s"]])])
		if (report.time[key] > 0)
			same(legend.map((text) => new RegExp(`^\\s*${name} ([\\d.]+ \\S+?)\\s`).exec(text)?.[1]).find(Boolean), report.time[key], name);
	check((await page.textContent("h1")).includes(report.command.at(-1)), "the command is not shown");
	const threads = report.threads?.length ?? 0;
	if (threads > 1)
		check((await page.textContent(".cards")).includes(`${threads} threads`), `the summary does not say that there are ${threads} threads`);
	if (report.verdict?.length) {
		const sentences = page.locator(".verdicts li");
		check(await sentences.count() === report.verdict.length, "not all that stands out is told");
		check((await sentences.first().textContent()).includes(report.verdict[0].text), "the first sentence is another");
		if (report.verdict[0].line > 0) {
			await sentences.first().locator("a").click();
			check((await page.textContent(".line-panel")).includes(`Line ${report.verdict[0].line}`), "a sentence does not lead to its line");
			await page.goBack();
			await page.waitForSelector(".tiles");
		}
	}
	await shot(page, "summary");
	if (report.lines?.length) {
		// The order follows what stands out: here it is CPU time that is compared.
		const byCpu = page.locator("[aria-label='Order of the lines'] button:has-text('CPU time')");
		if (await byCpu.count())
			await byCpu.click();
		const hottest = [...report.lines].sort((a, b) => b.total_s - a.total_s)[0];
		const row = page.locator("table[aria-label='Hottest lines'] tbody tr").first();
		check((await row.textContent()).includes(`:${hottest.line}`), `the hottest line is ${hottest.file}:${hottest.line}`);
		same(await row.locator("td").nth(1).textContent(), hottest.total_s, "the hottest line's time");
	}
}

// What the samples stand for; cpu_s is what the kernel measured.
const sampled = ({ time }) => time.python_s + time.native_s + time.system_s + time.gc_s;

async function checkFlame(page, report) {
	const whole = sampled(report);
	await tab(page, "Flame graph");
	await page.waitForSelector("canvas");
	await settle(page);
	same(/: ([\d.,]+ \S+) in/.exec(await label(page))?.[1], whole, "the flame graph's root");
	check(await inked(page) > 5000, "the flame graph is empty");
	await shot(page, "flame");

	// The root is the first row; its details are the whole.
	const box = await page.locator("canvas").boundingBox();
	await page.mouse.move(box.x + box.width / 3, box.y + 8);
	same(await page.textContent(".details dd"), whole, "the root's total");
	await page.mouse.dblclick(box.x + 30, box.y + 28);
	await page.waitForTimeout(400);
	await page.keyboard.press("0");
	check(await until(page, () => !location.hash.includes("zoom")), "0 does not show all again");
	for (const key of ["w", "d", "a", "s", "ArrowDown", "ArrowUp"])
		await page.keyboard.press(key);
	await page.keyboard.press("0");

	const name = [...report.functions].sort((a, b) => b.self_s - a.self_s)[0].name;
	await page.keyboard.press("Control+f");
	await page.keyboard.type(name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
	const found = await page.textContent(".found");
	check(number(found) > 0, `searching ${name} found ${found}`);
	await page.keyboard.press("Enter");
	await page.waitForTimeout(300);
	check((await page.textContent(".details-name")).length > 0, "Enter does not select a match");
	await page.keyboard.press("Escape");

	await page.keyboard.press("r");
	check((await page.evaluate(() => location.hash)).includes("recursion=1"), "r does not collapse recursion");
	await page.goBack();
	check(!(await page.evaluate(() => location.hash)).includes("recursion=1"), "Back does not undo");
	for (const option of ["Only my code", "Fold libraries", "Lines", "Interpreter"]) {
		if (await page.locator(`label:has-text("${option}") input`).count() === 0)
			continue;
		await page.click(`label:has-text("${option}") input`);
		await settle(page);
		same(/: ([\d.,]+ \S+) in/.exec(await label(page))?.[1], whole, `the root under ${option}`);
		await page.click(`label:has-text("${option}") input`);
	}
	await page.click("button:text-is('Flame')");
	await settle(page);
	check(await inked(page) > 5000, "upside down it is empty");
	await page.click("button:text-is('Icicle')");
	await page.selectOption(".controls select", "class");
	await settle(page);
	await shot(page, "flame-class");
	await page.selectOption(".controls select", "module");

	await page.keyboard.press("1");
	await page.waitForTimeout(200);
	check(await inked(page) > 2000, "time order is empty");
	await shot(page, "flame-time");
	await page.keyboard.press("3");
	await page.click("table[aria-label=Functions] tbody tr >> nth=0");
	await page.waitForSelector(".sandwich-charts canvas");
	await settle(page);
	await shot(page, "sandwich");
	const inside = number(await page.textContent(".sandwich-charts .details dd"));
	check(inside > 0, "the sandwich's function has no total");
	await page.keyboard.press("2");
	await page.click("canvas", { button: "right", position: { x: 40, y: 30 } });
	await page.click("[role=menuitem]:has-text('Focus')");
	check(await page.locator(".chip:has-text('focus')").count() === 1, "focus leaves no chip");
	await page.click(".chip:has-text('focus')");
}

async function checkTimeline(page, report) {
	const whole = sampled(report);
	await tab(page, "Timeline");
	await page.waitForSelector(".lane-name");
	await settle(page);
	check(await inked(page) > 1000, "the timeline is empty");
	await shot(page, "timeline");
	const box = await page.locator(".lane-canvas canvas").boundingBox();
	await page.mouse.move(box.x + box.width * 0.25, box.y + 20);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.5, box.y + 30, { steps: 5 });
	await page.mouse.up();
	const range = /steps=r([\d.]+)%7E([\d.]+)/.exec(await page.evaluate(() => location.hash));
	check(range && Number(range[2]) > Number(range[1]), "dragging makes no range");
	await tab(page, "Flame graph");
	await settle(page);
	const part = number(/: ([\d.,]+ \S+) in/.exec((await page.locator("canvas").count()) ? await label(page) : ": 0 s in")?.[1]);
	check(part < whole, "the range does not limit the flame graph");
	await page.keyboard.press("u");
	await settle(page);
	same(/: ([\d.,]+ \S+) in/.exec(await label(page))?.[1], whole, "the flame graph after undo");
	await tab(page, "Timeline");
	await page.click(".lane-name.thread button >> nth=0");
	await page.click("[role=menuitem]:has-text('Filter out thread')");
	check(await page.locator(".chips.bar .chip").count() === 1, "filtering a thread out leaves no chip");
	await page.click("button:has-text('Undo last')");
}

async function checkRest(page, report) {
	await tab(page, "Functions");
	const first = page.locator("table[aria-label=Functions] tbody tr").first();
	const top = [...report.functions].sort((a, b) => b.self_s - a.self_s)[0];
	check((await first.textContent()).includes(top.name), `the first function is not ${top.name}`);
	same(await first.locator("td").nth(1).textContent(), top.self_s, `self time of ${top.name}`);
	await page.click("th:has-text('Total') button");
	const most = [...report.functions].sort((a, b) => b.total_s - a.total_s)[0];
	same(await first.locator("td").nth(2).textContent(), most.total_s, "the largest total");
	await first.click();
	await page.waitForSelector(".chosen h2");
	await shot(page, "functions");
	if (await page.locator("nav[aria-label=Views] a:has-text('Source')").count()) {
		await tab(page, "Source");
		await page.waitForSelector(".code");
		const hottest = [...report.lines].sort((a, b) => b.total_s - a.total_s)[0];
		await page.click(`.code button.link:text-is("${hottest.line}")`);
		check((await page.textContent(".line-panel")).includes(`Line ${hottest.line}`), "a click on a line says nothing about it");
		await shot(page, "source");
	}
	await tab(page, "Call graph");
	await page.waitForSelector("svg.graph .box");
	await shot(page, "graph");
	const [download] = await Promise.all([page.waitForEvent("download"), page.click("button:has-text('Save as SVG')")]);
	const svg = readFileSync(await download.path(), "utf8");
	check(svg.startsWith("<svg") && !/<script|<foreignObject|href=/.test(svg), "the saved drawing is no plain SVG");
	await page.click("button:text-is('Sunburst')");
	await page.waitForSelector("path.arc");
	await shot(page, "sunburst");
	await page.dispatchEvent("path.arc >> nth=0", "click"); // the middle of an arc that goes round is not on it
	await page.click("circle.middle");
	await page.keyboard.press("?");
	await page.waitForSelector("dialog[open]");
	await shot(page, "help");
	await page.keyboard.press("Escape");
	check(await page.locator("dialog[open]").count() === 0, "Escape does not close the help");

	// A link leads to the same place in a new visit.
	await open(page, "view=flame&mode=left&search=main&colour=class");
	check(await page.inputValue(".search") === "main", "a link does not carry the search");
	const metrics = await page.locator("select[aria-label=Metric] option").evaluateAll((options) => options.map((o) => o.value));
	for (const metric of metrics) {
		await page.selectOption("select[aria-label=Metric]", metric);
		await settle(page);
		check(await page.locator("canvas").count() === 1, `no flame graph of ${metric}`);
	}
	const all = ["summary", "flame", "timeline", "source", "functions", "graph"];
	const screens = [{ width: 1024, height: 600, views: all }, { width: 3840, height: 2160, views: ["flame", "timeline"] }, { width: 800, height: 600, views: ["flame&mode=sandwich&fn=1", "zones&calls=1"] }];
	for (const { views, ...size } of isSized ? screens : []) {
		await page.setViewportSize(size);
		for (const view of views) {
			await open(page, `view=${view}`);
			const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
			check(over <= 0, `${view} is ${over} pixels too wide at ${size.width}`);
			const beyond = await page.locator(".table-box").evaluateAll((boxes) => Math.max(0, ...boxes.map((b) => b.scrollWidth - b.clientWidth)));
			check(beyond <= 0, `a table of ${view} is ${beyond} pixels too wide at ${size.width}`);
		}
	}
	// A sandwich has frames, or says that the function has nothing of what is counted.
	const options = await page.locator("select[aria-label=Metric] option").evaluateAll((list) => list.map((o) => o.value));
	let [drawn, told] = [0, 0];
	for (let fn = 0; isSized && options.includes("leak") && fn < 8; fn++) {
		await open(page, `view=flame&mode=sandwich&fn=${fn}&metric=leak`);
		await settle(page);
		const said = await page.locator(".sandwich > .nothing").allTextContents();
		const isDrawn = await page.locator(".sandwich-charts canvas").count() > 0 && await inked(page, ".sandwich-charts .half:nth-child(2) canvas") > 100;
		check(isDrawn !== said.some((t) => / has nothing of what is counted /.test(t)), `the sandwich of function ${fn} is ${isDrawn ? "drawn" : "empty"} and says ${said}`);
		[drawn, told] = [drawn + Number(isDrawn), told + Number(!isDrawn)];
	}
	check(!isSized || !options.includes("leak") || (drawn > 0 && told > 0), `${drawn} sandwiches of what leaks are drawn, ${told} are not`);
}

// Bytes wherever the page shows them. Every metric's flame graph is as wide as the report says.
async function checkMemory(page, report) {
	await open(page);
	const tile = async (name) => page.textContent(`.tiles div:has(dt:text-is("${name}")) dd`);
	same(await tile("Peak of the heap"), report.memory.peak_bytes, "the peak");
	same(await tile("Allocated in all"), report.memory.alloc_bytes, "what was allocated");
	const leaks = page.locator("table[aria-label=Leaks] tbody tr");
	check(await leaks.count() === report.leaks.length, `${await leaks.count()} leaks are listed`);
	if (report.leaks.length)
		same(await leaks.first().locator("td").last().textContent(), report.leaks[0].bytes, "the leak");
	const leaked = report.leaks.reduce((sum, leak) => sum + leak.bytes, 0);
	for (const [metric, bytes] of [["alloc", report.memory.alloc_bytes], ["peak", report.memory.peak_bytes], ["leak", leaked], ["copy", report.memory.copy_bytes]]) {
		if (!bytes)
			continue;
		await open(page, `view=flame&metric=${metric}`);
		await settle(page);
		same(/: ([\d.,]+ \S+) in/.exec(await label(page))?.[1], bytes, `the root of ${metric}`);
		check(await inked(page) > 5000, `the flame graph of ${metric} is empty`);
	}
	const largest = [...report.lines].sort((a, b) => b.alloc_bytes - a.alloc_bytes)[0];
	await open(page);
	await page.click("button:text-is('Allocated')");
	const row = page.locator("table[aria-label='Hottest lines'] tbody tr").first();
	check((await row.textContent()).includes(`:${largest.line}`), `the line that allocates most is ${largest.file}:${largest.line}`);
	await open(page, "view=timeline");
	await settle(page);
	check((await page.textContent(".lane-name.curve")).includes("heap"), "the timeline has no memory");
	await shot(page, "timeline-memory");
}

// report.range has what a range of time allocated and held; without it there is nothing to check.
async function checkMemoryOfRange(page, { range }) {
	for (const metric of range ? ["alloc", "peak"] : []) {
		await open(page, `view=flame&metric=${metric}&steps=r${range.from}~${range.to}`);
		await settle(page);
		same(/: ([\d.,]+ \S+) in/.exec(await label(page))?.[1], range[metric], `the root of ${metric} in a range`);
	}
	if (!range)
		return;
	await open(page, `view=summary&steps=r${range.from}~${range.to}`);
	await page.click("button:text-is('Allocated')");
	const cells = await page.locator("table[aria-label='Hottest lines'] tbody tr").allTextContents();
	check(cells.length === range.lines, `${cells.length} lines allocate in the range: ${cells.join("; ")}`);
}

// Calls that are drawn together say how many they are. From a server, zooming in shows each; a file says that it cannot.
async function checkTrace(page) {
	const questions = [];
	page.on("request", (r) => /api\/zones/.test(r.url()) && questions.push(r.url()));
	await page.setViewportSize({ width: 1280, height: 720 });
	await open(page, "view=timeline");
	await until(page, () => window.fathom.stats.frames > 0);
	const tip = async (depth, share = 0.501) => {
		const box = await page.locator("canvas").boundingBox();
		await page.mouse.move(box.x + 5, box.y + 5);
		await page.mouse.move(box.x + box.width * share, box.y + 24 + 14 * depth + 7);
		await settle(page);
		return page.evaluate(() => document.querySelector(".tip")?.textContent ?? "");
	};
	check((await tip(0)).startsWith("serve"), `the outermost zone: ${await tip(0)}`);
	check(/^[\d,]+ calls in .* the longest of leaf_/.test(await tip(3)), `the innermost zones of the whole run: ${await tip(3)}`);
	check(questions.length === 0, "the first picture asks for nothing more");
	await shot(page, "trace");
	const isServed = url.startsWith("http");
	if (!isServed) {
		check(/calls are drawn together in this file/.test(await page.textContent(".controls")), "the file does not say what is merged");
		return;
	}
	for (let i = 0; i < 40 && !/^leaf_/.test(await tip(3)); i++) {
		const box = await page.locator("canvas").boundingBox();
		await page.mouse.move(box.x + box.width / 2, box.y + 100);
		await page.keyboard.down("Control");
		await page.mouse.wheel(0, -150);
		await page.keyboard.up("Control");
		await page.waitForTimeout(60);
	}
	check(questions.length > 0, "zooming in asks for nothing");
	check(/^leaf_\d+(1000 ns|1\.\d+ µs)at/.test(await tip(3)), `close up: ${await tip(3)}`);
	check(/^step10(\.0+)? µs/.test(await tip(2)), `its caller: ${await tip(2)}`);
	await shot(page, "trace-close");
	const before = questions.length;
	await page.keyboard.press("d");
	await page.keyboard.press("a");
	await page.waitForTimeout(300);
	check(questions.length - before <= 2, `moving to and fro asks ${questions.length - before} times`);
}

async function checkDiff(page) {
	await open(page);
	await tab(page, "Diff");
	const rows = page.locator("table[aria-label=Changes] tbody tr");
	check(await rows.count() > 0, "no change is listed");
	await shot(page, "diff");
	await page.click("button:text-is('Lines')");
	await page.click("button:text-is('Functions')");
	await page.click("button:has-text('Flame graph of the change')");
	await page.waitForSelector("canvas");
	await settle(page);
	check(await inked(page) > 3000, "the flame graph of the change is empty");
	await shot(page, "diff-flame");
	await page.goBack();
	const name = await rows.first().locator("b").textContent();
	await rows.first().click();
	await page.waitForSelector(".chosen h2, .view.functions");
	const chosen = await page.locator(".chosen h2").count() ? await page.textContent(".chosen h2") : name; // only in the base: no such function now
	check(chosen === name, `a click on ${name} leads to ${chosen}`);
}

// Of two captures with samples.
async function checkDiffOverTime(page) {
	// Both stand in one picture, and each thread beside that of its name; alone it has neither.
	await open(page, "view=timeline");
	const named = () => page.locator(".lane-name").evaluateAll((list) => list.map((l) => l.textContent));
	check((await named()).some((n) => n.startsWith("CPUs in use")), `the timeline has no curve of both: ${await named()}`);
	const threads = page.locator(".lane-name.thread button");
	check(await threads.count() > 0 && /: (not there before|[+−]?[\d.]+ \S+, was [\d.]+ \S+)$/.test(await threads.first().getAttribute("title")), "a thread does not say what it was before");
	check(await inked(page) > 500, "the timeline of both is empty");
	await page.click("label:has-text('Compare') input");
	await settle(page);
	check(!(await named()).some((n) => n.startsWith("CPUs in use")), "one capture alone is compared");
}

async function checkHostile(page) {
	for (const view of ["tree", "tree&open=**", "tree&invert=1&open=*", "summary", "flame", "flame&mode=time", "flame&mode=sandwich&fn=0", "timeline", "source", "functions&fn=1", "graph", "graph&drawing=sunburst", "diff"]) {
		await open(page, `view=${view}&plumbing=1`);
		await settle(page);
		check(await page.evaluate(() => window.pwned === undefined), `${view}: data was run`);
		check(await page.evaluate(() => document.querySelectorAll("#app script, #app img, #app iframe, #app object").length) === 0, `${view}: data became elements`);
		check(!(await page.textContent("#app")).includes("This view failed"), `${view}: ${await page.textContent("main")}`);
	}
	await open(page, "view=flame&search=" + encodeURIComponent("(x+)+$"));
	await page.keyboard.press("End");
	for (let i = 0; i < 5; i++)
		await page.mouse.wheel(0, 5000);
	await settle(page);
	await open(page, "view=%3Cscript%3E&fn=99999999&file=99999999&steps=f%2B99999999,m-99999999,t%2B99999999&focus=99999999&hidden=99999999&metric=__proto__");
	check(await page.evaluate(() => window.pwned === undefined), "the address was run");
	// The policy holds even for what the page itself would try.
	const blocked = await page.evaluate(async () => {
		const script = document.createElement("script");
		script.textContent = "window.pwned = 2";
		document.body.append(script);
		try {
			await fetch("http://127.0.0.1:9/");
			return false;
		} catch {
			return window.pwned === undefined;
		}
	});
	check(blocked, "the policy lets scripts or requests through");
}

async function checkScale(page) {
	const session = await page.context().newCDPSession(page);
	await session.send("Performance.enable", { timeDomain: "threadTicks" });
	// Seconds of CPU that the page's main thread has used: other programs on the machine do not count.
	const cpu = async () => (await session.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
	await page.setViewportSize({ width: 1280, height: 720 });
	const before = await cpu();
	await open(page, "view=flame");
	await until(page, () => window.fathom.stats.frames > 0);
	const first = { cpu: await cpu() - before, wall: await page.evaluate(() => window.fathom.stats.firstFlameMs / 1000) };
	const pan = async (view, n = 90) => {
		const start = await cpu();
		const figures = await page.evaluate(async ([which, n]) => {
			const canvas = document.querySelector("canvas");
			const box = canvas.getBoundingClientRect();
			const wheel = (options) => canvas.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + box.width * 0.7, clientY: box.top + 200, bubbles: true, cancelable: true, ...options }));
			wheel({ deltaY: which === "flame" ? -300 : -200, ctrlKey: true });
			const { stats } = window.fathom;
			const from = { frames: stats.frames, ms: stats.totalMs };
			const began = performance.now();
			for (let i = 0; i < n; i++) {
				wheel({ deltaX: i % 60 < 30 ? 12 : -12, deltaY: which === "flame" ? (i % 40 < 20 ? 9 : -9) : 0 });
				await new Promise(requestAnimationFrame);
			}
			return { frames: stats.frames - from.frames, drawMs: stats.totalMs - from.ms, seconds: (performance.now() - began) / 1000, spans: stats.lastSpans };
		}, [view, n]);
		const used = await cpu() - start;
		return { ...figures, cpu: used, cpuMs: (1000 * used) / n };
	};
	const flame = await pan("flame");
	await open(page, "view=timeline");
	await until(page, () => window.fathom.stats.frames > 0);
	const timeline = await pan("timeline");
	const line = (name, f) => console.log(`${name}: ${(f.frames / f.seconds).toFixed(0)} frames a second here, ${f.cpuMs.toFixed(1)} ms of CPU a frame, ${f.spans} spans in the last`);
	console.log(`first flame graph: ${first.cpu.toFixed(2)} s of CPU, ${first.wall.toFixed(2)} s by the clock`);
	line("panning the flame graph", flame);
	line("panning the timeline", timeline);
	check(first.cpu < 2, `the first flame graph takes ${first.cpu.toFixed(2)} s of CPU`);
	check(flame.cpuMs < 20, `panning takes ${flame.cpuMs.toFixed(1)} ms of CPU a frame, 50 a second need 20`);
	check(flame.frames > 60 && timeline.frames > 60, `only ${flame.frames} and ${timeline.frames} frames were drawn for 90 moves`);
	check(timeline.cpuMs < 20, `panning the timeline takes ${timeline.cpuMs.toFixed(1)} ms of CPU a frame`);
	await page.setViewportSize({ width: 3840, height: 2160 });
	for (const view of ["timeline", "flame"]) {
		await open(page, `view=${view}`);
		await until(page, () => window.fathom.stats.frames > 1);
		await settle(page); // the size of the window has come to the canvas
		const large = await pan(view, 40);
		line(`panning the ${view} on a large screen`, large);
		check(large.frames > 26, `only ${large.frames} frames were drawn for 40 moves`);
		check(large.cpuMs < 33, `panning the ${view} at 3840x2160 takes ${large.cpuMs.toFixed(1)} ms of CPU a frame, 30 a second need 33`);
	}
}

// A page of a capture that still grows: it says so, and its figures do.
async function checkLive(page) {
	await open(page);
	check(await page.locator(".live").count() === 1, "the page does not say that it is live");
	const samples = async () => number(await page.textContent('.tiles div:has(dt:text-is("Samples")) dd'));
	const before = await samples();
	for (let i = 0; i < 600 && await samples() === before; i++)
		await page.waitForTimeout(100);
	check(await samples() > before, `after 60 s there are still ${before} samples`);
}

// A program that listens, with functions heavy and light, a zone step and a counter steps: the picture moves, stands still when held, and goes on.
async function checkWatch(page) {
	await page.goto(url);
	await page.waitForSelector(".live-view");
	const text = (selector) => page.locator(selector).innerText();
	const elapsed = async () => number((await text(".live-view [role=status]")).replace("running for", ""));
	const cells = (label) => page.locator(`table[aria-label="${label}"] tbody tr`).allInnerTexts();
	check(await until(page, () => (document.querySelector('table[aria-label="Hot functions now"]')?.innerText ?? "").includes("heavy")), "the hot list has no heavy");
	check(await until(page, () => (document.querySelector('table[aria-label="Zones now"]')?.innerText ?? "").includes("step")), "there is no zone step");
	check((await cells("Counters now")).some((r) => r.includes("steps")), "there is no counter steps");
	check((await cells("Threads now")).some((r) => r.startsWith("main")), "there is no main thread");
	check(await inked(page, ".live-picture canvas") > 500, "nothing is drawn");
	const before = await elapsed();
	await page.waitForTimeout(1500);
	check(await elapsed() > before, "time stands still");
	await page.keyboard.press("Space");
	check(await page.getByRole("button", { name: "Follow" }).count() === 1, "Space does not hold it");
	const held = await elapsed();
	const hot = (await cells("Hot functions now")).join();
	await page.waitForTimeout(1500);
	check(await elapsed() === held && (await cells("Hot functions now")).join() === hot, "what is held moves");
	await shot(page, "live-held");
	await page.getByRole("button", { name: "Follow" }).click();
	check(await elapsed() > held, "it does not follow again");
	// Dragging the picture holds it, too.
	const box = await page.locator(".live-picture canvas").boundingBox();
	await page.mouse.move(box.x + 600, box.y + 30);
	await page.mouse.down();
	await page.mouse.move(box.x + 700, box.y + 30, { steps: 4 });
	await page.mouse.up();
	check(await page.getByRole("button", { name: "Follow" }).count() === 1, "dragging does not hold it");
	await page.getByRole("button", { name: "Follow" }).click();
	await shot(page, "live");
	// The other views of the same page are there, and Back returns.
	await page.getByRole("link", { name: "Flame graph" }).click();
	await page.waitForSelector(".view.flame");
	await page.goBack();
	await page.waitForSelector(".live-view");
	check(!page.url().includes("token"), "the token stays in the address");
}

// What hands expect: keys after a click, Back for what was done last, links that lead back, a word for what happened.
async function checkHands(page) {
	const hash = () => page.evaluate(() => location.hash);
	await page.setViewportSize({ width: 1280, height: 800 });
	await open(page, "view=flame");
	await page.click("label:has-text('Only my code') input");
	await page.keyboard.press("2");
	await page.keyboard.press("r");
	check((await hash()).includes("recursion=1"), "keys are dead after a click on a checkbox");
	await page.goBack();
	await page.click("label:has-text('Only my code') input");
	await page.click("button:text-is('Flame')");
	await page.keyboard.press("w");
	check(await until(page, () => location.hash.includes("zoom=")), "w does not zoom after a click on a button");
	const zoomed = await hash();
	await page.waitForTimeout(1100); // a pause ends the movement
	await tab(page, "Timeline");
	check(!(await hash()).includes("time="), "the zoom of the flame graph is taken for the timeline's");
	await page.goBack();
	check(await hash() === zoomed, "Back does not lead to the zoomed flame graph");
	await page.goBack();
	check(!(await hash()).includes("zoom="), "Back does not undo the zoom");

	// Frames can be walked to, are told, and are in the link.
	await open(page, "view=flame");
	await page.focus("canvas");
	await page.keyboard.press("Enter");
	const walk = ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"];
	for (const key of walk)
		await page.keyboard.press(key);
	await page.waitForTimeout(400); // the address follows a movement
	check(/%/.test(await page.textContent("[aria-live=polite]")), "a frame that one walks to is not told");
	const name = await page.textContent(".details-name b");
	const frame = /frame=\d+/.exec(await hash())?.[0];
	check(frame, "the chosen frame is not in the address");
	// As many frames further when the keys come faster than the screen is drawn.
	await open(page, "view=flame");
	await pressAtOnce(page, "canvas", ["Enter", ...walk]);
	for (let i = 0; i < 100 && !(await hash()).includes(frame); i++)
		await page.waitForTimeout(50);
	check((await hash()).includes(frame), `keys in quick succession lead to ${await hash()}, one by one to ${frame}`);
	await open(page, `view=flame&${frame}`);
	check(await page.textContent(".details-name b") === name, `a link to ${name} leads elsewhere`);
	await page.click(".details button:text-is('Hide')");
	check(/is hidden/.test(await page.textContent("[aria-live=polite]")), "Hide says nothing");
	check(await page.locator(".chip:has-text('hidden')").count() === 1, "Hide leaves no chip");

	// The tree is what the page opens on. It is walked by arrows, what is open and chosen is in the address, and a search leaves what it found.
	await open(page, "");
	const chosen = () => page.locator("tr[aria-selected=true] th b").textContent();
	const rows = page.locator("table[aria-label='Call tree'] tbody tr");
	const nRows = await rows.count();
	await page.focus("table[aria-label='Call tree'] tbody tr >> nth=0");
	await page.keyboard.press("ArrowLeft");
	await settle(page);
	check(await rows.count() < nRows && await rows.first().getAttribute("aria-expanded") === "false", "left does not close a row of the tree");
	await page.keyboard.press("ArrowRight");
	await settle(page);
	await page.keyboard.press("ArrowRight");
	await settle(page);
	check(await rows.count() === nRows && await rows.nth(1).locator("b").textContent() === await chosen(), "right does not open a row and go into it");
	await page.waitForTimeout(400);
	const tree = await hash();
	const walked = await chosen();
	await page.keyboard.press("End");
	await open(page, tree.slice(1));
	check(await chosen() === walked, "a link does not lead to the row of the tree");
	await page.click("button:text-is('Who calls it')");
	await settle(page);
	check((await hash()).includes("invert=1") && await rows.first().getAttribute("aria-expanded") === "false", "the tree does not turn upside down");
	await page.goBack();
	await page.fill(".search", walked);
	await settle(page);
	check((await rows.locator("b").allTextContents()).includes(walked) && await rows.count() <= nRows, "a search in the tree does not find a row");
	await page.fill(".search", "no-such-function");
	await settle(page);
	check(await page.locator(".nothing").count() === 1, "a search in the tree without a match says nothing");

	// Search where there is something to find, and a word when there is nothing.
	await open(page, "view=functions&search=no-such-function");
	check(await page.locator(".no-hit").count() === 1 && await page.locator(".nothing").count() === 1, "a search without a match says nothing");
	await open(page, "view=timeline");
	check(await page.locator(".search").count() === 0, "the timeline offers a search that does nothing");
	await open(page, "view=source&search=def");
	check(/match/.test(await page.textContent(".code .found")), "the source does not say what matches");
	await page.focus(".search");
	await page.keyboard.press("Enter");
	check(/line=\d/.test(await hash()), "Enter does not go to the next line that matches");

	// A choice with the mouse gives the keys back; the order of a table is in the address, and Back undoes it.
	await open(page, "view=functions");
	await page.click("th:has-text('Total') button");
	check((await hash()).includes("sort=-total"), "the order is not in the address");
	await page.goBack();
	check(!(await hash()).includes("sort="), "Back does not undo the order");

	// A column is as wide as one drags it, and nothing else moves; rows are walked by arrows, with one stop for Tab.
	const widths = () => page.locator("table[aria-label=Functions] thead th").evaluateAll((list) => list.map((th) => th.offsetWidth));
	const before = await widths();
	const grip = await page.locator("table[aria-label=Functions] thead th .grip >> nth=0").boundingBox();
	await page.mouse.move(grip.x + 4, grip.y + 8);
	await page.mouse.down();
	await page.mouse.move(grip.x - 96, grip.y + 8, { steps: 4 });
	await page.mouse.up();
	const after = await widths();
	check(Math.abs(before[0] - 100 - after[0]) < 3 && Math.abs(before[1] - after[1]) < 2, `dragging a column makes ${before} to ${after}`);
	await page.focus("table[aria-label=Functions] thead th:nth-child(2) button");
	await page.keyboard.press("Shift+ArrowRight");
	check((await widths())[1] > after[1], "Shift and arrows do not change a column");
	await page.dblclick("table[aria-label=Functions] thead th .grip >> nth=0");
	check((await widths())[0] === before[0], "a double click does not undo the widths");
	check(await page.locator("table[aria-label=Functions] tbody tr[tabindex='0']").count() === 1, "Tab stops at every row");
	await page.focus("table[aria-label=Functions] tbody tr >> nth=0");
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("Enter");
	check(await page.locator("table[aria-label=Functions] tbody tr >> nth=2").getAttribute("aria-selected") === "true", "arrows do not walk the rows");
	await open(page, "view=functions&drawing=sunburst");
	check(await page.locator(".search").count() === 1, "the sunburst takes the search from other views");
	await open(page, "view=summary");
	await page.hover("#thread-picker");
	await page.mouse.down();
	await page.mouse.up();
	await page.keyboard.press("Escape");
	await page.selectOption("#thread-picker", "0");
	check((await hash()).includes("thread=0"), "the thread is not in the address");
	check(await page.locator('dl[aria-label="What the filter leaves"]').count() === 1, "what a thread did is not told apart from the run");
}

// A page with three sentences of each rule (web/test/captures.ts): each leads to where it is seen, with what it is about as the metric.
const PROOFS = {
	line: ["tree", "cpu", "td:has-text('work')"], function: ["functions", "cpu", "table[aria-label=Functions] td:has-text('work')"],
	file: ["functions", "cpu", "table[aria-label=Functions] td:has-text('work')"], imports: ["tree", "cpu", "td:has-text('(imports)')"],
	gc: ["flame", "gc", "canvas"], "gc-end": ["flame", "gc", "canvas"], system: ["flame", "system", "canvas"],
	gil: ["timeline", "gil", "canvas"], lock: ["flame", "wait", "canvas"], waiting: ["flame", "wait", "canvas"],
	elsewhere: ["timeline", "cpu", "canvas"], leak: ["flame", "leak", "canvas"], "no-cpu": ["timeline", "cpu", "canvas"],
};
async function checkVerdicts(page) {
	const metric = () => page.locator("select[aria-label=Metric]").inputValue();
	const hash = () => page.evaluate(() => location.hash);
	await open(page, "view=tree");
	check(await metric() === "wait", `where a queue stands out the tree opens by ${await metric()}`);
	check(!(await hash()).includes("metric"), "what nobody chose is in the address");
	const root = () => page.locator("table[aria-label='Call tree'] tbody tr >> nth=0").textContent();
	check((await root()).startsWith("1.90 s82.6%"), `the tree is not by waiting: ${await root()}`);
	await page.selectOption("select[aria-label=Metric]", "cpu");
	await tab(page, "Flame graph");
	check(await metric() === "cpu", "what was chosen does not stay");
	await open(page, "view=summary");
	const lines = page.locator("[aria-label='Order of the lines'] button[aria-pressed=true]");
	check(await lines.textContent() === "Waiting", "lines are not by waiting");
	const sentences = await page.locator(".verdicts li").allTextContents();
	check(sentences.length === 3 * Object.keys(PROOFS).length, `${sentences.length} sentences`);
	for (let i = 0; i < sentences.length; i++) {
		const [rule, kind] = sentences[i].split(" ");
		const [view, counted, proof] = PROOFS[rule];
		await page.locator(".verdicts li").nth(i).locator("a").click();
		const isHere = kind.startsWith("here");
		await page.waitForSelector(isHere ? ".line-panel" : ".view").catch(() => undefined);
		await settle(page);
		const place = await hash();
		check(place.startsWith(`#view=${isHere ? "source" : view}&`) || place === `#view=${view}`, `${sentences[i]} leads to ${place}`);
		check(await metric() === counted, `${sentences[i]} counts ${await metric()}`);
		check(await page.locator(".nothing, [role=alert], .no-hit").count() === 0, `${sentences[i]} leads to nothing: ${place}`);
		check(await page.locator(isHere ? ".line-panel" : proof).count() > 0, `${sentences[i]} does not show it: ${place}`);
		await page.goBack();
		await page.waitForSelector(".tiles");
	}
}

// The run above every view: a range that all views follow while it is dragged, and places with a name.
async function checkWorkbench(page) {
	const hash = () => page.evaluate(() => location.hash);
	const rangeOf = async () => /steps=r([\d.]+)%7E([\d.]+)/.exec(await hash())?.slice(1).map(Number) ?? null;
	const near = (a, b, what) => check(a !== undefined && Math.abs(a - b) < 0.02, `${what}: ${a} is not ${b}`);
	const root = async () => number(/: ([\d.,]+ \S+) in/.exec(await label(page))?.[1]);
	await page.setViewportSize({ width: 1280, height: 800 });
	await open(page, "view=flame");
	const whole = await root();
	const end = Number(await page.getAttribute(".handle.to", "aria-valuemax"));
	const box = await page.locator(".track").boundingBox();
	const at = (share) => [box.x + box.width * share, box.y + 20];
	await page.mouse.move(...at(0.2));
	await page.mouse.down();
	await page.mouse.move(...at(0.3), { steps: 4 });
	check(await until(page, () => location.hash.includes("steps=r")), "the views do not follow while the range is dragged");
	await page.mouse.move(...at(0.5), { steps: 8 });
	await page.mouse.up();
	await page.waitForTimeout(400);
	const made = await rangeOf();
	near(made?.[0] / end, 0.2, "begin of a dragged range");
	near(made?.[1] / end, 0.5, "end of a dragged range");
	check(await root() < whole, "a range does not limit the flame graph");
	check(!(await page.textContent(".overview .gutter")).includes("NaN"), "the run's sum is no number");
	await page.goBack();
	check(await rangeOf() === null, "one Back does not undo the dragging");
	await page.goForward();

	for (const name of await page.locator("nav[aria-label=Views] a").allTextContents()) {
		await tab(page, name);
		await settle(page);
		check(await page.locator(".overview .track").count() === 1, `${name} has no run above it`);
		check((await rangeOf())?.[0] === made[0], `${name} forgets the range`);
	}

	// The ends, the whole of it, and a click beside it.
	const drag = async (from, to) => {
		await page.mouse.move(...at(from));
		await page.mouse.down();
		await page.mouse.move(...at(to), { steps: 5 });
		await page.mouse.up();
		await page.waitForTimeout(400);
		return (await rangeOf())?.map((t) => t / end) ?? [];
	};
	near((await drag(0.5, 0.7))[1], 0.7, "an end that is dragged");
	const moved = await drag(0.4, 0.5);
	near(moved[0], 0.3, "begin of a range that is moved");
	near(moved[1], 0.8, "end of a range that is moved");
	await page.mouse.click(...at(0.95));
	check(await rangeOf() === null, "a click beside the range does not end it");

	// By keys, told as a slider.
	await page.focus(".handle.from");
	for (let i = 0; i < 10; i++)
		await page.keyboard.press("ArrowRight");
	await page.keyboard.press("Tab");
	await page.keyboard.press("Shift+ArrowLeft");
	await page.waitForTimeout(400);
	const byKeys = (await rangeOf())?.map((t) => t / end) ?? [];
	near(byKeys[0], 0.1, "begin of a range by keys");
	near(byKeys[1], 0.9, "end of a range by keys");
	check(/\d/.test(await page.getAttribute(".handle.to", "aria-valuetext")), "the slider has no value");
	await page.keyboard.press("Escape");
	check(await rangeOf() === null, "Esc does not end the range");

	// A name and a note, which are in the address.
	await open(page, `view=functions&fn=1&steps=r${(end * 0.25).toFixed(6)}~${(end * 0.5).toFixed(6)}`);
	await page.keyboard.press("b");
	await page.waitForSelector("dialog.bookmark[open]");
	await page.keyboard.type("slow part");
	await page.fill("dialog.bookmark textarea", "see <b>here</b> & there");
	await page.click("dialog.bookmark button:text-is('Keep')");
	check((await page.textContent(".chips.bar")).includes("slow part"), "a range does not show its name");
	await shot(page, "bookmark");
	const link = (await hash()).slice(1).replace("view=functions", "view=summary").replace(/&steps=[^&]*/, "");
	await open(page, link);
	check(await page.locator(".flag").textContent() === "slow part", "a link does not carry the bookmark");
	await page.click(".flag");
	check(await page.locator(".view.functions").count() === 1 && await rangeOf() !== null, "a bookmark does not lead to its place");
	await page.click("button[aria-label^=Bookmarks]");
	check((await page.textContent(".menu")).includes("see <b>here</b> & there"), "the list has no notes");
	// A saved page has them without the link.
	const [saved] = await Promise.all([page.waitForEvent("download"), page.click("[role=menuitem]:has-text('Save this page')")]);
	const copy = join(dirname(await saved.path()), "saved.html");
	copyFileSync(await saved.path(), copy);
	await page.goto("about:blank");
	await page.goto(`${pathToFileURL(copy).href}#view=summary`);
	await page.waitForSelector(".view, [role=alert]");
	check(await page.locator(".flag").allTextContents().then((t) => t.join()) === "slow part", "a saved page does not have its bookmarks");
	await page.click("button[aria-label^=Bookmarks]");
	check((await page.textContent(".menu")).includes("see <b>here</b> & there"), "a saved page has lost a note");
	await page.click("[role=menuitem]:has-text('Change or remove')");
	await page.click("dialog.bookmark button:text-is('Remove')");
	check(!(await hash()).includes("kept="), "a bookmark cannot be removed");

	// In the order of time: an axis, and what is in sight.
	await open(page, "view=flame&mode=time&zoom=0.25~0.5");
	check(await page.locator(".time-axis .ticks span").count() > 2, "the flame chart in the order of time has no axis");
	check(await page.locator(".sight").count() === 1, "the run does not show what is in sight");
}

// A copied link has no token, and opens in the same browser.
async function checkSecondTab(page) {
	await page.goto(url);
	await page.waitForSelector(".view");
	await page.evaluate(() => { location.hash = "view=functions"; });
	const copied = page.url();
	check(!copied.includes("token"), "the token stays in the address");
	const second = await page.context().newPage();
	await second.goto(copied);
	await second.waitForSelector(".view, [role=alert]");
	check(await second.locator(".view.functions").count() === 1, `a copied link says: ${await second.textContent("body")}`);
}

// Instructions of the hottest function: their time adds up to what the report says of it, and each line's to its instructions'.
async function checkAssembly(page, report) {
	await open(page, "view=functions&metric=cpu");
	await page.locator("table[aria-label=Functions] tbody tr", { hasText: "hot" }).first().click();
	await page.click(".chosen button:text-is('Assembly')");
	await page.waitForSelector("table[aria-label='Instructions of hot']");
	const rows = await page.locator("table[aria-label='Instructions of hot'] tbody tr").evaluateAll((list) => list.map((tr) => [...tr.cells].map((td) => td.textContent.trim())));
	const own = report.functions.filter((f) => ["hot", "term"].includes(f.name)).reduce((sum, f) => sum + f.self_s, 0);
	const whole = report.time.python_s + report.time.native_s + report.time.system_s + report.time.gc_s;
	same(await page.locator("nav.files [aria-current=true] small").textContent(), own, "the time of hot");
	const added = rows.reduce((sum, r) => sum + (r[1] ? number(r[1]) : 0), 0);
	check(Math.abs(added - own) < 0.01 * own, `the instructions add up to ${added}, the report says ${own}`);
	for (const [share, time] of rows.filter((r) => r[1]))
		check(Math.abs(number(share) / 100 - number(time) / whole) < 0.002, `${time} is not ${share} of ${whole} s`);
	const lines = rows.map((r) => r[5]);
	check(lines.some((l) => /hot\.c:12 .*s \+= term/.test(l)) && lines.some((l) => /hot\.c:5 in term, inlined return x/.test(l)), `no source beside it: ${lines.filter(Boolean).join(" | ")}`);
	const hottest = page.locator("table[aria-label='Instructions of hot'] tr.hot").first();
	check(await hottest.isVisible(), "no instruction is marked as hot");
	await page.fill(".search", "no such instruction");
	await page.waitForSelector(".assembly-head .found:has-text('no instruction matches')");
	await page.fill(".search", "^ret");
	await page.waitForSelector("tr.match");
	await page.goBack();
	for (const width of [800, 1280, 3840]) {
		await page.setViewportSize({ width, height: 800 });
		const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
		check(over <= 0, `Assembly is ${over} pixels too wide at ${width}`);
	}
	await shot(page, "assembly");
}

const modes = {
	assembly: (page) => checkAssembly(page, JSON.parse(readFileSync(facts, "utf8"))),
	hands: checkHands,
	tabs: checkSecondTab,
	verdicts: checkVerdicts,
	workbench: checkWorkbench,
	memory: async (page) => {
		const report = JSON.parse(readFileSync(facts, "utf8"));
		await checkMemory(page, report);
		await checkMemoryOfRange(page, report);
	},
	trace: checkTrace,
	views: async (page) => {
		const report = JSON.parse(readFileSync(facts, "utf8"));
		await page.setViewportSize({ width: 1280, height: 720 });
		await checkSummary(page, report);
		await checkFlame(page, report);
		await checkTimeline(page, report);
		await checkRest(page, report);
	},
	diff: checkDiff,
	difftime: checkDiffOverTime,
	hostile: checkHostile,
	scale: checkScale,
	live: checkLive,
	watch: checkWatch,
};
if (!modes[mode] || !target || (["views", "memory", "assembly"].includes(mode) && !facts)) {
	console.error("usage: node check_viewer.mjs views PAGE REPORT.json | memory PAGE REPORT.json | diff PAGE | hostile PAGE | scale PAGE | trace PAGE | live ADDRESS | watch ADDRESS  [--shots DIR]");
	process.exit(2);
}
await withPage(async (page, problems) => {
	// What the policy refuses is reported on the console; that test provokes it.
	page.on("console", (m) => {
		if (m.type() === "error" && !(mode === "hostile" && /Content Security Policy|Refused to|ERR_/.test(m.text())))
			problems.push(`console: ${m.text()}`);
	});
	page.setDefaultTimeout(60000); // nothing is judged by it: a busy machine may take that long
	await modes[mode](page);
	check(problems.length === 0, problems.join("; "));
});
if (!process.exitCode)
	console.log(`${target}: ${mode} as it should be`);
