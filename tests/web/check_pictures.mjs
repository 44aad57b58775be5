// SPDX-License-Identifier: Apache-2.0
// How the page looks: every view at four widths in both themes against approved pictures, nothing beyond the edge, and every text
// readable (4.5:1, large ones 3:1; WCAG 2.1, 1.4.3).
//   node check_pictures.mjs APPROVED PAGE DIFF_PAGE TWO_PAGE [--quick] [--shots DIR] [--approve]
// The pages are of captures made by arithmetic, so that they are the same everywhere: one, a comparison alone, and two with their
// comparison. Approved pictures are small: they tell that something is missing, moved or of another colour, and not a letter's shape. Other
// fonts make another page: then only the rest is checked, and the last line but one says so. --approve writes them anew; look at the large
// ones (--shots) first.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { check, withPage } from "./browser.mjs";

const args = process.argv.slice(2);
const isQuick = args.includes("--quick"); // both themes at one width, one by turns at the others
const isApproving = args.includes("--approve");
const at = args.indexOf("--shots");
const shots = at >= 0 ? args.splice(at, 2)[1] : null;
const [approved, ...pages] = args.filter((a) => a !== "--approve" && a !== "--quick");
const [single, compared, both] = pages.map((p) => pathToFileURL(resolve(p)).href);

const MIDDLE = [1280, 800];
const OTHERS = [[800, 600], [1920, 1080], [3840, 2160]];
const THEMES = ["light", "dark"];
const WIDTH = 96; // of approved pictures
const FAR = 10; // of 255: as much is another colour
const MOST_FAR = 0.002; // of the picture: so much may be of another colour
const EVERYWHERE = [["tree", "view=tree"], ["summary", "view=summary"], ["flame", "view=flame"], ["source", "view=source&line=11"]];
const SOMEWHERE = [
	["tree-up", "view=tree&invert=1"], ["timeline", "view=timeline"], ["functions", "view=functions&fn=1"], ["zones", "view=zones&calls=1&what=0"], ["graph", "view=graph"],
	["sandwich", "view=flame&mode=sandwich&fn=1"], ["order", "view=flame&mode=time"], ["filtered", "view=summary&steps=r1~3"], ["search", "view=functions&search=no-such-function"],
];
const OF_DIFF = [["diff", "view=diff&noise=1"], ["diff-tree", "view=tree"], ["diff-functions", "view=functions"], ["diff-source", "view=source"]];
const OF_TWO = [["diff-timeline", "view=timeline"], ["diff-zones", "view=zones&what=0"], ["assembly", "view=assembly"]];

const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

// Texts that do not stand out from what they stand on: "text: ratio colour on colour".
const unreadable = (page) => page.evaluate(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const known = new Map();
	const rgba = (colour) => {
		if (!known.has(colour)) {
			canvas.clearRect(0, 0, 1, 1);
			canvas.fillStyle = colour;
			canvas.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
			known.set(colour, [r, g, b, a / 255]);
		}
		return known.get(colour);
	};
	const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
	// What is painted behind an element, from the page up to it.
	const behind = (element) => {
		const layers = [];
		for (let e = element; e; e = e.parentElement) {
			const style = getComputedStyle(e);
			if (e instanceof SVGElement && !(e instanceof SVGSVGElement)) {
				const box = e.parentElement?.querySelector(":scope > rect, :scope > path");
				if (box && box !== e)
					layers.push(rgba(getComputedStyle(box).fill));
				continue;
			}
			layers.push(rgba(style.backgroundColor));
		}
		return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
	};
	const opacityOf = (element) => {
		let all = 1;
		for (let e = element; e; e = e.parentElement)
			all *= Number(getComputedStyle(e).opacity);
		return all;
	};
	const light = (rgb) => {
		const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const found = [];
	let n = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const texts = [];
	while (walker.nextNode())
		texts.push([walker.currentNode.parentElement, walker.currentNode.textContent.trim()]);
	for (const input of document.querySelectorAll("input[placeholder]"))
		texts.push([input, input.value || input.placeholder]);
	for (const [element, text] of texts) {
		if (!text || !element || element.closest(".hidden, script, style, title, :disabled") || element instanceof HTMLOptionElement)
			continue;
		const box = element.getBoundingClientRect();
		const style = getComputedStyle(element);
		if (!(box.width > 0 && box.height > 0) || style.visibility === "hidden" || box.bottom < 0 || box.top > innerHeight)
			continue;
		n++;
		const below = behind(element);
		const own = rgba(element instanceof SVGElement ? style.fill : style.color);
		const seen = over([own[0], own[1], own[2], own[3] * opacityOf(element)], below);
		const [a, b] = [light(seen), light(below)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const px = parseFloat(style.fontSize);
		const isLarge = px >= 24 || (px >= 18.66 && Number(style.fontWeight) >= 700);
		if (ratio < (isLarge ? 3 : 4.5))
			found.push(`"${text.slice(0, 30)}" (${element.className?.baseVal ?? element.className}): ${ratio.toFixed(2)}, ${seen.map(Math.round)} on ${below.map(Math.round)}`);
	}
	return { n, found: [...new Set(found)] };
});

// Texts that end at an edge without a word that there is more of them: no ellipsis, and nothing to scroll.
const cutOff = (page) => page.evaluate(() => {
	const found = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const element = walker.currentNode.parentElement;
		if (!walker.currentNode.textContent.trim() || element.closest(".hidden, script, style, title, svg, select"))
			continue;
		const range = document.createRange();
		range.selectNodeContents(walker.currentNode);
		const box = range.getBoundingClientRect();
		if (!(box.width > 0) || box.top > innerHeight || box.bottom < 0)
			continue;
		let block = element;
		while (getComputedStyle(block).display === "inline")
			block = block.parentElement;
		const own = getComputedStyle(block);
		if (own.overflowX === "hidden" && own.textOverflow === "ellipsis")
			continue;
		let clip = block;
		while (clip && getComputedStyle(clip).overflowX === "visible")
			clip = clip.parentElement;
		if (clip && getComputedStyle(clip).overflowX === "hidden" && box.right > clip.getBoundingClientRect().right + 1)
			found.push(`"${walker.currentNode.textContent.trim().slice(0, 40)}" (${element.className || block.className || block.tagName})`);
	}
	return [...new Set(found)];
});

