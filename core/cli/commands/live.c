// SPDX-License-Identifier: Apache-2.0
// fathom live: watch a program that was started with --listen.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "cli/live/live.h"
#include "serve/serve.h"

#define TRY_MS 250
#define SILENCE_NS 10000000000u // a server says something twice a second
#define ONCE_WAIT_S 10          // for a program that is just being started
#define MAX_EMPTY 3             // streams in a row that end before their first word; ours begin with one
#define KEYS "q quits, space pauses, s sorts"
#define TOP_KEYS KEYS ", d dumps, r records, ? explains"

struct live {
	struct fm_listen_place place;
	char token[FM_TOKEN_CHARS + 1];
	bool is_json, is_screen;          // is_screen: a terminal that is drawn over and over
	bool is_changed;                  // by a key: the picture is drawn anew
	bool is_held, is_quit, has_heard; // has_heard: this connection said something of ours
	enum fm_live_sort sort;
	bool is_help;
	struct fm_top *top; // NULL: somebody else's program is watched
	struct fm_style style;
	struct fm_buf latest, shown; // messages; shown is the one that is drawn, and drawn anew
	struct fm_live_client client;
};

static volatile sig_atomic_t was_interrupted;
static struct termios terminal_before;
static bool has_terminal;

static void on_signal(int sig)
{
	was_interrupted = sig;
}

// ---- the terminal: another screen, no echo, and everything back as it was ----

