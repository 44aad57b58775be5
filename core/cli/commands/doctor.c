// SPDX-License-Identifier: Apache-2.0
// fathom doctor: what this machine allows and lacks, each with its remedy.
#include <errno.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "collect/process/machine.h"
#include "collect/capture/agent_path.h"
#include "collect/capture/capture.h"
#include "collect/process/kernel_stacks.h"
#include "image/debug_file.h"
#include "image/lines.h"
#include "render/shared/page.h"
#include "symbolize/cache.h"

enum verdict { GOOD, NOTE, BAD };

static void line(enum verdict verdict, const char *what, const char *text)
{
	static const char *const marks[] = { "ok  ", "note", "BAD " };
	printf("%s  %-18s ", marks[verdict], what);
	fm_utf8_print(stdout, fm_str_of(text));
	putchar('\n');
}

#define UNKNOWN INT_MIN

static int read_number(const char *path, int fallback)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	int value;
	return f && fscanf(f, "%d", &value) == 1 ? value : fallback;
}

static bool check_agent(void)
{
	char path[4096];
	struct fm_diag diag;
	if (fm_agent_path_find(path, sizeof(path), &diag)) {
		line(BAD, "agent", diag.text);
		return false;
	}
	line(GOOD, "agent", path);
	return true;
}

static void check_engines(void)
{
	char text[256], level[48] = "";
	int err, paranoid = read_number("/proc/sys/kernel/perf_event_paranoid", UNKNOWN);
	if (paranoid != UNKNOWN)
		snprintf(level, sizeof(level), " (perf_event_paranoid is %d)", paranoid);
	if (fm_engine_perf_is_permitted(&err))
		snprintf(text, sizeof(text), "permitted%s", level);
	else if ((err == EACCES || err == EPERM) && paranoid > 2)
		snprintf(text, sizeof(text), "refused%s; 'sysctl kernel.perf_event_paranoid=2' as root permits it",
			 level);
	else if (err == EACCES || err == EPERM)
		snprintf(text, sizeof(text), "refused%s by the rules of this container or sandbox", level);
	else
		snprintf(text, sizeof(text),
			 "not available: %s; needs Linux 5.13 or a container that permits perf_event_open",
			 strerror(err));
	line(fm_engine_perf_is_permitted(NULL) ? GOOD : NOTE, "perf events", text);
	snprintf(text, sizeof(text), "ticker: it measures system time; --engine perf does not%s",
		 fm_machine_is_virtual() ? ", and costs more in a virtual machine" : "");
	line(GOOD, "engine used", text);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		line(NOTE, "processors", "only one: the ticker shares it with the program");
}

static void check_kernel(void)
{
	struct fm_kernel_stacks *kernel;
	struct fm_diag diag;
	char text[sizeof(diag.text) + 40];
	if (fm_kernel_stacks_open((uint32_t)getpid(), 1000, NULL, &kernel, &diag)) {
		snprintf(text, sizeof(text), "--kernel would show none: %s", diag.text);
		line(NOTE, "kernel functions", text);
		return;
	}
	fm_kernel_stacks_close(kernel);
	line(GOOD, "kernel functions", "permitted; --kernel shows them");
}

static void check_libc(void)
{
	line(GOOD, "glibc", gnu_get_libc_version());
}

static void check_ptrace(void)
{
	int scope = read_number("/proc/sys/kernel/yama/ptrace_scope", 0);
	char text[160];
	snprintf(text, sizeof(text),
		 scope <= 1 ? "own children can be read (ptrace_scope is %d)"
			    : "restricted (ptrace_scope is %d): the ticker uses a slower way to see which threads run",
		 scope);
	line(scope <= 1 ? GOOD : NOTE, "thread states", text);
}

// Its version and path; then the file that `import fathom` finds, if it is not ours: PyPI has another
// project of that name. Installed over ours, it leaves the files that it has none of.
static const char ask_python[] = "import sys, importlib.util as u\n"
				 "print(sys.version.split()[0], sys.executable)\n"
				 "s = u.find_spec(\"fathom\")\n"
				 "f = s and s.origin\n"
				 "if f and b\"def program_path\" not in open(f, \"rb\").read(): print(f)";

static void check_module(char *stranger)
{
	char text[700];
	stranger[strcspn(stranger, "\n")] = 0;
	if (!*stranger)
		return;
	snprintf(text, sizeof(text),
		 "'import fathom' finds another project's %s there; 'pip uninstall fathom', then 'pip install "
		 "--force-reinstall fathom-profiler'",
		 stranger);
	line(NOTE, "module fathom", text);
}

