// SPDX-License-Identifier: Apache-2.0
// Compares every figure and percentage that the page shows with what the program says of the same capture.
//   node check_figures.mjs PAGE REPORT.json [TREE]     all views against `fathom report --json`, and the tree against `report --tree`
//   node check_figures.mjs --diff PAGE DIFF.json [BASE_TREE NEW_TREE]
//                                                      the comparison against `fathom diff --json`, its tree against those of both
//   node check_figures.mjs --zones PAGE BASE.json NEW.json
//                                                      zones of two captures against `report --json` of each, chosen, sorted and searched
// A figure may differ by half a unit of its last digit, no more. Prints how many were compared.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { check, withPage } from "./browser.mjs";

const args = process.argv.slice(2);
const isDiff = args[0] === "--diff";
const isZones = args[0] === "--zones";
const [target, facts, treeText, newTreeText] = isDiff || isZones ? args.slice(1) : args;
const url = /^https?:/.test(target ?? "") ? target : pathToFileURL(resolve(target ?? "")).href;
const said = JSON.parse(readFileSync(facts, "utf8"));
const UNITS = { ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, h: 3600, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, "%": 0.01, "×": 1, "": 1 };
const SOURCE_FILES = 8;
let compared = 0;

// What a text says and how closely: "46.8%" is 0.468 to 0.0005.
function read(text) {
	const match = /^[^\d+−-]*([+−-]?)([\d,]+(?:\.(\d+))?)\s*(ns|µs|ms|s|h|B|kB|MB|GB|TB|%|×)?/.exec(text ?? "");
	if (!match)
		return null;
	const unit = UNITS[match[4] ?? ""];
	return {
		value: (match[1] === "−" || match[1] === "-" ? -1 : 1) * Number(match[2].replaceAll(",", "")) * unit,
		half: 0.5 * 10 ** -(match[3]?.length ?? 0) * unit,
	};
}

const fits = (text, real) => {
	const shown = read(text);
	// A whole share is written from 99.95 % on, and floating point has its own last digit.
	return shown !== null && Math.abs(shown.value - real) <= shown.half * 1.001 + Math.abs(real) * 1e-9;
};

function same(text, real, what) {
	compared++;
	check(fits(text, real), `${what}: the page says ${(text ?? "nothing").trim()}, the program ${real}`);
}

// Empty where it is nothing.
function sameOrEmpty(text, real, what) {
	if ((text ?? "").trim() === "")
		check(!(real > 0), `${what}: the page says nothing, the program ${real}`);
	else
		same(text, real, what);
}

// Two frames: what was asked for has been drawn.
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

// Figures are of CPU time unless a place says else, whatever stands out.
async function open(page, place) {
	const hash = place.includes("metric=") ? place : `${place}&metric=cpu`;
	if (!url.startsWith("http"))
		await page.goto("about:blank");
	if (!url.startsWith("http") || !page.url().startsWith("http"))
		await page.goto(url.startsWith("http") ? url : `${url}#${hash}`);
	if (url.startsWith("http"))
		await page.evaluate((h) => { location.hash = h; }, hash);
	await page.waitForSelector(".view, [role=alert]", { timeout: 60000 });
	await settle(page);
}

// The rows of a table: for each cell its text without what is small, and the small.
const rowsOf = (page, label) => page.evaluate((name) => {
	const table = document.querySelector(`table[aria-label="${name}"]`);
	if (!table)
		return null;
	const plain = (element) => {
		const copy = element.cloneNode(true);
		for (const small of copy.querySelectorAll("small, .arrow, code, .hidden"))
			small.remove();
		return copy.textContent.trim();
	};
	const heads = [...table.querySelectorAll("thead th")].map(plain);
	return [...table.querySelectorAll("tbody tr:not(.pad)")].map((tr) => Object.fromEntries([...tr.children].map((td, i) => [
		heads[i] ?? String(i), { text: plain(td), small: td.querySelector("small")?.textContent ?? "" },
	])));
}, label);

const sampledOf = (t) => t.python_s + t.native_s + t.system_s + t.gc_s;
const waitOf = (t) => t.wait_s + t.gil_wait_s;
const shortPath = (path) => path.split("/").slice(-2).join("/");
const KINDS = [["Python", "python_s"], ["native", "native_s"], ["system", "system_s"], ["garbage collector", "gc_s"], ["waiting for the GIL", "gil_wait_s"], ["waiting", "wait_s"], ["no CPU was free", "no_cpu_s"]];

async function legend(page, label, from, whole) {
	const items = await page.locator(`section[aria-label="${label}"] .legend li`).evaluateAll((list) => list.map((li) => [
		li.childNodes[1].textContent.trim() || li.textContent.trim(), li.querySelector("b")?.textContent, li.querySelector("small")?.textContent, li.textContent.trim(),
	]));
	const shown = new Set();
	for (const [, value, share, text] of items) {
		const kind = KINDS.filter(([name]) => text.startsWith(name)).sort((a, b) => b[0].length - a[0].length)[0];
		check(kind, `${label}: ${text} is no kind of time`);
		shown.add(kind[0]);
		same(value, from[kind[1]], `${label}, ${kind[0]}`);
		same(share, from[kind[1]] / whole, `${label}, ${kind[0]}, share`);
	}
	return shown;
}

