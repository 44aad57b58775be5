// Becomes another program by the function that is named first: exec_kinds execl PROGRAM ARGUMENT ARGUMENT.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char *nothing[] = { NULL };
	if (argc != 5)
		return 2;
	const char *how = argv[1], *program = argv[2], *a = argv[3], *b = argv[4];
	if (!strcmp(how, "execl"))
		execl(program, program, a, b, (char *)NULL);
	else if (!strcmp(how, "execlp"))
		execlp(program, program, a, b, (char *)NULL);
	else if (!strcmp(how, "execle"))
		execle(program, program, a, b, (char *)NULL, nothing);
	else if (!strcmp(how, "fexecve"))
		fexecve(open(program, O_RDONLY | O_CLOEXEC), argv + 2, nothing);
	return 1;
}
