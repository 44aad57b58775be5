// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/student.h"

#include <math.h>

#include "base/compiler.h"

#define N_STEPS 128 // even; the integrand is smooth, so that this gives eight digits
#define MAX_ROUNDS 60

// With t = sqrt(df) tan(a), the density becomes cos(a)^(df - 1), up to a factor: a smooth function
// on a finite range. This is its integral from 0 to pi / 2.
static double whole(double df)
{
	return sqrt(M_PI) / 2 * exp(lgamma(df / 2) - lgamma((df + 1) / 2));
}

// The same from `from` to pi / 2, by Simpson's rule.
static double tail(double from, double df)
{
	double to = fmin(M_PI / 2, from + 12 / sqrt(df)); // beyond is less than 1e-30 of it
	double step = (to - from) / N_STEPS, sum = 0;
	for (int i = 0; i <= N_STEPS; i++)
		sum += (i == 0 || i == N_STEPS ? 1 : i % 2 ? 4 : 2) * pow(fmax(cos(from + i * step), 0), df - 1);
	return sum * step / 3;
}

double fm_student_p(double t, double df)
{
	if (df >= FM_STUDENT_NORMAL)
		return erfc(fabs(t) / sqrt(2));
	return fmin(tail(atan(fabs(t) / sqrt(df)), df) / whole(df), 1);
}

double fm_student_t(double p, double df)
{
	// Thousands of rows ask for the same few.
	static _Thread_local struct {
		double p, df, t;
	} known[8];
	static _Thread_local unsigned next;
	df = fmin(df, FM_STUDENT_NORMAL);
	for (unsigned i = 0; i < FM_ARRAY_LEN(known); i++)
		if (known[i].p == p && known[i].df == df)
			return known[i].t;
	// The tail is convex in the angle for df >= 1, so that Newton's steps from 0 come from one
	// side and never leave the range.
	double angle = 0, all = whole(df);
	for (int i = 0; i < MAX_ROUNDS; i++) {
		double step = (tail(angle, df) - p * all) / pow(cos(angle), df - 1);
		angle += step;
		if (fabs(step) < 1e-10)
			break;
	}
	double t = sqrt(df) * tan(angle);
	known[next].p = p, known[next].df = df, known[next].t = t;
	next = (next + 1) % FM_ARRAY_LEN(known);
	return t;
}