async function checkTiles(page) {
	const r = said;
	const tiles = new Map(await page.locator('dl[aria-label="The whole run"] div').evaluateAll((list) => list.map((d) => [
		d.querySelector("dt").textContent, [d.querySelector("dd").textContent, d.querySelector("small")?.textContent ?? ""],
	])));
	const expected = [
		["Wall time", r.wall_s], ["CPU time", r.cpu_s], ["No CPU was free", r.no_cpu_s], ["Peak of the heap", r.memory?.peak_bytes],
		["Most memory (RSS)", r.max_rss_bytes], ["Allocated in all", r.memory?.alloc_bytes], ["Samples", r.samples - r.wait_samples], ["The profiler's own cost", r.overhead_s],
	];
	for (const [name, real] of expected)
		if (real > 0)
			same(tiles.get(name)?.[0], real, `tile ${name}`);
	if (r.no_cpu_s > 0)
		same(tiles.get("No CPU was free")[1], r.no_cpu_s / r.wall_s, "tile No CPU was free, share");
	if (r.processes.length > 1 && r.max_rss_bytes > 0)
		check(/^the first process's/.test(tiles.get("Most memory (RSS)")[1]), "the RSS of one of several processes has no word whose it is");
	if (r.memory?.peak_bytes > r.max_rss_bytes && r.max_rss_bytes > 0)
		check(/above the RSS/.test(tiles.get("Peak of the heap")[1]), "a heap above the RSS has no word why");
}

const mainThread = () => said.threads.find((t) => t.tid === said.processes[0]?.pid && t.pid === t.tid);

async function checkWhereTime(page) {
	const main = mainThread();
	if (main) {
		const whole = Math.max(main.wall_s, sampledOf(main) + waitOf(main) + main.no_cpu_s);
		await legend(page, "Where the time went", main, whole);
		same(await page.textContent('section[aria-label="Where the time went"] h2'), whole, "the main thread's clock");
	}
	if (await page.locator('section[aria-label="CPU time of all threads"]').count()) {
		await legend(page, "CPU time of all threads", said.time, sampledOf(said.time));
		const waited = await page.locator(".waited").allTextContents();
		if (waited.length > 0)
			same(/Threads waited (.*?) in sum/.exec(waited[0])[1], waitOf(said.time), "waiting of all threads");
	}
}

// Lines by file and number; several functions may share one.
function linesAt(name, line, fn) {
	return said.lines.filter((l) => shortPath(l.file) === name && l.line === line && (fn === undefined || l.function === fn));
}
const sum = (rows, f) => rows.reduce((total, r) => total + f(r), 0);

function sameLine(row, rows, what, whole) {
	const cpu = sum(rows, (l) => l.total_s);
	if (row.CPU?.small) {
		same(row.CPU.text, cpu, `${what}, CPU`);
		same(row.CPU.small, cpu / whole, `${what}, share of CPU`);
	} else if (row.CPU)
		sameOrEmpty(row.CPU.text, cpu / whole, `${what}, share of CPU`);
	const columns = {
		Python: (l) => l.python_s, Native: (l) => l.native_s, System: (l) => l.system_s, Waiting: waitOf,
		Allocated: (l) => l.alloc_bytes, Copied: (l) => l.copy_bytes, Blocks: (l) => l.allocs, Kept: (l) => l.live_bytes,
	};
	for (const [name, f] of Object.entries(columns))
		if (row[name])
			sameOrEmpty(row[name].text, sum(rows, f), `${what}, ${name}`);
	if (row.Peak)
		sameOrEmpty(row.Peak.text, Math.max(...rows.map((l) => l.peak_bytes)), `${what}, Peak`);
	// What is held on average is what comes in a second times how long it stays.
	if (row.Lived?.text && rows.length === 1 && rows[0].avg_bytes > 1000) {
		const [shown, real] = [read(row.Lived.text), (rows[0].avg_bytes / rows[0].alloc_bytes) * said.wall_s];
		compared++;
		check(Math.abs(shown.value - real) <= shown.half + 0.03 * real, `${what}: a byte lived ${row.Lived.text}, by its average ${real}`);
	}
	if (row["±"] && rows.length === 1)
		sameOrEmpty(row["±"].text, rows[0].plus_minus_s, `${what}, ±`);
}

async function checkTopLines(page, whole) {
	const orders = page.locator('[aria-label="Order of the lines"] button');
	for (let i = 0; i < Math.max(1, await orders.count()); i++) {
		if (await orders.count())
			await orders.nth(i).click();
		for (const row of await rowsOf(page, "Hottest lines") ?? []) {
			const [, name, line] = /^(.*):(\d+)$/.exec(row.Line.text);
			const rows = linesAt(name, Number(line), row.Line.small);
			check(rows.length > 0, `no line of the report is ${row.Line.text}`);
			if (rows.length)
				sameLine(row, rows, `line ${row.Line.text}`, whole);
		}
	}
}

// By name and place; where several functions look the same, one of them has to fit.
// Two of one name and file, as generator expressions are, differ in their lines.
function functionsLike(name, place) {
	const line = /:(\d+)$/.exec(place);
	const isThere = (f) => !line || f.kind !== "python" || f.line === Number(line[1]);
	return said.functions.filter((f) => f.name === name && isThere(f) && (place === "" || place.startsWith(shortPath(f.file)) || shortPath(f.file).startsWith(place)));
}
const someFits = (candidates, tests) => candidates.some((f) => tests.every(([text, real]) => (text ?? "") === "" ? !(real(f) > 0) : fits(text, real(f))));

function sameFunction(what, candidates, tests) {
	compared += tests.length;
	check(candidates.length > 0, `${what} is no function of the report`);
	const first = candidates[0] ?? {};
	check(!candidates.length || someFits(candidates, tests), `${what}: the page says ${tests.map(([text]) => text || "nothing").join(", ")}, the program ${tests.map(([, real]) => real(first)).join(", ")}`);
}

async function checkTopFunctions(page, whole) {
	for (const row of await rowsOf(page, "Your functions") ?? [])
		sameFunction(`your ${row[0].text}`, functionsLike(row[0].text, row[0].small), [[row[1].text, (f) => f.total_s], [row[2].text, (f) => f.total_s / whole]]);
	for (const row of await rowsOf(page, "All functions") ?? [])
		sameFunction(`own time of ${row[0].text}`, functionsLike(row[0].text, row[0].small), [
			[row[1].text, (f) => f.self_s], [row[2].text.replace("±", ""), (f) => row[2].text.startsWith("±") ? f.self_plus_minus_s : f.self_s / whole],
		]);
	for (const row of await rowsOf(page, "Threads") ?? []) {
		const tid = Number(/(\d+)\)?$/.exec(row[0].text)[1]);
		const candidates = said.threads.filter((t) => t.tid === tid);
		compared += 2;
		check(candidates.some((t) => fits(row[1].text, t.cpu_s) && fits(row[2].text, t.wall_s)), `thread ${row[0].text}: ${row[1].text} ${row[2].text}`);
	}
}