static void check_python(void)
{
	static const char *const names[] = { "python3",    "python3.8",  "python3.9",  "python3.10", "python3.11",
					     "python3.12", "python3.13", "python3.14", "python3.15" };
	bool any = false;
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
		char command[512], text[512] = "", stranger[512] = "";
		snprintf(command, sizeof(command), "%s -c '%s' 2>/dev/null", names[i], ask_python);
		FILE *f = popen(command, "re");
		if (f && fgets(text, sizeof(text), f)) {
			if (!fgets(stranger, sizeof(stranger), f))
				stranger[0] = 0;
			text[strcspn(text, "\n")] = 0;
			int minor = 0;
			sscanf(text, "3.%d", &minor);
			bool is_known = minor >= 8 && minor <= 15;
			any |= is_known;
			if (!is_known)
				strncat(text, " (not a version Fathom knows: native frames only)",
					sizeof(text) - strlen(text) - 1);
			line(is_known ? GOOD : NOTE, names[i], text);
			check_module(stranger);
		}
		if (f)
			pclose(f);
	}
	if (!any)
		line(NOTE, "python", "no Python from 3.8 to 3.15 on PATH; name one with 'fathom run --python PATH'");
}

static void check_page(void)
{
	if (fm_page_len)
		line(GOOD, "viewer's page", "in this build");
	else
		line(NOTE, "viewer's page",
		     "missing, because there was no Node: for 'fathom view', --html and report.html, install Node 18 "
		     "or newer and build again");
}

static void check_names(void)
{
	char text[4400], folder[4096];
	struct stat st;
	if (stat("/usr/lib/debug/.build-id", &st) == 0)
		line(GOOD, "debug files", "/usr/lib/debug has some: lines and inlined calls of system libraries");
	else
		line(NOTE, "debug files",
		     "none in /usr/lib/debug: system libraries have function names but no lines; install libc6-dbg and "
		     "the -dbgsym "
		     "packages, or name a folder in FATHOM_DEBUG_PATH");
	snprintf(text, sizeof(text), "elfutils %s%s", fm_lines_libdw_version(),
		 fm_lines_reads_packages() ? "" : ": cannot read packed debug information (.dwp); 0.191 and newer can");
	line(fm_lines_reads_packages() ? GOOD : NOTE, "debug reader", text);
	bool is_there = fm_debuginfod_is_there();
	if (fm_debuginfod_is_wanted() && is_there)
		snprintf(text, sizeof(text), "debug files are fetched from %.256s", getenv("DEBUGINFOD_URLS"));
	else if (fm_debuginfod_is_wanted())
		snprintf(text, sizeof(text),
			 "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 is missing: install libdebuginfod1");
	else
		snprintf(text, sizeof(text), "not used: set DEBUGINFOD_URLS to a server to fetch debug files%s",
			 is_there ? "" : ", and install libdebuginfod1");
	line(fm_debuginfod_is_wanted() && is_there ? GOOD : NOTE, "debuginfod", text);
	const char *why;
	_cleanup_close_ int cache = fm_cache_folder_open(false, &why);
	if (!fm_cache_folder(folder, sizeof(folder)))
		line(NOTE, "symbol cache",
		     "no HOME and no XDG_CACHE_HOME: Fathom reads debug information again for each report");
	else if (why) {
		snprintf(text, sizeof(text),
			 "%s is not used, because it or a folder above it %s: Fathom reads debug information again for "
			 "each report",
			 folder, why);
		line(NOTE, "symbol cache", text);
	} else if (stat(folder, &st) == 0 && access(folder, W_OK) != 0) {
		snprintf(text, sizeof(text),
			 "%s cannot be written: Fathom reads debug information again for each report", folder);
		line(NOTE, "symbol cache", text);
	} else {
		line(GOOD, "symbol cache", folder);
	}
}

int fm_cmd_doctor(int argc, char **argv)
{
	const struct fm_option options[] = { { 0 } };
	const struct fm_usage usage = {
		.command = "doctor",
		.operands = "",
		.about = "Report what this machine allows and what it lacks, with remedies. Exit code 1 when Fathom "
			 "cannot work here.",
		.options = options,
		.examples = "  fathom doctor\n",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	struct utsname system;
	char text[512];
	if (uname(&system) == 0) {
		snprintf(text, sizeof(text), "Linux %.128s on %.64s%s", system.release, system.machine,
			 fm_machine_is_virtual() ? ", virtual" : "");
		line(GOOD, "system", text);
	}
	bool is_fine = check_agent();
	check_libc();
	check_engines();
	check_kernel();
	check_ptrace();
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (4ull << 30)) {
		line(BAD, "address space",
		     "limited below 4 GiB ('ulimit -v'): Fathom does not load the agent; raise the limit");
		is_fine = false;
	}
	check_page();
	check_names();
	check_python();
	return is_fine ? FM_EXIT_OK : FM_EXIT_FAILED;
}
