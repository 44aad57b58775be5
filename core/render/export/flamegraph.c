// SPDX-License-Identifier: Apache-2.0
// A flame graph as one interactive SVG, outermost frames at the top, widest first. Frames too
// narrow to ever matter (MIN_SHARE of everything) are left out and counted in the header, so that
// the file stays small however many stacks there are.
#include <inttypes.h>
#include <stdlib.h>

#include "aggregate/analysis/leaves.h"
#include "base/utf8.h"
#include "render/shared/facts.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/shared/xml.h"

#define FLAME_ROW 17     // pixels per frame
#define FLAME_TOP 62     // where the first row begins
#define FLAME_WIDTH 1200 // before the script fits it to the window

// Its style and its script: it can be zoomed and searched wherever it is opened. No external
// requests, no foreign code. One line of CSS or JavaScript is one line here.
// clang-format off

static const char flame_style[] =
	"text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24;pointer-events:none}\n"
	".h{font:bold 15px system-ui,sans-serif}.b{font:13px system-ui,sans-serif;fill:#0550ae;cursor:pointer;pointer-events:auto}\n"
	".i{font:13px system-ui,sans-serif;fill:#57606a}\n"
	"#frames rect{stroke:#fff;stroke-width:.6;cursor:pointer}#frames rect:hover{stroke:#1b1f24}\n"
	"g.up rect{opacity:.45}g.hit rect{fill:#f0abfc!important}\n"
	// Python blue, native amber, the interpreter's own code grey, errors red, threads and
	// processes green
	".p0{fill:#8ec5ff}.p1{fill:#7ab8f5}.p2{fill:#a3d0ff}.n0{fill:#ffc46b}.n1{fill:#f7b755}.n2{fill:#ffd18a}\n"
	".y{fill:#c9d1d9}.e{fill:#ff7b72}.t{fill:#a6e3a1}.r{fill:#dde3ea}\n";

// Frames carry no coordinates of their own in the script: x, width and depth are read off the
// rectangles once.
static const char flame_script[] =
	"(function(){\n"
	"var svg=document.documentElement,fs=[],W=1200,zoom=null,term='';\n"
	"var info=document.getElementById('info'),idle=info.textContent,hits=document.getElementById('hits');\n"
	"var gs=document.getElementById('frames').children;\n"
	"for(var k=0;k<gs.length;k++){var g=gs[k],r=g.querySelector('rect');\n"
	"  fs.push({g:g,r:r,t:g.querySelector('text'),x:+r.getAttribute('x')/W,w:+r.getAttribute('width')/W,y:+r.getAttribute('y'),\n"
	"    title:g.querySelector('title').textContent,name:g.querySelector('title').textContent.split('\\n')[0]});}\n"
	"var root=fs[0];zoom=root;\n"
	"function fit(f,px){if(!f.t)return;var n=Math.floor((px-6)/7.25);\n"
	"  f.t.textContent=n<3?'':f.name.length<=n?f.name:f.name.slice(0,n-1)+'\\u2026';}\n"
	"function draw(){var z=zoom,e=1e-9;\n"
	"  fs.forEach(function(f){var above=f.y<z.y&&f.x<=z.x+e&&f.x+f.w>=z.x+z.w-e;\n"
	"    var inside=f.y>=z.y&&f.x>=z.x-e&&f.x+f.w<=z.x+z.w+e;\n"
	"    var x=above?0:(f.x-z.x)/z.w*W,w=above?W:f.w/z.w*W;\n"
	"    if(!above&&!inside||w<.3){f.g.style.display='none';return;}\n"
	"    f.g.style.display='';f.r.setAttribute('x',x);f.r.setAttribute('width',w);\n"
	"    f.g.classList.toggle('up',above);\n"
	"    if(f.t){f.t.setAttribute('x',x+3);fit(f,w);}});\n"
	"  document.getElementById('reset').style.display=zoom===root?'none':'';}\n"
	"function search(s){term=s||'';var re=null,low=term.toLowerCase(),spans=[];\n"
	"  try{re=term?new RegExp(term,'i'):null;}catch(err){re=null;}\n"
	"  fs.forEach(function(f){var hit=!!term&&f!==root&&(re?re.test(f.name):f.name.toLowerCase().indexOf(low)>=0);\n"
	"    f.g.classList.toggle('hit',hit);if(hit)spans.push(f);});\n"
	// frames come outermost first: what lies inside a matched span is already counted
	"  var sum=0,end=-1;spans.sort(function(a,b){return a.x-b.x||b.w-a.w;});\n"
	"  spans.forEach(function(f){if(f.x>=end-1e-9){sum+=f.w;end=f.x+f.w;}});\n"
	"  hits.textContent=term?'matched '+(100*sum).toFixed(2)+'%: '+term:'';\n"
	"  document.getElementById('search').textContent=term?'clear search':'search';}\n"
	"function ask(){if(term)search('');else{var s=window.prompt('Search for functions or files (text or regular expression):','');if(s)search(s);}}\n"
	"function size(){W=Math.max(400,window.innerWidth||1200);svg.setAttribute('width',W);\n"
	"  svg.setAttribute('viewBox','0 0 '+W+' '+svg.getAttribute('height'));draw();}\n"
	"fs.forEach(function(f){\n"
	"  f.g.addEventListener('click',function(){zoom=f;draw();});\n"
	"  f.g.addEventListener('mouseover',function(){info.textContent=f.title.replace(/\\n/g,'  \\u00b7  ');});\n"
	"  f.g.addEventListener('mouseout',function(){info.textContent=idle;});});\n"
	"document.getElementById('reset').addEventListener('click',function(){zoom=root;draw();});\n"
	"document.getElementById('search').addEventListener('click',ask);\n"
	"window.addEventListener('keydown',function(ev){\n"
	"  if(ev.key==='/'||(ev.key==='f'&&(ev.ctrlKey||ev.metaKey))){ev.preventDefault();term='';ask();}\n"
	"  if(ev.key==='Escape'){zoom=root;search('');draw();}});\n"
	"window.addEventListener('resize',size);\n"
	"window.fathom={search:search,reset:function(){zoom=root;draw();}};\n"
	"size();\n"
	"})();\n";