// Functions by their place, for the page calls the bodies of modules by the module; packages and imports by their name.
const placeKey = (place) => place.split("/").at(-1);

// The rows of `fathom report --tree`: the way to each, CPU seconds, share, waiting; what a row did itself is of the row around it.
function rowsOfTree(text) {
	const rows = [];
	const way = [];
	const hasWaiting = /^ +CPU time +waiting /m.test(text);
	const shape = new RegExp(`^ *([\\d.]+)% +([\\d.]+) s ${hasWaiting ? "(.{12})" : "()"}((?:[| ]  )*(?:\\|- |\`- ))(.+)$`);
	for (const line of text.split("\n")) {
		const match = shape.exec(line);
		if (!match)
			continue;
		const [, share, cpu, , branch, name] = match;
		const wait = match[3]?.replace("s", "").trim();
		const depth = branch.length / 3;
		const isOwn = name === "(its own lines)" || name === "(itself)";
		way.length = depth - 1;
		const place = / \((\S+?)\)$/.exec(name);
		way.push(name.startsWith("(imports)") ? "(imports)" : name.startsWith("(Python") ? name : place ? placeKey(place[1]) : name);
		rows.push({ path: (isOwn ? way.slice(0, -1) : way).join(" > "), isOwn, share, cpu, wait: wait ?? "" });
	}
	return rows;
}

// By the way to each: the rows that the page shows when all are open.
async function rowsOfPageTree(page) {
	await open(page, "view=tree");
	await page.click("button:text-is('Open all')");
	await settle(page);
	const rows = await page.locator("table[aria-label='Call tree'] tbody tr:not(.rest)").evaluateAll((list) => {
		const heads = [...document.querySelectorAll("table[aria-label='Call tree'] thead th")].map((th) => th.textContent.replace(/[▾▴]/, "").trim());
		return list.map((tr) => {
			const cell = (name) => tr.children[heads.indexOf(name)];
			return {
				depth: Number(tr.getAttribute("aria-level")), name: tr.querySelector("th b").textContent, place: tr.querySelector("th .place, th small")?.textContent ?? "",
				total: (cell("Total") ?? cell("After")).querySelector(".meter > span").childNodes[0].textContent,
				share: (cell("Total") ?? cell("After")).querySelector("small").textContent, before: cell("Before")?.textContent ?? "", change: cell("Change")?.textContent ?? "",
				plusMinus: cell("±")?.textContent.replace("±", "") ?? "", own: cell("Own").textContent, wait: cell("Waiting")?.textContent ?? "",
			};
		});
	});
	const way = [];
	const known = new Map();
	for (const row of rows) {
		way.length = row.depth - 1;
		way.push(/:\d+$|\.\w+$/.test(row.place) ? placeKey(row.place) : row.name);
		const path = way.join(" > ");
		known.set(path, [...(known.get(path) ?? []), row]);
	}
	return known;
}

