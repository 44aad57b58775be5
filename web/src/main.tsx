// SPDX-License-Identifier: Apache-2.0
// Starts the page: loads the capture, keeps the state, shows the view.
import { Component, render, type ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Capture } from "./data/capture";
import { adopt } from "./data/adopt";
import { rangeOf, threadMask, type Step } from "./data/filter";
import { LiveFeed, type LiveNow } from "./data/live";
import { CPU, metricById, metricsOf } from "./data/metrics";
import { wholeOf } from "./data/weights";
import type { Theme } from "./draw/colour";
import { stats } from "./draw/stats";
import { Source } from "./state/source";
import type { State } from "./state/state";
import { Store } from "./state/store";
import { translate } from "./state/translate";
import { AppContext, type App, type MenuRequest } from "./ui/app_context";
import { BookmarkDialog } from "./ui/bookmarks";
import { Menu } from "./ui/menu";
import { Help } from "./ui/help";
import { useKeys } from "./ui/keys";
import { Shell } from "./ui/shell";
import { availableViews } from "./ui/view_list";
import { AssemblyView } from "./views/assembly";
import { DiffView } from "./views/diff";
import { FlameView } from "./views/flame";
import { FunctionsView } from "./views/functions";
import { GraphView } from "./views/graph";
import { LiveView } from "./views/live";
import { metricOf } from "./views/proofs";
import { SourceView } from "./views/source";
import { SummaryView } from "./views/summary";
import { TimelineView } from "./views/timeline";
import { TreeView } from "./views/tree";
import { ZonesView } from "./views/zones";
import "./style.css";

const VIEWS = {
	summary: SummaryView,
	tree: TreeView,
	flame: FlameView,
	timeline: TimelineView,
	source: SourceView,
	functions: FunctionsView,
	assembly: AssemblyView,
	zones: ZonesView,
	graph: GraphView,
	diff: DiffView,
	live: LiveView,
};
const THEME_KEY = "fathom-theme";
const SAID_MS = 4000;
const ASK_MS = 150; // a range that is still dragged asks nothing
const REST = 4; // of a capture that grows: times what reading it anew took

function remembered(): string | null {
	try {
		return localStorage.getItem(THEME_KEY);
	} catch {
		return null; // a page from a file may have no storage
	}
}

function useTheme(): [Theme, () => void] {
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const [system, setSystem] = useState<Theme>(dark.matches ? "dark" : "light");
	const [chosen, setChosen] = useState<string | null>(remembered);
	useEffect(() => {
		const change = () => setSystem(dark.matches ? "dark" : "light");
		dark.addEventListener("change", change);
		return () => dark.removeEventListener("change", change);
	}, []);
	const theme: Theme = chosen === "light" || chosen === "dark" ? chosen : system;
	document.documentElement.dataset.theme = theme;
	return [
		theme,
		() => {
			const next = theme === "light" ? "dark" : "light";
			setChosen(next);
			try {
				localStorage.setItem(THEME_KEY, next);
			} catch {
				// for this visit only, then
			}
		},
	];
}

// A view that fails shows one sentence and leaves the others usable.
class Fence extends Component<{ children: ComponentChildren; name: string }, { error: Error | null }> {
	override state = { error: null as Error | null };
	static override getDerivedStateFromError(error: Error) {
		return { error };
	}
	override componentDidCatch(error: Error) {
		console.error(error);
	}
	override render() {
		return this.state.error ? <p class="nothing">This view failed: {this.state.error.message}</p> : this.props.children;
	}
}

// The comparison is a capture of its own; these views are about it. It knows neither threads nor times: under a filter on these, tree,
// functions and zones are of the new capture alone.
function isAboutDiff(state: State, diff: Capture): boolean {
	const isLimited = state.thread >= 0 || state.steps.some((s) => s.kind !== "function" && s.kind !== "module");
	const isOfBoth =
		state.view === "tree" || state.view === "functions" || (state.view === "zones" && diff.durations.n > 0);
	const isBoth = isOfBoth && state.both && !isLimited;
	return state.view === "diff" || isBoth || (state.view === "flame" && state.colour === "change");
}

// What the flame graph's tree depends on: under another tree the number of the chosen frame means another one.
const OF_TREE = [
	...(["metric", "steps", "thread", "mode", "recursion", "mine", "fold"] as const),
	...(["plumbing", "byLine", "hidden", "focus", "colour"] as const),
];

// Views that show the samples themselves, whose nodes are those of the whole capture.
function showsSamples(state: State): boolean {
	return state.view === "timeline" || (state.view === "flame" && state.mode === "time");
}