// clang-format on

#define MIN_SHARE 5e-5
#define CHAR_PX 7.25

struct branch { // a frame of the drawing: a node of the view within one group, or a process or thread
	uint32_t node;
	uint32_t first_child, sibling; // index, 0 = none; 0 itself is "all"
	uint64_t weight, n;
	struct fm_str title; // set for processes and threads only
};

struct flame {
	struct fm_analysis *a;
	FILE *out;
	FM_VEC(struct branch) branches;
	struct fm_arena arena;
	double whole;
	uint32_t max_depth;
};

static uint32_t add_branch(struct flame *f, uint32_t parent, struct branch branch)
{
	uint32_t id = (uint32_t)f->branches.n;
	branch.sibling = f->branches.items[parent].first_child;
	fm_vec_push(&f->branches, branch);
	f->branches.items[parent].first_child = id;
	return id;
}

static uint32_t named_child(struct flame *f, uint32_t parent, struct fm_buf *label)
{
	struct fm_str title = { (const char *)label->data, (uint32_t)label->len };
	for (uint32_t c = f->branches.items[parent].first_child; c; c = f->branches.items[c].sibling)
		if (f->branches.items[c].title.p && fm_str_eq(f->branches.items[c].title, title))
			return c;
	title.p = fm_arena_strdup(&f->arena, title.p, title.len);
	return add_branch(f, parent, (struct branch){ .title = title });
}

static uint32_t process_branch(struct flame *f, uint32_t process_id)
{
	uint32_t chain[FM_LABEL_MAX_PROCESSES], branch = 0;
	for (unsigned n = fm_label_process_chain(f->a, process_id, chain); n-- > 0;) {
		struct fm_buf label = { 0 };
		fm_label_process(&label, f->a, chain[n]);
		branch = named_child(f, branch, &label);
		fm_buf_deinit(&label);
	}
	return branch;
}

static uint32_t group_branch(struct flame *f, uint32_t group)
{
	const struct fm_view_options *o = &f->a->options;
	uint32_t process = o->threads ? fm_label_process_of(f->a, group) : group, parent = 0;
	if (o->processes && process < f->a->profile->processes.n)
		parent = process_branch(f, process);
	if (!o->threads)
		return parent;
	struct fm_buf label = { 0 };
	fm_label_thread(&label, f->a, group);
	parent = named_child(f, parent, &label);
	fm_buf_deinit(&label);
	return parent;
}

// Hangs one group's stacks below `top`. Nodes are numbered parents first, so that sums travel up in
// one pass downwards.
static void add_group(struct flame *f, uint32_t top, const struct fm_leaf *leaves, size_t n_leaves,
		      uint32_t *node_branch)
{
	const struct fm_view *view = &f->a->view;
	FM_VEC(uint32_t) touched = { 0 };
	FM_VEC(uint32_t) todo = { 0 };
	for (size_t i = 0; i < n_leaves; i++) {
		for (uint32_t node = leaves[i].node; node && !node_branch[node];
		     node = view->nodes.items[node].parent) {
			node_branch[node] = UINT32_MAX; // on its way
			fm_vec_push(&todo, node);
		}
		while (todo.n) { // outermost first: the parent's branch exists
			uint32_t node = todo.items[--todo.n], parent = view->nodes.items[node].parent;
			node_branch[node] =
				add_branch(f, parent ? node_branch[parent] : top, (struct branch){ .node = node });
			fm_vec_push(&touched, node);
		}
		uint32_t branch = leaves[i].node ? node_branch[leaves[i].node] : top;
		f->branches.items[branch].weight += leaves[i].weight_ns;
		f->branches.items[branch].n += leaves[i].n;
	}
	for (size_t i = 0; i < touched.n; i++)
		node_branch[touched.items[i]] = 0;
	fm_vec_deinit(&touched);
	fm_vec_deinit(&todo);
}

