#include "aggregate/student.h"

#include <math.h>

#define N_STEPS 512 // even; the integrand is smooth, so that this gives ten digits

// With t = sqrt(df) tan(a), the density becomes cos(a)^(df - 1), up to a factor: a smooth function on a finite range.
double fm_student_p(double t, double df)
{
	if (df >= FM_STUDENT_NORMAL)
		return erfc(fabs(t) / sqrt(2));
	double from = atan(fabs(t) / sqrt(df)), to = fmin(M_PI / 2, from + 40 / sqrt(df)); // beyond is less than 1e-300
	double step = (to - from) / N_STEPS, sum = 0;
	for (int i = 0; i <= N_STEPS; i++) { // Simpson's rule
		double cosine = fmax(cos(from + i * step), 0);
		sum += (i == 0 || i == N_STEPS ? 1 : i % 2 ? 4 : 2) * pow(cosine, df - 1);
	}
	double whole = sqrt(M_PI) / 2 * exp(lgamma(df / 2) - lgamma((df + 1) / 2)); // the same from 0 to pi / 2
	return fmin(sum * step / 3 / whole, 1);
}

double fm_student_t(double p, double df)
{
	double low = 0, high = 1;
	while (fm_student_p(high, df) > p && high < 1e9)
		high *= 2;
	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;
		if (fm_student_p(middle, df) > p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}
