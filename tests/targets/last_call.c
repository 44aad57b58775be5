// A call that is the last instruction of its function: the address it would return to is the first of the next one.
// Compilers do so before what never returns.
//   last_call SECONDS       sleeps so long below such a call, and ends
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned seconds_us;

__attribute__((noreturn, used)) void lc_sleep_and_end(void)
{
	puts("ready");
	fflush(stdout);
	usleep(seconds_us);
	_exit(0);
}

void lc_caller(void);

// In assembly, because no compiler promises what comes next.
__asm__(".text\n"
	".globl lc_caller\n"
	".type lc_caller, @function\n"
	"lc_caller:\n"
	"	.cfi_startproc\n"
	"	subq $8, %rsp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	call lc_sleep_and_end\n"
	"	.cfi_endproc\n"
	"	.size lc_caller, .-lc_caller\n"
	".globl lc_next_door\n"
	".type lc_next_door, @function\n"
	"lc_next_door:\n"
	"	.cfi_startproc\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size lc_next_door, .-lc_next_door\n");

int main(int argc, char **argv)
{
	seconds_us = (unsigned)(1e6 * (argc > 1 ? atof(argv[1]) : 0.3));
	lc_caller();
	return 1;
}