// Both round: they agree when they may be the same number.
const agree = (a, b) => Math.abs(a.value - b.value) <= (a.half + b.half) * 1.001;

async function checkTree(page) {
	const known = await rowsOfPageTree(page);
	const said = rowsOfTree(readFileSync(treeText, "utf8"));
	check(said.length > 0, "the terminal's tree has no rows");
	for (const { path, isOwn, share, cpu, wait } of said) {
		const found = known.get(path) ?? [];
		compared += isOwn ? 1 : 2 + Number(wait !== "");
		const isSame = (row) => isOwn
			? agree(read(row.own), read(`${cpu} s`))
			: agree(read(row.total), read(`${cpu} s`)) && agree(read(row.share), read(`${share}%`)) && (wait === "" || agree(read(row.wait), read(`${wait.trim()} s`)));
		check(found.some(isSame), `${path}: the terminal's tree says ${share}% ${cpu} s ${wait}, the page ${found.map((r) => `${r.share} ${r.total} own ${r.own} ${r.wait}`).join("; ") || "nothing"}`);
	}
	// Upside down the first rows are all of it, each once.
	await open(page, "view=tree&invert=1&open=*");
	const ends = await page.locator("table[aria-label='Call tree'] tbody tr[aria-level='1'] td:first-child").evaluateAll((list) => list.map((td) => td.querySelector(".meter > span").childNodes[0].textContent));
	const all = read((await page.textContent(".whole")).replace("100% =", ""));
	const summed = ends.map(read).reduce((a, b) => ({ value: a.value + b.value, half: a.half + b.half }));
	compared++;
	check(agree(summed, all), `upside down the rows sum up to ${summed.value}, the whole is ${all.value}`);
}

async function showAll(page) {
	while (await page.locator("button.more").count())
		await page.click("button.more");
}

const like = (name, place) => said.calls?.functions.filter((f) => f.kind === "python" && f.name === name && `${shortPath(f.file)}:${f.line}` === place) ?? [];

async function checkFunctions(page, whole) {
	await open(page, "view=functions&plumbing=1");
	await showAll(page);
	const rows = await rowsOf(page, "Functions");
	check(rows?.length > 0, "there are no functions");
	for (const row of rows ?? []) {
		const { text: name, small: place } = row.Function;
		const what = `function ${name} ${place}`;
		const calls = like(name, place);
		const isTimed = functionsLike(name, place).length > 0;
		if (isTimed || !calls.length)
			sameFunction(what, functionsLike(name, place), [
				[row.Self.text, (f) => f.self_s], [row.Self.small, (f) => f.self_s / whole], [row.Total.text, (f) => f.total_s], [row.Total.small, (f) => f.total_s / whole],
				...(row["±"] ? [[row["±"].text, (f) => f.self_plus_minus_s]] : []),
				...(row.Allocated ? [[row.Allocated.text, (f) => f.alloc_bytes], [row.Peak.text, (f) => f.peak_bytes], [row.Kept.text, (f) => f.live_bytes]] : []),
			]);
		if (calls.length && row.Calls?.text)
			sameFunction(`calls of ${name} ${place}`, calls, [
				[row.Calls.text, (f) => f.calls], [row["Own, traced"].text, (f) => f.own_s], [row["Total, traced"].text, (f) => f.total_s],
				[row.Mean.text, (f) => f.mean_s], [row.Fastest.text, (f) => f.min_s], [row.Slowest.text, (f) => f.max_s],
			]);
	}
}

// Zones and calls against the report's, whose percentiles they share.
async function checkZones(page) {
	if (!await page.locator("nav[aria-label=Views] a:has-text('Zones')").count())
		return;
	await open(page, "view=zones&calls=1");
	await showAll(page);
	const rows = await rowsOf(page, "Zones");
	check(rows?.length > 0, "there are no zones");
	for (const row of rows ?? []) {
		const { text: name, small: place } = row.Zone;
		const isAt = (f) => f.kind === "python" ? `${shortPath(f.file)}:${f.line}` === place : true;
		const candidates = said.calls.functions.filter((f) => f.name === name && isAt(f));
		if (candidates.length)
			sameFunction(`zone ${name} ${place}`, candidates, [
				[row.Mean.text, (f) => f.mean_s], [row.Fastest.text, (f) => f.min_s], [row.Slowest.text, (f) => f.max_s],
				[row.P50.text, (f) => f.p50_s], [row.P99.text, (f) => f.p99_s], ...(candidates.every((f) => f.kind === "zone") ? [[row.Count.text, (f) => f.calls]] : []),
			]);
	}
	if (!(rows?.length > 1))
		return;
	// Two of them beside each other say what the table says of each.
	await page.click("table[aria-label=Zones] tbody tr >> nth=0");
	await page.selectOption("select[aria-label='Compare with']", { index: 1 });
	await settle(page);
	const [names, ...figures] = await page.locator("table[aria-label='Two zones'] tr").evaluateAll((list) => list.map((tr) => [...tr.children].map((td) => td.textContent)));
	for (const column of [1, 2])
		for (const figure of figures.filter((f) => ["Count", "Sum", "Mean", "P50", "P99", "Slowest"].includes(f[0]))) {
			compared++;
			check(rows.some((r) => r.Zone.text === names[column] && r[figure[0]].text === figure[column]), `two zones: ${figure[0]} of ${names[column]} is ${figure[column]}`);
		}
}