static void leave_terminal(void)
{
	if (!has_terminal)
		return;
	has_terminal = false;
	fputs("\033[?7h\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

static void enter_terminal(void)
{
	if (tcgetattr(STDIN_FILENO, &terminal_before))
		return;
	struct termios raw = terminal_before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	has_terminal = true;
	atexit(leave_terminal);
	fputs("\033[?1049h\033[?25l\033[?7l", stdout); // nor wrapping: a line too long is cut
}

// All stacks, by the command that prints them, until a key is pressed.
static void show_dump(const struct fm_top *top)
{
	char key;
	fputs("\033[H\033[2J\033[?7h", stdout);
	fflush(stdout);
	pid_t pid = top->pids[0] ? fork() : -1;
	if (pid == 0) {
		execl("/proc/self/exe", "fathom", "dump", "--children", "-p", top->pids, (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	fputs(pid > 0 ? "\npress any key to go back"
		      : "dumps are for processes that run already: fathom top -p PID; press any key to go back",
	      stdout);
	fflush(stdout);
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	while (!was_interrupted && poll(&in, 1, TRY_MS) <= 0)
		;
	(void)!read(STDIN_FILENO, &key, 1);
	fputs("\033[?7l\033[H\033[2J", stdout);
}

static void take_keys(struct live *l)
{
	char key;
	while (has_terminal && read(STDIN_FILENO, &key, 1) == 1) {
		if (key == 'q' || key == 'Q')
			l->is_quit = true;
		else if (key == ' ' || key == 'p')
			l->is_held = !l->is_held;
		else if (key == 's')
			l->sort = (l->sort + 1) % FM_LIVE_N_SORTS, l->is_changed = true;
		else if (key == '?')
			l->is_help = !l->is_help, l->is_changed = true;
		else if (key == 'd' && l->top)
			show_dump(l->top);
		else if (key == 'r' && l->top)
			l->top->is_file_kept = !l->top->is_file_kept, l->is_changed = true;
	}
}

// Waits for the server, a key or a signal. True: something came from the server.
static bool wait_for_any(struct live *l, int timeout_ms)
{
	struct pollfd fds[] = { { .fd = l->client.fd, .events = POLLIN },
				{ .fd = has_terminal ? STDIN_FILENO : -1, .events = POLLIN } };
	int n = poll(fds, 2, timeout_ms);
	take_keys(l);
	l->is_quit |= was_interrupted != 0;
	return n > 0 && fds[0].revents;
}

// ---- showing ----

static const char *keys_of(const struct live *l)
{
	if (!l->top)
		return KEYS;
	return l->top->is_file_kept ? "recording is kept; " TOP_KEYS : TOP_KEYS;
}

static void draw_help(void)
{
	fputs("\033[H\033[2J"
	      "THREADS  CPU: of one CPU, in the last five seconds; state and place: now\n"
	      "HOT      self: in the function itself; total: with what it calls; waits: off the CPU\n\n"
	      "q        quits\n"
	      "space    pauses the display; the recording goes on\n"
	      "s        sorts functions by own time, total time, waiting\n"
	      "d        dumps the stacks of all threads\n"
	      "r        keeps the recording of what was watched, for 'fathom report' and 'fathom view'\n"
	      "?        goes back\n",
	      stdout);
	fflush(stdout);
}

static void draw(struct live *l, const char *status)
{
	if (l->is_help && l->is_screen) {
		draw_help();
		return;
	}
	if (!l->shown.len) {
		if (l->is_screen) {
			printf("\033[H\033[2J%s\n", status);
			fflush(stdout);
		}
		return;
	}
	struct fm_arena arena;
	struct fm_json_value *now;
	fm_arena_init(&arena);
	if (!fm_json_parse(&arena, (struct fm_str){ (const char *)l->shown.data, (uint32_t)l->shown.len }, &now)) {
		char *picture = NULL;
		size_t len = 0;
		const struct fm_view_options options = FM_VIEW_OPTIONS_DEFAULT;
		fm_style_init(&l->style, stdout, &options); // the window may have another size by now
		struct winsize size = { 0 };
		bool has_size = l->is_screen && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row;
		l->style.out = open_memstream(&picture, &len);
		if (l->style.out) {
			struct fm_live_screen screen = { &l->style, has_size ? size.ws_row : 0, l->sort,
							 l->is_screen ? status : NULL };
			fm_live_screen_draw(&screen, now);
			fclose(l->style.out);
			if (l->is_screen) { // line by line over the old picture: no flicker
				fputs("\033[H", stdout);
				for (char *line = picture, *end; line < picture + len; line = end + 1) {
					end = strchrnul(line, '\n');
					fwrite(line, 1, (size_t)(end - line), stdout);
					fputs(*end ? "\033[K\n" : "\033[K", stdout);
				}
				fputs("\033[J", stdout);
			} else {
				printf("%s\n", picture);
			}
			free(picture);
		}
		fflush(stdout);
	}
	fm_arena_deinit(&arena);
}

static void draw_latest(struct live *l, const char *status)
{
	l->shown.len = 0;
	fm_buf_bytes(&l->shown, l->latest.data, l->latest.len);
	draw(l, status);
}

static bool is_live_json(struct fm_str json)
{
	struct fm_arena arena;
	struct fm_json_value *now;
	fm_arena_init(&arena);
	bool is_ours = !fm_json_parse(&arena, json, &now) &&
		       fm_str_eq(fm_json_get(now, "schema")->text, FM_STR_LIT("fathom.live/1"));
	fm_arena_deinit(&arena);
	return is_ours;
}

// False: that is not fathom.live/1.
static bool show(struct live *l, struct fm_str json)
{
	if (!is_live_json(json))
		return false;
	if (l->is_json) {
		fm_utf8_print(stdout, json); // a line of JSON from a stranger
		putchar('\n');
		fflush(stdout);
		return true;
	}
	l->latest.len = 0;
	fm_buf_bytes(&l->latest, json.p, json.len);
	if (!l->is_held)
		draw_latest(l, keys_of(l));
	return true;
}

// ---- following ----

// Until the connection is over. FM_OK: the program has ended. FM_E_NOT_FOUND: it broke off.
// FM_E_CORRUPT: that is not our server.
static enum fm_err follow(struct live *l)
{
	uint64_t heard_ns = fm_now_ns();
	l->has_heard = false;
	while (!l->is_quit) {
		bool was_held = l->is_held;
		struct fm_live_event ev;
		enum fm_err err = fm_live_next(&l->client, &ev);
		if (!err) {
			if (fm_str_eq(ev.name, FM_STR_LIT("now")) && !show(l, ev.data))
				return FM_E_CORRUPT;
			l->has_heard = true;
			if (fm_str_eq(ev.name, FM_STR_LIT("end")))
				return FM_OK;
			continue;
		}
		if (err == FM_E_CORRUPT || fm_now_ns() - heard_ns > SILENCE_NS)
			return err;
		if (wait_for_any(l, TRY_MS)) {
			if (!fm_live_read(&l->client))
				return FM_E_NOT_FOUND;
			heard_ns = fm_now_ns();
		}
		if (l->is_held != was_held || l->is_changed)
			draw(l, l->is_held ? "paused; space resumes" : keys_of(l));
		l->is_changed = false;
	}
	return FM_E_NOT_FOUND;
}

static int give_up(const struct fm_diag *diag)
{
	leave_terminal();
	fm_say("%s", diag->text);
	return FM_EXIT_FAILED;
}

static int watch(struct live *l, bool stays, double wait_s)
{
	struct fm_diag diag;
	uint64_t until_ns = wait_s > 0 ? fm_now_ns() + (uint64_t)(wait_s * 1e9) : UINT64_MAX;
	bool has_said = false;
	unsigned n_empty = 0;
	while (!l->is_quit) {
		enum fm_err err = fm_live_connect(&l->client, &l->place, FM_LIVE_STREAM, l->token, &diag);
		if (!err) {
			has_said = false;
			err = follow(l);
			n_empty = l->has_heard || l->is_quit ? 0 : n_empty + 1;
			if (err == FM_E_CORRUPT || n_empty == MAX_EMPTY) {
				(void)fm_live_not_ours(&l->client, &diag);
				return give_up(&diag);
			}
			fm_live_disconnect(&l->client);
			if (!err && !stays)
				return FM_EXIT_OK;
			until_ns = UINT64_MAX;
			wait_for_any(l, TRY_MS); // whatever closes at once is not asked without pause
			continue;
		}
		if (l->top && waitpid(l->top->recorder, NULL, WNOHANG) == l->top->recorder) {
			l->top->is_over = true;
			return l->latest.len ? FM_EXIT_OK : FM_EXIT_FAILED; // it has said why
		}
		if (err != FM_E_NOT_FOUND || fm_now_ns() > until_ns)
			return give_up(&diag);
		char status[400];
		snprintf(status, sizeof(status), "waiting for a program to listen at %s port %u; q quits",
			 l->place.host, l->place.port);
		if (l->is_screen)
			draw(l, status);
		else if (!has_said)
			fm_say("waiting for a program to listen at %s port %u", l->place.host, l->place.port);
		has_said = true;
		wait_for_any(l, TRY_MS);
	}
	return FM_EXIT_OK;
}

// A program that has just begun: nothing of it was seen yet.
static bool is_empty_json(struct fm_str json)
{
	struct fm_arena arena;
	struct fm_json_value *now;
	fm_arena_init(&arena);
	bool is_empty = !fm_json_parse(&arena, json, &now) &&
			!fm_str_eq(fm_json_get(now, "state")->text, FM_STR_LIT("ended")) &&
			!(fm_json_get(now, "samples")->number + fm_json_get(now, "wait_samples")->number +
			  fm_json_get(now, "trace_events")->number);
	fm_arena_deinit(&arena);
	return is_empty;
}

// One answer, or what is wrong. FM_E_NOT_FOUND: nobody listens.
static enum fm_err ask_once(struct live *l, struct fm_str *ret, struct fm_diag *diag)
{
	enum fm_err err = fm_live_connect(&l->client, &l->place, FM_LIVE_NOW, l->token, diag);
	if (err)
		return err;
	err = fm_live_read_all(&l->client, TRY_MS * 40, ret);
	if (err == FM_E_IO)
		return fm_diag_set(diag, err, "the connection was lost; try again");
	return err || !is_live_json(*ret) ? fm_live_not_ours(&l->client, diag) : FM_OK;
}

static int look_once(struct live *l, double wait_s)
{
	struct fm_diag diag;
	uint64_t until_ns = fm_now_ns() + (uint64_t)((wait_s > 0 ? wait_s : ONCE_WAIT_S) * 1e9);
	for (;;) {
		struct fm_str answer;
		enum fm_err err = ask_once(l, &answer, &diag);
		bool is_late = fm_now_ns() >= until_ns || was_interrupted;
		if (err && (err != FM_E_NOT_FOUND || is_late))
			return give_up(&diag);
		if (!err && (is_late || !is_empty_json(answer))) {
			show(l, answer);
			fm_live_disconnect(&l->client);
			return FM_EXIT_OK;
		}
		fm_live_disconnect(&l->client);
		wait_for_any(l, TRY_MS);
	}
}

// The page of the same server, in the browser.
static int open_page(struct live *l, double wait_s)
{
	struct fm_diag diag;
	uint64_t until_ns = wait_s > 0 ? fm_now_ns() + (uint64_t)(wait_s * 1e9) : UINT64_MAX;
	enum fm_err err;
	while ((err = fm_live_connect(&l->client, &l->place, FM_LIVE_NOW, l->token, &diag)) == FM_E_NOT_FOUND &&
	       fm_now_ns() < until_ns && !was_interrupted)
		wait_for_any(l, TRY_MS);
	if (err) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	fm_live_disconnect(&l->client);
	char url[sizeof(l->place.host) + sizeof(l->token) + 64];
	snprintf(url, sizeof(url),
		 strchr(l->place.host, ':') ? "http://[%s]:%u/#%s%s%sview=live" : "http://%s:%u/#%s%s%sview=live",
		 l->place.host, l->place.port, l->token[0] ? "token=" : "", l->token, l->token[0] ? "&" : "");
	printf("%s\n", url);
	fflush(stdout);
	if (!fm_open_in_browser(url))
		fm_say("there is no display here; open the address above in a browser");
	return FM_EXIT_OK;
}

// PORT, HOST:PORT, or the address that the program printed, whose token is taken along.
static enum fm_err parse_place(struct live *l, const char *text, const char *token, struct fm_diag *diag)
{
	static const char scheme[] = "http://", mark[] = "token=";
	char place[512];
	bool is_address = !strncmp(text, scheme, sizeof(scheme) - 1);
	snprintf(place, sizeof(place), "%s", is_address ? text + sizeof(scheme) - 1 : text);
	if (is_address)
		place[strcspn(place, "/#?")] = 0;
	const char *found = is_address && !token ? strstr(text, mark) : NULL;
	snprintf(l->token, sizeof(l->token), "%.*s",
		 found ? (int)strcspn(found + sizeof(mark) - 1, "&") : FM_TOKEN_CHARS,
		 found   ? found + sizeof(mark) - 1
		 : token ? token
			 : "");
	if (l->token[0] && !fm_guard_token_is_fit(l->token))
		return fm_diag_set(diag, FM_E_USAGE, "not a token; use the one that the listening program printed");
	return fm_listen_parse(place, &l->place, diag);
}

// The screen, until it is left or there is nothing more to see.
static int watch_on_screen(struct live *l, bool stays, double wait_s)
{
	if (l->is_screen)
		enter_terminal();
	int exit_code = watch(l, stays, wait_s);
	bool is_last_wanted = has_terminal && !l->is_quit && l->latest.len;
	leave_terminal();
	if (is_last_wanted) { // the last picture stays, where the terminal can be scrolled
		l->is_screen = false;
		draw_latest(l, "");
	}
	fm_buf_deinit(&l->latest);
	fm_buf_deinit(&l->shown);
	return exit_code;
}

static void take_signals(void)
{
	struct sigaction act = { .sa_handler = on_signal }; // no SA_RESTART: waiting ends
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
}

int fm_live_watch(struct fm_top *top)
{
	struct live l = { .client = { .fd = -1 }, .top = top, .is_screen = true };
	struct fm_diag diag;
	char place[8];
	snprintf(place, sizeof(place), "%u", top->port);
	if (fm_listen_parse(place, &l.place, &diag))
		return give_up(&diag);
	take_signals();
	return watch_on_screen(&l, false, 0);
}

int fm_cmd_live(int argc, char **argv)
{
	const char *token = getenv("FATHOM_TOKEN");
	bool is_once = false, is_open = false, stays = false;
	double wait_s = 0;
	struct live l = { .client = { .fd = -1 } };
	const struct fm_option options[] = {
		{ "once", 0, FM_OPT_FLAG, &is_once, NULL, "print the current state, and exit" },
		{ "json", 0, FM_OPT_FLAG, &l.is_json, NULL, "print JSON, one object per line (fathom.live/1)" },
		{ "open", 0, FM_OPT_FLAG, &is_open, NULL, "open the page in the browser instead" },
		{ "token", 0, FM_OPT_TEXT, &token, "TOKEN",
		  "the token that the program printed; its own user on the same machine needs none (also: "
		  "FATHOM_TOKEN)" },
		{ "wait", 0, FM_OPT_REAL, &wait_s, "SECONDS",
		  "give up when nothing listens for that long (default: never; with --once, 10)" },
		{ "stay", 0, FM_OPT_FLAG, &stays, NULL, "when the program has ended, wait for the next" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "live",
		.operands = "[[HOST:]PORT | ADDRESS]",
		.about = "Watch a program that was started with --listen: its threads and what they do, the hottest "
			 "functions, zones, counters and marks of the last five seconds. Without a port: 8086 on this "
			 "machine. Waits for the program, and reconnects if the connection is lost.",
		.options = options,
		.examples = "  python -m fathom --listen 8086 app.py     # or: fathom run --listen 8086 app.py\n"
			    "  fathom live                               # in another terminal, before or after\n"
			    "  fathom live --open                        # the page in the browser\n"
			    "  fathom live --once --json | jq '.functions[0]'\n"
			    "  fathom live --token 0123abcd... build-host:8086\n",
		.max_operands = 1,
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	struct fm_diag diag;
	char standard[8];
	snprintf(standard, sizeof(standard), "%d", FM_LISTEN_PORT);
	if (parse_place(&l, ops.n ? ops.v[0] : standard, token, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	take_signals();
	if (is_open)
		return open_page(&l, wait_s);
	if (is_once)
		return look_once(&l, wait_s);
	l.is_screen = !l.is_json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	return watch_on_screen(&l, stays, wait_s);
}