// Where samples had to be merged to fit, a range counted from them is only near, and so is the memory of a range. The server counts
// it from the capture itself; until it has answered, and in a file, the near one is shown.
function useExact(source: Source, first: Capture, state: State, metric: string): Capture | null {
	const [answer, setAnswer] = useState<{ question: string; first: Capture; capture: Capture } | null>(null);
	const range = rangeOf(state.steps);
	const isNear = (first.head.limits?.samples_left_out ?? 0) > 0 || metricById(first, metric).column !== null;
	const isNeeded = source.isServed && range !== null && isNear;
	const mask = threadMask(first, stepsOf(first, state));
	const threads = mask ? Array.from(mask.keys()).filter((t) => mask[t]) : null;
	const question =
		isNeeded && range && threads?.length !== 0
			? `bundle?from_s=${range[0]}&to_s=${range[1]}${threads ? `&threads=${threads.join(",")}` : ""}`
			: "";
	useEffect(() => {
		if (!question) return undefined;
		let isCurrent = true;
		const ask = setTimeout(
			() =>
				source.loadFrom(question).then(
					(part) => isCurrent && setAnswer({ question, first, capture: adopt(part, first) }),
					() => undefined, // the near figures stay, and say so
				),
			ASK_MS,
		);
		return () => {
			isCurrent = false;
			clearTimeout(ask);
		};
	}, [question, first]);
	return answer && question && answer.question === question && answer.first === first ? answer.capture : null;
}

// The filter with the chosen thread, which stands for all steps on threads.
function stepsOf(capture: Capture, state: State): Step[] {
	const { thread } = state;
	if (thread < 0 || thread >= capture.threads.n) return state.steps;
	return [...state.steps.filter((s) => s.kind !== "thread"), { kind: "thread", keep: true, id: thread }];
}

interface PageProps {
	first: Capture;
	diff: Capture | null;
	store: Store;
	source: Source;
	live: LiveFeed | null;
	isLive: boolean;
	isStale: boolean;
}

function Page({ first, diff, store, source, live, isLive, isStale }: PageProps) {
	const [state, setState] = useState(store.state);
	const captureOf = (s: State) => (diff && isAboutDiff(s, diff) ? diff : first);
	const chosen = captureOf(state);
	const link = (patch: Partial<State>): State => {
		const next = { ...store.state, ...patch };
		if (!("frame" in patch) && OF_TREE.some((k) => next[k] !== store.state[k])) next.frame = -1;
		const [from, to] = [captureOf(store.state), captureOf(next)];
		return from === to ? next : translate(next, from, to);
	};
	const [menu, setMenu] = useState<MenuRequest | null>(null);
	const [isHelp, setHelp] = useState(false);
	const [bookmark, setBookmark] = useState<number | null>(null); // that is named; -1: a new one
	const [said, setSaid] = useState({ text: "", isQuiet: true });
	useEffect(() => {
		if (!said.text) return undefined;
		const end = setTimeout(() => setSaid({ text: "", isQuiet: true }), SAID_MS);
		return () => clearTimeout(end);
	}, [said]);
	const [theme, flipTheme] = useTheme();
	useEffect(() => {
		setState(store.state); // the address may have changed since the first drawing
		return store.subscribe(setState);
	}, []);
	// Two captures are compared by CPU time, and what stands out of one that grows may change at any time.
	const isSettled = diff === null && !isLive;
	const wanted = state.metric || (isSettled ? metricOf(first) : CPU.id);
	const exact = useExact(source, first, state, wanted);
	const hasExact = exact !== null && chosen === first && !showsSamples(state);
	const capture = hasExact ? exact : chosen;
	const metrics = useMemo(() => metricsOf(capture), [capture]);
	const metric = useMemo(() => metricById(capture, wanted), [capture, wanted]);
	const steps = useMemo<Step[]>(() => {
		// What was counted for this range and these threads must not be cut again.
		if (hasExact) return state.steps.filter((s) => s.kind === "function" || s.kind === "module");
		return stepsOf(capture, state);
	}, [capture, hasExact, state.thread, JSON.stringify(state.steps)]);
	const filter = useMemo(() => stepsOf(first, state), [first, state.thread, JSON.stringify(state.steps)]);
	const whole = useMemo(() => wholeOf(capture, metric, steps), [capture, metric.id, steps]);
	const cpu = useMemo(
		() => (metric.id === CPU.id ? whole : wholeOf(capture, CPU, steps)),
		[capture, whole, metric.id, steps],
	);
	const app: App = {
		capture,
		first,
		diff,
		live,
		isExact: hasExact,
		state,
		link,
		set: (patch, isMovement) => store.set(link(patch), isMovement),
		go: (place) => store.set({ ...place, kept: store.state.kept }),
		keep: (index = -1) => setBookmark(index),
		source,
		theme,
		metric,
		metrics,
		whole,
		cpu,
		steps,
		filter,
		openMenu: setMenu,
		say: (text, isQuiet = false) => setSaid({ text, isQuiet }),
	};
	useKeys(app, () => setHelp(true));
	useEffect(() => {
		const command = (capture.report.command ?? [])
			.map((w) => w.split("/").pop())
			.join(" ")
			.slice(0, 80);
		document.title = command ? `${command} · Fathom` : "Fathom";
	}, [capture]);
	const view = availableViews(app).includes(state.view) ? state.view : "summary";
	const View = VIEWS[view];
	return (
		<AppContext.Provider value={app}>
			<Shell onTheme={flipTheme} onHelp={() => setHelp(true)} isLive={isLive} isStale={isStale}>
				<Fence key={view} name={view}>
					<View />
				</Fence>
			</Shell>
			{menu && <Menu menu={menu} close={() => setMenu(null)} />}
			{bookmark !== null && <BookmarkDialog app={app} index={bookmark} close={() => setBookmark(null)} />}
			{isHelp && <Help close={() => setHelp(false)} />}
			<div class={said.isQuiet ? "hidden" : "toast"} role="status" aria-live="polite">
				{said.text}
			</div>
		</AppContext.Provider>
	);
}