async function checkSource(page, whole) {
	if (!await page.locator("nav[aria-label=Views] a:has-text('Source')").count())
		return;
	await page.setViewportSize({ width: 1600, height: 3000 });
	await open(page, "view=source");
	const files = page.locator("nav.files button");
	for (let i = 0; i < Math.min(SOURCE_FILES, await files.count()); i++) {
		await files.nth(i).click();
		await page.waitForSelector(".code table");
		const title = await files.nth(i).getAttribute("title");
		const figures = await files.nth(i).locator("small").textContent();
		const own = said.lines.filter((l) => l.file === title);
		const cpu = sum(own, (l) => l.total_s);
		if (cpu > 0) {
			const [, seconds, share] = /^(\S+ \S+) (\S+)$/.exec(figures);
			same(seconds, cpu, `file ${title}`);
			same(share, cpu / whole, `file ${title}, share`);
		}
		const label = await page.getAttribute(".code table", "aria-label");
		for (const row of await rowsOf(page, label) ?? []) {
			const rows = own.filter((l) => l.line === Number(row.Line.text));
			if (rows.length)
				sameLine(row, rows, `${title}:${row.Line.text}`, whole);
		}
	}
	await page.setViewportSize({ width: 1280, height: 800 });
}

async function checkGraph(page, whole) {
	await open(page, "view=graph&prune=0.1");
	const boxes = await page.locator("svg.graph .box").evaluateAll((list) => list.map((g) => [g.querySelector("title").textContent, g.querySelector("text:last-child").textContent]));
	for (const [title, text] of boxes) {
		const [, total, self] = /^(\S+) \(self (\S+)\)$/.exec(text);
		const candidates = said.functions.filter((f) => title.startsWith(`${f.name} `));
		sameFunction(`box ${title}`, candidates, [[total, (f) => f.total_s / whole], [self, (f) => f.self_s / whole]]);
	}
}

// The whole of each metric, and the flame graph's root.
async function checkWholes(page) {
	const t = said.time;
	const wholes = {
		cpu: sampledOf(t), both: sampledOf(t) + waitOf(t), wait: waitOf(t), gil: t.gil_wait_s, python: t.python_s, native: t.native_s, system: t.system_s, gc: t.gc_s,
		alloc: said.memory?.alloc_bytes, peak: said.memory?.peak_bytes,
	};
	await open(page, "view=flame");
	const metrics = await page.locator("select[aria-label=Metric] option").evaluateAll((list) => list.map((o) => o.value));
	for (const metric of metrics) {
		await page.selectOption("select[aria-label=Metric]", metric);
		await page.waitForTimeout(50);
		if (wholes[metric] === undefined)
			continue;
		same((await page.textContent(".whole")).replace("100% =", ""), wholes[metric], `100% of ${metric}`);
		same(/: (\S+ \S+) in/.exec(await page.getAttribute("canvas", "aria-label"))?.[1], wholes[metric], `the root under ${metric}`);
	}
}

// Of one frame after the other, share and amount agree with the whole.
async function checkFrames(page, whole) {
	await open(page, "view=flame");
	const box = await page.locator("canvas").boundingBox();
	for (let row = 0; row < 12; row++)
		for (const x of [0.1, 0.4, 0.8]) {
			await page.mouse.move(box.x + box.width * x, box.y + 9 + 19 * row);
			await page.waitForTimeout(20);
			const figures = await page.locator(".details dl dd").evaluateAll((list) => list.map((dd) => [dd.childNodes[0].textContent, dd.querySelector("small").textContent]));
			for (const [value, share] of figures) {
				const [a, s] = [read(value), read(share)];
				compared++;
				check(Math.abs(a.value / whole - s.value) <= s.half * 1.01 + a.half / whole, `a frame of ${value} is ${share} of ${whole} s`);
			}
		}
}

async function checkThread(page) {
	if (!await page.locator("#thread-picker").count())
		return;
	const options = await page.locator("#thread-picker option").evaluateAll((list) => list.map((o) => [o.value, o.textContent]));
	for (const [value, name] of options.slice(1, 4)) {
		const tid = Number(/(\d+)\)? · /.exec(name)[1]);
		const thread = said.threads.find((t) => t.tid === tid);
		await open(page, `view=summary&thread=${value}`);
		if (!thread)
			continue;
		const tiles = new Map(await page.locator('dl[aria-label="What the filter leaves"] div').evaluateAll((list) => list.map((d) => [d.querySelector("dt").textContent, d.querySelector("dd").textContent])));
		same(tiles.get("CPU time"), sampledOf(thread), `CPU time of ${name}`);
		sameOrEmpty(tiles.get("Waiting"), waitOf(thread), `waiting of ${name}`);
		await checkTiles(page); // the run's own stay what they are
		// A thread that only waited has no whole that shares could be of.
		const whole = await page.locator(".whole").allTextContents();
		if (whole.length)
			same(whole[0].replace("100% =", ""), sampledOf(thread), `100% of ${name}`);
		else
			check(sampledOf(thread) === 0, `${name} has CPU time and no 100%`);
	}
}

