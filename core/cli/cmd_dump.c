// fathom dump: the stacks of all threads of a running process, now. One look into a profile of its own (collect/attach.h), read back by
// the same way as any: names, lines and inlined calls are the report's.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aggregate/analysis.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/pid.h"
#include "collect/attach.h"
#include "render/label.h"

static const char *state_of(const struct fm_cell *cell)
{
	if (!cell)
		return "not read"; // it runs and may not be held, or began a moment ago
	return cell->class == FM_CLASS_WAIT       ? "waiting"
	       : cell->class == FM_CLASS_GIL_WAIT ? "waiting for the GIL"
						  : "running";
}

static const struct fm_cell *cell_of(const struct fm_analysis *a, uint32_t thread_id)
{
	const struct fm_cell *found = NULL;
	for (size_t i = 0; i < a->tally.cells.n; i++)
		if (a->tally.cells.items[i].thread_id == thread_id)
			found = &a->tally.cells.items[i];
	return found;
}

#define MAX_SHOWN 1000u // of a name; some are made to be long

static void print_str(struct fm_str s)
{
	fm_utf8_print(stdout, (struct fm_str){ s.p, FM_MIN(s.len, MAX_SHOWN) });
	if (s.len > MAX_SHOWN)
		fputs("...", stdout);
}

static void print_text(const struct fm_analysis *a)
{
	const struct fm_process_info *info = &a->profile->processes.items[0].info;
	struct fm_buf b = { 0 };
	fm_label_command(&b, info->command);
	printf("Process %u: ", info->pid);
	print_str((struct fm_str){ (char *)b.data, (uint32_t)b.len });
	if (info->python_version.len)
		printf("\nPython "), print_str(info->python_version), printf(" ("), print_str(info->exe), printf(")");
	printf("\n");
	for (uint32_t id = 0; id < a->profile->threads.n; id++) {
		const struct fm_thread *t = &a->profile->threads.items[id];
		const struct fm_cell *cell = cell_of(a, id);
		printf("\nThread %u (", t->tid);
		print_str(t->name);
		printf("): %s\n", state_of(cell));
		// Innermost first, as in a debugger.
		for (uint32_t node = cell ? fm_view_node(&a->view, cell->stack_id) : 0; node;
		     node = a->view.nodes.items[node].parent) {
			b.len = 0;
			fm_label_frame(&b, a, &a->view.nodes.items[node]);
			printf("    ");
			print_str((struct fm_str){ (char *)b.data, (uint32_t)b.len });
			printf("\n");
		}
	}
	fm_buf_deinit(&b);
}

static void print_json(const struct fm_analysis *a)
{
	const struct fm_process_info *info = &a->profile->processes.items[0].info;
	struct fm_json j;
	fm_json_init(&j, stdout);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.dump/1"));
	fm_json_u64(&j, "pid", info->pid);
	fm_json_str(&j, "python", info->python_version);
	fm_json_array(&j, "threads");
	for (uint32_t id = 0; id < a->profile->threads.n; id++) {
		const struct fm_thread *t = &a->profile->threads.items[id];
		const struct fm_cell *cell = cell_of(a, id);
		fm_json_newline(&j);
		fm_json_object(&j, NULL);
		fm_json_u64(&j, "tid", t->tid);
		fm_json_str(&j, "name", t->name);
		fm_json_str(&j, "state", fm_str_of(state_of(cell)));
		fm_json_array(&j, "frames"); // innermost first
		for (uint32_t at = cell ? fm_view_node(&a->view, cell->stack_id) : 0; at;
		     at = a->view.nodes.items[at].parent) {
			const struct fm_node *node = &a->view.nodes.items[at];
			const struct fm_function *f = fm_analysis_function(a, node->function_id);
			fm_json_newline(&j);
			fm_json_object(&j, NULL);
			fm_json_str(&j, "name", f->name);
			fm_json_str(&j, "module", f->module);
			fm_json_str(&j, "file", f->file.len ? f->file : f->path);
			fm_json_u64(&j, "line", node->line);
			fm_json_str(&j, "kind", fm_label_kind(f));
			fm_json_bool(&j, "inlined", node->is_inlined);
			fm_json_end(&j);
		}
		fm_json_end(&j);
		fm_json_end(&j);
	}
	fm_json_end(&j);
	fm_json_end(&j);
	fm_json_newline(&j);
	printf("\n");
}

int fm_cmd_dump(int argc, char **argv)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	const char *pid_text = NULL;
	bool is_json = false, native = true, nonblocking = false;
	view.full_filenames = true;
	const struct fm_option options[] = {
		{ "pid", 'p', FM_OPT_TEXT, &pid_text, "PID", "the process" },
		{ "json", 'j', FM_OPT_FLAG, &is_json, NULL, "for machines, schema fathom.dump/1" },
		{ "no-native", 0, FM_OPT_NO_FLAG, &native, NULL, "Python frames only" },
		{ "native-all", 0, FM_OPT_FLAG, &view.native_all, NULL, "the interpreter's own native frames, too" },
		{ "no-inlines", 0, FM_OPT_FLAG, &view.no_inlines, NULL,
		  "leave inlined calls inside the function that the compiler put them into" },
		{ "nonblocking", 0, FM_OPT_FLAG, &nonblocking, NULL,
		  "hold no thread, not for a moment; those that run are not read then" },
		{ "native", 'n', FM_OPT_IGNORED, NULL, NULL, NULL },
		{ "full-filenames", 0, FM_OPT_IGNORED, NULL, NULL, NULL },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "dump",
		.operands = "-p PID",
		.about = "Print the stacks of all threads of a running process, Python and native, as they are now. "
			 "Threads "
			 "that wait are read as they lie; one that runs is held while it is read, for less than a "
			 "millisecond.",
		.options = options,
		.examples = "  fathom dump -p 1234\n"
			    "  fathom dump -p 1234 --json | jq '.threads[] | .frames[0]'\n",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	uint32_t pid;
	if (!pid_text || !fm_pid_parse(pid_text, &pid)) {
		fm_say(pid_text ? "--pid wants a process id, not '%s'" : "name the process: fathom dump -p PID",
		       pid_text);
		return FM_EXIT_USAGE;
	}
	char path[4096];
	const char *dir = getenv("TMPDIR");
	snprintf(path, sizeof(path), "%s/fathom-XXXXXX", dir && *dir ? dir : "/tmp");
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		fm_say("cannot make a temporary file: %m; set TMPDIR to a folder with room");
		return FM_EXIT_FAILED;
	}
	close(fd);
	struct fm_attach_options attach = {
		.pid = pid, .output_path = path, .native = native, .may_stop = !nonblocking
	};
	struct fm_analysis *a = NULL;
	struct fm_diag diag;
	enum fm_err err = fm_attach_once(&attach, &diag);
	if (!err)
		err = fm_analysis_open(path, &view, &a, &diag);
	unlink(path);
	if (err) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	if (!a->profile->processes.n)
		fm_say("process %u ended before it could be read", pid);
	else if (is_json)
		print_json(a);
	else
		print_text(a);
	exit_code = a->profile->processes.n && !ferror(stdout) ? FM_EXIT_OK : FM_EXIT_FAILED;
	fm_analysis_close(a);
	return exit_code;
}