function Loader({ source, store }: { source: Source; store: Store }) {
	const [capture, setCapture] = useState<Capture | null>(null);
	const [diff, setDiff] = useState<Capture | null>(null);
	const [problem, setProblem] = useState("");
	const [isStale, setStale] = useState(false);
	const [live, setLive] = useState<LiveFeed | null>(null);
	useEffect(() => {
		const fail = (e: unknown) => setProblem(e instanceof Error ? e.message : String(e));
		source.load().then(async (first) => {
			if (first.head.can_diff || document.getElementById("diff") || first.isDiff)
				setDiff(await source.loadDiff(first).catch(() => null));
			if (!/[#&]view=/.test(location.hash) && (first.head.can_diff || document.getElementById("diff")))
				store.amend({ ...store.state, view: "diff" }); // who compares wants to see what changed
			// Those of the link come first; a file brings its own when the link has none.
			if (store.state.kept.length === 0 && source.kept().length > 0)
				store.amend({ ...store.state, kept: source.kept() });
			setCapture(first);
			if (!first.head.live) {
				void source.hold();
				return;
			}
			let isAsking = false;
			let isDue = 0;
			let shown = first;
			const update = async () => {
				isAsking = true;
				const asked = performance.now();
				const next = await source.loadFrom("bundle").finally(() => (isAsking = false));
				isDue = performance.now() + REST * (performance.now() - asked);
				store.amend(translate(store.state, shown, next, true));
				setCapture((shown = next));
			};
			const announced = () => {
				// The next announcement brings what this one misses. The Live view has figures of its own.
				if (!isAsking && performance.now() >= isDue && store.state.view !== "live")
					void update().catch(() => undefined);
			};
			const feed = new LiveFeed();
			const tell = (now: LiveNow) => {
				if (feed.now && feed.now.pid !== now.pid) location.reload(); // another program listens there by now
				feed.take(now);
				setStale(false);
				if (feed.now) setLive(feed);
			};
			do {
				feed.isEnded = await source.follow(announced, tell);
				setStale(true); // an end of the server leaves the last picture
				feed.isLost = true;
				feed.tell();
				if (feed.now && !feed.isEnded) await new Promise((done) => setTimeout(done, 1000));
			} while (feed.now && !feed.isEnded);
			if (feed.isEnded) await update().catch(() => undefined);
		}, fail);
		addEventListener("pagehide", () => source.sayBye());
	}, []);
	if (capture)
		return (
			<Page
				first={capture}
				diff={diff}
				store={store}
				source={source}
				live={live}
				isLive={Boolean(capture.head.live)}
				isStale={isStale}
			/>
		);
	if (problem)
		return (
			<main class="problem" role="alert">
				<h1>Fathom</h1>
				<p>{problem}</p>
			</main>
		);
	return (
		<main class="problem" role="status">
			<p>Reading the profile…</p>
		</main>
	);
}

(window as unknown as { fathom: unknown }).fathom = { stats };
const root = document.getElementById("app");
const source = new Source();
if (root) render(<Loader source={source} store={new Store()} />, root);