async function checkReport(page) {
	const whole = sampledOf(said.time);
	await open(page, "view=summary");
	await checkTiles(page);
	await checkWhereTime(page);
	await checkTopLines(page, whole);
	await checkTopFunctions(page, whole);
	await checkFunctions(page, whole);
	await checkZones(page);
	await checkSource(page, whole);
	await checkGraph(page, whole);
	await checkWholes(page);
	await checkFrames(page, whole);
	await checkThread(page);
	if (treeText)
		await checkTree(page);
}

function sameChange(row, change, what) {
	same(row.Before.text, change.base, `${what}, before`);
	same(row.After.text, change.new, `${what}, after`);
	same(row.Change.text, change.change, `${what}, change`);
	if (row["±"])
		sameOrEmpty(row["±"].text, change.change_plus_minus, `${what}, ±`);
	const size = row.Size?.text ?? row["4"]?.text ?? "";
	if (change.base > 0 && change.new < 10 * change.base)
		same(size, change.change / change.base, `${what}, size`);
	if (row["More than noise"])
		check((row["More than noise"].text === "yes") === change.significant, `${what}: more than noise is ${row["More than noise"].text}`);
}

// Before and after in the tree are what the terminal's trees of both captures say.
async function checkComparedTree(page) {
	const known = await rowsOfPageTree(page);
	for (const [text, column] of [[treeText, "before"], [newTreeText, "total"]])
		for (const { path, isOwn, cpu } of rowsOfTree(readFileSync(text, "utf8"))) {
			if (isOwn)
				continue;
			compared++;
			const found = known.get(path) ?? [];
			check(found.some((row) => agree(read(row[column]), read(`${cpu} s`))), `${path}, ${column}: the terminal's tree says ${cpu} s, the page ${found.map((r) => r[column]).join("; ") || "nothing"}`);
		}
	let sure = 0;
	for (const [path, rows] of known)
		for (const row of rows) {
			// A row that has all of a function's time is as sure as the function. Its time is rounded, so all of it is known to a per cent.
			const found = said.functions.filter((f) => f.name === row.name && placeKey(row.place).startsWith(f.file));
			const isWhole = ({ seconds: s }) => [[row.before, s.base], [row.total, s.new]].every(([text, real]) => Math.abs(read(text).value - real) <= read(text).half * 1.001);
			if (found.length === 1 && isWhole(found[0])) {
				const [shown, real] = [read(row.plusMinus), found[0].seconds.change_plus_minus];
				sure++;
				compared++;
				check(Math.abs(shown.value - real) <= shown.half + 0.01 * real, `${path}: ± ${row.plusMinus}, and fathom diff says ${real}`);
			}
			const [before, after, change] = [row.before, row.total, row.change].map(read);
			compared++;
			check(Math.abs(after.value - before.value - change.value) <= (before.half + after.half + change.half) * 1.001, `${path}: ${row.before} and ${row.total} make ${row.change}`);
		}
	check(sure > 0, "no row of the tree has all of a function's time");
}

// What was compared stands beside functions and lines as in the lists of changes.
async function checkCompared(page) {
	await open(page, "view=functions&plumbing=1");
	await showAll(page);
	let judged = 0;
	for (const row of await rowsOf(page, "Functions") ?? []) {
		const { text: name, small: place } = row.Function;
		const found = said.functions.filter((f) => f.name === name && placeKey(place).startsWith(f.file));
		if (found.length !== 1 || !row["±"].text)
			continue;
		judged++;
		const { seconds } = found[0];
		same(row.Before.text, seconds.base, `function ${name}, before`);
		same(row.After.text, seconds.new, `function ${name}, after`);
		same(row.Change.text, seconds.change, `function ${name}, change`);
		same(row["±"].text.replace("±", ""), seconds.change_plus_minus, `function ${name}, ±`);
	}
	check(judged > 0, "no function says what it was before");
	await page.setViewportSize({ width: 1600, height: 3000 });
	await open(page, "view=source");
	const rows = await rowsOf(page, await page.getAttribute(".code table", "aria-label")) ?? [];
	const file = placeKey((await page.getAttribute(".code table", "aria-label")).replace("Lines of ", ""));
	let lines = 0;
	for (const row of rows.filter((r) => r.Change?.text)) {
		// Where the text of a line changed, the one that is gone has the same number.
		const found = said.lines.filter((l) => l.file === file && l.line === Number(row.Line.text)).sort((a, b) => Number(b.seconds.new > 0) - Number(a.seconds.new > 0));
		check(found.length > 0, `line ${row.Line.text} of ${file} is not in fathom diff`);
		if (!found.length)
			continue;
		lines++;
		if (row.Before.small !== "not there") // its text is new
			same(row.Before.text, found[0].seconds.base, `line ${row.Line.text}, before`);
		same(row.Change.text, found[0].seconds.change, `line ${row.Line.text}, change`);
		same(row.Change.small.replace("±", ""), found[0].seconds.change_plus_minus, `line ${row.Line.text}, ±`);
	}
	check(lines > 0, "no line says what it was before");
	await page.setViewportSize({ width: 1280, height: 800 });
}

