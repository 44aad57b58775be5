// Tracy's C forms.
#include <TracyCompat.h>

void tracy_c_work(int n);
void tracy_c_work(int n)
{
	TracyCZone(whole, 1);
	for (int i = 0; i < n; i++) {
		TracyCZoneN(round, "c round", 1);
		TracyCZoneN(off, "inactive", i < 0);
		TracyCZoneText(round, "x", 1);
		TracyCPlot("c plot", i);
		TracyCZoneEnd(off);
		TracyCZoneEnd(round);
		TracyCFrameMark;
	}
	TracyCMessageL("c done");
	TracyCZoneEnd(whole);
}