// A picture as small as an approved one, as PNG; and its pixels.
const small = (page, png, height) => page.evaluate(async ([data, w, h]) => {
	const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
	const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }), { resizeWidth: w, resizeHeight: h, resizeQuality: "high" });
	const canvas = document.createElement("canvas");
	[canvas.width, canvas.height] = [w, h];
	const context = canvas.getContext("2d");
	context.drawImage(image, 0, 0);
	return { png: canvas.toDataURL("image/png").split(",")[1], pixels: [...context.getImageData(0, 0, w, h).data] };
}, [png.toString("base64"), WIDTH, height]);

// How wide a sentence is in the page's fonts: the same where these are the same.
const fontsOf = (page) => page.evaluate(() => {
	const context = document.createElement("canvas").getContext("2d");
	const widthIn = (font) => {
		context.font = font;
		return context.measureText("The quick brown fox, 0123456789").width.toFixed(2);
	};
	// At one size: the page's letters are larger on large screens.
	return [widthIn(`13px ${getComputedStyle(document.body).fontFamily}`), widthIn('13px ui-monospace, "DejaVu Sans Mono", Menlo, monospace')].join(" ");
});

// Where each view is looked at: in both themes at the middle width. The most used ones at every other, too, and of the rest each at one
// of these, so that every width and theme has its share of both pages.
function looksAt(views, isEverywhere) {
	const looks = [];
	views.forEach(([name, hash], i) => {
		for (const theme of THEMES)
			looks.push({ name, hash, size: MIDDLE, theme });
		OTHERS.forEach((size, k) => {
			const themes = isEverywhere && !isQuick ? THEMES : isEverywhere ? [THEMES[(i + k) % 2]] : i % 3 === k ? [THEMES[i % 2]] : [];
			looks.push(...themes.map((theme) => ({ name, hash, size, theme })));
		});
	});
	const key = (l) => `${l.size[0]} ${l.theme}`;
	return looks.sort((x, y) => (key(x) < key(y) ? -1 : Number(key(x) > key(y)))); // as few changes as can be
}

let [pictures, texts, worst] = [0, 0, 0];
const fontFile = join(approved, "fonts.txt");

async function look(page, name, hasFonts) {
	const { n, found } = await unreadable(page);
	texts += n;
	check(found.length === 0, `${name}: ${found.slice(0, 6).join("; ")}`);
	const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
	check(wide <= 0, `${name} is ${wide} pixels too wide`);
	const cut = await cutOff(page);
	check(cut.length === 0, `${name} cuts off ${cut.slice(0, 6).join("; ")}`);
	const png = await page.screenshot({ animations: "disabled", caret: "hide" });
	if (shots)
		writeFileSync(join(shots, `${name}.png`), png);
	const { width, height } = page.viewportSize();
	const now = await small(page, png, Math.round((WIDTH * height) / width));
	const file = join(approved, `${name}.png`);
	pictures++;
	if (isApproving) {
		writeFileSync(file, Buffer.from(now.png, "base64"));
		return;
	}
	if (!hasFonts)
		return;
	if (!existsSync(file)) {
		check(false, `${name} has no approved picture`);
		return;
	}
	const then = await small(page, readFileSync(file), Math.round((WIDTH * height) / width));
	let far = 0;
	for (let i = 0; i < now.pixels.length; i += 4)
		far += Number([0, 1, 2].some((k) => Math.abs(now.pixels[i + k] - then.pixels[i + k]) > FAR));
	const share = far / (now.pixels.length / 4);
	worst = Math.max(worst, share);
	check(share <= MOST_FAR, `${name}: ${(100 * share).toFixed(1)}% of the picture is not as approved`);
}

await withPage(async (page, problems) => {
	page.setDefaultTimeout(60000);
	mkdirSync(approved, { recursive: true });
	let hasFonts = true;
	for (const [url, looks] of [[single, [...looksAt(EVERYWHERE, true), ...looksAt(SOMEWHERE, false)]], [compared, looksAt(OF_DIFF, false)], [both, looksAt(OF_TWO, false)]]) {
		await page.goto(`${url}#view=summary`);
		await page.waitForSelector(".view");
		if (isApproving)
			writeFileSync(fontFile, `${await fontsOf(page)}\n`);
		hasFonts &&= existsSync(fontFile) && readFileSync(fontFile, "utf8").trim() === await fontsOf(page);
		for (const { name, hash, size: [width, height], theme } of looks) {
			await page.setViewportSize({ width, height });
			await page.emulateMedia({ colorScheme: theme });
			await page.evaluate((h) => { location.hash = h; }, hash);
			await settle(page);
			await page.waitForTimeout(120); // what is drawn after a resize
			await look(page, `${name}-${width}-${theme}`, hasFonts);
		}
	}
	check(problems.length === 0, problems.join("; "));
	if (!hasFonts && !isApproving)
		console.log("skipped: the pictures are of other fonts than this machine has, and were not compared");
});
console.log(`${pictures} pictures, ${texts} texts; at most ${(100 * worst).toFixed(2)}% of a picture differs`);
