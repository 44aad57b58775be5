// SPDX-License-Identifier: Apache-2.0
// The style and the script of a flame graph: it can be zoomed and searched wherever it is opened.
#include "render/export/flamegraph.h"

// One line of CSS or JavaScript is one line here.
// clang-format off

const char fm_flame_style[] =
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
const char fm_flame_script[] =
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