static void add_up(struct flame *f)
{
	uint32_t *parent = fm_alloc((f->branches.n + 1) * sizeof(*parent));
	for (uint32_t i = 0; i < f->branches.n; i++)
		for (uint32_t c = f->branches.items[i].first_child; c; c = f->branches.items[c].sibling)
			parent[c] = i;
	for (uint32_t i = (uint32_t)f->branches.n; i-- > 1;) {
		f->branches.items[parent[i]].weight += f->branches.items[i].weight;
		f->branches.items[parent[i]].n += f->branches.items[i].n;
	}
	free(parent);
}

static void build(struct flame *f)
{
	struct fm_leaves leaves;
	fm_leaves_of(&leaves, f->a, &f->a->options);
	uint32_t *node_branch = fm_alloc(f->a->view.nodes.n * sizeof(*node_branch));
	fm_vec_push(&f->branches, (struct branch){ .title = FM_STR_LIT("all") });
	for (size_t i = 0, n; i < leaves.items.n; i += n) {
		for (n = 1; i + n < leaves.items.n && leaves.items.items[i + n].group == leaves.items.items[i].group;)
			n++;
		add_group(f, group_branch(f, leaves.items.items[i].group), &leaves.items.items[i], n, node_branch);
	}
	free(node_branch);
	fm_leaves_deinit(&leaves);
	add_up(f);
	f->whole = (double)f->branches.items[0].weight;
}

static const char *color_of(const struct flame *f, const struct branch *b)
{
	static const char *const python[] = { "p0", "p1", "p2" }, *const native[] = { "n0", "n1", "n2" };
	if (b->title.p)
		return b == f->branches.items ? "r" : "t";
	const struct fm_function *fn = fm_analysis_function(f->a, f->a->view.nodes.items[b->node].function_id);
	if (fn->kind == FM_FRAME_ERROR)
		return "e";
	uint64_t shade = fm_hash_bytes(fn->module.p, fn->module.len) % 3;
	return fn->kind == FM_FRAME_PYTHON ? python[shade] : fn->is_plumbing ? "y" : native[shade];
}

static void put_text(FILE *out, struct fm_str label, double px)
{
	struct fm_buf cut = { 0 };
	unsigned room = px > 6 ? (unsigned)((px - 6) / CHAR_PX) : 0, used = 0;
	const char *p = label.p, *end = label.p + label.len;
	if (room >= 3)
		while (p < end) {
			const char *before = p;
			uint32_t c = fm_utf8_next(&p, end);
			used += fm_utf8_width(c);
			if (used > room - 1 && p < end) {
				p = before;
				fm_utf8_put(&cut, 0x2026);
				break;
			}
			fm_utf8_put(&cut, c);
		}
	if (cut.len)
		fm_xml_put(out, (struct fm_str){ (const char *)cut.data, (uint32_t)cut.len });
	fm_buf_deinit(&cut);
}

static void put_amount(struct flame *f, const struct branch *b, double share)
{
	static const char *const whats[] = { [FM_METRIC_ALLOC] = "allocated",
					     [FM_METRIC_PEAK] = "live at the peak",
					     [FM_METRIC_LEAK] = "leaked",
					     [FM_METRIC_COPY] = "copied" };
	if (f->a->options.metric == FM_METRIC_TIME) {
		fprintf(f->out, "%.3f s", (double)b->weight * 1e-9);
		if (share >= 0)
			fprintf(f->out, ", %.2f%%, %" PRIu64 " samples", share * 100, b->n);
		else
			fprintf(f->out, " in %" PRIu64 " samples", b->n);
		return;
	}
	fprintf(f->out, "%.3f MiB %s", (double)b->weight / (1 << 20), whats[f->a->options.metric]);
	if (share >= 0)
		fprintf(f->out, ", %.2f%%", share * 100);
}