async function checkComparison(page) {
	await open(page, "");
	check(await page.locator(".view.diff").count() === 1, "a comparison does not open on what changed");
	for (const row of await rowsOf(page, "Totals")) {
		const key = { "Wall time": "wall_s", "CPU time": "cpu_s", "Most memory (RSS)": "max_rss_bytes" }[row[""]?.text ?? Object.values(row)[0].text];
		if (key)
			sameChange(row, said[key], key);
	}
	const lists = [["functions", "functions", "seconds"], ["lines", "lines", "seconds"], ["memory", "memory_functions", "peak_bytes"], ["memory_lines", "memory_lines", "peak_bytes"]];
	for (const [list, key, unit] of lists) {
		await open(page, `view=diff&rows=${list}&noise=1`);
		const isLine = list.includes("lines");
		if (said[key].length === 0)
			continue;
		await showAll(page);
		const rows = await rowsOf(page, "Changes");
		check(rows?.length === said[key].length, `${list}: ${rows?.length} rows for ${said[key].length}`);
		// Both sort by the size of the change; equal ones may stand in either order.
		for (const row of rows ?? []) {
			const name = (row.Function ?? row.Line).text;
			const small = (row.Function ?? row.Line).small;
			const place = (r) => `${r.file}${r.line > 0 ? `:${r.line}` : ""}`;
			const found = said[key].filter((r) => isLine ? place(r) === name && r.function === small : r.name === name && (place(r) === small || small === ""));
			check(found.length > 0, `${list}: ${name} ${small} is not in fathom diff`);
			const fitting = found.find((r) => fits(row.Before.text, r[unit].base) && fits(row.After.text, r[unit].new)) ?? found[0];
			if (fitting)
				sameChange(row, fitting[unit], `${list}, ${name}`);
		}
	}
}

// The zones of one capture as its report says, those of one kind, name and file as one.
function zonesOf(report) {
	const found = new Map();
	for (const f of report.calls.functions.filter((z) => z.spans > 0 || z.calls > 0))
		found.set(`${f.kind === "zone" ? "zone" : "call"} ${f.name}`, [...(found.get(`${f.kind === "zone" ? "zone" : "call"} ${f.name}`) ?? []), f]);
	return found;
}

const ZONE_FIGURES = [["Mean", "mean_s"], ["Fastest", "min_s"], ["P50", "p50_s"], ["P99", "p99_s"], ["Slowest", "max_s"]];

// A row of the figures of both: [name, before, after, change].
function checkBeside(rows, before, after, name) {
	const shown = new Map(rows.map(([figure, ...texts]) => [figure, texts]));
	for (const [figure, key] of [["Count", "calls"], ...ZONE_FIGURES])
		[before, after].forEach((f, side) => {
			if (f)
				same(shown.get(figure)[side], f[key], `${name}, ${figure}, ${side ? "after" : "before"}`);
			else
				check(shown.get(figure)[side] === "none", `${name} was not there, and has a ${figure} of ${shown.get(figure)[side]}`);
		});
	for (const [figure, key] of [["Count", "calls"], ...ZONE_FIGURES])
		if (before && after && after[key] === before[key])
			check(shown.get(figure)[2] === "", `${name}: ${figure} did not change and the page says ${shown.get(figure)[2]}`);
		else if (before && after && after[key] < 10 * before[key])
			same(shown.get(figure)[2], after[key] / before[key] - 1, `${name}, change of ${figure}`);
}

