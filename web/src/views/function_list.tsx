// The table of functions, whole or narrow. Unfiltered numbers are the program's own; under a filter they are counted here.
import { useMemo } from "preact/hooks";
import { FLAG_PLUMBING, KIND_ERROR, KIND_PYTHON, KIND_THREAD } from "../data/capture";
import { amount, bytes, count, seconds, share } from "../data/format";
import { chargedByFunction, functionSums, type FunctionSums } from "../data/functions";
import { heapWeights, selfWeights } from "../data/weights";
import { matcherOf, matchingFunctions } from "../data/search";
import { useApp, type App } from "../ui/app_context";
import { ClassBar, Meter } from "../ui/bars";
import { functionMenu } from "../ui/function_menu";
import { functionName, functionPlace, moduleName } from "../ui/names";
import { Table, type Column } from "../ui/table";

export interface FunctionRow {
	fn: number;
	self: number;
	total: number;
	plusMinus: number;
	classes: number[] | null;
	alloc: number;
	peak: number;
	calls: number;
	mean: number;
	min: number;
	max: number;
}

export interface FunctionTable {
	rows: FunctionRow[];
	all: number;
	hasPlusMinus: boolean;
	hasMemory: boolean;
	hasCalls: boolean;
}

// Where the program's own rows say everything, only the whole is missing.
function noSums(capture: App["capture"], metric: App["metric"]): FunctionSums {
	const none = new Float64Array(capture.functions.n);
	return { self: none, total: none, all: selfWeights(capture, metric, []).reduce((a, b) => a + b, 0) };
}

export function useFunctionRows(app: App): FunctionTable {
	const { capture, metric, steps } = app;
	return useMemo(() => {
		const t = capture.functionRows;
		const isExact = steps.length === 0 && metric.id === "cpu" && t.n > 0;
		const sums = isExact ? noSums(capture, metric) : functionSums(capture, metric, steps);
		const at = new Int32Array(capture.functions.n).fill(-1);
		const which = t.column("function");
		for (let i = 0; i < t.n; i++) if (which && which[i] < at.length) at[which[i]] = i;
		// Under a filter memory is counted as time is; what a table of the whole run says is then not it.
		const isLimited = capture.heap !== null && (steps.length > 0 || capture.isPart);
		const [alloc, peak] = (["alloc", "peak"] as const).map((column) =>
			isLimited ? chargedByFunction(capture, heapWeights(capture, column, steps)) : null,
		);
		const rows: FunctionRow[] = [];
		for (let fn = 0; fn < capture.functions.n; fn++) {
			const r = at[fn];
			const self = isExact && r >= 0 ? t.get("self_s", r) : sums.self[fn];
			const total = isExact && r >= 0 ? t.get("total_s", r) : sums.total[fn];
			const calls = r >= 0 ? t.get("calls", r) : 0;
			if (!(total > 0) && !(calls > 0)) continue;
			if (capture.functions.kind[fn] === KIND_THREAD) continue;
			rows.push({
				fn,
				self,
				total,
				plusMinus: isExact && r >= 0 ? t.get("self_plus_minus_s", r) : 0,
				classes:
					isExact && r >= 0
						? ["python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"].map((c) => t.get(c, r))
						: null,
				alloc: alloc ? alloc[fn] : r >= 0 ? t.get("alloc_bytes", r) : 0,
				peak: peak ? peak[fn] : r >= 0 ? t.get("peak_bytes", r) : 0,
				calls,
				mean: r >= 0 ? t.get("mean_s", r) : 0,
				min: r >= 0 ? t.get("min_s", r) : 0,
				max: r >= 0 ? t.get("max_s", r) : 0,
			});
		}
		return {
			rows,
			all: sums.all,
			hasPlusMinus: isExact,
			hasMemory: rows.some((r) => r.alloc > 0 || r.peak > 0),
			hasCalls: rows.some((r) => r.calls > 0),
		};
	}, [capture, metric.id, JSON.stringify(steps)]);
}