static void put_frame(struct flame *f, const struct branch *b, double x, uint32_t depth)
{
	struct fm_buf label = { 0 };
	if (b->title.p) {
		fm_buf_bytes(&label, b->title.p, b->title.len);
	} else {
		const struct fm_node *node = &f->a->view.nodes.items[b->node];
		fm_label_frame(&label, f->a, node);
	}
	struct fm_str text = { (const char *)label.data, (uint32_t)label.len };
	double share = f->whole > 0 ? (double)b->weight / f->whole : 1;
	double px = share * FLAME_WIDTH, left = f->whole > 0 ? x / f->whole * FLAME_WIDTH : 0;
	unsigned y = FLAME_TOP + depth * FLAME_ROW;
	fputs("<g><title>", f->out);
	fm_xml_put(f->out, text);
	fputc('\n', f->out);
	put_amount(f, b, share);
	fputs("</title>", f->out);
	fprintf(f->out, "<rect class=\"%s\" x=\"%.4f\" y=\"%u\" width=\"%.4f\" height=\"%u\"/>", color_of(f, b), left,
		y, px, FLAME_ROW);
	fprintf(f->out, "<text x=\"%.2f\" y=\"%u\">", left + 3, y + 12);
	put_text(f->out, text, px);
	fputs("</text></g>\n", f->out);
	fm_buf_deinit(&label);
}

struct pending {
	uint32_t branch, depth;
	double x;
};

static const struct branch *sort_base; // qsort has no context; one thread renders at a time

static int compare_width(const void *pa, const void *pb)
{
	const struct branch *a = &sort_base[*(const uint32_t *)pa], *b = &sort_base[*(const uint32_t *)pb];
	if (a->weight != b->weight)
		return (b->weight > a->weight) - (b->weight < a->weight);
	return (a > b) - (a < b);
}

// Draws (or only measures) everything wide enough; returns how many frames were left out.
static uint64_t walk(struct flame *f, bool is_drawing)
{
	FM_VEC(struct pending) todo = { 0 };
	FM_VEC(uint32_t) children = { 0 };
	uint64_t n_narrow = 0;
	sort_base = f->branches.items;
	fm_vec_push(&todo, (struct pending){ 0, 0, 0 });
	while (todo.n) {
		struct pending at = todo.items[--todo.n];
		const struct branch *b = &f->branches.items[at.branch];
		f->max_depth = FM_MAX(f->max_depth, at.depth);
		if (is_drawing)
			put_frame(f, b, at.x, at.depth);
		children.n = 0;
		for (uint32_t c = b->first_child; c; c = f->branches.items[c].sibling)
			fm_vec_push(&children, c);
		if (children.n)
			qsort(children.items, children.n, sizeof(*children.items), compare_width);
		double x = at.x;
		for (size_t i = 0; i < children.n; i++) {
			const struct branch *child = &f->branches.items[children.items[i]];
			if ((double)child->weight < f->whole * MIN_SHARE)
				n_narrow++;
			else
				fm_vec_push(&todo, (struct pending){ children.items[i], at.depth + 1, x });
			x += (double)child->weight;
		}
	}
	fm_vec_deinit(&todo);
	fm_vec_deinit(&children);
	return n_narrow;
}

static void put_head(struct flame *f, uint64_t n_narrow)
{
	unsigned height = FLAME_TOP + (f->max_depth + 1) * FLAME_ROW + 10;
	fprintf(f->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u "
		"%u\">\n<style><![CDATA[\n%s]]></style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text class=\"h\" x=\"10\" y=\"21\">",
		FLAME_WIDTH, height, FLAME_WIDTH, height, flame_style);
	struct fm_buf command = { 0 };
	fm_label_command(&command, fm_facts_command(f->a->profile));
	if (command.len)
		fm_xml_put(f->out, (struct fm_str){ (const char *)command.data, (uint32_t)command.len });
	else
		fputs("fathom", f->out);
	fm_buf_deinit(&command);
	fputs("</text>\n<text class=\"i\" id=\"info\" x=\"10\" y=\"40\">", f->out);
	put_amount(f, &f->branches.items[0], -1);
	if (n_narrow)
		fprintf(f->out, "; %" PRIu64 " frames narrower than %g%% left out", n_narrow, MIN_SHARE * 100);
	fputs("</text>\n<text class=\"b\" id=\"search\" x=\"10\" y=\"57\">search</text><text class=\"b\" id=\"reset\" "
	      "x=\"110\" y=\"57\" "
	      "style=\"display:none\">reset zoom</text><text class=\"i\" id=\"hits\" x=\"200\" y=\"57\"></text>\n<g "
	      "id=\"frames\">\n",
	      f->out);
}

enum fm_err fm_write_flamegraph(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct flame f = { .a = a, .out = out };
	fm_arena_init(&f.arena);
	build(&f);
	put_head(&f, walk(&f, false));
	walk(&f, true);
	fprintf(out, "</g>\n<script><![CDATA[\n%s]]></script>\n</svg>\n", flame_script);
	fm_vec_deinit(&f.branches);
	fm_arena_deinit(&f.arena);
	return FM_OK;
}