async function checkZonesOfTwo(page) {
	const [base, now] = [zonesOf(said), zonesOf(JSON.parse(readFileSync(treeText, "utf8")))];
	await open(page, "view=diff");
	await page.click("nav[aria-label=Views] a:has-text('Zones')");
	const names = [...new Set([...base.keys(), ...now.keys()])].filter((k) => k.startsWith("zone ")).map((k) => k.slice(5));
	const cellsOf = () => page.locator("table[aria-label=Zones] tbody tr").evaluateAll((list) => list.map((tr) => [...tr.cells].map((td) => [td.querySelector("b")?.textContent ?? "", td.querySelector("small")?.textContent ?? "", td.textContent.replace(/^.*→/, "").trim()])));
	const rows = await cellsOf();
	check(rows.length === names.length, `${rows.length} zones for ${names.length}: ${rows.map((r) => r[0][0])}`);
	for (const [[name], ...cells] of rows) {
		const [before, after] = [base, now].map((side) => side.get(`zone ${name}`)?.[0]);
		check(before || after, `${name} is a zone of neither`);
		// Count, Sum, P50, P99, each with its change.
		const keys = ["calls", "total_s", "p50_s", "p99_s"];
		keys.forEach((key, i) => {
			const [value, change] = [cells[2 * i], cells[2 * i + 1]];
			for (const [f, text] of [[before, value[1]], [after, value[2]]])
				if (f)
					same(text, f[key], `${name}, ${key}`);
				else
					check(text.startsWith("none"), `${name} was not there, and has a ${key} of ${text}`);
			const real = (after?.[key] ?? 0) - (before?.[key] ?? 0);
			if (real === 0)
				check(read(change[2]).value === 0, `${name}: ${key} did not change and the page says ${change[2]}`);
			else
				same(change[2], real, `${name}, change of ${key}`);
		});
	}
	// The largest change of the sum first; a click on a title sorts by it.
	const changed = (list, column) => list.map((r) => Math.abs(read(r[column][2]).value));
	const isFalling = (list) => list.every((v, i) => i === 0 || v <= list[i - 1] * 1.001);
	check(isFalling(changed(rows, 4)), `not by the change of the sum: ${changed(rows, 4)}`);
	for (const column of [2, 6, 8]) {
		await page.click(`table[aria-label=Zones] thead th:nth-child(${column + 1}) button`);
		check(isFalling(changed(await cellsOf(), column)), `column ${column} does not sort: ${changed(await cellsOf(), column)}`);
	}
	for (const name of names) {
		const row = page.locator("table[aria-label=Zones] tbody tr", { has: page.locator(`b:text-is("${name}")`) });
		await row.click();
		const [before, after] = [base, now].map((side) => side.get(`zone ${name}`)?.[0]);
		checkBeside(await page.locator("table[aria-label='Before and after'] tbody tr").evaluateAll((list) => list.map((tr) => [...tr.cells].map((td) => td.textContent))), before, after, name);
		const over = await page.locator(".chosen").evaluate((panel) => panel.scrollWidth - panel.clientWidth);
		check(over <= 0, `the panel of ${name} is ${over} pixels too wide`);
		// Every zone of both is in one bar of the axis that they share.
		const bars = (await page.locator(".shared-histogram title").allTextContents()).map((t) => /: before ([\d,]+), after ([\d,]+)$/.exec(t).slice(1).map((n) => Number(n.replaceAll(",", ""))));
		[before, after].forEach((f, side) => same(String(bars.reduce((sum, b) => sum + b[side], 0)), f?.calls ?? 0, `${name}: bars of ${side ? "after" : "before"}`));
		const ends = await page.locator(".shared .histogram-axis span").allTextContents();
		const [low, high] = [Math.min(...[before, after].filter(Boolean).map((f) => f.min_s)), Math.max(...[before, after].filter(Boolean).map((f) => f.max_s))];
		compared++;
		check(read(ends[0]).value - read(ends[0]).half <= low && read(ends[2]).value + read(ends[2]).half >= high, `${name}: the axis goes from ${ends[0]} to ${ends[2]}, zones from ${low} to ${high}`);
	}
	// The same zone of the new capture alone, and back.
	const [name] = names.filter((n) => base.has(`zone ${n}`) && now.has(`zone ${n}`));
	await page.locator("table[aria-label=Zones] tbody tr", { has: page.locator(`b:text-is("${name}")`) }).click();
	await page.click(".chosen button:text-is('After alone')");
	await page.waitForSelector(".zone-facts");
	check(await page.textContent(".chosen h2") === name, `${name} alone is ${await page.textContent(".chosen h2")}`);
	same(await page.textContent(".zone-facts div:has(dt:text-is('P50')) dd"), now.get(`zone ${name}`)[0].p50_s, `P50 of ${name} alone`);
	await page.click("label:has-text('Compare') input");
	await page.waitForSelector("table[aria-label='Before and after']");
	check(await page.textContent(".chosen h2") === name, `${name} compared again is ${await page.textContent(".chosen h2")}`);
	// What the search leaves, and functions beside zones.
	await page.fill(".search", `^${name}$`);
	await settle(page);
	check(await page.locator("table[aria-label=Zones] tbody tr").count() === 1, "the search leaves more than what it looks for");
	await page.fill(".search", "no such zone");
	await page.waitForSelector("p.nothing:has-text('No zone matches')");
	await page.fill(".search", "");
	await page.click("label:has-text('Calls, too') input");
	await settle(page);
	const calls = new Set([...base.keys(), ...now.keys()]).size - names.length;
	check((await page.locator("table[aria-label=Zones] tbody tr").count() > names.length) === calls > 0, `${calls} functions beside zones`);
}

await withPage(async (page, problems) => {
	page.on("console", (m) => m.type() === "error" && problems.push(`console: ${m.text()}`));
	page.setDefaultTimeout(30000);
	await (isZones ? checkZonesOfTwo(page) : isDiff ? checkComparison(page) : checkReport(page));
	if (isDiff) {
		await checkCompared(page);
		if (newTreeText)
			await checkComparedTree(page);
	}
	check(problems.length === 0, problems.join("; "));
});
console.log(`${target}: ${compared} figures compared`);