// isBeside: the chosen function stands to the right and takes part of the room.
export function FunctionList({
	isNarrow,
	isBeside,
	limit,
}: {
	isNarrow?: boolean;
	isBeside?: boolean;
	limit?: number;
}) {
	const app = useApp();
	const { capture, state, set, metric } = app;
	const table = useFunctionRows(app);
	const hits = useMemo(() => {
		const matcher = matcherOf(state.search);
		return matcher ? matchingFunctions(capture, matcher) : null;
	}, [capture, state.search]);
	const rows = useMemo(() => {
		const { flags, kind } = capture.functions;
		return table.rows.filter(
			(r) =>
				(!hits || hits[r.fn]) &&
				(state.plumbing || !(flags[r.fn] & FLAG_PLUMBING) || hits) &&
				(!state.mine || (kind[r.fn] === KIND_PYTHON && !(flags[r.fn] & 1))),
		);
	}, [table, hits, state.plumbing, state.mine]);
	const { unit } = metric;
	const columns: Column<FunctionRow>[] = [
		{
			id: "name",
			title: "Function",
			value: (r) => functionName(capture, r.fn),
			cell: (r) => (
				<span
					class={`function kind-${capture.functions.kind[r.fn] === KIND_ERROR ? "error" : capture.functions.kind[r.fn] === KIND_PYTHON ? "python" : "native"}`}
				>
					<b>{functionName(capture, r.fn)}</b> <small>{functionPlace(capture, r.fn)}</small>
				</span>
			),
		},
		{
			id: "self",
			title: "Self",
			hint: `${metric.label} that ends in the function itself`,
			isNumber: true,
			value: (r) => r.self,
			cell: (r) => (
				<Meter value={r.self} whole={table.all}>
					{amount(r.self, unit)}
					{!isNarrow && <small>{share(r.self, table.all)}</small>}
				</Meter>
			),
		},
		{
			id: "total",
			title: "Total",
			hint: "with all that it calls; each function once per stack",
			isNumber: true,
			value: (r) => r.total,
			cell: (r) => (
				<Meter value={r.total} whole={table.all}>
					{amount(r.total, unit)}
					{!isNarrow && <small>{share(r.total, table.all)}</small>}
				</Meter>
			),
		},
	];
	if (!isNarrow) {
		if (table.hasPlusMinus) {
			columns.push({
				id: "pm",
				title: "±",
				hint: "95 in 100 runs lie within this much of the self time",
				isNumber: true,
				value: (r) => r.plusMinus,
				cell: (r) => (r.plusMinus > 0 ? seconds(r.plusMinus) : ""),
			});
			if (!isBeside)
				columns.push({
					id: "kind",
					title: "Kind of time",
					hint: "Python, native, system, waiting",
					value: (r) => (r.classes?.[1] ?? 0) / (r.self || 1),
					cell: (r) => r.classes?.some((v) => v > 0) && <ClassBar values={r.classes} />,
				});
		}
		if (table.hasCalls)
			columns.push(
				{
					id: "calls",
					title: "Calls",
					isNumber: true,
					value: (r) => r.calls,
					cell: (r) => (r.calls ? count(r.calls) : ""),
				},
				{
					id: "mean",
					title: "Mean",
					isNumber: true,
					value: (r) => r.mean,
					cell: (r) => (r.calls ? seconds(r.mean) : ""),
				},
				{
					id: "min",
					title: "Fastest",
					isNumber: true,
					value: (r) => r.min,
					cell: (r) => (r.calls ? seconds(r.min) : ""),
				},
				{
					id: "max",
					title: "Slowest",
					isNumber: true,
					value: (r) => r.max,
					cell: (r) => (r.calls ? seconds(r.max) : ""),
				},
			);
		if (table.hasMemory)
			columns.push(
				{
					id: "alloc",
					title: "Allocated",
					isNumber: true,
					value: (r) => r.alloc,
					cell: (r) => (r.alloc ? bytes(r.alloc) : ""),
				},
				{ id: "peak", title: "Peak", isNumber: true, value: (r) => r.peak, cell: (r) => (r.peak ? bytes(r.peak) : "") },
			);
		if (!isBeside) columns.push({ id: "module", title: "Module", value: (r) => moduleName(capture, r.fn) });
	}
	return (
		<Table
			label="Functions"
			columns={columns}
			rows={rows}
			sort={state.sort}
			onSort={(sort) => set({ sort }, true)}
			keyOf={(r) => r.fn}
			selected={state.fn}
			page={limit ?? 200}
			onRow={(r) => set({ fn: r.fn })}
			onMenu={(r, x, y) => app.openMenu({ x, y, title: functionName(capture, r.fn), items: functionMenu(app, r.fn) })}
		/>
	);
}
